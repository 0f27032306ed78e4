"""The refinements in order: from the bounds of a schedule to the bounds that a target's loops are built from.

A refinement is `(Schedule, Bounds, Target, Options) → Bounds`. It changes which loops compute a stage, never the
stage's values. The output of `lower` has the loops of the schedule; programs that are compiled, or inspected by the
tuner, are refined.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ..bounds.infer import Bounds
from ..core.options import DEFAULT_OPTIONS, Options
from ..core.target import Target
from ..schedule.schedule import Schedule
from .banks import crowded_banks
from .cooperative_fetch import cooperative_fetch, idle_fills
from .match_intrinsics import match_intrinsics

Refinement = Callable[[Schedule, Bounds, Target, Options], Bounds]

REFINEMENTS: tuple[Refinement, ...] = (
    # First of all: it decides how many threads a block has.
    match_intrinsics,
    cooperative_fetch,
)
"""All are optional: disabling one never changes results."""


class Refined(NamedTuple):
    """The bounds that loops are built from, and the names of the refinements that changed them.

    `remarks` describe improvements that the schedule prevented.
    """

    bounds: Bounds
    by: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()


def refine(schedule: Schedule, bounds: Bounds, target: Target, options: Options = DEFAULT_OPTIONS) -> Refined:
    """The bounds under which the schedule is built for `target`."""
    made = Refined(bounds)
    for step in REFINEMENTS:
        if step.__name__ not in options.disabled:
            after = step(schedule, made.bounds, target, options)
            if after is not made.bounds:
                made = Refined(after, (*made.by, step.__name__))
    if not target.has_warps:
        return made
    remarks = (*idle_fills(schedule, made.bounds), *crowded_banks(schedule, made.bounds, target.hardware.warp_memory))
    return made._replace(remarks=remarks)
