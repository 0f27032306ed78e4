"""place_barriers: block-wide barriers between stores and accesses of shared data by different threads, and nowhere
else.

Bottom-up, each statement yields its accesses to shared memory before its first barrier and after its last. Two
neighbours in a sequence need a barrier if an access of the second depends on a pending access of the first by another
thread. A loop needs one at the head of its body if an iteration depends in this way on an earlier one. Barriers stand
directly in the sequence or loop that holds both accesses, and so outside guards that only some threads pass. The
analysis includes barriers that the program already has, and treats an `Await` as a store of its buffers.

Global memory that a kernel both stores to and reads is treated the same way, because threads of a block may exchange
data through it. Buffers of global memory that only in-place updates of their elements read, as reductions do, get no
barriers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import groupby

from ..arith.facts import EMPTY
from ..core.errors import Suspect, UserError
from ..core.hardware import MemoryScope
from ..core.options import Options
from ..core.target import Target
from ..expr.nodes import Expr, IntImm
from ..expr.operators import const, is_const, logical_not
from ..expr.traverse import loads, substitute
from ..loops import uses
from ..loops.dataflow import NONE, Access, Accesses, AccessFinder, Actors, Scene, first_dependence
from ..loops.describe import describe
from ..loops.nodes import (
    Allocate,
    Await,
    Barrier,
    Buffer,
    Evaluate,
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
    seq,
)
from ..loops.overlap import LoopDistance
from ..loops.uniformity import varies, varying_memory
from ..loops.walk import map_kernels, statements, stored_stages


@dataclass(frozen=True)
class _Placed:
    """A statement with its barriers: accesses before the first, accesses after the last, whether there is one.

    Without a barrier on every way through, `first` and `last` hold all accesses that may reach the ends.
    """

    stmt: Stmt
    first: Accesses
    last: Accesses
    parted: bool


def place_barriers(function: Function, target: Target, options: Options) -> Function:
    """Insert barriers into every kernel (a `Launch`) with more than one thread per block.

    Raises UserError if one is needed under a condition that differs between the threads of a block.
    """
    return map_kernels(function, _with_barriers)


def _with_barriers(stmt: Launch) -> Launch:
    several = [(var, e) for tag, var, e in stmt.threads if tag.is_thread and not is_const(e, 1)]
    if not several:
        return stmt
    facts = EMPTY.bind_all({var: (const(0, var.dtype), extent) for _, var, extent in stmt.threads})
    threads = frozenset(var for var, _ in several)
    body = stmt.body
    scene, memory = Scene(threads, facts), lru_cache(partial(varying_memory, body, threads))
    for scope, buffers in ((MemoryScope.SHARED, None), (MemoryScope.GLOBAL, _passed_on(body))):
        found = AccessFinder((scope,), only=buffers)
        if found.touches(body):
            body = _Placer(scope, found, memory).place(body, scene).stmt
    return stmt if body is stmt.body else stmt.with_body(body)


def _passed_on(body: Stmt) -> frozenset[Buffer]:
    """The buffers of global memory that a kernel stores to and reads, for more than to update an element in place."""
    written = {buffer.memory for buffer in uses.written(body) if buffer.scope is MemoryScope.GLOBAL}
    if written.isdisjoint(buffer.memory for buffer in uses.read(body)):
        return frozenset()
    read: set[Buffer] = set()
    for stmt in statements(body):
        parts = [part for part in stmt.children() if not isinstance(part, Stmt)]
        for load in loads(*parts):
            own = isinstance(stmt, Store) and (stmt.buffer, stmt.indices) == (load.source, load.indices)
            if not own and isinstance(load.source, Buffer):
                read.add(load.source.memory)
    touched = uses.read(body) | uses.written(body)
    return frozenset(buffer for buffer in touched if buffer.memory in read & written)


class _Line:
    """Statements in sequence, with the necessary barriers between them."""

    def __init__(self, scope: MemoryScope, scene: Scene) -> None:
        self.scope = scope
        self.scene = scene
        self.parts: list[Stmt] = []
        self.first, self.pending, self.parted = NONE, NONE, False

    def append(self, placed: _Placed, *more: Stmt) -> None:
        """Add a statement, behind a barrier if it conflicts with pending accesses; `more` have its accesses, too."""
        if _conflict(self.pending, placed.first, self.scene):
            self.parts.append(Barrier(self.scope))
            self.pending, self.parted = NONE, True
        self.parts += (placed.stmt, *more)
        self.first = self.first if self.parted else self.first | placed.first
        self.pending = placed.last if placed.parted else self.pending | placed.last
        self.parted = self.parted or placed.parted

    def placed(self) -> _Placed:
        """Return all of them."""
        return _Placed(seq(*self.parts), self.first, self.pending, self.parted)


class _Placer:
    """Places barriers in a statement; `found` are the accesses under the conditions and names around it.

    `memory` tells which memory may hold different values for different threads.
    """

    def __init__(self, scope: MemoryScope, found: AccessFinder, memory: Callable[[], frozenset[Buffer]]) -> None:
        self.scope = scope
        self.found = found
        self.memory = memory

    def _inside(self, found: AccessFinder) -> _Placer:
        return _Placer(self.scope, found, self.memory)

    def place(self, stmt: Stmt, scene: Scene) -> _Placed:
        """The statement with its barriers."""
        if isinstance(stmt, Barrier):
            return _Placed(stmt, NONE, NONE, stmt.scope is self.scope)
        if (
            isinstance(stmt, Await) and self.scope is MemoryScope.SHARED
        ):  # for all later accesses, its data have arrived
            arrived = Accesses(Access(buffer, True, None) for buffer in stmt.buffers)
            return _Placed(stmt, NONE, arrived, False)
        if isinstance(stmt, Seq):
            return self._sequence(stmt, scene)
        if not self.found.touches(stmt):
            return _Placed(stmt, NONE, NONE, False)
        if isinstance(stmt, For):
            return self._loop(stmt, scene)
        if isinstance(stmt, While):
            return self._repeated(stmt, scene)
        if isinstance(stmt, If):
            return self._branch(stmt, scene)
        if isinstance(stmt, Let):
            return self._named(stmt, scene)
        if isinstance(stmt, Allocate):
            placed = self.place(stmt.body, scene)
            return _Placed(Allocate(stmt.buffer, placed.stmt), placed.first, placed.last, placed.parted)
        found = self.found.of(stmt)
        return _Placed(stmt, found, found, False)

    def _sequence(self, stmt: Seq, scene: Scene) -> _Placed:
        line = _Line(self.scope, scene)
        for simple, parts in groupby(stmt.stmts, key=self._stored):
            if simple is None:
                for part in parts:
                    line.append(self.place(part, scene))
            else:
                self._run(list(parts), line)
        return line.placed()

    def _stored(self, stmt: Stmt) -> Buffer | bool | None:
        """The stores of a statement without nested statements, False if irrelevant; None for nested statements."""
        if isinstance(stmt, Store):
            return stmt.buffer if self.found.counts(stmt.buffer) else False
        return False if isinstance(stmt, (Evaluate, LifetimeStart)) else None

    def _run(self, parts: list[Stmt], line: _Line) -> None:
        """Append statements without inner statements, all at once if they need no barrier, as is usual."""
        found = self.found.of(*parts)
        if len(parts) > 1 and (_conflict(line.pending, found, line.scene) or _conflict(found, found, line.scene)):
            half = len(parts) // 2
            self._run(parts[:half], line)
            self._run(parts[half:], line)
        else:
            line.append(_Placed(parts[0], found, found, False), *parts[1:])

    def _loop(self, stmt: For, scene: Scene) -> _Placed:
        within = scene.inside(stmt)
        placed = self.place(stmt.body, within)
        body, first, parted = placed.stmt, placed.first, placed.parted
        if _conflict(placed.last, first, within, LoopDistance(stmt.var, 1 if parted else None)):
            body, first, parted = seq(Barrier(self.scope), body), NONE, True
        runs = isinstance(stmt.extent, IntImm) and stmt.extent.value > 0
        made = For(stmt.var, stmt.min, stmt.extent, stmt.kind, stmt.thread, stmt.pragmas, body)
        self._check(made, (stmt.min, stmt.extent), scene)
        own = self.found.of(stmt.min, stmt.extent)
        return _Placed(made, own | first.in_loop(stmt), own | placed.last.in_loop(stmt), parted and runs)

    def _repeated(self, stmt: While, scene: Scene) -> _Placed:
        """The condition is read before every iteration, and once more behind the last."""
        own = self.found.of(stmt.condition)
        placed = self.place(stmt.body, scene)
        body, first, last = placed.stmt, own | placed.first, placed.last
        if _conflict(last, first, scene):
            body, last = seq(body, Barrier(self.scope)), NONE
        if _conflict(own, placed.first, scene):
            body = seq(Barrier(self.scope), body)
        made = While(stmt.condition, body)
        self._check(made, (stmt.condition,), scene)
        return _Placed(made, first, own | last, False)

    def _branch(self, stmt: If, scene: Scene) -> _Placed:
        then = self._inside(self.found.where(stmt.condition)).place(stmt.then, scene)
        orelse = None
        if stmt.orelse is not None:
            orelse = self._inside(self.found.where(logical_not(stmt.condition))).place(stmt.orelse, scene)
        made = If(stmt.condition, then.stmt, None if orelse is None else orelse.stmt)
        self._check(made, (stmt.condition,), scene)
        own = self.found.of(stmt.condition)
        first, last, parted = own | then.first, own | then.last, False
        if orelse is not None:
            first, last, parted = first | orelse.first, last | orelse.last, then.parted and orelse.parted
        return _Placed(made, first, last, parted)

    def _named(self, stmt: Let, scene: Scene) -> _Placed:
        """The value is read first, then the body runs."""
        own = self.found.of(stmt.value)
        placed = self._inside(self.found.naming(stmt.var, stmt.value)).place(stmt.body, scene)
        body, first, last, parted = placed.stmt, own | placed.first, own | placed.last, placed.parted
        if _conflict(own, placed.first, scene):
            body, first, last, parted = seq(Barrier(self.scope), body), own, placed.last, True
        elif placed.parted:
            last = placed.last
        return _Placed(Let(stmt.var, stmt.value, body), first, last, parted)

    def _check(self, stmt: For | If | While, decides: Sequence[Expr], scene: Scene) -> None:
        """Refuse a barrier that only some threads of a block would reach."""
        barriers = (part for part in statements(stmt) if isinstance(part, Barrier) and part.scope is self.scope)
        if next(barriers, None) is None:
            return
        for decision in decides:
            e = substitute(decision, self.found.named)
            if varies(e, scene.threads, self.memory() if uses.read(e) else frozenset()):  # few conditions read memory
                raise UserError(
                    f"a barrier is needed within `{describe(stmt)}`, but some threads of the block do not reach it",
                    primitive="barrier",
                    fix="move the data exchanged between threads out of the branch or loop, or the barrier",
                    suspects=(Suspect(("compute_at", "set_store_predicate"), stored_stages(stmt)),),
                )


def _conflict(before: Accesses, after: Accesses, scene: Scene, step: LoopDistance | None = None) -> bool:
    """Return whether a barrier must separate accesses: one thread could see another's access too early or too late."""
    return first_dependence(before, after, scene, Actors.SEVERAL_THREADS, step) is not None
