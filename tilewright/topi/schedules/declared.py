"""Convolutions of a schedule that were declared for a packaged template, and the operators that follow them."""

from __future__ import annotations

from collections.abc import Sequence

from ...core.target import Target
from ...schedule.handle import ScheduleHandle, create_schedule
from ...tensor.tensor import ComputeOp, Operation, is_reduction, topological
from ..templates.fusion import is_declared, schedule
from .injective import one_element_each
from .products import sums_to
from .stages import computed, inline_elements, reductions


def declared(operations: Sequence[Operation], target: Target) -> dict[ComputeOp, set[Operation]]:
    """The convolutions among operations and their inputs that were declared for such a target, each with its inputs."""
    found = [op for op in topological(operations) if isinstance(op, ComputeOp) and is_declared(op)]
    return {op: _above(op) for op in found if Target(op.attrs["target"]).kind == target.kind}


def schedule_declared(
    operations: list[Operation], by_template: dict[ComputeOp, set[Operation]], target: Target
) -> ScheduleHandle:
    """Schedule convolutions by their templates, with element-wise operators after them, and everything beside them."""
    s = create_schedule(operations)
    owned = set[Operation]().union(*by_template.values())
    inline_elements(s, {*operations, *by_template, *owned})
    sums = [op for op in reductions(s) if op not in owned]
    done: set[Operation] = set()
    for convolution in by_template:
        last = _follower(convolution, operations, s)
        if last is not convolution:
            s[convolution].compute_inline()
        schedule(s, convolution.output(0), last.output(0))
        done.add(last)
    for op in sums:
        sums_to(s, op, op, target)
    for out in computed(s):
        alone = out in operations or (out.attrs.get("store") and out not in owned)
        if alone and out not in done and not is_reduction(out):
            one_element_each(s, out, target)
    return s


def _above(op: Operation) -> set[Operation]:
    read = {t.op for t in op.input_tensors}
    return read.union(*map(_above, read))


def _follower(op: ComputeOp, operations: list[Operation], s: ScheduleHandle) -> Operation:
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
