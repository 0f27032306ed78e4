"""reorder: loops change places."""

from __future__ import annotations

from dataclasses import replace

from ...core.errors import UserError
from ...tensor.axis import IterVar
from ..legality import has_loops, leaf, names
from ..value import Schedule, Stage


def reorder(schedule: Schedule, stage: Stage, *axes: IterVar) -> tuple[Schedule, None]:
    """Put the given loops into the given order, outermost first; the others keep their places.

        for i: for j: for k     ->     for k: for j: for i          # reorder(k, i) swaps the two slots

    Raises UserError for an axis of another stage or one that is named twice.
    """
    has_loops(stage, "reorder")
    order = [leaf(stage, axis, "reorder") for axis in axes]
    if len(set(order)) != len(order):
        twice = next(a for a in order if order.count(a) > 1)
        raise UserError(
            f"axis {twice.name!r} of stage {stage.name!r} is given twice in ({names(order)})",
            primitive="reorder",
            fix="name each loop once",
        )
    moved = iter(order)
    chosen = set(order)
    leaves = tuple(next(moved) if axis in chosen else axis for axis in stage.leaves)
    return schedule.with_stage(replace(stage, leaves=leaves)), None
