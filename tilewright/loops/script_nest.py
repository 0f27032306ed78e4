"""The statement of a script, with its loops as the schedule wants them.

    for i in range(64): B[i] = A[i] + 1    ->    for i.outer in range(2):             # split(i, factor=32)
                                                     for i.inner in range(32):
                                                         B[i.outer * 32 + i.inner] = A[i.outer * 32 + i.inner] + 1

Loops of one nest (`tensor/script.py`) are built anew from the leaves of the stage; statements between nests stay.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..arith.simplify import prove, simplify
from ..bounds.infer import StageBounds
from ..core.errors import UserError
from ..core.hardware import LoopKind
from ..expr.nodes import Call, Expr, Var
from ..expr.operators import add, cast, likely
from ..expr.traverse import post_order, reads_memory, substitute, variables
from ..schedule.legality import script_nest
from ..tensor.axis import IterVar
from ..tensor.script import LoopNest, ScriptOp
from .buffers import with_buffers
from .nodes import REPORT, Buffer, Evaluate, For, If, Let, Stmt, map_statements
from .stage_nest import NestContext, one_loop
from .walk import substatements


def loop_nests(statement: Stmt, axes: Mapping[Var, IterVar]) -> tuple[LoopNest, ...]:
    """The nests of the loops of a statement, with the variables of `axes`."""
    found: list[LoopNest] = []

    def visit(stmt: Stmt, parent: int | None) -> None:
        if isinstance(stmt, For):
            chain = _chain(stmt, axes)
            found.append(LoopNest(tuple(axes[loop.var] for loop in chain), parent))
            parent, stmt = len(found) - 1, chain[-1].body
            visit(stmt, parent)
            return
        for child in stmt.children():
            if isinstance(child, Stmt):
                visit(child, parent)

    visit(statement, None)
    return tuple(found)


def _chain(stmt: For, axes: Mapping[Var, IterVar]) -> list[For]:
    """The loop and the loops directly inside it, as long as their ranges are known before the first one runs."""
    chain = [stmt]
    while isinstance(inner := chain[-1].body, For) and inner.var in axes:
        ends = (inner.min, inner.extent)
        outside = {loop.var for loop in chain}
        if not outside.isdisjoint(variables(*ends)) or reads_memory(*ends):
            break
        chain.append(inner)
    return chain


class ScriptNest:
    """Builds the statement of a script's stage, from one on the buffers of the function."""

    def __init__(
        self,
        builder: NestContext,
        found: StageBounds,
        statement: Stmt,
        op: ScriptOp,
        theirs: Mapping[Buffer, Buffer],
    ) -> None:
        self.builder = builder
        self.found = found
        self.op = op
        self.theirs = theirs
        """The function's buffers for the buffers of the script."""
        self.written = statement
        self.loops = found.stage.loops
        self.nest_of_leaf = {loop.axis: script_nest(found.stage, op, loop.axis) for loop in self.loops}
        self.head = {nest.axes[0].var: i for i, nest in enumerate(op.nests)}
        self._check_variables()

    def _check_variables(self) -> None:
        known = {axis.var for axis in self.op.loop_axes} | self.builder.sizes
        known |= {part.var for part in post_order(self.written) if isinstance(part, Let)}
        lost = next((var.name for var in variables(self.written) if var not in known), None)
        if lost is not None:
            raise UserError(
                f"the script {self.op.name!r} uses the size {lost!r}, which is not an argument",
                primitive="lower",
                fix=f"add it to the arguments: lower(s, [..., {lost}])",
            )

    def statement(self, bound: frozenset[Var]) -> Stmt:
        """The statement, inside loops that have bound the thread variables `bound`."""
        alone = [loop for loop in self.loops if self.nest_of_leaf[loop.axis] is None]  # no source: extent 1
        made = self._visit(self.written, bound | {loop.var for loop in alone if loop.thread is not None})
        for loop in reversed(alone):
            made = one_loop(self.found, loop, loop.var, made, bound)
        return made

    def _visit(self, stmt: Stmt, bound: frozenset[Var]) -> Stmt:
        if isinstance(stmt, For) and stmt.var in self.head:
            return self._nest(stmt, self.head[stmt.var], bound)
        return map_statements(stmt, lambda child: self._visit(child, bound))

    def _nest(self, stmt: Stmt, number: int, bound: frozenset[Var]) -> Stmt:
        """Build a nest of the text from the leaves of its axes."""
        axes = self.op.nests[number].axes
        for _ in axes:
            (stmt,) = substatements(stmt)
        loops = [loop for loop in self.loops if self.nest_of_leaf[loop.axis] == number]
        around = [bound]
        for loop in loops:
            around.append(around[-1] | {loop.var} if loop.thread is not None else around[-1])
        values = {axis.var: simplify(cast(axis.var.dtype, self.found.values[axis]), self.found.facts) for axis in axes}
        moved: dict[Any, Expr] = {var: value for var, value in values.items() if value is not var}
        body: Stmt = substitute(self._visit(stmt, around[-1]), moved)
        for guard in reversed(self._guards(number)):
            body = If(likely(guard), body, None)
        for loop, outside, inside in reversed(list(zip(loops, around, around[1:], strict=False))):
            body = self.builder.producers(self.found.stage.id, loop.axis, inside, body)
            body = one_loop(self.found, loop, loop.var, body, outside)
        for end in self.found.ends:
            if any(end.depth == self.loops.index(loop) for loop in loops):
                body = Let(end.var, with_buffers(end.value, self.theirs), body)
        return body

    def _guards(self, number: int) -> Sequence[Expr]:
        """The guards of uneven splits of a nest, outermost first, except guards that provably hold."""
        stage, guards = self.found.stage, []
        for relation in stage.relations:
            if not relation.above or script_nest(stage, self.op, relation.above[0]) != number:
                continue
            guard = relation.guard(self.found.values, self.found.ranges)
            if guard is not None and not prove(guard, self.found.facts):
                guards.append(simplify(guard, self.found.facts))
        return tuple(dict.fromkeys(guards))


def renumbered(statement: Stmt, first: int) -> Stmt:
    """The statement with the numbers of its assertions counted from `first`."""

    def visit(stmt: Stmt) -> Stmt:
        if isinstance(stmt, Evaluate) and isinstance(stmt.value, Call) and stmt.value.name == REPORT:
            slot, value = stmt.value.args
            return Evaluate(Call(REPORT, (add(slot, first), value), stmt.value.dtype))
        return map_statements(stmt, visit)

    return visit(statement) if first else statement


def kinds_of(statement: Stmt, axes: Mapping[Var, IterVar]) -> dict[IterVar, LoopKind]:
    """The kinds of a statement's loops that are not serial."""
    loops = (part for part in post_order(statement) if isinstance(part, For))
    return {axes[s.var]: s.kind for s in loops if s.kind not in (LoopKind.SERIAL, LoopKind.THREAD)}
