"""drop_unread_stores: dead-store elimination for the shared and local memory of kernels.

If a split does not divide its axis, `partition_loops` leaves iterations for which a reader's guard never holds. The
fill before the reader stays. Simplification may also remove the last read of a value. Such a fill costs its loads, and
looks like a race between threads that execute it at different times.

Going backwards, a store is dropped if its buffer is not *live*. A buffer is live if a later statement or iteration of
an outer loop reads it before its contents are given up (`loops/liveness.py`). An iteration may read from an earlier one
everything that its statements expose. In a sequence, a fill is also dropped if the same elements are filled again
before anything reads them.
"""

from __future__ import annotations

from operator import is_
from typing import Any

from ..core.hardware import MemoryScope
from ..core.options import Options
from ..core.target import Target
from ..expr.operators import const
from ..expr.traverse import post_order
from ..loops import uses
from ..loops.calls import has_effect
from ..loops.liveness import Liveness, heads, is_own, without_lifetimes
from ..loops.nodes import (
    NOTHING,
    Allocate,
    Buffer,
    For,
    Function,
    If,
    Launch,
    Let,
    LifetimeStart,
    Seq,
    Stmt,
    Store,
    Tensorized,
    While,
    map_statements,
    seq,
)
from ..loops.uses import NO_SOURCES, Sources
from ..loops.walk import map_kernels, substatements

_NO_VALUE = const(0, "int32")


def drop_unread_stores(function: Function, target: Target, options: Options) -> Function:
    """Drop stores to shared and local memory that nothing reads, loops that are empty then, and unused storage."""
    return map_kernels(function, _in_kernel)


def _in_kernel(stmt: Launch) -> Launch:
    touched = uses.written(stmt.body) | uses.read(stmt.body)
    viewed = frozenset(buffer.memory for buffer in touched if buffer.alias_of is not None)
    before, (body, _) = stmt.body, _Sweep(viewed).back(stmt.body, NO_SOURCES)
    while body is not before:  # values that only a dropped store read need not be stored either
        before, (body, _) = body, _Sweep(viewed).back(body, NO_SOURCES)
    return stmt if body is stmt.body else stmt.with_body(_without_unused(body))


class _Sweep:
    """A walk from the end of a kernel to its beginning, with a memo of statements."""

    def __init__(self, viewed: Sources) -> None:
        self.viewed = viewed
        self.liveness = Liveness()

    def is_own(self, buffer: Buffer) -> bool:
        """Whether only the accesses that go by its name reach a buffer, and only as long as the kernel runs."""
        return is_own(buffer) and buffer not in self.viewed

    def back(self, stmt: Stmt, live: Sources) -> tuple[Stmt, Sources]:
        """Return `stmt` without its unread stores, and the buffers live before it; `live` are the buffers live after
        it."""
        if _is_unit(stmt):
            stored = uses.written(stmt)
            if not stored & live and all(map(self.is_own, stored)) and not _has_effects(stmt):
                return NOTHING, live
            return stmt, live - self.liveness.ended(stmt) | uses.read(stmt)
        if isinstance(stmt, LifetimeStart):
            return stmt, live - {stmt.buffer}
        if isinstance(stmt, Seq):
            return self._sequence(stmt, live)
        if isinstance(stmt, For):
            return self._loop(stmt, live)
        if isinstance(stmt, While):
            after = live | heads(stmt)
            body, before = self.back(stmt.body, after | self.liveness.exposed(stmt.body))
            return (stmt if body is stmt.body else While(stmt.condition, body)), after | before
        before = heads(stmt) if isinstance(stmt, If) and stmt.orelse is not None else live | heads(stmt)

        # Threads in the other part of a branch may read shared memory that threads in the first part store.
        other = self.liveness.exposed(stmt.orelse) if isinstance(stmt, If) and stmt.orelse is not None else NO_SOURCES
        shared = frozenset(buffer for buffer in other if buffer.scope is MemoryScope.SHARED)

        def inside(part: Stmt) -> Stmt:
            nonlocal before
            made, reached = self.back(part, live | shared)
            before |= reached
            return made

        return _tidy(map_statements(stmt, inside)), before

    def _sequence(self, stmt: Seq, live: Sources) -> tuple[Stmt, Sources]:
        kept: list[Stmt] = []
        again: dict[Buffer, set[Stmt | None]] = {}  # the fills of each buffer that follow before any reader of it
        for part in reversed(stmt.stmts):
            stored, read = uses.written(part), uses.read(part)
            blank = _without_stored_values(part, stored) if stored and not stored & read else None
            if (
                blank is not None
                and all(blank in again.get(buffer, ()) for buffer in stored)
                and not _has_effects(part)
            ):
                continue
            made, live = self.back(part, live)
            if made is NOTHING:
                continue
            kept.append(made)
            for buffer in read if again else ():
                again.pop(buffer, None)
            for buffer in stored if blank is not None else ():
                again.setdefault(buffer, set()).add(blank)
        if len(kept) == len(stmt.stmts) and all(map(is_, reversed(kept), stmt.stmts)):
            return stmt, live
        return seq(*reversed(kept)), live

    def _loop(self, stmt: For, live: Sources) -> tuple[Stmt, Sources]:
        body, before = self.back(stmt.body, live | self.liveness.exposed(stmt.body))
        made = stmt
        if body is not stmt.body:
            made = For(stmt.var, stmt.min, stmt.extent, stmt.kind, stmt.thread, stmt.pragmas, body)
        gone = live & self.liveness.ended(stmt)
        return (NOTHING if _is_idle(body) else made), ((live - gone) | before) | heads(stmt)


def _has_effects(stmt: Stmt) -> bool:
    """Whether a statement calls a function with side effects."""
    return any(map(has_effect, post_order(stmt)))


def _is_unit(stmt: Stmt) -> bool:
    """Whether a statement updates one stage at one point. A stage computes all its results before the first store."""
    if isinstance(stmt, (Store, Tensorized)):
        return True
    if not isinstance(stmt, Let):
        return False
    while isinstance(stmt, Let):
        stmt = stmt.body
    stores = all(isinstance(part, Store) for part in (stmt.stmts if isinstance(stmt, Seq) else (stmt,)))
    return stores and not uses.written(stmt) & uses.read(stmt)


def _without_stored_values(fill: Stmt, stored: Sources) -> Stmt | None:
    """Return a fill without its values, which is equal for two fills that store to the same elements; else None."""
    blank = _without_values(fill) if all(map(is_own, stored)) else None
    return None if blank is None or uses.read(blank) else blank


def _is_idle(stmt: Stmt) -> bool:
    """Whether a statement does nothing: lifetimes start, at most."""
    return isinstance(stmt, LifetimeStart) or (isinstance(stmt, Seq) and all(map(_is_idle, stmt.stmts)))


def _tidy(stmt: Stmt) -> Stmt:
    """Return a branch, scope or named value; nothing if its body is empty."""
    if all(map(_is_idle, substatements(stmt))) and isinstance(stmt, (If, Let, Allocate)):
        return NOTHING
    return If(stmt.condition, stmt.then, None) if isinstance(stmt, If) and stmt.orelse is NOTHING else stmt


def _without_values(stmt: Stmt) -> Stmt | None:
    """The statement with 0 for every value stored; None if it does anything but store."""
    if isinstance(stmt, Store):
        return Store(stmt.buffer, stmt.indices, _NO_VALUE)
    if not isinstance(stmt, (For, If, Seq)):
        return None
    blank = [_without_values(part) for part in substatements(stmt)]
    if any(part is None for part in blank):
        return None
    rest: Any = iter(blank)
    return map_statements(stmt, lambda _: next(rest))


def _without_unused(stmt: Stmt) -> Stmt:
    """Return the kernel without the allocations of buffers that it does not access."""
    if isinstance(stmt, Allocate) and stmt.buffer not in uses.written(stmt.body) | uses.read(stmt.body):
        return _without_unused(without_lifetimes(stmt.body, {stmt.buffer}))
    return map_statements(stmt, _without_unused)
