"""drop_unread_stores: what a kernel stores to shared or local memory and nobody reads afterwards is not stored.

Where a split does not divide its axis, `partition_loops` leaves iterations for which the guard of a reader never
holds, while the fill in front of it stays; and a value that simplifies may stop being read. Such a fill costs its
loads, and threads that make it at different times seem to race.

Going backwards, a store is dropped where its buffer is not *live*: read further on, or in a later iteration of a loop
around it. What an iteration reads of an earlier one is what it reads before storing anything there: every stage
fills its buffer before its readers read, each time around the loops that enclose it (as `share_storage` has it too).
For the same reason a loop that both fills and reads a buffer reads nothing that was stored before it. Halves of a
double buffer are the exception: they are filled an iteration ahead. In a sequence, a fill is also dropped where the
same elements are filled again before anything reads them.
"""

from __future__ import annotations

from operator import is_
from typing import Any

from ..core.hardware import MemoryScope
from ..core.node import Node
from ..core.options import Options
from ..core.target import Target
from ..expr.operators import const
from ..loops import uses
from ..loops.nodes import (
    NOTHING,
    Allocate,
    Buffer,
    For,
    Function,
    If,
    Launch,
    Let,
    Seq,
    Stmt,
    Store,
    map_statements,
    seq,
)
from ..loops.uses import NO_SOURCES, Sources

_NO_VALUE = const(0, "int32")


def drop_unread_stores(function: Function, target: Target, options: Options) -> Function:
    """Drop stores to shared and local memory of kernels that no one reads, the loops that then do nothing, and
    the storage that is then not used.
    """
    return function.with_body(_host(function.body))


def _host(stmt: Stmt) -> Stmt:
    if not isinstance(stmt, Launch):
        return map_statements(stmt, _host)
    before, (body, _) = stmt.body, _Sweep().back(stmt.body, NO_SOURCES)
    while body is not before:  # what only a dropped store read need not be stored either
        before, (body, _) = body, _Sweep().back(body, NO_SOURCES)
    return stmt if body is stmt.body else Launch(stmt.name, stmt.threads, _without_unused(body))


class _Sweep:
    """A walk from the end of a kernel to its beginning, and what it remembers of statements."""

    def __init__(self) -> None:
        self._consumed: dict[Node, Sources] = {}
        self._begun: dict[Stmt, Sources] = {}

    def back(self, stmt: Stmt, live: Sources) -> tuple[Stmt, Sources]:
        """`stmt` without its unread stores, and what is live before it; `live` is what is so after it."""
        if _is_unit(stmt):
            stored = uses.written(stmt)
            if not stored & live and all(map(_is_own, stored)):
                return NOTHING, live
            read = uses.read(stmt)
            return stmt, live if read <= live else live | read
        if isinstance(stmt, Seq):
            return self._sequence(stmt, live)
        if isinstance(stmt, For):
            return self._loop(stmt, live)
        before = live | _heads(stmt)

        def inside(part: Stmt) -> Stmt:
            nonlocal before
            made, reached = self.back(part, live)
            before |= reached
            return made

        return _tidy(map_statements(stmt, inside)), before

    def _sequence(self, stmt: Seq, live: Sources) -> tuple[Stmt, Sources]:
        kept: list[Stmt] = []
        again: dict[Buffer, set[Stmt | None]] = {}  # the fills of each buffer that follow before any reader of it
        for part in reversed(stmt.stmts):
            stored, read = uses.written(part), uses.read(part)
            places = _places(part, stored) if stored and not stored & read else None
            if places is not None and all(places in again.get(buffer, ()) for buffer in stored):
                continue
            made, live = self.back(part, live)
            if made is NOTHING:
                continue
            kept.append(made)
            for buffer in read if again else ():
                again.pop(buffer, None)
            for buffer in stored if places is not None else ():
                again.setdefault(buffer, set()).add(places)
        if len(kept) == len(stmt.stmts) and all(map(is_, reversed(kept), stmt.stmts)):
            return stmt, live
        return seq(*reversed(kept)), live

    def _loop(self, stmt: For, live: Sources) -> tuple[Stmt, Sources]:
        consumed, begun = self.consumed(stmt.body), self.begun(stmt.body)
        body, before = self.back(stmt.body, live | (consumed - begun))
        made = stmt
        if body is not stmt.body:
            made = For(stmt.var, stmt.min, stmt.extent, stmt.kind, stmt.thread, stmt.pragmas, body)
        return (NOTHING if body is NOTHING else made), ((live | before) - (begun & consumed)) | _heads(stmt)

    def consumed(self, stmt: Stmt) -> Sources:
        """The buffers that a statement reads for something else than to update them."""
        found = self._consumed.get(stmt)
        if found is None:
            if _is_unit(stmt):
                found = uses.read(stmt) - uses.written(stmt)
            else:
                found = _heads(stmt)
                for part in _parts(stmt):
                    consumed = self.consumed(part)
                    if not consumed <= found:
                        found |= consumed
            self._consumed[stmt] = found
        return found

    def begun(self, stmt: Stmt) -> Sources:
        """The buffers that a statement stores to before it reads them."""
        found = self._begun.get(stmt)
        if found is None:
            found = self._begun[stmt] = self._make_begun(stmt)
        return found

    def _make_begun(self, stmt: Stmt) -> Sources:
        if _is_unit(stmt):
            fresh = uses.written(stmt) - uses.read(stmt)
            return frozenset(buffer for buffer in fresh if _is_own(buffer) and buffer.stages == 1)
        if isinstance(stmt, If) and stmt.orelse is not None:
            return (self.begun(stmt.then) & self.begun(stmt.orelse)) - _heads(stmt)
        found, met = NO_SOURCES, _heads(stmt)
        for part in _parts(stmt):
            begun = self.begun(part)
            if not begun <= found:
                found |= begun - met
            for touched in (uses.read(part), uses.written(part)):
                if not touched <= met:
                    met |= touched
        return found


def _heads(stmt: Stmt) -> Sources:
    """What is read by the expressions of a statement itself."""
    found = NO_SOURCES
    if isinstance(stmt, (Seq, Allocate)):
        return found
    for child in stmt.children():
        if not isinstance(child, Stmt):
            found |= uses.read(child)
    return found


def _is_unit(stmt: Stmt) -> bool:
    """Whether a statement updates one stage at one point; a stage of several results computes them all first."""
    if isinstance(stmt, Store):
        return True
    if not isinstance(stmt, Let):
        return False
    while isinstance(stmt, Let):
        stmt = stmt.body
    stores = all(isinstance(part, Store) for part in (stmt.stmts if isinstance(stmt, Seq) else (stmt,)))
    return stores and not uses.written(stmt) & uses.read(stmt)


def _places(fill: Stmt, stored: Sources) -> Stmt | None:
    """A fill with nothing for its values: equal for two fills that store to the same elements; else None."""
    blank = _without_values(fill) if all(map(_is_own, stored)) else None
    return None if blank is None or uses.read(blank) else blank


def _is_own(buffer: Buffer) -> bool:
    """Whether only the accesses that go by its name reach a buffer, and only as long as the kernel runs."""
    return buffer.scope in (MemoryScope.SHARED, MemoryScope.LOCAL) and buffer.alias_of is None


def _parts(stmt: Stmt) -> list[Stmt]:
    return [child for child in stmt.children() if isinstance(child, Stmt)]


def _tidy(stmt: Stmt) -> Stmt:
    """A branch, scope or named value, or nothing where it has nothing left inside."""
    if all(part is NOTHING for part in _parts(stmt)) and isinstance(stmt, (If, Let, Allocate)):
        return NOTHING
    return If(stmt.condition, stmt.then, None) if isinstance(stmt, If) and stmt.orelse is NOTHING else stmt


def _without_values(stmt: Stmt) -> Stmt | None:
    """The statement with 0 for every value stored; None where it does anything but store."""
    if isinstance(stmt, Store):
        return Store(stmt.buffer, stmt.indices, _NO_VALUE)
    if not isinstance(stmt, (For, If, Seq)):
        return None
    parts = [_without_values(part) for part in _parts(stmt)]
    if any(part is None for part in parts):
        return None
    rest: Any = iter(parts)
    return map_statements(stmt, lambda _: next(rest))


def _without_unused(stmt: Stmt) -> Stmt:
    """The kernel without the allocations of what it does not touch."""
    if isinstance(stmt, Allocate) and stmt.buffer not in uses.written(stmt.body) | uses.read(stmt.body):
        return _without_unused(stmt.body)
    return map_statements(stmt, _without_unused)
