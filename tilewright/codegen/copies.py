"""Asynchronous copies as C-like source: what goes from where to where, in pieces of one instruction."""

from __future__ import annotations

from typing import Any, Protocol

from ..core.errors import InternalError
from ..expr import nodes as n
from ..expr import operators as op
from ..expr.traverse import post_order
from ..loops.nodes import Copy, For, If, Seq, Stmt, copied_load
from ..loops.walk import statements
from .c_expr import AND
from .vectors import flat_index


class Writer(Protocol):
    """What is needed of the writer of a kernel."""

    names: Any
    expr: Any
    dialect: Any
    copies_where: str

    def _stmt(self, s: Stmt) -> None: ...
    def _line(self, text: str) -> None: ...
    def _aligned(self, buffer: Any) -> None: ...
    def _pointer(self, buffer: Any, index: n.Expr) -> str: ...
    def _pointer_name(self, buffer: Any) -> str: ...


def write_copies_where(writer: Writer, s: If) -> bool:
    """Write a guard around nothing but copies without a branch, as a condition of each; False for another one.

    A branch would keep the compiler from moving the work of an iteration and the copies for a later one among each
    other. Addresses are computed whether or not the condition holds.
    """
    inside = list(statements(s))
    if not all(type(part) in (Copy, For, Seq) or (isinstance(part, If) and part.orelse is None) for part in inside):
        return False
    loads = [node for node in post_order(s) if isinstance(node, n.Load)]
    copied = [copied_load(part.value) for part in inside if isinstance(part, Copy)]
    if not copied or not set(loads) <= set(copied) or any(_reads(index) for load in loads for index in load.indices):
        return False
    around, condition = writer.copies_where, writer.expr(s.condition, AND)
    name = writer.names.fresh("runs")
    writer._line(f"const bool {name} = {f'{around} && ' if around else ''}{condition};")
    writer.copies_where = name
    writer._stmt(s.then)
    writer.copies_where = around
    return True


def _reads(e: n.Expr) -> bool:
    return any(isinstance(node, n.Load) for node in post_order(e))


def write_copy(writer: Writer, copy: Copy) -> None:
    """Write the instructions of a copy."""
    load = copied_load(copy.value)
    if load is None:
        raise InternalError(f"a copy to {copy.buffer.name} stores what is not a load")
    source: Any = load.source
    for buffer in (copy.buffer, source) if copy.size > copy.buffer.dtype.bytes else ():
        writer._aligned(buffer)
    guarded, where = load is not copy.value, writer.copies_where
    helper, present = writer.expr.helper(writer.dialect.copy(copy.size, guarded, bool(where))), ""
    if guarded:
        present = writer.names.fresh("present")
        writer._line(f"const bool {present} = {writer.expr(copy.value.condition)};")  # type: ignore[attr-defined]
    to, place = flat_index(copy.buffer, copy.indices), flat_index(source, load.indices)
    for start in range(0, load.dtype.lanes, copy.size // copy.buffer.dtype.bytes):
        target = writer._pointer(copy.buffer, _element(to, start))
        address = writer._pointer(source, _element(place, start))
        if guarded:  # what is not there has no address either
            target, address = f"{present}, {target}", f"{present} ? {address} : {writer._pointer_name(source)}"
        writer._line(f"{helper}({f'{where}, ' if where else ''}{target}, {address});")


def _element(index: n.Expr, lane: int) -> n.Expr:
    base = index.base if isinstance(index, n.Ramp) else index
    return op.add(base, op.const(lane, base.dtype))
