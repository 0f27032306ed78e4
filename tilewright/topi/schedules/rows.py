"""Schedules of operations on rows, such as softmax and normalisation: a block reads its rows once, and keeps them.

The output says by its attribute `row` along which dimensions rows lie. Reductions over them, and the output itself, are
computed by the threads of one block, which share the row in shared memory if it fits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...core.target import Target
from ...schedule.handle import ScheduleHandle
from ...tensor.axis import IterVar, thread_axis
from ...tensor.tensor import ComputeOp, Operation, PlaceholderOp, Tensor
from .reduce import PLAIN_THREADS, partial_sums, reduction_of, schedule_each
from .stages import (
    bytes_of,
    computed,
    count,
    given_outputs,
    power_of_two,
    reductions,
    started,
    threads_of,
    vector_bytes,
)

_SHORT_ROW = 1024
"""Terms up to which a warp computes a row alone."""


def schedule_rows(outs: Any, target: Target, primitive: str) -> ScheduleHandle:
    """The schedule of an operation on rows for a GPU; of several outputs, or of no rows, that of reductions."""
    found = given_outputs(outs, primitive)
    s, operations = started(found, primitive)
    row = operations[0].attrs.get("row")
    if len(operations) > 1 or row is None:
        schedule_each(s, operations, target)
        return s
    (out,) = operations
    if out.axis and list(row) == list(range(len(out.axis) - len(row), len(out.axis))):
        _block_per_row(s, out, row, target)
    else:
        _thread_per_row(s, out, row, target)
    return s


def _loops(s: ScheduleHandle, out: Operation, row: Sequence[int]) -> tuple[IterVar, IterVar]:
    """The loop over all rows, and the one over the elements of each."""
    kept = [axis for d, axis in enumerate(out.axis) if d not in row]
    inner = [out.axis[d] for d in row]
    s[out].reorder(*kept, *inner)
    return s[out].fuse(*kept), s[out].fuse(*inner)


def _thread_per_row(s: ScheduleHandle, out: Operation, row: Sequence[int], target: Target) -> None:
    """Rows whose elements are apart: neighbouring threads compute neighbouring rows, so that their loads are."""
    rows, _ = _loops(s, out, row)
    block, thread = s[out].split(rows, factor=threads_of(target, 128))
    s[out].bind(block, thread_axis("blockIdx.x"))
    s[out].bind(thread, thread_axis("threadIdx.x"))
    for op in reductions(s):
        s[op].compute_at(s[out], thread)


def _block_per_row(s: ScheduleHandle, out: Operation, row: Sequence[int], target: Target) -> None:
    length = count([out.axis[d] for d in row])
    tensors = [t for op in computed(s) for t in op.input_tensors]
    width = vector_bytes(target) // bytes_of([*out.outputs, *(t for t in tensors if t.ndim == len(out.axis))])
    threads = threads_of(target)
    across = threads if length is None else min(threads, max(target.warp_size, power_of_two(length / (2 * width))))
    if not target.has_warps:
        across = PLAIN_THREADS
    while width > 1 and (length is None or length % (width * across) or _last(out) % width):
        width //= 2
    rows, place = _loops(s, out, row)
    s[out].bind(rows, thread_axis("blockIdx.x"))
    _share(s, out, place, across, width)
    kept = _row_tensor(s, out)
    if kept is not None and _fits(kept, length, target):
        _keep(s, kept, out, rows, (across, width))
    for op in reductions(s):
        _reduce(s, op, out, rows, across, target)


def _last(out: Operation) -> int:
    return count(out.axis[-1:]) or 1


def _share(s: ScheduleHandle, stage: Any, loop: IterVar, across: int, width: int) -> None:
    """Share the elements of a row out to threads, a vector at a time."""
    vector = None
    if width > 1:
        loop, vector = s[stage].split(loop, factor=width)
    _, thread = s[stage].split(loop, factor=across)
    s[stage].bind(thread, thread_axis("threadIdx.x"))
    if vector is not None:
        s[stage].vectorize(vector)


def _row_tensor(s: ScheduleHandle, out: Operation) -> Tensor | None:
    """The first tensor of the output's shape that several operations read: the rows."""
    shape = [count([axis]) for axis in out.axis]
    readers: dict[Tensor, int] = {}
    for op in computed(s):
        for t in op.input_tensors:
            readers[t] = readers.get(t, 0) + 1
    in_order = {op: i for i, op in enumerate(s.value.stage_of)}
    found = [t for t, n in readers.items() if n > 1 and [_extent(e) for e in t.shape] == shape]
    return min(found, key=lambda t: in_order.get(t.op, 0), default=None)


def _extent(e: Any) -> Any:
    return getattr(e, "value", None)


def _fits(kept: Tensor, length: int | None, target: Target) -> bool:
    """Whether shared memory has room for a row, and for others beside it."""
    return length is not None and length * bytes_of([kept]) <= target.shared_bytes


def _keep(s: ScheduleHandle, kept: Tensor, out: Operation, rows: IterVar, share: tuple[int, int]) -> None:
    """Read the row into shared memory, or compute it there if an operation does."""
    stage: Any = kept
    if isinstance(kept.op, PlaceholderOp):
        stage = s.cache_read(kept, "shared", [op.output(0) for op in computed(s) if kept in op.input_tensors])
    else:
        s[kept].compute_root()
        s[kept].set_scope("shared")
    s[stage].compute_at(s[out], rows)
    axes = s[stage].op.axis
    _share(s, stage, s[stage].fuse(*axes), *share)


def _reduce(s: ScheduleHandle, op: ComputeOp, out: Operation, rows: IterVar, across: int, target: Target) -> None:
    """Compute a reduction for the block's row, by all its threads."""
    if target.has_warps:
        s[op].compute_at(s[out], rows)
        _, term = s[op].split(s[op].fuse(*op.reduce_axis), factor=across)
        s[op].bind(term, thread_axis("threadIdx.x"))
        return
    partial = partial_sums(s, op, across)
    s[reduction_of(s, op)].compute_at(s[out], rows)
    s[partial].compute_at(s[out], rows)
    s[partial].set_scope("shared")
    s[partial].bind(s[partial].op.axis[0], thread_axis("threadIdx.x"))
