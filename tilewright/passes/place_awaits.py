"""place_awaits: wait for asynchronous copies just before the copied data is accessed, and for no more than needed.

Copies arrive in groups, in the order of a thread's commits. An `Await` names the number of latest groups that may stay
in flight. That number follows from dependences. For each access and each earlier copy that may overlap with it, this is
the least number of groups committed after the copy's group. A copy of an earlier iteration lies as many groups back as
the iterations since have committed. So loop-carried dependences are examined distance by distance, and dependences on
copies before a loop iteration by iteration. The limit is the depth of the deepest ring.

An `Await` stands in front of the fills that precede the access. The barrier that makes arrived data visible is then the
barrier that the fills need anyway, since they overwrite data read an iteration ago.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from math import inf

from ..arith.affine import Affine
from ..arith.facts import EMPTY
from ..arith.simplify import simplify
from ..core.hardware import MemoryScope
from ..core.node import Node
from ..core.options import Options
from ..core.target import Target
from ..expr.nodes import Expr, IntImm, Var
from ..expr.operators import add, const, logical_not, subtract
from ..expr.traverse import conjuncts, substitute
from ..loops.dataflow import NONE, Access, Accesses, Completion, Scene, accesses, dependence
from ..loops.nodes import (
    Allocate,
    Await,
    Buffer,
    Commit,
    Copy,
    For,
    Function,
    If,
    Launch,
    Let,
    Seq,
    Stmt,
    map_statements,
    seq,
)
from ..loops.overlap import AccessRegion, LoopDistance
from ..loops.walk import map_kernels, statements, substatements
from .asynchronous_copies import is_fill, without_commits

_SHARED = frozenset({MemoryScope.SHARED})


def place_awaits(function: Function, target: Target, options: Options) -> Function:
    """Insert an `Await` before each access to data that may be in flight. Kernels without copies lose their commits."""
    return map_kernels(function, _with_awaits)


def _with_awaits(stmt: Launch) -> Stmt:
    copies = [part for part in statements(stmt.body) if isinstance(part, Copy)]
    if not copies:
        return map_statements(stmt, without_commits) if _holds_commits(stmt) else stmt
    facts = EMPTY.bind_all({var: (const(0, var.dtype), extent) for _, var, extent in stmt.threads})
    scene = Scene(frozenset(var for tag, var, _ in stmt.threads if tag.is_thread), facts)
    far = 1 + max(copy.buffer.slices for copy in copies)
    body, _ = _Placer((), {}, far).place(stmt.body, scene, _State())
    return stmt.with_body(body)


@dataclass(frozen=True)
class _Issued:
    """A copy under way. `age` is the least number of groups committed since its own group; -1 before that is committed.

    For a copy from before `loop`, `age` holds in the first iteration; for a copy from an earlier iteration (`carried`),
    in the next one. It grows by `groups` per iteration.
    """

    access: Access
    age: int
    loop: For | None = None
    groups: int = 0
    carried: bool = False

    def needed(self, sink: Access, scene: Scene, far: int) -> int | None:
        """How many groups may stay under way for the access `sink`; None if it does not depend on the copy."""
        if not sink.buffer.overlaps(self.access.buffer):
            return None
        if self.loop is None:
            return None if dependence(self.access, sink, scene) is None else self.age
        extent = self.loop.extent.value if isinstance(self.loop.extent, IntImm) else None
        for n in range(far if self.groups else 0):
            if extent is not None and n + self.carried >= extent:
                return None
            if self.carried:
                found = dependence(self.access, sink, scene, LoopDistance(self.loop.var, n + 1))
            else:
                found = dependence(self.access, _in_iteration(sink, self.loop, add(self.loop.min, n)), scene)
            if found is not None:
                return self.age + n * self.groups
        later = dependence(self.access, sink, scene, LoopDistance(self.loop.var, None) if self.carried else None)
        return None if later is None else self.age + far * self.groups


@dataclass(frozen=True)
class _State:
    """The copies under way at a place, and the age from which on groups have arrived."""

    issued: tuple[_Issued, ...] = ()
    arrived: float = inf

    def committed(self, groups: int = 1) -> _State:
        """Return the state after the given number of commits."""
        return _State(tuple(replace(i, age=i.age + groups) for i in self.issued), self.arrived + groups)

    @property
    def pending(self) -> tuple[_Issued, ...]:
        """Return the copies that may not have arrived."""
        return tuple(i for i in self.issued if i.age < self.arrived)

    def joined(self, other: _State) -> _State:
        """Return the state that holds after either of two paths."""
        return _State((*self.pending, *other.pending), max(self.arrived, other.arrived))


class _Placer:
    """Places awaits in a statement, given the conditions around it and the values of names."""

    def __init__(self, conditions: tuple[Expr, ...], named: dict[Var, Expr], far: int) -> None:
        self.conditions = conditions
        self.named = named
        self.far = far

    def place(self, stmt: Stmt, scene: Scene, state: _State) -> tuple[Stmt, _State]:
        """The statement with its awaits, and the state after it."""
        if isinstance(stmt, Seq) or not _holds_commits(stmt):
            return self._sequence(stmt.stmts if isinstance(stmt, Seq) else (stmt,), scene, state)
        if isinstance(stmt, For):
            return self._loop(stmt, scene, state)
        if isinstance(stmt, If):
            return self._branch(stmt, scene, state)
        if isinstance(stmt, Let):
            named = {**self.named, stmt.var: substitute(stmt.value, self.named)}
            body, state = _Placer(self.conditions, named, self.far).place(stmt.body, scene, state)
            return Let(stmt.var, stmt.value, body), state
        if isinstance(stmt, Allocate):
            body, state = self.place(stmt.body, scene, state)
            return Allocate(stmt.buffer, body), state
        return stmt, state.committed()

    def _sequence(self, parts: Iterable[Stmt], scene: Scene, state: _State) -> tuple[Stmt, _State]:
        made: list[Stmt] = []
        early, since = 0, 0  # the position after which only fills follow, and the groups committed from there
        for part in parts:
            if isinstance(part, Commit):
                made.append(part)
                state, since = state.committed(), since + 1
                continue
            nested = _holds_commits(part)
            found = self._accesses((e for e in part.children() if not isinstance(e, Stmt)) if nested else (part,))
            needed = self._needed(found, scene, state)
            if needed is not None and needed < 0:  # the copy's own group is still open
                made.append(Commit())
                state, since, needed = state.committed(), since + 1, needed + 1
            if needed is not None:
                at, pending = (early, needed - since) if needed >= since else (len(made), needed)
                behind = made[at:]
                made[at:] = [Await(pending, _buffers(state.pending)), *_without_implied(behind, pending)]
                state = replace(state, arrived=needed)
            if nested:
                part, state = self.place(part, scene, state)
            else:
                copied = tuple(_Issued(a, -1) for a in found if a.completion is Completion.AWAITED)
                state = replace(state, issued=(*state.pending, *copied))
            made.append(part)
            if nested or (found and not is_fill(part)):
                early, since = len(made), 0
        return seq(*made), state

    def _accesses(self, roots: Iterable[Node]) -> Accesses:
        found = NONE
        for root in roots:
            found = found | accesses(root, _SHARED, self.conditions, self.named)
        return found

    def _needed(self, found: Accesses, scene: Scene, state: _State) -> int | None:
        """How many groups may stay under way for the accesses `found`; None if nothing must be waited for."""
        least: float = state.arrived
        for issued in state.pending:
            for sink in found:
                if issued.age < least:
                    needed = issued.needed(sink, scene, self.far)
                    least = least if needed is None else min(least, needed)
        return int(least) if least < state.arrived else None

    def _loop(self, stmt: For, scene: Scene, state: _State) -> tuple[Stmt, _State]:
        inside, groups = scene.inside(stmt), _groups(stmt.body)
        entered = [replace(i, loop=stmt, groups=groups) if i.loop is None else i for i in state.pending]
        _, alone = self.place(stmt.body, inside, _State())
        carried = [replace(i, loop=stmt, groups=groups, carried=True) for i in alone.pending if i.loop is None]
        body, end = self.place(stmt.body, inside, _State((*entered, *carried)))
        made = For(stmt.var, stmt.min, stmt.extent, stmt.kind, stmt.thread, stmt.pragmas, body)
        times = stmt.extent.value if isinstance(stmt.extent, IntImm) else None
        own = [left for i in end.pending if i.loop is None for left in _last_iterations(i, stmt, groups, self.far)]
        before = state.committed(groups * (times or 0))
        if times is None:
            return made, _State((*state.pending, *own), max(state.arrived, end.arrived))
        return made, _State((*before.issued, *own), end.arrived if times else state.arrived)

    def _branch(self, stmt: If, scene: Scene, state: _State) -> tuple[Stmt, _State]:
        holds = substitute(stmt.condition, self.named)
        then, done = _Placer((*self.conditions, *conjuncts(holds)), self.named, self.far).place(stmt.then, scene, state)
        if stmt.orelse is None:
            return If(stmt.condition, then, None), done.joined(state)
        otherwise = _Placer((*self.conditions, logical_not(holds)), self.named, self.far)
        orelse, other = otherwise.place(stmt.orelse, scene, state)
        return If(stmt.condition, then, orelse), done.joined(other)


def _last_iterations(issued: _Issued, loop: For, groups: int, far: int) -> Iterator[_Issued]:
    """Yield the copies of a loop's iterations, after the loop: one per recent iteration, and one for all older ones."""
    region, last = issued.access.region, subtract(add(loop.min, loop.extent), 1)
    if region is None or not region.uses(loop.var):
        yield issued
        return
    times = loop.extent.value if isinstance(loop.extent, IntImm) else None
    apart = far if times is None else min(far, times)
    for n in range(apart if groups else 0):
        access = _in_iteration(issued.access, loop, subtract(last, n))
        yield replace(issued, access=access, age=issued.age + n * groups)
    if times is None or times > apart or not groups:
        yield replace(issued, access=issued.access.in_loop(loop), age=issued.age + apart * groups)


def _in_iteration(access: Access, loop: For, iteration: Expr) -> Access:
    """An access of a loop's body in one iteration."""
    region, at = access.region, {loop.var: iteration}
    if region is None or not region.uses(loop.var):
        return access

    def there(e: Expr) -> Expr:
        return simplify(substitute(e, at))

    moved = AccessRegion(
        Affine.of(there(region.form.to_expr())),
        region.step,
        region.count,
        tuple((var, there(low), there(extent)) for var, low, extent in region.ranges),
        tuple(there(condition) for condition in region.conditions),
    )
    return replace(access, region=moved)


def _without_implied(parts: Iterable[Stmt], pending: int) -> Iterator[Stmt]:
    """The parts without the awaits that are redundant if all but `pending` groups have arrived before them."""
    for part in parts:
        pending += isinstance(part, Commit)
        if not (isinstance(part, Await) and part.pending >= pending):
            yield part


def _holds_commits(stmt: Stmt) -> bool:
    if isinstance(stmt, Commit):
        return True
    return any(_holds_commits(child) for child in substatements(stmt))


def _groups(stmt: Stmt) -> int:
    """How many groups a statement commits at least."""
    if isinstance(stmt, Commit):
        return 1
    if isinstance(stmt, For):
        times = stmt.extent.value if isinstance(stmt.extent, IntImm) else 0
        return max(0, times) * _groups(stmt.body)
    if isinstance(stmt, If):
        return 0 if stmt.orelse is None else min(_groups(stmt.then), _groups(stmt.orelse))
    return sum(_groups(child) for child in substatements(stmt))


def _buffers(issued: Iterable[_Issued]) -> tuple[Buffer, ...]:
    return tuple(dict.fromkeys(i.access.buffer for i in issued))
