"""The reason for each guard: an uneven split, a tile that extends beyond its tensor, a cooperative fetch."""

from __future__ import annotations

from ..bounds.guards import StageGuard, domain_guards, relation_guards
from ..bounds.stage_bounds import Bounds, StageBounds
from ..expr.nodes import IntImm
from ..schedule.relations import Fuse, Relation, Split
from ..schedule.schedule import Schedule
from ..tensor.axis import AxisKind


def reasons(schedule: Schedule, bounds: Bounds) -> dict[str, tuple[str, ...]]:
    """The reasons for the guards of each stage that has any, by the stage's name."""
    found: dict[str, tuple[str, ...]] = {}
    for stage_id, one in bounds.items():
        guards = [guard for kind in AxisKind for guard in relation_guards(one, kind)]
        guards += domain_guards(one, guards)
        own = schedule.stages[stage_id].relations if stage_id in schedule.stages else ()
        texts = dict.fromkeys(_reason(one, guard, own) for guard in guards)
        if texts:
            found[one.stage.name] = tuple(texts)
    return found


def _reason(found: StageBounds, guard: StageGuard, own: tuple[Relation, ...]) -> str:
    if guard.axis is not None:
        why = found.widened.get(guard.axis, "")
        return f"the tile may stick out of {found.stage.name!r} along {guard.axis.name}" + (f" ({why})" if why else "")
    relation = guard.relation
    if isinstance(relation, Split):
        extent, outer, inner = (found.ranges[axis].extent for axis in (relation.parent, relation.outer, relation.inner))
        name = relation.parent.name
        if not any(relation is other for other in own):
            return f"{extent} elements are distributed over the threads of the block, {inner} at a time"
        if isinstance(extent, IntImm) and isinstance(outer, IntImm) and isinstance(inner, IntImm):
            beyond = outer.value * inner.value - extent.value
            return f"split of {name}: {outer} × {inner} iterations are {beyond:,} more than its {extent}"
        by = inner if relation.factor is not None else outer
        return f"split of {name}: nothing says that {by} divides its {extent} iterations"
    if isinstance(relation, Fuse):
        return f"fuse of {relation.outer.name} and {relation.inner.name}"
    return "a loop runs further than its axis"
