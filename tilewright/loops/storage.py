"""Storage: buffers, and addresses of their elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.dtype import DType
from ..core.errors import UserError
from ..core.hardware import MemoryScope
from ..core.node import node
from ..core.refusals import not_made
from ..expr.nodes import Add, Expr, IntImm, Load, Mul, Ramp
from ..expr.operators import add, as_expr, const, multiply, subtract
from .layout import ROW_MAJOR, StorageLayout

STATEMENTS: dict[str, Callable[..., Any]] = {}
"""Constructors of statements, by name; `nodes.py` fills it, so that storage need not know the grammar."""


def _multiple(e: Expr, of: Expr) -> Expr | None:
    """The factor of an offset that is written as a multiple of a stride: 3 for `stride * 3`."""
    if e is of:
        return const(1, e.dtype)
    if isinstance(e, IntImm) and e.value == 0:
        return e
    if isinstance(e, Mul):
        for factor, other in ((e.a, e.b), (e.b, e.a)):
            times = _multiple(factor, of)
            if times is not None:
                return multiply(times, other)
    if isinstance(e, Add):
        left, right = _multiple(e.a, of), _multiple(e.b, of)
        return None if left is None or right is None else add(left, right)
    return None


class Buffer:
    """Storage for elements of one type. Buffers are compared by identity; printed names may differ from `name`.

    `shape` has one expression per dimension (elements); `align` is the alignment in bytes that accesses may rely on.
    `alias_of` is the owner of the memory that this buffer views, if any. `note` names the stage of the schedule that it
    holds, and `layout` is its memory layout. `stages` is the number of copies of a ring; some of them are filled while
    another is read. The shape is of one copy until `pipeline_loops`, and of all copies afterwards. A view with a
    `byte_offset` begins at that byte of the buffer that it views, for all types of the two.
    """

    READ, WRITE = 1, 2  # the bits of an access mask

    __slots__ = (
        "__weakref__",
        "alias_of",
        "align",
        "byte_offset",
        "dtype",
        "layout",
        "name",
        "note",
        "scope",
        "shape",
        "stages",
    )

    def __init__(
        self,
        name: str,
        dtype: str,
        shape: tuple[Expr, ...],
        scope: MemoryScope = MemoryScope.GLOBAL,
        align: int = 64,
        alias_of: Buffer | None = None,
        note: str = "",
        layout: StorageLayout = ROW_MAJOR,
        stages: int = 1,
        byte_offset: int | None = None,
    ) -> None:
        if not (isinstance(name, str) and isinstance(shape, tuple) and isinstance(scope, MemoryScope)):
            raise not_made("Buffer", "declare one: tir.decl_buffer((n, m), dtype)")
        self.name = name
        self.dtype = DType(dtype)
        self.shape = shape
        self.scope = scope
        self.align = align
        self.alias_of = alias_of
        self.note = note
        self.layout = layout
        self.stages = stages
        self.byte_offset = byte_offset

    def changed(self, **attributes: Any) -> Buffer:
        """A new buffer with other values of some attributes."""
        kept = {name: getattr(self, name) for name in Buffer.__slots__ if name != "__weakref__"}
        return Buffer(**{**kept, **attributes})

    @property
    def memory(self) -> Buffer:
        """The buffer that owns the viewed memory; the buffer itself if it is no view."""
        base = self
        while base.alias_of is not None:
            base = base.alias_of
        return base

    @property
    def slices(self) -> int:
        """The slices of the ring that this buffer is, or is a view of: 1 for one that is no ring.

        A ring may itself lie in the memory of a larger buffer, or in an arena.
        """
        return self.stages if self.alias_of is None else max(self.stages, self.alias_of.slices)

    @property
    def constant_bytes(self) -> int | None:
        """The bytes that the elements take; None if unknown at compile time."""
        total = self.dtype.bytes
        for extent in self.shape:
            if not isinstance(extent, IntImm):
                return None
            total *= extent.value
        return total

    def overlaps(self, other: Buffer) -> bool:
        """Whether the two may have bytes of memory in common."""
        if self is other or self.memory is not other.memory:
            return self is other
        own, theirs = self.constant_bytes, other.constant_bytes
        if self.byte_offset is None or other.byte_offset is None or own is None or theirs is None:
            return True
        return self.byte_offset < other.byte_offset + theirs and other.byte_offset < self.byte_offset + own

    @property
    def strides(self) -> tuple[Expr, ...]:
        """The distance of neighbours along each dimension, in elements."""
        return self.layout.strides(self.shape)

    @property
    def elem_offset(self) -> Expr:
        """The place of the first element in its memory, in elements."""
        return self.layout.start

    @property
    def data(self) -> Expr:
        """The address of the first element, for a function that reads and writes the buffer."""
        return self.access_ptr("rw")

    def access_ptr(
        self, access_mask: Any, ptr_type: Any = "handle", content_lanes: Any = 1, offset: Any = 0, extent: Any = None
    ) -> Expr:
        """The address of an element, to be given to a function.

        Parameters
        ----------
        access_mask
            The function's access of the elements: "r" reads, "w" writes, "rw" both; or 1, 2, 3.
        ptr_type, content_lanes
            Accepted as in the legacy API.
        offset
            Elements, in memory, from the first one of the buffer to the address.
        extent
            Elements, in memory, from there on that the function accesses; by default, to the end.

        Raises
        ------
        UserError
            For another mask.
        """
        masks = {1: (True, False), 2: (False, True), 3: (True, True)}
        if isinstance(access_mask, str):
            known = set(access_mask) <= {"r", "w"} and bool(access_mask)
            flags = ("r" in access_mask, "w" in access_mask) if known else None
        else:
            flags = masks.get(access_mask) if isinstance(access_mask, int) else None
        if flags is None:
            raise UserError(
                f"access_mask={access_mask!r} of buffer {self.name!r} is neither a read nor a write of the elements",
                primitive="access_ptr",
                fix='give "r", "w" or "rw"',
            )
        start, zero = as_expr(offset), const(0, "int32")
        last = tuple(zero for _ in self.shape)
        if last and not (isinstance(start, IntImm) and start.value == 0):
            last = self._indices_of(start)
        size = as_expr(extent) if extent is not None else subtract(self._elements(), start)
        return AddressOf(Load(self, last), size, *flags)

    def _elements(self) -> Expr:
        """The elements of memory from the first to the last one."""
        if not self.shape:
            return const(1, "int32")
        return multiply(self.strides[0], self.shape[0])

    def _indices_of(self, flat: Expr) -> tuple[Expr, ...]:
        """Indices of the element number `flat`, for any strides: the last index counts."""
        if isinstance(self.strides[-1], IntImm) and self.strides[-1].value == 1:
            return (*(const(0, "int32") for _ in self.shape[:-1]), flat)
        for d, stride in enumerate(self.strides):
            times = _multiple(flat, stride)
            if times is not None:
                return tuple(times if at == d else const(0, "int32") for at in range(len(self.shape)))
        raise UserError(
            f"the elements of buffer {self.name!r} are not contiguous along its last dimension, so no index is {flat} "
            "elements from the first",
            primitive="access_ptr",
            fix="leave offset out, or declare the last stride as 1",
        )

    def vload(self, begin: Any, dtype: Any = None) -> Expr:
        """The element at `begin`; for a vector type such as "float32x4", as many elements along the last dimension."""
        return Load(self, self._vector_indices(begin, dtype, "vload"))

    def vstore(self, begin: Any, value: Any) -> Any:
        """The statement that stores `value`, a scalar or a vector along the last dimension, from `begin` on."""
        e = as_expr(value, self.dtype) if isinstance(value, (bool, int, float)) else as_expr(value)
        return STATEMENTS["Store"](self, self._vector_indices(begin, e.dtype, "vstore"), e)

    def _vector_indices(self, begin: Any, dtype: Any, primitive: str) -> tuple[Expr, ...]:
        indices = tuple(as_expr(i) for i in (begin if isinstance(begin, (tuple, list)) else (begin,)))
        kind = DType(dtype) if dtype is not None else self.dtype
        if len(indices) != len(self.shape) or kind.scalar != self.dtype.scalar or (not indices and kind.lanes > 1):
            raise UserError(
                f"buffer {self.name!r}, {self.dtype}{list(self.shape)}, is accessed as {kind} at {list(indices)}",
                primitive=primitive,
                fix=f"give one index per dimension, and {self.dtype} or vectors of it",
            )
        lanes = kind.lanes // self.dtype.lanes
        if lanes == 1:
            return indices
        return (*indices[:-1], Ramp(indices[-1], const(1, indices[-1].dtype), lanes))

    def __repr__(self) -> str:
        return f"Buffer({self.name}: {self.dtype}{list(self.shape)} in {self.scope.value})"


@node(derived={"dtype": "handle"}, handle=DType("handle"))
class AddressOf(Expr):
    """The address of `place`, given to a function that `reads` or `writes` `extent` elements of memory from there on.

    Other uses by the function are unknown: passes assume that any element of the buffer may be accessed.
    """

    place: Expr
    extent: Expr
    reads: bool
    writes: bool

    @property
    def buffer(self) -> Buffer:
        """The buffer that the address points into."""
        source = getattr(self.place, "source", None)
        if not isinstance(source, Buffer):
            raise UserError(
                f"the address of `{self.place}` is taken, but a tensor has memory only in its own computation",
                primitive="address_of",
                fix="take addresses of the buffers that te.extern passes to its function",
            )
        return source
