"""place_barriers: block-wide barriers where one thread's shared data reaches another, and nowhere else.

Bottom-up, each statement gives its accesses to shared memory before its first barrier and after its last. Two
neighbours in a sequence need a barrier between them where what is accessed after depends, in another thread, on what
is pending before; a loop needs one at the head of its body where an iteration depends so on an earlier one. Barriers
stand directly in the sequence or loop that holds both accesses, so outside of guards that only some threads pass.
Those that a program has already count. What an `Await` waits for counts as stored there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..arith.facts import EMPTY
from ..core.errors import InternalError
from ..core.hardware import MemoryScope
from ..core.options import Options
from ..core.target import Target
from ..expr.nodes import Expr, IntImm, Var
from ..expr.operators import const, logical_not
from ..expr.traverse import conjuncts, post_order, substitute
from ..loops import uses
from ..loops.dataflow import NONE, Access, Accesses, Actors, Scene, accesses, depends_on_threads, first_dependence
from ..loops.nodes import Allocate, Await, Barrier, For, Function, If, Launch, Let, Seq, Stmt, map_statements, seq
from ..loops.overlap import Step

_BARRIER = Barrier(MemoryScope.SHARED)
_SHARED = frozenset({MemoryScope.SHARED})


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
    """Insert barriers into every kernel (a `Launch`) of more than one thread a block.

    Raises InternalError where one is needed under a condition that differs between the threads of a block.
    """
    return function.with_body(_kernels(function.body))


def _kernels(stmt: Stmt) -> Stmt:
    if not isinstance(stmt, Launch):
        return map_statements(stmt, _kernels)
    several = [(var, e) for tag, var, e in stmt.threads if tag.is_thread and not _is_one(e)]
    if not several or not _is_shared(stmt.body):
        return stmt
    facts = EMPTY.bind_all({var: (const(0, var.dtype), extent) for _, var, extent in stmt.threads})
    placer = _Placer((), {})
    placed = placer.place(stmt.body, Scene(frozenset(var for var, _ in several), facts))
    return Launch(stmt.name, stmt.threads, placed.stmt)


class _Placer:
    """Places barriers in a statement, given the conditions that hold around it and the names that stand for values."""

    def __init__(self, conditions: tuple[Expr, ...], named: dict[Var, Expr]) -> None:
        self.conditions = conditions
        self.named = named

    def place(self, stmt: Stmt, scene: Scene) -> _Placed:
        """The statement with its barriers."""
        if isinstance(stmt, Barrier):
            return _Placed(stmt, NONE, NONE, True)
        if isinstance(stmt, Await):  # what it waits for has been copied from here on, for whoever accesses it next
            arrived = Accesses(Access(buffer, True, None) for buffer in stmt.buffers)
            return _Placed(stmt, NONE, arrived, False)
        if isinstance(stmt, Seq):
            return self._sequence(stmt, scene)
        if not _is_shared(stmt):
            return _Placed(stmt, NONE, NONE, False)
        if isinstance(stmt, For):
            return self._loop(stmt, scene)
        if isinstance(stmt, If):
            return self._branch(stmt, scene)
        if isinstance(stmt, Let):
            return self._named(stmt, scene)
        if isinstance(stmt, Allocate):
            placed = self.place(stmt.body, scene)
            return _Placed(Allocate(stmt.buffer, placed.stmt), placed.first, placed.last, placed.parted)
        found = accesses(stmt, _SHARED, self.conditions, self.named)
        return _Placed(stmt, found, found, False)

    def _sequence(self, stmt: Seq, scene: Scene) -> _Placed:
        parts: list[Stmt] = []
        first, pending, parted = NONE, NONE, False
        for part in stmt.stmts:
            placed = self.place(part, scene)
            if _conflict(pending, placed.first, scene):
                parts.append(_BARRIER)
                pending, parted = NONE, True
            parts.append(placed.stmt)
            first = first if parted else first | placed.first
            pending = placed.last if placed.parted else pending | placed.last
            parted = parted or placed.parted
        return _Placed(seq(*parts), first, pending, parted)

    def _loop(self, stmt: For, scene: Scene) -> _Placed:
        within = scene.inside(stmt)
        placed = self.place(stmt.body, within)
        body, first, parted = placed.stmt, placed.first, placed.parted
        if _conflict(placed.last, first, within, Step(stmt.var, 1 if parted else None)):
            body, first, parted = seq(_BARRIER, body), NONE, True
        runs = isinstance(stmt.extent, IntImm) and stmt.extent.value > 0
        made = For(stmt.var, stmt.min, stmt.extent, stmt.kind, stmt.thread, stmt.pragmas, body)
        self._check(made, (stmt.min, stmt.extent), scene)
        own = accesses_of((stmt.min, stmt.extent), self.conditions, self.named)
        return _Placed(made, own | first.in_loop(stmt), own | placed.last.in_loop(stmt), parted and runs)

    def _branch(self, stmt: If, scene: Scene) -> _Placed:
        holds = substitute(stmt.condition, self.named)
        then = _Placer((*self.conditions, *conjuncts(holds)), self.named).place(stmt.then, scene)
        orelse = None
        if stmt.orelse is not None:
            orelse = _Placer((*self.conditions, logical_not(holds)), self.named).place(stmt.orelse, scene)
        made = If(stmt.condition, then.stmt, None if orelse is None else orelse.stmt)
        self._check(made, (stmt.condition,), scene)
        own = accesses_of((stmt.condition,), self.conditions, self.named)
        first, last, parted = own | then.first, own | then.last, False
        if orelse is not None:
            first, last, parted = first | orelse.first, last | orelse.last, then.parted and orelse.parted
        return _Placed(made, first, last, parted)

    def _named(self, stmt: Let, scene: Scene) -> _Placed:
        """The value is read first, then the body runs."""
        own = accesses_of((stmt.value,), self.conditions, self.named)
        named = {**self.named, stmt.var: substitute(stmt.value, self.named)}
        placed = _Placer(self.conditions, named).place(stmt.body, scene)
        body, first, last, parted = placed.stmt, own | placed.first, own | placed.last, placed.parted
        if _conflict(own, placed.first, scene):
            body, first, last, parted = seq(_BARRIER, body), own, placed.last, True
        elif placed.parted:
            last = placed.last
        return _Placed(Let(stmt.var, stmt.value, body), first, last, parted)

    def _check(self, stmt: For | If, decides: Sequence[Expr], scene: Scene) -> None:
        """A barrier must not stand where only some threads of a block come by."""
        for e in decides:
            if not depends_on_threads(substitute(e, self.named), scene):
                continue
            if any(isinstance(node, Barrier) for node in post_order(stmt)):
                raise InternalError(f"a barrier is needed under `{e}`, which differs between threads")


def accesses_of(roots: Sequence[Expr], conditions: tuple[Expr, ...], named: dict[Var, Expr]) -> Accesses:
    """The reads of expressions from shared memory."""
    found = NONE
    for root in roots:
        found = found | accesses(root, _SHARED, conditions, named)
    return found


def _conflict(before: Accesses, after: Accesses, scene: Scene, step: Step | None = None) -> bool:
    """Whether a barrier must part the two: one thread would meet what another has not done yet, or has done already."""
    return first_dependence(before, after, scene, Actors.SEVERAL_THREADS, step) is not None


def _is_shared(stmt: Stmt) -> bool:
    return any(buffer.scope is MemoryScope.SHARED for buffer in uses.read(stmt) | uses.written(stmt))


def _is_one(extent: Expr) -> bool:
    return isinstance(extent, IntImm) and extent.value == 1
