"""Ends of reduction axes that are read from tensors. Bounds and passes see variables; the nest binds them to values.

for i in range(n):
    r_extent = L[i]                     # before the first loop of the axis r
    for r in range(r_extent):
        B[i] = B[i] + A[i, r]
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ..expr.nodes import Expr, Var
from ..expr.traverse import loads, substitute
from ..schedule.schedule import Stage
from ..tensor.axis import IterVar, Range
from ..tensor.reduction import Reduce
from .nest import Loop
from .stage_bounds import Bounds, ReadEnd


def ranges_of_loops(stage: Stage, body: Sequence[Expr]) -> tuple[dict[IterVar, Range], tuple[ReadEnd, ...]]:
    """The ranges of the reduction axes, or of a script's loops, and their ends that are read from tensors."""
    first = body[0] if body else None
    axes = stage.op.loop_axes[len(stage.op.axis) if body else 0 :]
    spans = first.ranges() if isinstance(first, Reduce) else tuple(axis.dom for axis in axes)
    found: list[ReadEnd] = []
    ranges: dict[IterVar, Range] = {}
    for axis, span in zip(axes, spans, strict=True):
        if span is None:
            continue
        ends = []
        for name, value in (("start", span.min), ("extent", span.extent)):
            if loads(value):
                found.append(ReadEnd(Var(f"{axis.name}.{name}", value.dtype), value, _first_loop(stage, axis)))
            ends.append(found[-1].var if loads(value) else value)
        ranges[axis] = Range.from_min_extent(*ends)
    return ranges, tuple(found)


def _first_loop(stage: Stage, axis: IterVar) -> int:
    parts = {axis}
    for relation in stage.relations:
        if not parts.isdisjoint(relation.above):
            parts.update(relation.below)
    return min(i for i, loop in enumerate(stage.loops) if loop.axis in parts)


def hidden_ends(bounds: Bounds, outer: Iterable[Loop]) -> frozenset[Var]:
    """The variables of ends that have no value inside the loops `outer`."""
    hidden = {end.var for found in bounds.values() for end in found.ends}
    for loop in outer if hidden else ():
        reader = bounds.get(loop.stage)
        if reader is not None and reader.ends:
            depth = reader.stage.place_of_leaf.get(loop.axis, -1)
            hidden.difference_update(end.var for end in reader.ends if end.depth <= depth)
    return frozenset(hidden)


def as_read(e: Expr, ends: Iterable[ReadEnd]) -> Expr:
    """An expression with the values of ends in their place, for a message."""
    values: Mapping[Var, Expr] = {end.var: end.value for end in ends}
    made: Expr = substitute(e, values)
    return made
