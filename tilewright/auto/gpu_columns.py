"""Column sums on GPUs: products of a few rows and a matrix, or sums of a matrix along its columns, at memory bandwidth.

Threads along x load vectors of neighbouring columns; threads along the other dimensions share the terms. Each thread
keeps the sums of its columns in registers. The block adds them up through shared memory. If there are few columns,
several blocks share the terms, and a second kernel adds up their sums.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ..core.divisors import power_of_two
from ..core.target import Target
from ..expr.traverse import variables
from ..schedule.handle import ScheduleHandle
from ..tensor.axis import IterVar, thread_axis
from ..tensor.tensor import ComputeOp, Operation, PlaceholderOp, Tensor
from ..topi.schedules.reduce import reduction_of
from ..topi.schedules.stages import vector_bytes
from ..tune.model.machine import Machine
from .dataflow import Dataflow, extent_of, known, size, total
from .gpu_rows import direct_readers
from .kernels import FusedKernel

_MOST_ROWS = 4
"""The most rows of the other factor: with more, tiles of a product pay."""
_ADDING_THREADS = 128
"""Threads per block of the kernel that adds up the sums of blocks."""


@dataclass(frozen=True)
class ColumnTile:
    """The distribution of columns and terms over threads and blocks.

    A thread has `vector` neighbouring columns and loads `flying` terms of each at once. A block has `columns` columns
    and `threads` threads. `shares` blocks divide the terms.
    """

    vector: int
    columns: int
    threads: int
    flying: int = 4
    shares: int = 1


@dataclass(frozen=True)
class ColumnSums:
    """A reduction of a matrix along its columns on a target: neighbouring results read neighbouring elements."""

    op: ComputeOp
    matrix: Tensor
    rows: tuple[IterVar, ...]
    target: Target


def columns_of(flow: Dataflow, kernel: FusedKernel, target: Target) -> ColumnSums | None:
    """Return a kernel as column sums on a target; None if it is no such reduction, or has many rows."""
    if not kernel.one_each or len(kernel.reductions) != 1 or not kernel.out.axis:
        return None
    (op,) = kernel.reductions
    column = op.axis[-1]
    if len(op.outputs) > 1 or any(known(axis) is None for axis in op.loop_axes) or size(column) < target.warp_size:
        return None
    places = kernel.places[op][-1]
    if places is None or places[0] is not kernel.out.axis[-1]:
        return None
    found = [
        read
        for read in flow.reads[op]
        if isinstance(read.source.op, PlaceholderOp)
        and read.indices[-1] is column.var
        and {axis.var for axis in op.reduce_axis} <= set(variables(*read.indices))
    ]
    if len(found) != 1:
        return None
    (read,) = found
    used = set(variables(*read.indices))
    rows = tuple(axis for axis in op.axis if axis.var not in used)
    return ColumnSums(op, read.source, rows, target) if total(rows) <= _MOST_ROWS else None


def default_tile(sums: ColumnSums) -> ColumnTile:
    """Return the default tile: a block per multiprocessor if there are enough columns and terms."""
    warp, extent, terms = sums.target.warp_size, size(sums.op.axis[-1]), total(sums.op.reduce_axis)
    width = vector_bytes(sums.target) // sums.matrix.dtype.bytes
    while width > 1 and (extent_of(sums.matrix.shape[-1]) % width or extent % width):
        width //= 2
    multiprocessors = Machine.for_models(sums.target).multiprocessors
    outer = prod(size(a) for a in sums.op.axis[:-1] if a not in sums.rows)
    columns = warp
    while columns < min(width, 4) * warp and outer * (extent // (2 * columns)) >= multiprocessors:
        columns *= 2
    most = sums.target.max_threads_per_block // power_of_two(total(sums.rows))
    threads = max(warp, min(most, power_of_two(terms * columns // (width * 4))))
    blocks = outer * -(-extent // columns)
    fewest = terms * columns // (width * threads) // 4
    shares = max(1, min(power_of_two(multiprocessors / blocks), power_of_two(fewest)))
    return ColumnTile(width, columns, threads, 4, shares)


def is_possible(sums: ColumnSums, tile: ColumnTile) -> bool:
    """Return whether a tile has whole warps and whole vectors, and at least one term per thread."""
    lanes, extent, warp = tile.columns // tile.vector, size(sums.op.axis[-1]), sums.target.warp_size
    most = sums.target.max_threads_per_block
    enough = tile.threads // max(lanes, 1) * tile.shares <= total(sums.op.reduce_axis)
    return 1 <= lanes <= warp <= tile.columns <= extent and enough and tile.threads * total(sums.rows) <= most


def schedule_columns(s: ScheduleHandle, kernel: FusedKernel, sums: ColumnSums, tile: ColumnTile) -> None:
    """Schedule a kernel that computes sums of columns."""
    op, out = sums.op, kernel.out
    for member in (*kernel.operands, *kernel.members):
        if member is not op:
            s[member].compute_inline()
    terms = s[op].fuse(*op.reduce_axis) if len(op.reduce_axis) > 1 else op.reduce_axis[0]
    if tile.shares > 1:
        share, _ = s[op].split(terms, nparts=tile.shares)
        first = s.rfactor(op.output(0), share)
        _add_up(s, reduction_of(s, op), out)
        op = out = first.op
        (terms,) = s[op].op.reduce_axis
    _in_blocks(s, op, out, terms, sums, tile)


def _add_up(s: ScheduleHandle, op: ComputeOp, out: Operation) -> None:
    """Add up the sums of blocks, with one thread per result."""
    out = s[out].op
    block, thread = s[out].split(s[out].fuse(*out.axis), factor=_ADDING_THREADS)
    s[out].bind(block, thread_axis("blockIdx.x"))
    s[out].bind(thread, thread_axis("threadIdx.x"))
    if out is not op:
        s[op].compute_at(s[out], thread)
    s[op].unroll(op.reduce_axis[0])


def _in_blocks(
    s: ScheduleHandle, op: ComputeOp, out: Operation, terms: IterVar, sums: ColumnSums, tile: ColumnTile
) -> None:
    x, y = thread_axis("threadIdx.x"), thread_axis("threadIdx.y")
    lanes, few, lanes_of_warp = tile.columns // tile.vector, len(sums.rows), sums.target.warp_size
    warps = tile.threads // lanes_of_warp
    _, own = s[op].split(terms, factor=tile.threads // lanes)
    partial = s.rfactor(op.output(0), own)
    mine = s.cache_write(partial, "local")
    last = reduction_of(s, op)
    out = last if out is op else out
    holds_rows = [axis for axis, given in zip(out.axis, op.axis, strict=True) if given in sums.rows] if few else []
    *_, column = out.axis
    block, column = s[out].split(column, factor=tile.columns)
    rest = [axis for axis in out.axis[:-1] if axis not in holds_rows]
    piece, column = s[out].split(column, factor=lanes_of_warp)
    s[out].reorder(*rest, block, *holds_rows, piece, column)
    block = s[out].fuse(*rest, block)
    s[out].bind(block, thread_axis("blockIdx.x"))
    s[out].bind(column, x)
    _, others = s[last].split(last.reduce_axis[0], factor=warps)
    s[last].bind(others, y)
    if out is not last:
        s[last].compute_at(s[out], column)
        s[out].set_store_predicate(y.var.equal(0))
    s[partial].set_scope("shared")
    s[partial].compute_at(s[out], block)
    group, *outer, column = s[partial].op.axis
    lane, vector = s[partial].split(column, factor=tile.vector)
    warp, group = s[partial].split(group, factor=lanes_of_warp // lanes)
    s[partial].reorder(warp, group, lane, *outer, vector)
    thread = s[partial].fuse(group, lane)
    s[partial].bind(warp, y)
    s[partial].bind(thread, x)
    s[partial].vectorize(vector)
    _, *outer, column = s[mine].op.axis
    s[mine].compute_at(s[partial], thread)
    step, flying = s[mine].split(s[mine].op.reduce_axis[0], factor=tile.flying)
    s[mine].reorder(step, flying, *outer, column)
    for axis in (flying, *outer, column):
        s[mine].unroll(axis)
    loaded = s.cache_read(sums.matrix, "local", direct_readers(s, sums.matrix, [s[mine].op]))
    s[loaded].compute_at(s[mine], flying)
    s[loaded].vectorize(s[loaded].op.axis[-1])
