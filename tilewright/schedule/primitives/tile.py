"""tile: two loops become a loop over tiles."""

from __future__ import annotations

from typing import Any

from ...tensor.axis import IterVar
from ..schedule import Schedule, Stage
from .reorder import reorder
from .split import split


def tile(
    schedule: Schedule, stage: Stage, x_parent: IterVar, y_parent: IterVar, x_factor: Any, y_factor: Any
) -> tuple[Schedule, tuple[IterVar, IterVar, IterVar, IterVar]]:
    """Split two loops and put the inner ones inside: returns x.outer, y.outer, x.inner, y.inner.

        for x: for y     ->     for x.outer: for y.outer: for x.inner: for y.inner

    Raises UserError as `split` and `reorder` do.
    """
    schedule, (xo, xi) = split(schedule, stage, x_parent, factor=x_factor)
    schedule, (yo, yi) = split(schedule, schedule.stages[stage.id], y_parent, factor=y_factor)
    schedule, _ = reorder(schedule, schedule.stages[stage.id], xo, yo, xi, yi)
    return schedule, (xo, yo, xi, yi)
