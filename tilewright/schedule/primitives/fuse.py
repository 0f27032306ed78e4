"""fuse: neighbouring loops become one."""

from __future__ import annotations

from dataclasses import replace

from ...core.errors import UserError
from ...expr.operators import const
from ...tensor.axis import AxisKind, IterVar, Range
from ..legality import attached_to, different, has_loops, in_one_nest, leaf, names
from ..relations import Fuse, Singleton
from ..value import At, Schedule, Stage


def fuse(schedule: Schedule, stage: Stage, *axes: IterVar) -> tuple[Schedule, IterVar]:
    """Fuse neighbouring loops, given outermost first, into one.

        for i in range(4):          ->   for i.j.fused in range(20)
            for j in range(5)

    With one axis it returns that axis; with none, a new outermost loop of extent 1. Thread bindings and
    pragmas of the axes are dropped; stages computed at the innermost of them move to the fused loop. A loop fused from
    data and reduction axes is one of the reduction: elements get their first values in a loop of its own before it.
    Raises UserError where the loops are not neighbours, or another stage is computed between them.
    """
    has_loops(stage, "fuse", inlined=True)
    loops = different([leaf(stage, axis, "fuse") for axis in axes], stage, "fuse")
    if not loops:
        axis = IterVar("singleton", Range(const(1, "int32")), AxisKind.DATA)
        changed = replace(stage, leaves=(axis, *stage.leaves), relations=(*stage.relations, Singleton(axis)))
        return schedule.with_stage(changed), axis
    in_one_nest(stage, loops, "fuse")
    fused = loops[0]
    for axis in loops[1:]:
        schedule, fused = _fuse_pair(schedule, schedule.stages[stage.id], fused, axis)
    return schedule, fused


def _fuse_pair(schedule: Schedule, stage: Stage, outer: IterVar, inner: IterVar) -> tuple[Schedule, IterVar]:
    at, below = stage.place_of_leaf[outer], stage.place_of_leaf[inner]
    if below == at - 1:
        outer, inner, at, below = inner, outer, below, at
    if below != at + 1:
        raise UserError(
            f"the loops {outer.name!r} and {inner.name!r} of stage {stage.name!r} are not neighbours in "
            f"({names(stage.leaves)})",
            primitive="fuse",
            fix="bring them together with reorder first, then fuse from the outermost to the innermost",
        )
    if any(p.axis is outer for p in stage.prefetches):
        raise UserError(
            f"stage {stage.name!r} prefetches at {outer.name!r}, which fusing it with {inner.name!r} would remove",
            primitive="fuse",
            fix="fuse before prefetch",
        )
    stuck = attached_to(schedule, stage, outer)
    if stuck:
        raise UserError(
            f"stage {stuck[0].name!r} is computed at {outer.name!r}, which fusing it with {inner.name!r} would remove",
            primitive="fuse",
            fix=f"fuse before s[{stuck[0].name}].compute_at(...), or compute it at {inner.name!r}",
        )
    if outer.kind is not inner.kind and (stage.tensorized or stage.declared):
        raise UserError(
            f"stage {stage.name!r} is tensorized, and {outer.name!r} is a {outer.kind.value} axis, {inner.name!r} a "
            f"{inner.kind.value} axis",
            primitive="fuse",
            fix="fuse data axes with data axes, and reduction axes with reduction axes",
        )
    kind = AxisKind.REDUCE if AxisKind.REDUCE in (outer.kind, inner.kind) else outer.kind
    fused = IterVar(f"{outer.name}.{inner.name}.fused", None, kind)
    changed = replace(
        stage,
        leaves=(*stage.leaves[:at], fused, *stage.leaves[below + 1 :]),
        relations=(*stage.relations, Fuse(outer, inner, fused)),
        notes={a: note for a, note in stage.notes.items() if a is not outer and a is not inner},
        prefetches=stage.moved(inner, fused),
    )
    made = schedule.with_stage(changed)
    for dependant in attached_to(schedule, stage, inner):
        made = made.with_stage(replace(dependant, placement=At(stage.id, fused)))
    return made, fused
