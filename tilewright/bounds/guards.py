"""The guards of a stage: the conditions under which an iteration of its loops computes something, and their causes.

`loops/stage_nest.py` puts them around the body.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..arith.simplify import prove, simplify
from ..expr.nodes import Expr
from ..expr.operators import greater_equal, less, subtract
from ..schedule.relations import Relation
from ..tensor.axis import AxisKind, IterVar
from .stage_bounds import StageBounds


@dataclass(frozen=True)
class StageGuard:
    """A guard: of a `relation` with loops that can leave the range above them, or of an `axis` that leaves its
    tensor."""

    condition: Expr
    relation: Relation | None = None
    axis: IterVar | None = None


def relation_guards(found: StageBounds, kind: AxisKind) -> tuple[StageGuard, ...]:
    """The guards of uneven splits of axes of one kind, outermost first, except guards that provably hold."""
    guards: dict[Expr, StageGuard] = {}
    for relation in found.stage.relations:
        if not any(axis.kind is kind for axis in relation.above):
            continue
        guard = relation.guard(found.values, found.ranges)
        if guard is not None and not prove(guard, found.facts):
            condition = simplify(guard, found.facts)
            guards.setdefault(condition, StageGuard(condition, relation=relation))
    return tuple(guards.values())


def domain_guards(found: StageBounds, known: Sequence[StageGuard]) -> tuple[StageGuard, ...]:
    """Conditions that keep a region that was widened inside the tensor, beyond what `known` ones imply."""
    guards: dict[Expr, StageGuard] = {}
    facts = found.facts
    for other in known:
        facts = facts.assume(other.condition)
    for axis in found.stage.roots:  # a reduction axis runs over its whole range if that depends on data axes
        dom, part = axis.dom, found.ranges[axis]
        if dom is None or axis.kind is AxisKind.REDUCE or (dom.min is part.min and dom.extent is part.extent):
            continue
        offset = subtract(found.values[axis], dom.min)
        for guard in (greater_equal(offset, 0), less(offset, dom.extent)):
            if not prove(guard, facts):
                condition = simplify(guard, found.facts)
                guards.setdefault(condition, StageGuard(condition, axis=axis))
    return tuple(guards.values())
