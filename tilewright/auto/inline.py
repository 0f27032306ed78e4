"""Which element-wise stages are computed inline: the ones that cost less to repeat than to store."""

from __future__ import annotations

from ..expr.nodes import Load
from ..expr.traverse import loads
from ..schedule.handle import ScheduleHandle
from ..tensor.scan import ScanOp
from ..tensor.tensor import ComputeOp, Operation, PlaceholderOp
from .dataflow import is_element_wise, total, weight

_REPEATED = 12.0
"""Repeated instructions per element from which on a stage is stored."""


def inline_cheap(s: ScheduleHandle) -> list[Operation]:
    """Inline element-wise stages; returns the ones that are kept, because their readers would repeat much work."""
    schedule = s.value
    order = [stage.op for stage in schedule.in_order() if not isinstance(stage.op, PlaceholderOp)]
    fixed = _of_scans(order)
    weights: dict[Operation, float] = {}
    for op in order:
        inside = [weights.get(t.op, 0.0) for t in op.input_tensors if is_element_wise(t.op)]
        weights[op] = weight(op.values) + sum(inside) if is_element_wise(op) else 0.0
    evaluated: dict[Operation, float] = {}
    kept: list[Operation] = []
    for op in reversed(order):
        own = total(op.loop_axes)
        readers = [r for r in order if any(t.op is op for t in r.input_tensors)]
        may = is_element_wise(op) and op not in s.outputs and op not in fixed and all(map(_has_values, readers))
        if may:
            repeats = sum(evaluated[r] * len(_loads_of(r, op)) for r in readers) / max(own, 1)
            if (repeats - 1) * weights[op] <= _REPEATED:
                s[op].compute_inline()
                evaluated[op] = repeats * own
                continue
            kept.append(op)
        evaluated[op] = float(own)
    return kept


def _of_scans(order: list[Operation]) -> set[Operation]:
    """The operations that belong to a scan, which places them itself."""
    found: set[Operation] = set()
    for op in order:
        if isinstance(op, ScanOp):
            found.update(op.steps())
            found.update(t.op for t in (*op.init, *op.update))
    return found


def _has_values(op: Operation) -> bool:
    return isinstance(op, ComputeOp) and op.call is None


def _loads_of(reader: Operation, op: Operation) -> list[Load]:
    return [load for load in loads(*reader.values) if getattr(load.source, "op", None) is op]
