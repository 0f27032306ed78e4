"""Rows on CPUs: each processor computes some rows, and all stages of a row before the next row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..schedule.handle import ScheduleHandle
from ..tensor.axis import IterVar
from ..tensor.tensor import ComputeOp, Operation, is_reduction
from ..topi.schedules.reduce import partial_sums, reads_rows_of_sums
from ..topi.schedules.stages import LANES, PARALLEL_FROM, in_vectors
from .dataflow import Dataflow, known, known_total
from .gpu_rows import free_axes, inner_axes, row_loops, runs_along_rows
from .kernels import FusedKernel

_MOST_FEW_LANES = 8


@dataclass(frozen=True)
class RowVectors:
    """`lanes` neighbours of a row are computed together; a reduction has `parts` partial results.

    With `parts` 0, the length of the reduction sets the number.
    """

    lanes: int = 2 * LANES
    parts: int = 0


def schedule_rows_on_processors(s: ScheduleHandle, flow: Dataflow, kernel: FusedKernel, tile: RowVectors) -> None:
    """Schedule a kernel of rows."""
    out = kernel.out
    if not kernel.rows:
        return
    along, inner = runs_along_rows(flow, kernel), inner_axes(kernel)
    if _slides(kernel, inner):
        row, place = _windows(s, kernel, inner, tile), None
    else:
        row, place = row_loops(s, kernel)
    if along and place is not None and not is_reduction(out):
        _vectorize(s, out, place, known_total(inner), tile)
    for op in kernel.members:
        s[op].compute_at(s[out], row)
        if is_reduction(op):
            partial = _in_vectors(s, op, tile.parts) if along and not free_axes(kernel, op) else None
            if partial is not None:
                s[partial].compute_at(s[out], row)
        elif op.axis:
            _vectorize(s, op, op.axis[-1], known(op.axis[-1]), tile)
    if kernel.row_count > 1 and sum(flow.work(op) for op in (out, *kernel.members)) >= PARALLEL_FROM:
        s[out].parallel(row)


def _width(length: int | None, tile: RowVectors) -> int:
    """Return the number of lanes for a loop of `length` iterations; 0 for a short loop."""
    width = tile.lanes
    while width > (length or 0) and width:
        width //= 2
    return width if width >= _MOST_FEW_LANES else 0


def _vectorize(s: ScheduleHandle, op: Operation, loop: IterVar, length: int | None, tile: RowVectors) -> None:
    if width := _width(length, tile):
        s[op].vectorize(s[op].split(loop, factor=width)[1])


def _slides(kernel: FusedKernel, inner: Sequence[IterVar]) -> bool:
    """Return whether a row's results are sums over windows that slide along the row."""
    out = kernel.out
    whole = isinstance(out, ComputeOp) and is_reduction(out) and len(out.outputs) == 1 and inner and kernel.rows
    if not whole or inner[-1] is not out.axis[-1] or any(divisor > 1 for _, divisor in kernel.rows):
        return False
    assert isinstance(out, ComputeOp)
    return (known(inner[-1]) or 0) >= _MOST_FEW_LANES and reads_rows_of_sums(out)


def _windows(s: ScheduleHandle, kernel: FusedKernel, inner: Sequence[IterVar], tile: RowVectors) -> IterVar:
    """Compute vectors of sums in registers; returns the loop over rows."""
    out = kernel.out
    total = s.cache_write(out, "local").op
    rows = [axis for axis in out.axis if axis not in inner]
    s[out].reorder(*rows, *inner)
    row = s[out].fuse(*rows)
    columns = known(inner[-1]) or LANES
    block, lanes = s[out].split(inner[-1], factor=columns if columns <= LANES else _width(columns, tile))
    s[out].vectorize(lanes)
    in_vectors(s, total, out, block)
    return row


def schedule_tuples_on_processors(s: ScheduleHandle, flow: Dataflow, kernel: FusedKernel, tile: RowVectors) -> None:
    """Schedule a reduction of tuples, row by row: partial results are kept in vectors of terms."""
    out = kernel.out
    partial = _in_vectors(s, out, tile.parts) if runs_along_rows(flow, kernel) else None
    row = s[out].fuse(*s[out].op.axis)
    if partial is not None:
        s[partial].compute_at(s[out], row)
        s[partial].set_scope("local")
    if kernel.row_count > 1 and flow.work(out) >= PARALLEL_FROM:
        s[out].parallel(row)


def _in_vectors(s: ScheduleHandle, op: Operation, parts: int) -> Operation | None:
    """Let a reduction add vectors of terms; returns the stage of the partial sums, or None for a short reduction."""
    terms = known(op.reduce_axis[-1]) or 0
    if not isinstance(op, ComputeOp) or terms < 4 * LANES:
        return None
    partial = partial_sums(s, op, parts or (LANES if terms < 64 * LANES else 2 * LANES))
    s[partial].reorder(*s[partial].op.axis[1:], *s[partial].op.reduce_axis, s[partial].op.axis[0])
    s[partial].vectorize(s[partial].op.axis[0])
    return partial
