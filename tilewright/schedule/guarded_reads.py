"""Reads under guards, if a stage asks for them (`guarded_reads`): indices in terms of axes that stay in their range.

The loops of an unevenly split axis run further than the axis, but guards exclude iterations beyond its range. Index
values are best simplified in terms of the axis. With `f = group * 20 + own` and own < 20, `f % 20` is `own`. That does
not follow from the loops that `own` is split into.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..arith.facts import Facts
from ..arith.simplify import simplify
from ..expr.nodes import Expr, IntImm
from ..expr.operators import cast
from ..expr.traverse import substitute
from ..tensor.axis import IterVar, Range
from .relations import Split
from .schedule import Stage

GUARDED_READS = "guarded_reads"
"""The pragma that turns guarded reads on for a stage."""
Values = Mapping[IterVar, Expr]


def guarded_axes(stage: Stage, ranges: Mapping[IterVar, Range]) -> list[IterVar]:
    """Return the axes with loops that run beyond their extents; none if the stage does not ask for guarded reads.

    Other kernels keep the regions with which they were timed.
    """
    if not any(pragma == (GUARDED_READS, 1) for axis in stage.leaves for pragma in stage.annotation(axis).pragmas):
        return []
    found = []
    for relation in stage.relations:
        if isinstance(relation, Split):
            parent, *parts = (ranges[axis].extent for axis in (relation.parent, *relation.below))
            sizes = [part.value for part in parts if isinstance(part, IntImm)]
            if isinstance(parent, IntImm) and len(sizes) == 2 and sizes[0] * sizes[1] > parent.value:
                found.append(relation.parent)
    return found


def guarded_value(
    e: Expr, stage: Stage, above: Values, below: Values, ranges: Mapping[IterVar, Range], facts: Facts
) -> Expr:
    """Return an expression over the axes of a stage's operation in terms of loops, simplified under the guards.

    `above` maps axes to expressions of guarded axes, `below` maps guarded axes to expressions of loops.
    """
    roots = {root.var: cast(root.var.dtype, above[root]) for root in stage.roots}
    within = facts.bind_all({axis.var: (ranges[axis].min, ranges[axis].extent) for axis in below})
    made: Expr = substitute(simplify(substitute(e, roots), within), {axis.var: v for axis, v in below.items()})
    return made
