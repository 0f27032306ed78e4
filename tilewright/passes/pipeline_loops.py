"""pipeline_loops: software pipelining. A loop computes the data of later iterations while it uses the data of this one.

A buffer that the schedule gives several stages becomes a ring of that many copies. The loop around its writer runs the
writer ahead by all but one of them, each iteration into the copy that was read last:

    for i in range(n):        for i in range(d - 1): T[i] = load(i)
        T = load(i)       ->  for i in range(n - d + 1):
        use(T)                    T[(i + d - 1) % d] = load(i + d - 1)
                                  use(T[i % d])
                              for i in range(n - d + 1, n): use(T[i % d])

If the buffers of one loop have rings of different depths, or the number of iterations is unknown, guards replace the
last part. Perfectly nested loops become one first, so that the ring does not run empty at the end of the inner loop.

A ring is not a dimension of its buffer. Its copies lie behind each other, and an access gets one more term, the place
of its copy. Only here is it known which loops are pipelined. A leading dimension would have to be removed again if a
loop runs once or reads its own writes. It would also appear in every program that `lower` prints. `loops/overlap.py`
proves that copies do not overlap, by the remainders in their indices. It does the same for rings that users write.

If the target copies to shared memory asynchronously, the loop stays whole, with guards: its fills are a few
instructions, and its users often thousands. A `Commit` follows the writers of each iteration, even of the last ones,
which run no writers. So in every iteration, the data in use were issued the same number of groups ago.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..core.hardware import LoopKind, MemoryScope
from ..core.options import Options
from ..core.target import Target
from ..expr.nodes import Expr, IntImm, Ramp
from ..expr.operators import add, const, floormod, less, likely, multiply, subtract
from ..expr.traverse import substitute
from ..loops import uses
from ..loops.buffers import with_accesses
from ..loops.dataflow import feeds
from ..loops.nodes import (
    NOTHING,
    Allocate,
    Buffer,
    Commit,
    For,
    Function,
    If,
    Launch,
    Seq,
    Stmt,
    map_statements,
    seq,
)
from ..loops.walk import statements
from .loop_nests import joined, serial_nest


def pipeline_loops(function: Function, target: Target, options: Options) -> Function:
    """Pipeline the loops directly around the writers of buffers of several stages. Works on flat storage.

    A loop must be serial and not known to run only once, and the writers must read nothing else that the loop computes.
    Elsewhere the buffer keeps one copy. Afterwards the shape of a buffer counts all of its stages.
    """
    if not any(isinstance(part, Allocate) and part.buffer.stages > 1 for part in statements(function.body)):
        return function
    rings: dict[Buffer, Buffer] = {}
    body = _Pipeliner(rings, bool(target.hardware.copy_bytes)).visit(function.body)
    made = set(rings.values())
    asked = {part.buffer for part in statements(body) if isinstance(part, Allocate)}
    single = {buffer: _copies(buffer, 1) for buffer in asked if buffer.stages > 1 and buffer not in made}
    return function.with_body(_moved(body, single, const(0, "int32")) if single else body)


class _Pipeliner:
    """Pipelines loops from the inside outwards, noting the ring of each buffer."""

    def __init__(self, rings: dict[Buffer, Buffer], asynchronous: bool) -> None:
        self.rings = rings
        self.asynchronous = asynchronous
        self._in_kernel = False

    def visit(self, stmt: Stmt) -> Stmt:
        """The statement with its loops pipelined."""
        if isinstance(stmt, Launch) or (isinstance(stmt, For) and stmt.kind is LoopKind.THREAD):
            around, self._in_kernel = self._in_kernel, True
            try:
                return map_statements(stmt, self.visit)
            finally:
                self._in_kernel = around
        if not isinstance(stmt, For) or stmt.kind is not LoopKind.SERIAL:
            return map_statements(stmt, self.visit)
        outer = serial_nest(stmt)[:-1]
        inner = map_statements(outer[-1].body if outer else stmt, self.visit)
        assert isinstance(inner, For)
        one = joined([*outer, inner]) if outer else None
        made = self._pipelined(inner if one is None else one)
        if made is not None and one is not None:
            return made
        made = inner if made is None else made
        for loop in reversed(outer):
            made = For(loop.var, loop.min, loop.extent, loop.kind, None, loop.pragmas, made)
        return made

    def _pipelined(self, loop: For) -> Stmt | None:
        # Outside kernels, there are no threads with copies in flight.
        plan = _plan(loop, set(self.rings.values()), self.asynchronous and self._in_kernel)
        if plan is None:
            return None
        self.rings.update(plan.rings)
        constant = isinstance(loop.extent, IntImm) and len({ring.stages for ring in plan.rings.values()}) == 1
        return plan.allocated(plan.cut() if constant and not plan.asynchronous else plan.guarded())


@dataclass(frozen=True)
class _Plan:
    """A loop with `writers` that run ahead of its `users`, and the ring of each buffer."""

    loop: For
    writers: tuple[Stmt, ...]
    users: Stmt
    rings: Mapping[Buffer, Buffer]
    asynchronous: bool

    def depth(self, writer: Stmt) -> int:
        """Return how many stages the buffers of a writer have."""
        return min(self.rings[buffer].stages for buffer in uses.written(writer))

    def at(self, root: Stmt, iteration: Expr) -> Stmt:
        """A part of the loop's body for an iteration, which may be an expression of the loop's variable."""
        there: Stmt = substitute(root, {self.loop.var: iteration})
        return _moved(there, self.rings, subtract(iteration, self.loop.min))

    def group(self) -> Stmt:
        """The statements after the writers of an iteration."""
        return Commit() if self.asynchronous else NOTHING

    def where(self, condition: Expr, stmt: Stmt) -> Stmt:
        """The statement under the condition."""
        if isinstance(condition, IntImm):
            return stmt if condition.value else NOTHING
        # Behind `likely`, the loop would be cut in two, and a copy of the users would stand in the second part.
        return If(condition if self.asynchronous else likely(condition), stmt, None)

    def over(self, first: Expr, count: int, body: Stmt) -> Stmt:
        """A loop like the pipelined loop, over `count` iterations; a single iteration needs no loop."""
        loop = self.loop
        if count == 1:
            alone: Stmt = substitute(body, {loop.var: first})
            return alone
        return For(loop.var, first, const(count, loop.var.dtype), loop.kind, None, loop.pragmas, body)

    def cut(self) -> Stmt:
        """In three parts: only writers, both, only users."""
        loop, ahead = self.loop, self.depth(self.writers[0]) - 1
        assert isinstance(loop.extent, IntImm)
        steady = loop.extent.value - ahead
        fills, var = seq(*self.writers), loop.var
        both = seq(self.at(fills, add(var, ahead)), self.at(self.users, var))
        middle = For(var, loop.min, const(steady, var.dtype), loop.kind, None, loop.pragmas, both)
        start = self._each(loop.min, ahead, fills)
        end = self._each(add(loop.min, steady), ahead, self.users)
        return seq(start, middle, end)

    def _each(self, first: Expr, count: int, part: Stmt) -> Stmt:
        """A part of the body in `count` iterations."""
        return self.at(part, first) if count == 1 else self.over(first, count, self.at(part, self.loop.var))

    def guarded(self) -> Stmt:
        """Return two parts: each writer's iterations ahead, then users and writers under guards."""
        loop = self.loop
        start: list[Stmt] = []
        fills: list[Stmt] = []
        end = add(loop.min, loop.extent)
        for depth in sorted({self.depth(writer) for writer in self.writers}):  # data needed first is loaded first
            writers = [writer for writer in self.writers if self.depth(writer) == depth]
            for by in range(depth - 1):
                first = add(loop.min, by)
                start += [self.where(less(first, end), self.at(writer, first)) for writer in writers]
                start.append(self.group())
            later = add(loop.var, depth - 1)
            fills += [self.where(less(later, end), self.at(writer, later)) for writer in writers]
            fills.append(self.group())
        body = seq(*fills, self.at(self.users, loop.var))
        return seq(*start, For(loop.var, loop.min, loop.extent, loop.kind, None, loop.pragmas, body))

    def allocated(self, body: Stmt) -> Stmt:
        """Wrap `body` in the allocations of the rings."""
        for ring in reversed(list(self.rings.values())):
            body = Allocate(ring, body)
        return body


def _plan(loop: For, made: set[Buffer], asynchronous: bool) -> _Plan | None:
    """How to pipeline a loop if buffers of several stages are allocated at the head of its body; else None.

    The buffers in `made` are rings already, of a loop further in.
    """
    most = loop.extent.value if isinstance(loop.extent, IntImm) else None
    if most is not None and most < 2:
        return None
    body, held = loop.body, []
    while isinstance(body, Allocate):
        held.append(body.buffer)
        body = body.body
    staged = {
        buffer: min(buffer.stages, most or buffer.stages) for buffer in held if buffer.stages > 1 and buffer not in made
    }
    parts = body.stmts if isinstance(body, Seq) else (body,)
    writers = tuple(part for part in parts if uses.written(part) and uses.written(part) <= staged.keys())
    others = [part for part in parts if part not in writers]
    if not writers or not _may_run_ahead(writers, others, staged):
        return None
    users = seq(*others)
    for buffer in reversed(held):
        users = users if buffer in staged else Allocate(buffer, users)
    rings = {buffer: _copies(buffer, depth) for buffer, depth in staged.items()}
    shared = any(ring.scope is MemoryScope.SHARED for ring in rings.values())
    return _Plan(loop, writers, users, rings, asynchronous and shared)


def _may_run_ahead(writers: tuple[Stmt, ...], others: list[Stmt], staged: Mapping[Buffer, int]) -> bool:
    """Whether no writer depends on the remaining statements, and none needs another's result before it exists."""
    behind = seq(*others)
    for writer in writers:
        depths = {staged[buffer] for buffer in (uses.written(writer) | uses.read(writer)) & staged.keys()}
        if len(depths) > 1 or feeds(behind, writer):
            return False
    return True


def _copies(buffer: Buffer, stages: int) -> Buffer:
    """The buffer with room for the given number of copies."""
    shape = (multiply(buffer.shape[0], stages),) if stages > 1 else buffer.shape
    return buffer.changed(shape=shape, stages=stages)


def _moved(root: Stmt, rings: Mapping[Buffer, Buffer], iteration: Expr) -> Stmt:
    """`root` with every access to a buffer going to the copy in its ring for an iteration, counted from 0."""

    def moved(buffer: Buffer, indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
        (index,) = indices
        offset = multiply(floormod(iteration, rings[buffer].stages), buffer.shape[0])
        if isinstance(index, Ramp):
            return (Ramp(add(offset, index.base), index.stride, index.lanes),)
        return (add(offset, index),)

    return with_accesses(root, rings.get, moved)
