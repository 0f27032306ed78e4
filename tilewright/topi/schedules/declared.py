"""Convolutions of a schedule that were declared for a packaged template, and the operators that follow them."""

from __future__ import annotations

from ...core.target import Target
from ...schedule.handle import ScheduleHandle
from ...tensor.tensor import ComputeOp, Operation
from ..templates.fusion import is_declared


def declared(s: ScheduleHandle, target: Target) -> dict[ComputeOp, set[Operation]]:
    """The convolutions of a schedule that were declared for templates on such a target, each with its inputs."""
    found = [stage.op for stage in s.value.in_order() if isinstance(stage.op, ComputeOp) and is_declared(stage.op)]
    return {op: _above(op) for op in found if Target(op.attrs["target"]).kind == target.kind}


def _above(op: Operation) -> set[Operation]:
    read = {t.op for t in op.input_tensors}
    return read.union(*map(_above, read))


def follower(op: ComputeOp, operations: list[Operation], s: ScheduleHandle) -> Operation:
    """The output that reads a convolution and nothing else that is computed, element by element at the same places.

    Or the convolution itself if there is none.
    """
    for out in operations:
        chain = _chain(out, op)
        if chain and all(len(s.value.readers(s.value.stage_of[each])) == 1 for each in chain[1:]):
            return out
    return op


def _chain(out: Operation, op: ComputeOp) -> list[Operation]:
    """The operations from an output down to its convolution, both included; none if there is no convolution."""
    chain = [out]
    while chain[-1] is not op:
        at = chain[-1]
        read = {t.op for t in at.input_tensors if isinstance(t.op, ComputeOp)}
        if not at.tag.startswith(("elemwise", "broadcast")) or len(read) != 1:
            return []
        below = read.pop()
        if _extents(below) != _extents(op):
            return []
        chain.append(below)
    return chain if _extents(out) == _extents(op) else []


def _extents(op: Operation) -> list[str]:
    return [str(axis.dom.extent) for axis in op.axis if axis.dom is not None]
