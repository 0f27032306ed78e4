"""Inlining of element-wise stages that cost less to recompute than to store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.target import Target
from ..expr import nodes as n
from ..expr.nodes import Expr, Load
from ..expr.traverse import fold, loads, post_order, variables
from ..schedule.handle import ScheduleHandle
from ..tensor.scan import ScanOp
from ..tensor.tensor import ComputeOp, Operation, PlaceholderOp
from .dataflow import is_element_wise, total, weight

_MOST_REPEATED_INSTRUCTIONS = 12.0
_MOST_REPEATED_INSTRUCTIONS_ON_CPU = 3.0
"""The most repeated instructions per element of an inlined stage on a GPU, and on a CPU, which has larger caches."""
_MOST_SERIAL_TERMS = 64
"""The most terms of a reduction that a single thread computes."""
_LEAST_LARGE_INSTRUCTIONS = 256
"""The least instructions of an expression that a reader should not contain several times."""


def inline_cheap(s: ScheduleHandle, target: Target, staying: Sequence[Operation] = ()) -> list[Operation]:
    """Inline element-wise stages not in `staying`; returns the stages that are too expensive to inline."""
    schedule = s.value
    order = [stage.op for stage in schedule.in_order() if not isinstance(stage.op, PlaceholderOp)]
    fixed = _of_scans(order)
    weights: dict[Operation, float] = {}
    limit = _MOST_REPEATED_INSTRUCTIONS if target.is_gpu else _MOST_REPEATED_INSTRUCTIONS_ON_CPU
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
            reads = [(evaluated[r], _places(r, op)) for r in readers]
            repeats = sum(count * len(places) for count, places in reads) / max(own, 1)
            written = sum(_mentions(r, op) for r in readers)
            if target.is_gpu and _only_moves(op) and all(_is_short(r) or _is_window(r, op) for r in readers):
                repeats = min(repeats, 1)  # registers hold the elements that neighbours share
            if (repeats - 1) * weights[op] <= limit and (
                written == 1 or weights[op] * written <= _LEAST_LARGE_INSTRUCTIONS
            ):
                if op not in staying:
                    s[op].compute_inline()
                evaluated[op] = max(1, repeats) * own
                continue
            kept.append(op)
        evaluated[op] = float(own)
    return kept


def _only_moves(op: Operation) -> bool:
    """Return whether an operation only copies elements, perhaps under conditions, as in a border of zeros."""
    return not any(isinstance(e, (n.Arithmetic, n.Call)) and not e.dtype.is_int for e in post_order(*op.values))


def _is_short(op: Operation) -> bool:
    """Return whether an operation computes elements, or reductions of few terms."""
    return is_element_wise(op) or total(op.reduce_axis) <= _MOST_SERIAL_TERMS


def _is_window(reader: Operation, op: Operation) -> bool:
    """Return whether each reduction axis of the reader shares an index of `op` with a data axis of the reader."""
    data, terms = {axis.var for axis in reader.axis}, {axis.var for axis in reader.reduce_axis}
    shared = (set(variables(index)) for place in _places(reader, op) for index in place)
    return terms <= {var for used in shared if used & data for var in used}


def _of_scans(order: list[Operation]) -> set[Operation]:
    """Return the operations that belong to a scan, which schedules them itself."""
    found: set[Operation] = set()
    for op in order:
        if isinstance(op, ScanOp):
            found.update(op.steps())
            found.update(t.op for t in (*op.init, *op.update))
    return found


def _has_values(op: Operation) -> bool:
    return isinstance(op, ComputeOp) and op.call is None


def _places(reader: Operation, op: Operation) -> set[tuple[Expr, ...]]:
    """Return the indices at which a reader reads an operation."""
    return {load.indices for load in loads(*reader.values) if getattr(load.source, "op", None) is op}


def _mentions(reader: Operation, op: Operation) -> int:
    """Return the number of copies of an operation's expression in a reader."""
    if not is_element_wise(reader):
        return len(_places(reader, op))
    return sum(_times(e, op) for e in reader.values)


def _times(root: Expr, op: Operation) -> int:
    def count(e: Any, below: Sequence[int]) -> int:
        return sum(below) + (isinstance(e, Load) and getattr(e.source, "op", None) is op)

    found: int = fold(root, {}, count, lambda e: [c for c in e.children() if isinstance(c, Expr)])
    return found
