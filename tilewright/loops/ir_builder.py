"""Programs built statement by statement, under the legacy API's names: `tir.ir_builder.create()`.

    ib = ir_builder.create()
    A, B = ib.buffer_ptr(a), ib.buffer_ptr(b)
    with ib.for_range(0, 64, "i") as i:
        with ib.if_scope(i < 8):
            B[i] = A[i] * 2
    stmt = ib.get()

A builder keeps a stack of open scopes, each a list of statements. Some statements govern the rest of their scope: an
allocation, a thread index, a `let`. They are kept as functions that wrap the following statements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ..arith.simplify import simplify
from ..core.dtype import DType
from ..core.errors import UserError
from ..core.hardware import LoopKind, MemoryScope, ThreadTag
from ..core.text import quantity
from ..expr.nodes import Expr, IntImm, Load, SizeVar, Var
from ..expr.operators import as_expr, cast, const, floordiv, floormod, is_const, likely, subtract
from ..expr.operators import condition as test_of
from ..expr.traverse import reads_memory
from ..tensor.axis import IterVar, whole
from .calls import for_effect, refuse_nested
from .nodes import NOTHING, Allocate, Barrier, Buffer, For, If, Let, Stmt, Store, While, seq

Wrap = Callable[[Stmt], Stmt]
_KINDS = {kind.value: kind for kind in LoopKind if kind is not LoopKind.THREAD} | {
    "vectorize": LoopKind.VECTORIZED,
    "unroll": LoopKind.UNROLLED,
}


class BufferVar:
    """A buffer in a program that is being built: `B[i]` is an element, `B[i] = value` a statement.

    One index on a buffer of several dimensions counts its elements in row-major order.
    """

    __slots__ = ("_builder", "buffer")

    def __init__(self, builder: IRBuilder, buffer: Buffer) -> None:
        self._builder = builder
        self.buffer = buffer

    @property
    def dtype(self) -> DType:
        """The type of the elements."""
        return self.buffer.dtype

    def asobject(self) -> Buffer:
        """The buffer."""
        return self.buffer

    def __getitem__(self, index: Any) -> Expr:
        return Load(self.buffer, self._indices(index))

    def __setitem__(self, index: Any, value: Any) -> None:
        e = as_expr(value, self.dtype) if isinstance(value, (bool, int, float)) else as_expr(value)
        if e.dtype != self.dtype:
            raise UserError(
                f"`{e}` of type {e.dtype} is stored to {self.buffer.name!r}, but its elements have type {self.dtype}",
                primitive="ir_builder",
                fix=f'convert it: value.astype("{self.dtype}")',
            )
        self._builder.emit(Store(self.buffer, self._indices(index), e))

    def _indices(self, given: Any) -> tuple[Expr, ...]:
        shape, name = self.buffer.shape, self.buffer.name
        indices = tuple(as_expr(i) for i in (given if isinstance(given, (tuple, list)) else (given,)))
        for e in indices:
            if not e.dtype.is_int:
                raise UserError(
                    f"buffer {name!r} is indexed with `{e}` of type {e.dtype}",
                    primitive="ir_builder",
                    fix='indices are integers: convert with .astype("int32")',
                )
        if len(indices) == 1 and len(shape) != 1:
            return _row_major(indices[0], shape)
        if len(indices) != len(shape):
            raise UserError(
                f"buffer {name!r} has {quantity(len(shape), 'dimension')}, but is indexed with {len(indices)}",
                primitive="ir_builder",
                fix=f"give {quantity(len(shape), 'index', 'indices')}, or one that counts elements in row-major order",
            )
        return indices

    def __repr__(self) -> str:
        return f"BufferVar({self.buffer!r})"


def _row_major(flat: Expr, shape: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """The indices of the element number `flat`."""
    indices: list[Expr] = []
    if any(is_const(extent, 0) for extent in shape):  # an empty buffer has no elements to number
        return (const(0, flat.dtype),) * len(shape)
    for extent in reversed(shape[1:]):
        indices.append(floormod(flat, extent))
        flat = floordiv(flat, extent)
    return (flat, *reversed(indices)) if shape else ()


class IRBuilder:
    """Builds a statement of the loop grammar, one call at a time."""

    def __init__(self) -> None:
        self._scopes: list[list[Stmt | Wrap]] = [[]]

    def emit(self, stmt: Any) -> None:
        """Append a statement, or an expression for its effect."""
        if isinstance(stmt, Expr):
            stmt = for_effect(stmt)
        if not isinstance(stmt, Stmt):
            raise UserError(
                f"{stmt!r} is not a statement", primitive="ir_builder", fix="emit a statement, or an expression"
            )
        for e in stmt.children():
            if isinstance(e, Expr):
                refuse_nested(e, stmt)
        self._scopes[-1].append(stmt)

    def get(self) -> Stmt:
        """The program. Raises UserError inside an open scope."""
        if len(self._scopes) > 1:
            raise UserError(
                "the program is asked for inside an open scope", primitive="ir_builder", fix="leave the `with` first"
            )
        return _closed(self._scopes[0])

    @contextmanager
    def _scope(self, wrap: Wrap) -> Iterator[None]:
        self._scopes.append([])
        try:
            yield
        finally:
            body = self._scopes.pop()
        self.emit(wrap(_closed(body)))

    @contextmanager
    def for_range(
        self, begin: Any, end: Any, name: str = "i", dtype: str | None = None, kind: str = "serial"
    ) -> Iterator[Var]:
        """`with ib.for_range(0, n, "i") as i:` runs the block for i = begin ... end - 1.

        `kind` is "serial", "parallel", "vectorized" or "unrolled". Yields the loop variable.
        """
        low, stop = _integer(begin, "begin", "for_range"), _integer(end, "end", "for_range")
        if kind not in _KINDS:
            raise UserError(
                f"there is no loop of kind {kind!r}", primitive="for_range", fix=f"use one of {', '.join(_KINDS)}"
            )
        wide = DType(dtype) if dtype is not None else max(low.dtype, stop.dtype, key=lambda t: t.bits)
        if not wide.is_int or wide.lanes != 1:
            raise UserError(
                f"dtype={dtype!r} of the loop {name!r} is not an integer type",
                primitive="for_range",
                fix='give "int32"',
            )
        var = Var(name, wide)
        first = cast(wide, low)
        extent = simplify(cast(wide, subtract(stop, low)))
        with self._scope(lambda body: For(var, first, extent, _KINDS[kind], None, (), body)):
            yield var

    @contextmanager
    def while_loop(self, condition: Any) -> Iterator[None]:
        """`with ib.while_loop(i[0] < n):` runs the block again and again, for as long as the condition holds before."""
        test = test_of(condition, "while_loop")
        if not reads_memory(test):
            raise UserError(
                f"the condition `{test}` reads no buffer, so that the loop can never change it",
                primitive="while_loop",
                fix="keep the condition's operands in a buffer: i = ib.allocate('int32', (1,), scope='local')",
            )
        with self._scope(lambda body: While(test, body)):
            yield

    @contextmanager
    def if_scope(self, cond: Any) -> Iterator[None]:
        """`with ib.if_scope(i < 8):` runs the block if the condition holds."""
        test = test_of(cond, "if_scope")
        with self._scope(lambda body: If(test, body, None)):
            yield

    @contextmanager
    def else_scope(self) -> Iterator[None]:
        """`with ib.else_scope():` directly after an `if_scope` runs the block if its condition does not hold."""
        last = self._scopes[-1][-1] if self._scopes[-1] else None
        if not isinstance(last, If) or last.orelse is not None:
            raise UserError(
                "no if_scope ends directly before it", primitive="else_scope", fix="put it right after an if_scope"
            )
        self._scopes[-1].pop()
        with self._scope(lambda body: If(last.condition, last.then, body)):
            yield

    def allocate(
        self, dtype: str, shape: Any, name: str = "buf", axis_separators: Any = None, scope: str = ""
    ) -> BufferVar:
        """Storage of `shape` elements, alive to the end of the scope; `scope` is "global", "shared" or "local"."""
        given = shape if isinstance(shape, (tuple, list)) else [shape]
        extents = tuple(_integer(e, "shape", "allocate") for e in given)
        if any(isinstance(e, IntImm) and e.value < 0 for e in extents):
            raise UserError(
                f"the shape {list(extents)} of {name!r} has an extent below 0",
                primitive="allocate",
                fix="give extents of at least 0",
            )
        buffer = Buffer(name, dtype, extents, _place(scope, "allocate"), note=name)
        self._scopes[-1].append(lambda body: Allocate(buffer, body))
        return BufferVar(self, buffer)

    def buffer_ptr(self, buf: Any, shape: Any = None) -> BufferVar:
        """A buffer, to be read and written by index."""
        if not isinstance(buf, Buffer):
            raise UserError(
                f"{buf!r} is not a buffer",
                primitive="buffer_ptr",
                fix="give one of the buffers that te.extern passes to its function, or a tir.decl_buffer",
            )
        return BufferVar(self, buf)

    def pointer(self, content_type: str, name: str = "ptr", scope: str = "") -> BufferVar:
        """Memory of unknown length that the caller of the program passes: a parameter of a PrimFunc."""
        place = _place(scope, "pointer")
        return BufferVar(self, Buffer(name, content_type, (SizeVar(f"{name}_size"),), place, note=name))

    @contextmanager
    def new_scope(self) -> Iterator[None]:
        """`with ib.new_scope():` ends, at its end, the scopes that `scope_attr`, `allocate` and `let` begin in the
        block."""
        with self._scope(lambda body: body):
            yield

    def scope_attr(self, node: Any, attr_key: str, value: Any) -> None:
        """`ib.scope_attr(tx, "thread_extent", n)` runs the rest of the scope on the n threads of the axis `tx`."""
        known = isinstance(attr_key, str) and attr_key in ("thread_extent", "virtual_thread")
        if not known or not isinstance(node, IterVar) or node.thread is None:
            raise UserError(
                f"the attribute {attr_key!r} of {node!r} is not known",
                primitive="scope_attr",
                fix='ib.scope_attr(te.thread_axis("threadIdx.x"), "thread_extent", n)',
            )
        tag, var, extent = node.thread, node.var, _integer(value, "value", "scope_attr")
        if tag is ThreadTag.VTHREAD and not isinstance(extent, IntImm):
            raise UserError(
                f"virtual threads are copies, but their number `{extent}` is not constant",
                primitive="scope_attr",
                fix="give an int",
            )
        first = const(0, var.dtype)
        self._scopes[-1].append(lambda body: For(var, first, extent, LoopKind.THREAD, tag, (), body))

    def let(self, var_name: str, value: Any) -> Var:
        """A variable that stands for `value`, which is computed once, to the end of the scope."""
        e = as_expr(value)
        refuse_nested(e, Let(Var(var_name, e.dtype), e, NOTHING))
        var = Var(var_name, e.dtype)
        self._scopes[-1].append(lambda body: Let(var, e, body))
        return var

    def likely(self, expr: Any) -> Expr:
        """The condition, marked as one that nearly always holds."""
        return likely(test_of(expr, "likely"))

    def barrier(self, scope: str = "shared") -> None:
        """All threads of the block wait here; the compiler places the barriers that shared memory needs by itself."""
        place = MemoryScope.parse(scope)
        if place is None:
            raise UserError(f"there is no memory scope {scope!r}", primitive="barrier", fix='use "shared"')
        self.emit(Barrier(place))


def _place(scope: Any, primitive: str) -> MemoryScope:
    place = MemoryScope.parse("global" if isinstance(scope, str) and not scope else scope)
    if place is None:
        known = ", ".join(repr(s.value) for s in MemoryScope)
        raise UserError(f"there is no memory scope {scope!r}", primitive=primitive, fix=f"use one of {known}")
    return place


def create() -> IRBuilder:
    """A new builder, of an empty program."""
    return IRBuilder()


def _closed(parts: list[Stmt | Wrap]) -> Stmt:
    """Join the statements of a scope to one statement, inside the wrappers that govern the rest of the scope."""
    body: list[Stmt] = []
    for part in reversed(parts):
        if isinstance(part, Stmt):
            body.append(part)
        else:
            body = [part(seq(*reversed(body)))]
    return seq(*reversed(body))


def _integer(given: Any, what: str, primitive: str) -> Expr:
    e = given if isinstance(given, Expr) else whole(given)
    if e is None or not e.dtype.is_int:
        raise UserError(f"{what}={given!r} is not an integer", primitive=primitive, fix="give an int or an index")
    return e
