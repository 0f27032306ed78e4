"""fuse: neighbouring loops become one."""

from __future__ import annotations

from dataclasses import replace

from ...core.errors import UserError, warn_caller
from ...expr.operators import const
from ...expr.traverse import uses_any
from ...tensor.axis import AxisKind, IterVar, Range
from ..legality import attached_to, different, has_loops, in_one_nest, leaf, names, of_fixed_range, of_stage
from ..relations import Fuse, Singleton
from ..schedule import At, Schedule, Stage


def fuse(schedule: Schedule, stage: Stage, *axes: IterVar) -> tuple[Schedule, IterVar]:
    """Fuse neighbouring loops, given outermost first, into one.

        for i in range(4):          ->   for i.j.fused in range(20)
            for j in range(5)

    With one axis it returns that axis; with none, a new outermost loop of extent 1. Thread bindings and pragmas of the
    axes are dropped. Stages computed at the axes move to the fused loop, with a warning for stages that were not at the
    innermost of them. They are computed in each of its iterations until they are placed elsewhere. If data and
    reduction axes are fused, the result is a reduction axis. A separate loop before it stores the initial values.
    Raises UserError if the loops are not neighbours.
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
    if outer.kind is not inner.kind and (stage.tensorized or stage.declared):
        raise UserError(
            f"stage {stage.name!r} is tensorized, and {outer.name!r} is a {outer.kind.value} axis, {inner.name!r} a "
            f"{inner.kind.value} axis",
            primitive="fuse",
            fix="fuse data axes with data axes, and reduction axes with reduction axes",
        )
    if outer.kind is not inner.kind:
        of_fixed_range(stage, "fuse")
    _check_independent(stage, outer, inner)
    kind = AxisKind.REDUCE if AxisKind.REDUCE in (outer.kind, inner.kind) else outer.kind
    fused = IterVar(f"{outer.name}.{inner.name}.fused", None, kind)
    changed = replace(
        stage,
        leaves=(*stage.leaves[:at], fused, *stage.leaves[below + 1 :]),
        relations=(*stage.relations, Fuse(outer, inner, fused)),
        annotations={a: annotation for a, annotation in stage.annotations.items() if a is not outer and a is not inner},
        prefetches=tuple(p for p in stage.moved(inner, fused) if p.axis is not outer),
    )
    made = schedule.with_stage(changed)
    for prefetch in stage.prefetches:
        if prefetch.axis is outer:
            warn_caller(
                f"fuse drops the prefetch of {prefetch.tensor.name!r} at {outer.name!r}, which is no longer a loop",
                UserWarning,
            )
    for dependant in attached_to(schedule, stage, outer):
        warn_caller(
            f"stage {dependant.name!r} was computed at {outer.name!r}, now a part of {fused.name!r}. Until the "
            f"stage is placed elsewhere, each iteration of {fused.name!r} computes the elements that it needs",
            UserWarning,
        )
    for dependant in (*attached_to(schedule, stage, outer), *attached_to(schedule, stage, inner)):
        made = made.with_stage(replace(dependant, placement=At(stage.id, fused)))
    return made, fused


def _check_independent(stage: Stage, outer: IterVar, inner: IterVar) -> None:
    """Check that the range of neither of two loops depends on the other."""
    above = {loop: _axes_above(stage, loop) for loop in (outer, inner)}
    for loop, other in ((outer, inner), (inner, outer)):
        used = {axis.var for axis in above[other]}
        for axis in above[loop]:
            if axis.dom is not None and (uses_any(axis.dom.min, used) or uses_any(axis.dom.extent, used)):
                raise UserError(
                    f"the range of {of_stage(axis, stage)} depends on {other.name!r}, so the two have no common range",
                    primitive="fuse",
                    fix="keep them apart, or reduce over the longest range, under a condition: "
                    "te.sum(..., axis=k, where=k < n)",
                )


def _axes_above(stage: Stage, loop: IterVar) -> list[IterVar]:
    """The operation's own axes that a loop runs over, or over parts of."""
    found = {loop}
    for relation in reversed(stage.relations):
        if not found.isdisjoint(relation.below):
            found.update(relation.above)
    return [axis for axis in stage.roots if axis in found]
