"""Bodies as they are computed: every read of an inlined stage replaced by that stage's own expression."""

from __future__ import annotations

from typing import Any

from ..expr.nodes import Expr, Load
from ..expr.operators import cast
from ..expr.traverse import rewrite, substitute
from ..tensor.tensor import Tensor
from .value import Inlined, Schedule


def inlined_bodies(schedule: Schedule) -> dict[int, tuple[Expr, ...]]:
    """For each stage that is stored, the values of its outputs in terms of stored tensors only."""
    expanded: dict[int, tuple[Expr, ...]] = {}

    def expand(e: Any) -> Any:
        if not isinstance(e, Load) or not isinstance(e.source, Tensor):
            return e
        producer = schedule.producer(e.source)
        if not isinstance(producer.placement, Inlined):
            return e
        axes = {a.var: cast(a.var.dtype, index) for a, index in zip(producer.op.axis, e.indices, strict=True)}
        return substitute(expanded[producer.id][e.source.value_index], axes)

    inlines = any(isinstance(s.placement, Inlined) for s in schedule.in_order())
    for stage in schedule.in_order():
        body = stage.op.body
        expanded[stage.id] = tuple(rewrite(e, expand) for e in body) if inlines else body
    return {i: body for i, body in expanded.items() if not isinstance(schedule.stages[i].placement, Inlined)}
