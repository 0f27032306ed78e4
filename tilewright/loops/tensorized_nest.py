"""The loop nest of a stage with innermost loops that a matrix instruction computes."""

from __future__ import annotations

from collections.abc import Sequence

from ..arith.simplify import prove, simplify
from ..bounds.infer import StageBounds
from ..bounds.nest import axis_values
from ..core.errors import InternalError, UserError
from ..core.hardware import ThreadTag
from ..expr.nodes import Expr, IntImm, Known, Load, Var
from ..expr.operators import all_of, const, floordiv, floormod, likely
from ..expr.traverse import substitute, variables
from ..tensor.axis import IterVar
from .nodes import If, Stmt, Tensorized, seq
from .stage_nest import NestContext, StageNest


class TensorizedNest(StageNest):
    """Puts a `Tensorized` in place of the loops over the sums of a lane and the terms of the tile."""

    def __init__(self, builder: NestContext, found: StageBounds, bound: frozenset[Var]) -> None:
        super().__init__(builder, found, bound)
        assert found.contraction is not None
        self.matched = found.contraction
        self.lane: Expr = const(0, "int32")
        if self.matched.atom.by_thread:
            inside = {*self.matched.rows, *self.matched.columns, *self.matched.depth}
            self.start = min(i for i, loop in enumerate(self.loops) if loop.axis in inside)
            first = self.start
        else:
            first = [i for i, loop in enumerate(self.loops) if loop.tag is ThreadTag.THREAD_X][-1]
            self.start = first + 1
            self.lane = self.loops[first].var
        if self.reduce_from is None or self.reduce_from >= self.start:
            self.reduce_from = first

    def _update(self, depth: int, bound: frozenset[Var]) -> Stmt:
        if depth != self.start:
            return super()._update(depth, bound)
        loops = super()._update(depth, bound)
        if self.matched.atom.by_thread:
            return self._of_one_thread(loops, bound)
        around = [guard for guard in self.guards if self._holds_for_tile(guard)]
        body = self._tensorized(loops)
        for guard in reversed(around):
            body = If(likely(guard), body, None)
        return seq(body)

    def _of_one_thread(self, loops: Stmt, bound: frozenset[Var]) -> Stmt:
        """The instruction if all guards hold for the whole tile, else the loops with their guards.

        A warp may compute beyond its guards, as its operands are private tiles. A thread may not, as it reads the
        tensors.
        """
        inside = (*self.matched.rows, *self.matched.columns, *self.matched.depth)
        last: dict[Var, Expr] = {axis.var: const(self._extent(axis) - 1, axis.var.dtype) for axis in inside}
        facts, whole = self.found.facts, []
        for guard in self.guards:
            whole.append(simplify(substitute(guard, last), facts))
        known = facts
        for condition in whole:
            known = known.assume(condition)
        lost = next((guard for guard in self.guards if not prove(guard, known)), None)
        if lost is not None:
            raise UserError(
                f"`{lost}`, under which stage {self.stage.name!r} is computed, does not follow for a whole tile of "
                f"{self.matched.atom.name} from its last iteration",
                primitive="tensorize",
                fix="split the tensorized loops by factors that divide their extents",
            )
        guards, self.guards = self.guards, ()
        body = self._tensorized(super()._update(self.start, bound))
        self.guards = guards
        return If(likely(all_of(*whole)), body, loops) if whole else body

    def _holds_for_tile(self, guard: Expr) -> bool:
        """Whether a guard decides for the whole tile; sums that no reader needs may be computed from anything."""
        used = set(variables(guard))
        for axis in self.matched.depth:
            if axis.var in used:
                raise UserError(
                    f"axis {axis.name!r} of stage {self.stage.name!r}, inside the tensorized loops, exceeds its "
                    f"range: terms need the guard `{guard}`",
                    primitive="tensorize",
                    fix="split the reduction by a factor that divides it. If there is none, pad the operands with "
                    "zeros: te.compute((m, padded), lambda i, k: te.if_then_else(k < n, A[i, k], 0))",
                )
        inside = {loop.var for loop in self.loops[self.start - 1 :]}
        if self.matched.atom.by_warpgroup:  # all of its warps take part, even warps with rows that nobody needs
            around = (*self.found.outer, *self.loops)
            inside |= {loop.var for loop in around if loop.tag is not None and loop.tag.is_thread}
        return not used & inside

    def _tensorized(self, body: Stmt) -> Stmt:
        matched = self.matched
        tile: list[Var] = []
        extents: list[int] = []
        values: dict[Var, Expr] = {}
        for name, axes in (("row", matched.rows), ("column", matched.columns), ("depth", matched.depth)):
            sizes = [self._extent(axis) for axis in axes]
            extents.append(1)
            for size in sizes:
                extents[-1] *= size
            tile.append(Var(f"{self.stage.name}.{name}", "int32", Known(minimum=0, maximum=extents[-1] - 1)))
            values.update(_digits(tile[-1], axes, sizes))
        before = axis_values(matched.stage, matched.ranges)
        inside, self.values = self.values, {axis: substitute(e, values) for axis, e in before.items()}
        a, b = self._concrete(matched.a), self._concrete(matched.b)
        sums: Expr = Load(*self._place(0))
        self.values = inside
        a, b, sums = (simplify(e, self.found.facts) for e in (a, b, sums))
        row, column, deep = tile
        shape = (extents[0], extents[1], extents[2])
        return Tensorized(matched.atom, row, column, deep, shape, a, b, sums, self.lane, body)

    def _extent(self, axis: IterVar) -> int:
        size = self.matched.ranges[axis].extent
        if not isinstance(size, IntImm):
            raise InternalError(f"the tensorized axis {axis.name} has the extent {size}")
        return size.value


def _digits(var: Var, axes: Sequence[IterVar], sizes: Sequence[int]) -> dict[Var, Expr]:
    """The values of nested loops for one index over all their iterations in order."""
    rest: Expr = var
    values: dict[Var, Expr] = {}
    for axis, size in reversed(list(zip(axes, sizes, strict=True))):
        values[axis.var] = rest if axis is axes[0] else floormod(rest, const(size, "int32"))
        rest = floordiv(rest, const(size, "int32"))
    return values
