"""split: one loop becomes two."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...core.errors import UserError
from ...tensor.axis import IterVar
from ..legality import attached_to, has_loops, leaf, of_stage, positive
from ..relations import Split
from ..schedule import PLAIN, At, Schedule, Stage


def split(
    schedule: Schedule, stage: Stage, parent: IterVar, factor: Any = None, nparts: Any = None
) -> tuple[Schedule, tuple[IterVar, IterVar]]:
    """Split the loop `parent` into an outer and an inner one, by the inner extent (`factor`) or the outer (`nparts`).

        for i in range(20)   ->   for i.outer in range(5):
                                      for i.inner in range(4)        # split(i, factor=4)

    An extent that the factor does not divide is guarded. A thread binding or pragma of `parent` is dropped; stages
    computed at `parent` move to the inner loop. Raises UserError if `parent` is not a loop of the stage, or not exactly
    one of `factor` and `nparts` is given.
    """
    has_loops(stage, "split", inlined=True)
    axis = leaf(stage, parent, "split", "parent")
    about = of_stage(axis, stage)
    if (factor is None) == (nparts is None):
        given = "neither factor nor nparts" if factor is None else f"both factor={factor} and nparts={nparts}"
        raise UserError(
            f"{given} {'is' if factor is None else 'are'} given for {about}",
            primitive="split",
            fix="give factor= (the inner extent) or nparts= (the outer extent)",
        )
    by_factor = None if factor is None else positive(factor, "split", "factor", about)
    by_parts = None if nparts is None else positive(nparts, "split", "nparts", about)
    outer = IterVar(f"{axis.name}.outer", None, axis.kind)
    inner = IterVar(f"{axis.name}.inner", None, axis.kind)
    at = stage.place_of_loop(axis)
    changed = replace(
        stage,
        leaves=(*stage.leaves[:at], outer, inner, *stage.leaves[at + 1 :]),
        relations=(*stage.relations, Split(axis, outer, inner, by_factor, by_parts)),
        annotations={a: annotation for a, annotation in stage.annotations.items() if a is not axis},
        prefetches=stage.moved(axis, inner),
    )
    kind = stage.annotation(axis).kind
    if kind is not PLAIN.kind and stage.annotation(axis).thread is None:
        changed = changed.with_annotation(inner, kind=kind)
    made = schedule.with_stage(changed)
    for dependant in attached_to(schedule, stage, axis):
        made = made.with_stage(replace(dependant, placement=At(stage.id, inner)))
    return made, (outer, inner)
