"""The number of floating-point operations for a schedule's outputs."""

from __future__ import annotations

from math import prod

from ..core.errors import UserError
from ..expr import nodes as n
from ..expr.nodes import Expr
from ..expr.traverse import post_order
from ..schedule.schedule import Schedule
from ..tensor.axis import IterVar
from ..tensor.reduction import Reduce
from ..tensor.tensor import ComputeOp, Operation, PlaceholderOp, topological


def count_flop(schedule: Schedule, conditions: bool = True) -> int:
    """Return the operations of all computations on which the outputs depend, counted as in the legacy API.

    Arithmetic, comparisons and logical operators count one each; indices, casts and copies count nothing. Without
    `conditions`, an operator counts only if operands and result are all floats, or none is. So the comparisons of a
    padded float tensor do not count. Raises UserError if the count is unknown or 0.
    """
    outputs = [schedule.stages[i].op for i in schedule.outputs]
    total = sum(_of_operation(op, conditions) for op in topological(outputs))
    if total == 0:
        raise _unknown("there is no arithmetic")
    return total


def _of_operation(op: Operation, conditions: bool) -> int:
    if isinstance(op, PlaceholderOp):
        return 0
    if not conditions and "FLOP" in op.attrs:
        return int(op.attrs["FLOP"])
    if not isinstance(op, ComputeOp):
        raise _unknown(f"{op.name!r} is not a te.compute")
    if len(op.body) != 1:
        raise _unknown(f"{op.name!r} has several outputs")
    return _points(op.axis) * _of_value(op.body[0], conditions)


def _points(axes: tuple[IterVar, ...]) -> int:
    extents = [axis.dom.extent if axis.dom is not None else None for axis in axes]
    if not all(isinstance(e, n.IntImm) for e in extents):
        raise _unknown(f"the extents {extents} are not constant")
    return prod(e.value for e in extents if isinstance(e, n.IntImm))


def _of_value(e: Expr, conditions: bool) -> int:
    if isinstance(e, Reduce):
        if len(e.source) != 1:
            raise _unknown("a reduction has several outputs")
        return _points(e.axes) * sum(_of_value(part, conditions) for part in (e.combiner.result[0], e.source[0]))
    counts: dict[object, int] = {}
    for at in post_order(e):
        if isinstance(at, n.Load):
            counts[at] = 0  # the cost of its indices is not part of the computation
        elif isinstance(at, n.Select):
            counts[at] = counts[at.condition] + max(counts[at.true_value], counts[at.false_value])
        else:
            own = isinstance(at, (n.Binary, n.Not)) and (conditions or at.a.dtype.is_float == e.dtype.is_float)
            counts[at] = own + sum(counts.get(child, 0) for child in at.children())
    return counts[e]


def _unknown(why: str) -> UserError:
    return UserError(
        f"cannot count the floating-point operations: {why}",
        primitive="task.flop",
        fix="give their number in the template: cfg.add_flop(number)",
    )
