"""Scalar promotion: which elements of global memory a compiler keeps in a register while a loop runs.

LLVM and NVVM do this if the loop accesses only one, loop-invariant element of an array, and stores to it in every
iteration. Otherwise a conditional store would become unconditional.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..codegen.kernel import root
from ..core.hardware import MemoryScope
from ..expr.nodes import Expr, Load, Var
from ..expr.traverse import post_order, variables
from ..loops.nodes import Allocate, Buffer, Copy, For, If, Let, Seq, Stmt, Store

RegisterPlace = tuple[Buffer, tuple[Expr, ...]]
"""An element: its memory, and its indices."""
_TRANSPARENT = (For, Let, Allocate, Seq, Store)


def place_of(source: Any, indices: tuple[Expr, ...]) -> RegisterPlace | None:
    """The element of global memory that a scalar access goes to; None for another access."""
    memory = root(source)
    scalar = memory.scope is MemoryScope.GLOBAL and all(index.dtype.lanes == 1 for index in indices)
    return (memory, indices) if scalar else None


def promoted(loop: For) -> frozenset[RegisterPlace]:
    """The elements that are in a register while `loop` runs."""
    stores = {place_of(s.buffer, s.indices) for s in _always(loop.body)}
    if not stores:
        return frozenset()
    places: dict[Buffer, set[tuple[Expr, ...]]] = {}
    inside: set[Var] = {loop.var}
    for at in post_order(loop.body):
        if isinstance(at, Stmt) and not isinstance(at, (*_TRANSPARENT, If)):
            return frozenset()  # a barrier, or a call: others may read the memory
        if isinstance(at, (For, Let)):
            inside.add(at.var)
        elif isinstance(at, Load):
            places.setdefault(root(at.source), set()).add(at.indices)
        elif isinstance(at, Store):
            places.setdefault(at.buffer.memory, set()).add(at.indices)
    return frozenset(
        place
        for place in stores
        if place is not None and len(places[place[0]]) == 1 and inside.isdisjoint(variables(*place[1]))
    )


def _always(stmt: Any) -> Iterator[Store]:
    """The stores that run whenever `stmt` does."""
    if isinstance(stmt, Store) and not isinstance(stmt, Copy):
        yield stmt
    elif isinstance(stmt, _TRANSPARENT):
        for child in stmt.children():
            if isinstance(child, Stmt):
                yield from _always(child)
