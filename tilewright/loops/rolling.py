"""Circular buffers: how the rows that a stage keeps from one iteration to the next lie in its storage.

B[y + r - y]    ->    B[(y + r) % 3]     the place of row y + r, of three rows
"""

from __future__ import annotations

from dataclasses import dataclass

from ..arith.simplify import simplify
from ..bounds.infer import Bounds, StageBounds
from ..core.errors import UserError
from ..core.hardware import LoopKind
from ..expr.nodes import Expr, IntImm, Var
from ..expr.operators import any_of, const, equal, floormod, greater_equal, subtract
from ..expr.traverse import constant_value, substitute, variables
from ..schedule.schedule import At


@dataclass(frozen=True)
class Rolling:
    """One dimension of a stage is a ring of `size` rows; each iteration of the loop over `var` adds `step` rows.

    `origin` is the first row of the first iteration.
    """

    dimension: int
    var: Var
    size: int
    step: int
    origin: Expr

    def place(self, index: Expr) -> Expr:
        """The place of the row at an index."""
        return floormod(subtract(index, self.origin), self.size)

    def is_new(self, index: Expr, first: Expr) -> Expr:
        """Whether a row has to be computed, if the region of this iteration begins at the row `first`."""
        fresh = greater_equal(subtract(index, first), self.size - self.step)
        return any_of(equal(self.var, const(0, self.var.dtype)), fresh)


def rolling_of(found: StageBounds, bounds: Bounds) -> Rolling | None:
    """How the buffer of a stage rolls; None if its schedule does not ask for that.

    Raises UserError if the loop is not serial, or the region does not roll.
    """
    placement = found.stage.placement
    if not found.stage.rolling or not isinstance(placement, At) or not found.outer:
        return None
    loop = found.outer[-1]
    name, axis = found.stage.name, loop.axis.name
    kind = bounds[placement.stage].stage.annotation(loop.axis).kind
    if kind not in (LoopKind.SERIAL, LoopKind.UNROLLED):
        raise UserError(
            f"stage {name!r} rolls along the loop {axis!r}, which is {kind.value}",
            primitive="rolling_buffer",
            fix=f"compute {name!r} at a loop that runs one iteration after the other",
        )
    moves = [(d, _step(part.min, loop.var)) for d, part in enumerate(found.region) if loop.var in variables(part.min)]
    fixed = not any(loop.var in variables(part.extent) for part in found.region)
    if len(moves) == 1 and fixed:
        ((dimension, step),) = moves
        size = found.region[dimension].extent
        if step is not None and isinstance(size, IntImm) and 0 < step < size.value:
            first = substitute(found.region[dimension].min, {loop.var: const(0, loop.var.dtype)})
            origin = simplify(first, found.facts)
            return Rolling(dimension, loop.var, size.value, step, origin)
    shown = ", ".join(f"{part.min} + {part.extent}" for part in found.region)
    raise UserError(
        f"consecutive iterations of {axis!r} need regions of {name!r} (first + rows: {shown}) without common rows, or "
        "with more than one different begin",
        primitive="rolling_buffer",
        fix=f"compute {name!r} at the loop along which its reader slides, as a stencil does along rows",
    )


def _step(first: Expr, var: Var) -> int | None:
    """The distance of a row's movement per iteration; None if that is not constant."""
    return constant_value(simplify(subtract(substitute(first, {var: var + 1}), first)))
