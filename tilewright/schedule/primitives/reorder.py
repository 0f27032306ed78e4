"""reorder: loops change places."""

from __future__ import annotations

from dataclasses import replace

from ...tensor.axis import IterVar
from ..legality import different, has_loops, in_one_nest, leaf
from ..schedule import Schedule, Stage


def reorder(schedule: Schedule, stage: Stage, *axes: IterVar) -> tuple[Schedule, None]:
    """Put the given loops into the given order, outermost first; the others keep their places.

        for i: for j: for k     ->     for k: for j: for i          # reorder(k, i) swaps the two slots

    Raises UserError for an axis of another stage or one that is named twice.
    """
    has_loops(stage, "reorder", inlined=True)
    order = different([leaf(stage, axis, "reorder") for axis in axes], stage, "reorder")
    in_one_nest(stage, order, "reorder")
    moved = iter(order)
    chosen = set(order)
    leaves = tuple(next(moved) if axis in chosen else axis for axis in stage.leaves)
    return schedule.with_stage(replace(stage, leaves=leaves)), None
