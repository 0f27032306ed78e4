"""Computed bodies: every read of an inlined stage is replaced by the expression of that stage."""

from __future__ import annotations

from typing import Any

from ..expr.nodes import Expr, Load
from ..expr.operators import cast
from ..expr.traverse import substitute
from ..tensor.tensor import Tensor
from .schedule import Inlined, Schedule


def inlined_bodies(schedule: Schedule) -> dict[int, tuple[Expr, ...]]:
    """For each stage that is stored, the values of its outputs in terms of stored tensors only.

    Reads are replaced from the outside in, each distinct one once, so that a chain of inlined stages takes time in
    proportion to its length.
    """
    stored = [s for s in schedule.in_order() if not isinstance(s.placement, Inlined) and not s.is_operand]
    if len(stored) == len(schedule.order):
        return {stage.id: stage.op.values for stage in stored}
    memo: dict[Any, Any] = {}

    def expand(e: Any) -> Any:
        found = memo.get(e)
        if found is None:
            own = _own_expression(schedule, e)
            found = memo[e] = e.map_children(expand) if own is None else expand(own)
        return found

    return {stage.id: tuple([expand(e) for e in stage.op.values]) for stage in stored}


def _own_expression(schedule: Schedule, e: Any) -> Expr | None:
    """The expression of an inlined stage at the indices of the read `e`; None for other expressions."""
    if not isinstance(e, Load) or not isinstance(e.source, Tensor):
        return None
    producer = schedule.producer(e.source)
    if not isinstance(producer.placement, Inlined) and not producer.is_operand:
        return None
    axes = {a.var: cast(a.var.dtype, index) for a, index in zip(producer.op.axis, e.indices, strict=True)}
    made: Expr = substitute(producer.op.values[e.source.value_index], axes)
    return made
