"""Liveness analysis: the buffers with a value that is read later, and the statements that give up the contents of a
buffer.

A buffer is *exposed* by a statement that reads it before anything in the statement gives its contents up. A store
before the statement, or in an earlier iteration of a loop, reaches that read. A store does not give the other elements
of its buffer up, nor its own unless it provably runs. Only the start of a lifetime, and a store to the only element of
a thread's own storage, surely end the earlier contents.
"""

from __future__ import annotations

from collections.abc import Collection

from ..core.hardware import MemoryScope
from ..expr.nodes import IntImm
from . import uses
from .nodes import (
    NOTHING,
    Allocate,
    Buffer,
    For,
    If,
    LifetimeStart,
    Seq,
    Stmt,
    Store,
    Tensorized,
    While,
    map_statements,
)
from .uses import NO_SOURCES, Sources
from .walk import substatements


class Liveness:
    """The buffers that statements expose and give up; remembered for each, since a statement may stand in several
    places."""

    def __init__(self) -> None:
        self._exposed: dict[Stmt, Sources] = {}
        self._ended: dict[Stmt, Sources] = {}

    def exposed(self, stmt: Stmt) -> Sources:
        """Return the buffers with earlier contents that the statement may read, other than to update them."""
        found = self._exposed.get(stmt)
        if found is None:
            found = self._exposed[stmt] = self._make_exposed(stmt)
        return found

    def _make_exposed(self, stmt: Stmt) -> Sources:
        if isinstance(stmt, (Store, Tensorized)) and not uses.given_to_write(stmt):
            return uses.read(stmt) - uses.written(stmt)
        found, ended = heads(stmt), NO_SOURCES
        for part in substatements(stmt):
            found |= self.exposed(part) - ended
            ended |= self.ended(part) if isinstance(stmt, Seq) else NO_SOURCES
        return found - {stmt.buffer} if isinstance(stmt, Allocate) else found

    def ended(self, stmt: Stmt) -> Sources:
        """Return the buffers with contents that the statement certainly replaces."""
        found = self._ended.get(stmt)
        if found is None:
            found = self._ended[stmt] = self._make_ended(stmt)
        return found

    def _make_ended(self, stmt: Stmt) -> Sources:
        if isinstance(stmt, LifetimeStart):
            return frozenset((stmt.buffer,))
        if isinstance(stmt, Store):
            return frozenset((stmt.buffer,)) if _is_whole(stmt) else NO_SOURCES
        inside = substatements(stmt)
        if isinstance(stmt, If):
            return self.ended(stmt.then) & self.ended(stmt.orelse) if stmt.orelse is not None else NO_SOURCES
        if isinstance(stmt, While):
            return NO_SOURCES
        if isinstance(stmt, For) and not (isinstance(stmt.extent, IntImm) and stmt.extent.value > 0):
            return NO_SOURCES
        found: Sources = frozenset((stmt.buffer,)) if isinstance(stmt, Allocate) else NO_SOURCES
        for part in inside:
            found |= self.ended(part)
        return found


def _is_whole(stmt: Store) -> bool:
    """Whether a store fills all that a thread has of a buffer: its only element."""
    buffer, value = stmt.buffer, uses.read(stmt)
    single = all(isinstance(size, IntImm) and size.value == 1 for size in buffer.shape)
    return single and buffer.scope is MemoryScope.LOCAL and buffer.alias_of is None and buffer not in value


def heads(stmt: Stmt) -> Sources:
    """The buffers read by the expressions of a statement itself."""
    found = NO_SOURCES
    if isinstance(stmt, (Seq, Allocate)):
        return found
    for child in stmt.children():
        if not isinstance(child, Stmt):
            found |= uses.read(child)
    return found


def is_own(buffer: Buffer) -> bool:
    """Whether a buffer is in a kernel's own memory, which ends with the kernel, and not a view of another buffer."""
    return buffer.scope in (MemoryScope.SHARED, MemoryScope.LOCAL) and buffer.alias_of is None


def without_lifetimes(stmt: Stmt, of: Collection[Buffer] | None = None) -> Stmt:
    """The statement without the starts of lifetimes (of some buffers; of all if none are given)."""
    if isinstance(stmt, Store):
        return stmt
    if isinstance(stmt, LifetimeStart):
        return NOTHING if of is None or stmt.buffer in of else stmt
    return map_statements(stmt, lambda child: without_lifetimes(child, of))
