"""share_storage: shared buffers of a kernel that are not in use at the same time take the same memory.

A shared buffer is in use where it may hold a value that is read later: it has been stored to since its last lifetime
started, and is read further on, around a loop perhaps, before the next one starts. Two buffers may share memory where
neither is stored to while the other is in use; the smaller one then becomes a view of the larger one, and
`place_barriers` keeps the last reader of the one and the writer of the other apart.
"""

from __future__ import annotations

from typing import Any

from ..core.hardware import MemoryScope
from ..core.options import Options
from ..core.target import Target
from ..expr.nodes import IntImm, Load
from ..expr.traverse import post_order
from ..loops import uses
from ..loops.liveness import Liveness, heads, parts, without_lifetimes
from ..loops.nodes import (
    Allocate,
    Buffer,
    For,
    Function,
    If,
    Launch,
    LifetimeStart,
    Seq,
    Stmt,
    Store,
    map_statements,
)
from ..loops.uses import NO_SOURCES, Sources


def share_storage(function: Function, target: Target, options: Options) -> Function:
    """Let shared buffers of one type that are never in use at the same time share memory, in each kernel.

    Nobody after this pass asks where lifetimes start: it takes that out of kernels.
    """
    return function.with_body(_host(function.body))


def _host(stmt: Stmt) -> Stmt:
    if isinstance(stmt, Launch):
        return Launch(stmt.name, stmt.threads, _kernel(stmt.body))
    return map_statements(stmt, _host)


def _kernel(body: Stmt) -> Stmt:
    touched = uses.written(body) | uses.read(body)
    viewed = {buffer.memory for buffer in touched if buffer.alias_of is not None}
    allocated = dict.fromkeys(node.buffer for node in post_order(body) if isinstance(node, Allocate))
    shared = [b for b in allocated if b.scope is MemoryScope.SHARED and isinstance(b.shape[0], IntImm)]
    views = _views([buffer for buffer in shared if buffer not in viewed], body)
    body = without_lifetimes(body)
    return _with_views(body, views) if views else body


def _views(shared: list[Buffer], body: Stmt) -> dict[Buffer, Buffer]:
    """The buffers that lie in the memory of others, each as a view of one that none of them is in use with."""
    if len(shared) < 2:
        return {}
    clashes = _Clashes(frozenset(shared)).of(body)
    owners: dict[Buffer, list[Buffer]] = {}
    views: dict[Buffer, Buffer] = {}
    for buffer in sorted(shared, key=_elements, reverse=True):
        fitting = (
            owner
            for owner, held in owners.items()
            if owner.dtype == buffer.dtype and not any(frozenset((buffer, other)) in clashes for other in held)
        )
        owner = next(fitting, None)
        if owner is None:
            owners[buffer] = [buffer]
            continue
        owners[owner].append(buffer)
        align = min(buffer.align, owner.align)
        views[buffer] = Buffer(
            buffer.name,
            buffer.dtype,
            buffer.shape,
            buffer.scope,
            align,
            owner,
            buffer.note,
            stages=buffer.stages,
        )
    return views


def _elements(buffer: Buffer) -> int:
    size = buffer.shape[0]
    return size.value if isinstance(size, IntImm) else 0


class _Clashes:
    """Finds the pairs of buffers of which one is stored to while the other is in use."""

    def __init__(self, buffers: Sources) -> None:
        self.buffers = buffers
        self.liveness = Liveness()
        self.found: set[frozenset[Buffer]] = set()

    def of(self, body: Stmt) -> set[frozenset[Buffer]]:
        """The pairs in a kernel's body."""
        self._walk(body, NO_SOURCES, NO_SOURCES)
        return self.found

    def _walk(self, stmt: Stmt, held: Sources, live: Sources) -> Sources:
        """Walk through a statement; gives the buffers that may hold a value after it.

        `held` are those that may before it, and `live` those that are read after it.
        """
        if isinstance(stmt, LifetimeStart):
            return held - {stmt.buffer}
        if isinstance(stmt, Seq):
            return self._sequence(stmt, held, live)
        inside, written = parts(stmt), uses.written(stmt) & self.buffers
        live |= heads(stmt) & self.buffers  # while one thread stores, another may still be reading
        if not inside:
            in_use = (held | written) & live
            self.found |= {frozenset((buffer, other)) for buffer in written for other in in_use if other is not buffer}
            return held | written
        if isinstance(stmt, For):
            again = live | (self.liveness.exposed(stmt.body) & self.buffers)
            return held | self._walk(stmt.body, held | written, again)
        reached = held if isinstance(stmt, If) and stmt.orelse is None else NO_SOURCES
        for part in inside:
            reached |= self._walk(part, held, live)
        return reached

    def _sequence(self, stmt: Seq, held: Sources, live: Sources) -> Sources:
        behind = [live]  # what is live behind each part, from the last one backwards
        for part in reversed(stmt.stmts[1:]):
            behind.append(behind[-1] - self.liveness.ended(part) | self.liveness.exposed(part) & self.buffers)
        for part, after in zip(stmt.stmts, reversed(behind), strict=True):
            held = self._walk(part, held, after)
        return held


def _with_views(body: Stmt, views: dict[Buffer, Buffer]) -> Stmt:
    """The kernel with the accesses of the shared-out buffers going to their views, and their allocations gone."""
    memo: dict[Any, Any] = {}

    def visit(node: Any) -> Any:
        done = memo.get(node)
        if done is None:
            done = node.map_children(visit)
            if isinstance(done, Load) and done.source in views:
                done = Load(views[done.source], done.indices)
            elif isinstance(done, Store) and done.buffer in views:
                done = Store(views[done.buffer], done.indices, done.value)
            elif isinstance(done, Allocate) and done.buffer in views:
                done = done.body
            memo[node] = done
        return done

    made: Stmt = visit(body)
    return made
