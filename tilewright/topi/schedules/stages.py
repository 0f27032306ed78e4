"""Queries of general schedules about a schedule and its stages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import Any

from ...core.divisors import power_of_two
from ...core.errors import UserError
from ...core.target import Target
from ...expr.nodes import Load
from ...expr.traverse import post_order, uses_any
from ...schedule.handle import ScheduleHandle
from ...tensor.axis import IterVar
from ...tensor.reduction import Reduce
from ...tensor.tensor import ComputeOp, Operation, Tensor
from ..argument_checks import known

BLOCK = 256
"""The default number of threads per block."""
LANES = 16
"""Elements of 4 bytes in the vector loops of processors: a choice of these schedules. Narrower units run such a vector
as two or four of theirs."""
PARALLEL_FROM = 1 << 14
"""Elements or terms from which on several processors pay."""
_WIDEST = 16


def in_vectors(s: ScheduleHandle, op: Operation, out: Operation, place: IterVar) -> None:
    """Compute `op` at a loop of `out`, the neighbours of its last dimension in vectors, one term after another."""
    s[op].compute_at(s[out], place)
    *data, last = s[op].op.axis
    s[op].reorder(*data, *s[op].op.reduce_axis, last)
    s[op].vectorize(last)


def vectors_of_sums(s: ScheduleHandle, op: ComputeOp, out: Operation, width: int, in_parallel: bool) -> None:
    """Share the rows of the sums `op`, which `out` stores, out to processors, with vectors of neighbouring sums."""
    total = s.cache_write(op.output(0), "local").op if out is op else op
    *outer, last = s[out].op.axis
    more, lanes = s[out].split(last, factor=width)
    s[out].vectorize(lanes)
    place = s[out].fuse(*outer, more)
    if in_parallel:
        s[out].parallel(place)
    in_vectors(s, total, out, place)


def given_outputs(outs: Any, primitive: str) -> list[Tensor]:
    """The output tensors that a schedule is made for, given as one tensor or as a list."""
    found = list(outs) if isinstance(outs, (list, tuple)) else [outs]
    for each in found:
        if not isinstance(each, Tensor):
            raise UserError(
                f"argument 'outs' holds {each!r}, which is not a tensor",
                primitive=primitive,
                fix="give the tensors that operators returned: [B]",
            )
    if not found:
        raise UserError("argument 'outs' is empty", primitive=primitive, fix="give the tensors that operators returned")
    return found


def count(axes: Sequence[IterVar]) -> int | None:
    """The number of iterations of the loops over `axes`; None if it is known only at the call."""
    each = [known(axis.dom.extent) if axis.dom is not None else None for axis in axes]
    return None if None in each else prod(n for n in each if n is not None)


def reads_rows(op: ComputeOp) -> bool:
    """Whether neighbouring terms of a reduction are neighbours in memory, as far as its own loads tell."""
    body = op.body[0]
    if not isinstance(body, Reduce):
        return False
    variables = {axis.var for axis in body.axes}
    loads = [e for e in post_order(*body.source) if isinstance(e, Load) and e.indices]
    return not loads or any(uses_any(load.indices[-1], variables) for load in loads)


def bytes_of(tensors: Iterable[Tensor]) -> int:
    """The size of the largest element among tensors, in bytes."""
    return max((-(-t.dtype.bits // 8) for t in tensors), default=4)


def threads_of(target: Target, wanted: int = BLOCK) -> int:
    """How many threads a block gets: `wanted`, or as many as the target allows."""
    return min(wanted, power_of_two(target.max_threads_per_block))


def vector_bytes(target: Target) -> int:
    """How many bytes a thread loads at once: the hardware's width, but no more than leaves work for neighbours."""
    return min(target.hardware.vector_bytes, _WIDEST)


def on_grid(given: Target | None = None) -> Target:
    """The target of a grid of threads to schedule for: the current one, or CUDA."""
    current = given or Target.current()
    return current if current is not None and current.is_gpu else Target("cuda")


def on_processor() -> Target:
    """The target of a processor to schedule for: the current one, or LLVM's."""
    current = Target.current()
    return current if current is not None and not current.is_gpu else Target("llvm")


def current() -> Target:
    """The current target, or LLVM's."""
    return Target.current() or Target("llvm")
