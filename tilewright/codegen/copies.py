"""Asynchronous copies as C-like source: what goes from where to where, in pieces of one instruction."""

from __future__ import annotations

from typing import Any, Protocol

from ..core.errors import InternalError
from ..expr import nodes as n
from ..expr import operators as op
from ..loops.nodes import Copy, copied_load
from .vectors import flat_index


class Writer(Protocol):
    """What is needed of the writer of a kernel."""

    names: Any
    expr: Any
    dialect: Any

    def _line(self, text: str) -> None: ...
    def _aligned(self, buffer: Any) -> None: ...
    def _pointer(self, buffer: Any, index: n.Expr) -> str: ...
    def _pointer_name(self, buffer: Any) -> str: ...


def write_copy(writer: Writer, copy: Copy) -> None:
    """Write the instructions of a copy."""
    load = copied_load(copy.value)
    if load is None:
        raise InternalError(f"a copy to {copy.buffer.name} stores what is not a load")
    source: Any = load.source
    for buffer in (copy.buffer, source) if copy.size > copy.buffer.dtype.bytes else ():
        writer._aligned(buffer)
    guarded = load is not copy.value
    helper, present = writer.expr.helper(writer.dialect.copy(copy.size, guarded)), ""
    if guarded:
        present = writer.names.fresh("present")
        writer._line(f"const bool {present} = {writer.expr(copy.value.condition)};")  # type: ignore[attr-defined]
    to, place = flat_index(copy.buffer, copy.indices), flat_index(source, load.indices)
    for start in range(0, load.dtype.lanes, copy.size // copy.buffer.dtype.bytes):
        target = writer._pointer(copy.buffer, _element(to, start))
        address = writer._pointer(source, _element(place, start))
        if guarded:  # what is not there has no address either
            target, address = f"{present}, {target}", f"{present} ? {address} : {writer._pointer_name(source)}"
        writer._line(f"{helper}({target}, {address});")


def _element(index: n.Expr, lane: int) -> n.Expr:
    base = index.base if isinstance(index, n.Ramp) else index
    return op.add(base, op.const(lane, base.dtype))
