"""Buffers that users declare: the memory layout of an argument, if it is not simply row-major."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..arith.simplify import prove_equal
from ..core.dtype import DType
from ..core.errors import UserError
from ..core.hardware import MemoryScope
from ..core.text import quantity
from ..expr.nodes import Expr, IntImm, Known, Load, Var
from ..expr.operators import as_expr, const
from ..expr.traverse import loads
from ..tensor.axis import known_before, whole
from ..tensor.tensor import Tensor
from .broadcast_buffers import BroadcastBuffer
from .layout import StorageLayout
from .nodes import Buffer


def decl_buffer(
    shape: Any,
    dtype: str | None = None,
    name: str = "buffer",
    data: Any = None,
    strides: Sequence[Any] | None = None,
    elem_offset: Any = None,
    scope: str = "",
    data_alignment: int = -1,
    offset_factor: int = 0,
    buffer_type: str = "",
    axis_separators: Any = None,
) -> Buffer:
    """How the memory of a tensor lies; pass it to `lower` or `build` as `binds={A: decl_buffer(...)}`.

    `strides`: elements from one index to the next along each dimension, numbers or variables, which the call then takes
    from the array. Without them, memory is row-major. `elem_offset`: the first element's place, 0 unless given.
    `offset_factor`: a divisor of the offset. `data_alignment`: bytes that the memory is aligned to.
    `buffer_type="auto_broadcast"`: a dimension with extent 1 at a call is read at 0 for every index.
    """
    extents = tuple(_extent(e, name) for e in (shape if isinstance(shape, (tuple, list)) else (shape,)))
    for what, number in (("data_alignment", data_alignment), ("offset_factor", offset_factor)):
        if isinstance(number, bool) or not isinstance(number, int):
            raise UserError(
                f"{what}={number!r} of buffer {name!r} is not a whole number",
                primitive="decl_buffer",
                fix="give an int",
            )
    for what, value, usual in (
        ("data", data, None),
        ("axis_separators", axis_separators, None),
    ):
        if not (value is None or (isinstance(value, (str, list, tuple)) and value in (usual, [], ()))):
            raise UserError(f"{what}={value!r} is not supported", primitive="decl_buffer", fix=f"leave {what} out")
    found = MemoryScope.parse("global" if scope is None or (isinstance(scope, str) and not scope) else scope)
    if found is None:
        raise UserError(
            f"there is no memory scope {scope!r}", primitive="decl_buffer", fix='use "global", "shared" or "local"'
        )
    if elem_offset is None and offset_factor > 0:
        elem_offset = Var(f"{name}_elem_offset", "int32", Known(multiple_of=offset_factor))
    layout = _layout(name, extents, strides, elem_offset)
    element = "float32" if dtype is None or (isinstance(dtype, str) and not dtype) else dtype
    align = data_alignment if data_alignment > 0 else 64
    if buffer_type not in (None, "", "auto_broadcast"):
        raise UserError(
            f"buffer_type={buffer_type!r} is not supported",
            primitive="decl_buffer",
            fix='leave it out, or give "auto_broadcast"',
        )
    kind = BroadcastBuffer if buffer_type else Buffer
    return kind(name, element, extents, found, align, layout=layout)


def _extent(given: Any, name: str) -> Expr:
    e = whole(given)
    if e is None or (isinstance(e, IntImm) and e.value < 0):
        raise UserError(
            f"{given!r} is not an extent of buffer {name!r}",
            primitive="decl_buffer",
            fix="extents are whole numbers of at least 0, or integer variables",
        )
    return _of_buffers(e, f"an extent of buffer {name!r}")


def _of_buffers(e: Expr, about: str) -> Expr:
    """`e`, checked not to read tensors: a buffer is part of a statement, in which tensors have buffers."""
    return known_before(e, "decl_buffer", about, _NO_TENSORS) if any(map(_of_tensor, loads(e))) else e


_NO_TENSORS = "give a number or an integer variable"


def _of_tensor(load: Load) -> bool:
    return isinstance(load.source, Tensor)


def _layout(name: str, shape: tuple[Expr, ...], strides: Sequence[Any] | None, offset: Any) -> StorageLayout:
    start = const(0, "int32") if offset is None else as_expr(offset)
    if strides is not None and not isinstance(strides, (list, tuple)):
        raise UserError(
            f"strides={strides!r} of buffer {name!r}", primitive="decl_buffer", fix="give a list, one per dimension"
        )
    if not strides and isinstance(start, IntImm) and start.value == 0:
        return StorageLayout()
    given = tuple(as_expr(e) for e in strides) if strides else StorageLayout().strides(shape)
    if len(given) != len(shape):
        raise UserError(
            f"buffer {name!r} has {quantity(len(shape), 'dimension')}, but {quantity(len(given), 'stride')}",
            primitive="decl_buffer",
            fix="give one stride per dimension",
        )
    for e in (*given, start):
        _of_buffers(e, f"a stride or the offset of buffer {name!r}")
        if not e.dtype.is_int or (isinstance(e, IntImm) and e.value < 0):
            raise UserError(
                f"`{e}` is not a stride or offset of buffer {name!r}",
                primitive="decl_buffer",
                fix="give whole numbers of at least 0, or integer variables",
            )
    return StorageLayout(given=given, start=start)


def bound_tensors(binds: Mapping[Tensor, Buffer] | None) -> dict[Tensor, Buffer]:
    """`binds`, checked: each buffer has its tensor's type and shape."""
    if binds is not None and not isinstance(binds, Mapping):
        raise UserError(
            f"binds is {binds!r}, which is not a mapping",
            primitive="lower",
            fix="map tensors to buffers: binds={A: tir.decl_buffer(A.shape, ...)}",
        )
    for tensor, buffer in (binds or {}).items():
        if not isinstance(tensor, Tensor) or not isinstance(buffer, Buffer):
            raise UserError(
                f"binds maps {tensor!r} to {buffer!r}",
                primitive="lower",
                fix="map tensors to results of tir.decl_buffer: binds={A: tir.decl_buffer(A.shape, A.dtype, ...)}",
            )
        same = len(tensor.shape) == len(buffer.shape) and all(map(prove_equal, tensor.shape, buffer.shape))
        if not same or buffer.dtype != DType(tensor.dtype) or buffer.scope is not MemoryScope.GLOBAL:
            raise UserError(
                f"binds maps {tensor.name!r}, {tensor.dtype}{list(tensor.shape)}, to a buffer of "
                f"{buffer.dtype}{list(buffer.shape)} in {buffer.scope.value} memory",
                primitive="lower",
                fix="declare it as tir.decl_buffer(A.shape, A.dtype, ...)",
            )
    return dict(binds or {})
