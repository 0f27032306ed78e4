"""share_storage: storage coalescing. Shared buffers with disjoint live ranges occupy the same memory.

A shared buffer is in use while it may hold a value that is read later. That is: it was stored to in its present
lifetime, and is read again before its next lifetime begins, perhaps in a later iteration. Two buffers may share memory
if neither is stored to while the other is in use. If both have one type, the smaller buffer then becomes a view of the
larger one. If an arena of bytes, in which buffers of any type overlap, needs fewer bytes, they all become views of it.
`place_barriers` puts a barrier between the last read of one buffer and the first write of the other. No barrier may
stand in a branch or loop that threads of a block pass differently. All that such a statement accesses is in use
throughout it.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from functools import lru_cache, partial
from math import lcm
from typing import Any

from ..core.hardware import MemoryScope
from ..core.options import Options
from ..core.target import Target
from ..expr.nodes import Expr, IntImm, Load, Var
from ..expr.operators import const, is_const
from ..expr.traverse import rewrite
from ..loops import uses
from ..loops.liveness import Liveness, heads, without_lifetimes
from ..loops.nodes import (
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
    While,
)
from ..loops.uniformity import varies, varying_memory
from ..loops.uses import NO_SOURCES, Sources
from ..loops.walk import map_kernels, statements, substatements

Clashes = set[frozenset[Buffer]]
"""The pairs of buffers that may not share memory."""


def share_storage(function: Function, target: Target, options: Options) -> Function:
    """Let shared buffers that are never in use at the same time share memory, in each kernel.

    No later pass needs the starts of lifetimes, so this one removes them.
    """
    memory = target.hardware.memory(MemoryScope.SHARED)

    def visit(stmt: Launch) -> Launch:
        threads = frozenset(var for tag, var, extent in stmt.threads if tag.is_thread and not is_const(extent, 1))
        # In a single thread there are no barriers, and compilers may reorder accesses of different types.
        return stmt.with_body(_kernel(stmt.body, threads, memory.alignment if threads else None))

    return map_kernels(function, visit)


def _kernel(body: Stmt, threads: frozenset[Var], alignment: int | None) -> Stmt:
    touched = uses.written(body) | uses.read(body)
    viewed = {buffer.memory for buffer in touched if buffer.alias_of is not None}
    allocated = dict.fromkeys(stmt.buffer for stmt in statements(body) if isinstance(stmt, Allocate))
    shared = [b for b in allocated if b.scope is MemoryScope.SHARED and isinstance(b.shape[0], IntImm)]
    shared = [buffer for buffer in shared if buffer not in viewed]
    if len(shared) < 2:
        return without_lifetimes(body)
    clashes = _Clashes(frozenset(shared), threads, lru_cache(partial(varying_memory, body, threads))).of(body)
    body, views = without_lifetimes(body), _views(shared, clashes)
    if alignment is not None and all(buffer.dtype.lanes == 1 for buffer in shared):
        offsets = arena_offsets(shared, clashes, alignment)
        size = max(offset + _bytes(buffer) for buffer, offset in offsets.items())
        if size < sum(_bytes(buffer) for buffer in shared if buffer not in views):
            arena = Buffer("arena", "uint8", (const(size, "int32"),), MemoryScope.SHARED, _alignment(shared, alignment))
            return Allocate(arena, _with_views(body, _in_arena(arena, offsets)))
    return _with_views(body, views) if views else body


_USUAL = 64
"""An alignment that all memory meets."""


def _views(shared: list[Buffer], clashes: Clashes) -> dict[Buffer, Buffer]:
    """Return views for buffers that can share the memory of another buffer, because they are never in use with it."""
    owners: dict[Buffer, list[Buffer]] = {}
    views: dict[Buffer, Buffer] = {}
    for buffer in sorted(shared, key=_elements, reverse=True):
        fitting = (
            owner
            for owner, held in owners.items()
            if owner.dtype == buffer.dtype
            and buffer.align <= max(owner.align, _USUAL)
            and not any(frozenset((buffer, other)) in clashes for other in held)
        )
        owner = next(fitting, None)
        if owner is None:
            owners[buffer] = [buffer]
            continue
        owners[owner].append(buffer)
        views[buffer] = buffer.changed(align=min(buffer.align, owner.align), alias_of=owner)
    return views


def arena_offsets(shared: list[Buffer], clashes: Clashes, alignment: int) -> dict[Buffer, int]:
    """The byte at which each buffer begins: the larger ones first, each at the lowest place that conflicting buffers
    allow."""
    offsets: dict[Buffer, int] = {}
    for buffer in sorted(shared, key=_bytes, reverse=True):
        step = _alignment([buffer], alignment)
        others = [other for other in offsets if frozenset((buffer, other)) in clashes]
        offset = 0
        for other in sorted(others, key=lambda other: offsets[other]):
            if offset + _bytes(buffer) > offsets[other]:
                offset = max(offset, -(-(offsets[other] + _bytes(other)) // step) * step)
        offsets[buffer] = offset
    return offsets


def _alignment(buffers: list[Buffer], alignment: int) -> int:
    """The alignment of each buffer's beginning, in memory of the given alignment."""
    return lcm(alignment, *(buffer.align for buffer in buffers), *(buffer.dtype.bytes for buffer in buffers))


def _in_arena(arena: Buffer, offsets: dict[Buffer, int]) -> dict[Buffer, Buffer]:
    views = {}
    for buffer, offset in offsets.items():
        view = views[buffer] = copy(buffer)
        view.alias_of, view.byte_offset = arena, offset
    return views


def _bytes(buffer: Buffer) -> int:
    return buffer.constant_bytes or 0


def _elements(buffer: Buffer) -> int:
    size = buffer.shape[0]
    return size.value if isinstance(size, IntImm) else 0


class _Clashes:
    """Finds the pairs of buffers with a store to one while the other is in use.

    `threads` are the indices of the threads of a block; `memory` returns the memory in which they may find different
    values.
    """

    def __init__(self, buffers: Sources, threads: frozenset[Var], memory: Callable[[], frozenset[Buffer]]) -> None:
        self.buffers = buffers
        self.threads = threads  # later also the names of values that differ between threads
        self.memory = memory
        self.liveness = Liveness()
        self.found: Clashes = set()

    def of(self, body: Stmt) -> Clashes:
        """The pairs in a kernel's body."""
        self._walk(body, NO_SOURCES, NO_SOURCES)
        return self.found

    def _exposed(self, stmt: Stmt) -> Sources:
        return self.liveness.exposed(stmt) & self.buffers

    def _walk(self, stmt: Stmt, held: Sources, live: Sources) -> Sources:
        """Walk through a statement; returns the buffers that may hold a value after it.

        `held` may hold a value before it, and `live` are read after it.
        """
        if isinstance(stmt, LifetimeStart):
            return held - {stmt.buffer}
        if isinstance(stmt, Seq):
            return self._sequence(stmt, held, live)
        if isinstance(stmt, Store) and not uses.written(stmt) & self.buffers:
            return held
        inside, written = substatements(stmt), uses.written(stmt) & self.buffers
        live |= heads(stmt) & self.buffers  # while one thread stores, another may still be reading
        if isinstance(stmt, Let) and self._varies(stmt.value):
            self.threads |= {stmt.var}
        if not inside or (written and self._is_divergent(stmt)):
            in_use = (held | written) & live
            if inside:  # some threads may be anywhere in a divergent statement while others store
                in_use |= written | uses.read(stmt) & self.buffers
            self.found |= {frozenset((buffer, other)) for buffer in written for other in in_use if other is not buffer}
            return held | written
        if isinstance(stmt, (For, While)):
            again = live | self._exposed(stmt.body)
            return held | self._walk(stmt.body, held | written, again)
        reached = held if isinstance(stmt, If) and stmt.orelse is None else NO_SOURCES
        for part in inside:
            reached |= self._walk(part, held, live)
        return reached

    def _is_divergent(self, stmt: Stmt) -> bool:
        """Whether threads of a block may take a branch or loop differently, so that it cannot contain a barrier."""
        if isinstance(stmt, For):
            return self._varies(stmt.min, stmt.extent)
        return isinstance(stmt, (If, While)) and self._varies(stmt.condition)

    def _varies(self, *values: Expr) -> bool:
        return any(varies(e, self.threads, self.memory() if uses.read(e) else frozenset()) for e in values)

    def _sequence(self, stmt: Seq, held: Sources, live: Sources) -> Sources:
        behind = [live]  # the live buffers after each part, from the last one backwards
        for part in reversed(stmt.stmts[1:]):
            live = behind[-1]
            if isinstance(part, Store) and part.buffer not in self.buffers:
                behind.append(live if uses.read(part).isdisjoint(self.buffers - live) else live | self._exposed(part))
            else:
                behind.append(live - self.liveness.ended(part) | self._exposed(part))
        for part, after in zip(stmt.stmts, reversed(behind), strict=False):  # without parts, `behind` is longer
            held = self._walk(part, held, after)
        return held


def _with_views(body: Stmt, views: dict[Buffer, Buffer]) -> Stmt:
    """The kernel with the accesses of the shared-out buffers going to their views, and their allocations gone."""

    def rule(node: Any) -> Any:
        if isinstance(node, Load) and node.source in views:
            return Load(views[node.source], node.indices)
        if isinstance(node, Store) and node.buffer in views:
            return Store(views[node.buffer], node.indices, node.value)
        return node.body if isinstance(node, Allocate) and node.buffer in views else node

    made: Stmt = rewrite(body, rule)
    return made
