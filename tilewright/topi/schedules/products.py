"""Schedules of sums of products, such as matrix products and convolutions: tiles of sums in registers.

They suit every shape and none in particular.
"""

from __future__ import annotations

from typing import Any

from ...core.target import Target
from ...expr.traverse import loads
from ...schedule.handle import ScheduleHandle
from ...tensor.axis import IterVar, thread_axis
from ...tensor.tensor import ComputeOp, Operation
from .blocked import BY_EXTENTS, ProcessorTile, block_on_processors
from .reduce import reduce_to
from .stages import LANES, count, vectors_of_sums

_FEW_TERMS = 8
_MANY_TERMS = 64
_PARALLEL_FROM = 1 << 12


def sums_to(s: ScheduleHandle, op: ComputeOp, out: Operation, target: Target, tile: ProcessorTile = BY_EXTENTS) -> None:
    """Schedule the sums `op`, which `out` stores: itself, or its element-wise reader; by `tile` on processors."""
    sums, terms = count(op.axis), count(op.reduce_axis)
    if len(op.outputs) > 1 or not op.axis or (terms is not None and terms < _FEW_TERMS):
        reduce_to(s, op, out, target)
    elif target.is_gpu:
        # Few sums of many terms: threads share each.
        if sums is not None and terms is not None and sums < 2048 <= terms:
            reduce_to(s, op, out, target)
        else:
            _tiles_of_threads(s, op, out)
    elif not block_on_processors(s, op, out, tile):
        if terms is not None and terms >= _MANY_TERMS and _is_dot(op):
            reduce_to(s, op, out, target)
        else:
            work = count(op.axis)
            vectors_of_sums(s, op, out, LANES, work is None or work >= _PARALLEL_FROM)


def _is_dot(op: ComputeOp) -> bool:
    """Whether the terms of a sum are neighbours in each tensor that it reads."""
    reduced = {axis.var for axis in op.reduce_axis}
    return all(load.indices and load.indices[-1] in reduced for load in loads(*op.body[0].children()))


def _registers(s: ScheduleHandle, op: ComputeOp, out: Operation) -> Any:
    """The stage that adds up in registers, read by the one that stores."""
    return s.cache_write(op.output(0), "local") if out is op else op.output(0)


def _tile(extent: int | None, most: int) -> int:
    """How many neighbours a thread computes: a divisor of the extent, so that no guard is needed."""
    return next((n for n in (4, 2) if n <= most and extent is not None and extent % n == 0 and extent >= 4 * n), 1)


def _tiles_of_threads(s: ScheduleHandle, op: ComputeOp, out: Operation) -> None:
    """Each thread computes a tile of the last two dimensions; neighbours along the last one read neighbours."""
    total = _registers(s, op, out)
    *outer, last = s[out].op.axis
    rows = outer.pop() if outer else None
    width, height = _tile(count([last]), 4), _tile(count([rows]), 4) if rows is not None else 1
    # Threads of a warp have neighbouring columns, and columns of a thread's tile lie a block's width apart. So these
    # columns are virtual threads with one sum each: a single buffer would include the elements between them.
    column, across = s[out].split(last, factor=16)
    wide, column = _apart(s, out, column, width, count([last]))
    parts: list[IterVar] = [column]
    inner = [wide] if wide is not None else []
    threads = [across]
    if rows is not None:
        row, down = s[out].split(rows, factor=16)
        high, row = _apart(s, out, row, height, count([rows]))
        parts, inner, threads = [row, column], [*([high] if high is not None else []), *inner], [down, across]
    s[out].reorder(*outer, *parts, *inner, *threads)
    block = s[out].fuse(*outer, *parts)
    s[out].bind(block, thread_axis("blockIdx.x"))
    for axis, tag in zip(reversed(threads), ("threadIdx.x", "threadIdx.y"), strict=False):
        s[out].bind(axis, thread_axis(tag))
    for axis in inner:
        s[out].bind(axis, thread_axis("vthread"))
    s[total].compute_at(s[out], across)
    tile = s[total].op.axis
    s[total].reorder(*s[total].op.reduce_axis, *tile)
    for axis in tile[-2:]:
        s[total].unroll(axis)


def _apart(s: ScheduleHandle, out: Operation, outer: IterVar, times: int, extent: int | None) -> tuple[Any, IterVar]:
    """Split the loop over blocks of 16; returns the part that one thread computes (None: one block), and the rest."""
    if times == 1 or extent is None or -(-extent // 16) < times:
        return None, outer
    rest, own = s[out].split(outer, factor=times)
    return own, rest
