"""The common part of contractions' schedules: loops over results, a divided depth, fills of shared memory."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import gcd, prod
from typing import Any, NamedTuple

from ...core.atoms import LANES
from ...core.dtype import DType
from ...schedule.handle import ScheduleHandle
from ...tensor.axis import IterVar, thread_axis
from ...tensor.tensor import ComputeOp, Tensor
from ...tune.model.machine import REFERENCE
from .contraction import Contraction, MatrixOperand, row_alignment
from .schedule_helpers import GPU, bind_all, bind_grid, fetch_together, hold, in_rounds, in_vectors, widest_vector
from .tensors import Tensors

_REDUCING_THREADS = 128
"""Threads per block of the kernels that add partial sums or transpose."""
_PIXELS_PER_THREAD = 4
"""Pixels per thread of the kernel that transposes."""
_THREADS_PER_LINE = GPU.warp_memory.line // GPU.vector_bytes
"""The number of threads that together store one cache line."""
TRANSPOSED = "transposed"
"""The tag of a stage that puts channels last."""


class Begun(NamedTuple):
    """A schedule before its loops are tiled.

    `out` stores a tile of results or of partial sums, `sums` computes it in registers and reads `views`, the left and
    the right factor. The loops of `out` run over batches (and parts of the depth), rows and columns.
    """

    out: Tensor
    sums: Tensor
    views: list[Tensor]
    outer: list[IterVar]
    rows: IterVar
    columns: IterVar


def begin(
    of: Contraction,
    s: ScheduleHandle,
    t: Tensors,
    tile: tuple[int, int, int],
    split: int,
    run: int = 0,
    slice: int = 0,
    line: int = 0,
) -> Begun:
    """Round rows, columns and depth up to whole tiles, inline the views, and keep the sums in registers.

    `split` blocks share the depth of a tile. With a `run`, columns are ordered so that a lane of a matrix instruction
    holds `run` neighbours of the result. With a `slice`, the terms of each factor are cut into slices of that size;
    each slice is a contiguous matrix. With a `line`, the right factor has `line` columns of a term in each line:
    [columns // line, terms, columns % line].
    """
    products = contracted(t.sums)
    views = [t.data, t.weights] if t.are_factors else list(products.op.input_tensors)
    rows, columns, depth = tile
    *_, i, j = products.op.axis
    s[products].round_up((i, rows), (j, columns), (products.op.reduce_axis[0], depth * split))
    if run:
        s[products].transform_layout(lambda *at: [*at[:-1], *_in_lanes(at[-1], run)])
    if line:
        s[views[1]].transform_layout(lambda *at: [*at[:-2], at[-1] // line, at[-2], at[-1] % line])
    for view, own in zip(views, (0, run), strict=True):
        if own or slice:
            s[view].transform_layout(partial(_in_slices, own, slice))
        s[view].compute_inline()
        if not t.are_factors:
            repack(s, view)
    if split > 1:
        made = _partial(s, t, products, views, split)
    else:
        s[products].set_scope("local")
        made = Begun(t.out, products, views, *result_axes(of, s, t.out))
    if line:
        s[made.sums].transform_layout(lambda *at: [*at[:-1], at[-1] // line, at[-1] % line])
    return made


def _in_lanes(j: Any, run: int) -> tuple[Any, Any, Any, Any]:
    """Return the indices of a column. Of each `4 * run` columns, lane m holds `run` from `m * run` on, two per group of
    8."""
    return j // (4 * run), j % run // 2, j % (4 * run) // run, j % 2


def _in_slices(run: int, slice: int, *at: Any) -> list[Any]:
    """Return the indices of a factor's element after its columns are put in the order of lanes and its terms in
    slices."""
    *batch, j, k = at
    if run:
        group, piece, lane, neighbour = _in_lanes(j, run)
        j = group * (4 * run) + piece * 8 + lane * 2 + neighbour
    return [*batch, k // slice, j, k % slice] if slice else [*batch, j, k]


def contracted(sums: Tensor) -> Tensor:
    """Return the contraction behind a workload's sums: the sums themselves, or the tensor that they reorder."""
    if isinstance(sums.op, ComputeOp) and sums.op.reduce_axis:
        return sums
    (products,) = sums.op.input_tensors
    return products


def repack(s: ScheduleHandle, view: Tensor) -> None:
    """Schedule the non-argument inputs of a view: a factor in another order, computed by its own kernel."""
    for source in view.op.input_tensors:
        if isinstance(source.op, ComputeOp) and source.op.tag == TRANSPOSED:
            _transpose(s, source)
        elif isinstance(source.op, ComputeOp):
            s[source].compute_root()  # also weights that are read backwards, which are inlined elsewhere
            block, thread = s[source].split(s[source].fuse(*source.op.axis), factor=256)
            bind_all(s, source, (block, thread), ("blockIdx.x", "threadIdx.x"))


def _transpose(s: ScheduleHandle, image: Tensor) -> None:
    """Schedule an image that puts channels last: a warp writes whole lines, and reads whole sectors of channels."""
    n, y, x, channel = image.op.axis
    wide = widest_vector(str(image.dtype))
    channel, lanes = s[image].split(channel, factor=wide)
    channel, line = s[image].split(channel, factor=gcd(int(str(image.shape[-1])) // wide, _THREADS_PER_LINE))
    pixel, own = s[image].split(s[image].fuse(y, x), factor=_PIXELS_PER_THREAD)
    places = _REDUCING_THREADS // _THREADS_PER_LINE
    block, place = s[image].split(pixel, factor=places)
    s[image].reorder(n, channel, block, place, line, own, lanes)
    outer, thread = s[image].fuse(n, channel), s[image].fuse(place, line)
    s[image].unroll(own)
    s[image].vectorize(lanes)
    bind_grid(
        s, image, (block, outer), -(-prod(int(str(e)) for e in image.shape[1:3]) // (places * _PIXELS_PER_THREAD))
    )
    bind_all(s, image, (thread,), ("threadIdx.x",))


def result_axes(of: Contraction, s: ScheduleHandle, out: Tensor) -> tuple[list[IterVar], IterVar, IterVar]:
    """Return the loops over a result as loops over a contraction: batches, rows, columns."""
    axes = list(out.op.axis)
    outer = [axes[d] for d in of.batch_axes]
    if of.grouped is not None:
        dimension, own = of.grouped
        group, axes[dimension] = s[out].split(axes[dimension], factor=own)
        outer.append(group)
    rows, columns = [axes[d] for d in of.row_axes], [axes[d] for d in of.column_axes]
    s[out].reorder(*outer, *rows, *columns)
    return outer, _fused(s, out, rows), _fused(s, out, columns)


def leave_group(of: Contraction, size: tuple[int, int]) -> bool:
    """Whether the last tile of a group's rows or columns is incomplete."""
    if of.grouped is None:
        return False
    along_rows = of.grouped[0] in of.row_axes
    return of.grouped[1] % size[not along_rows] > 0


def _fused(s: ScheduleHandle, out: Tensor, axes: list[IterVar]) -> IterVar:
    return axes[0] if len(axes) == 1 else s[out].fuse(*axes)


def _partial(s: ScheduleHandle, t: Tensors, products: Tensor, views: list[Tensor], split: int) -> Begun:
    """Divide the depth among blocks: they store partial sums, and a second kernel adds these in a fixed order."""
    part, _ = s[products].split(s[products].op.reduce_axis[0], nparts=split)
    partial = s.rfactor(products, part)
    sums = s.cache_write(partial, "local")
    flat = s[t.out].fuse(*t.out.op.axis)
    block, thread = s[t.out].split(flat, factor=_REDUCING_THREADS)
    bind_all(s, t.out, (block, thread), ("blockIdx.x", "threadIdx.x"))
    hold(s, products, "local", t.out, thread)
    s[products].unroll(s[products].op.reduce_axis[0])
    *outer, i, j = s[partial].op.axis
    return Begun(partial, sums, views, outer, i, j)


def bind_blocks(s: ScheduleHandle, out: Tensor, axes: Sequence[tuple[IterVar, int]]) -> None:
    """Bind at most three loops, with their iterations, to the grid; the longest one to blockIdx.x.

    Only the dimension x of a grid may exceed 65,535.
    """
    for (axis, _), letter in zip(sorted(axes, key=lambda each: -each[1]), "xyz", strict=False):
        s[out].bind(axis, thread_axis(f"blockIdx.{letter}"))


def bind_tiles(s: ScheduleHandle, out: Tensor, axes: Sequence[tuple[IterVar, int]]) -> None:
    """Bind at most three loops to the grid; the last two run over rows and columns of tiles.

    Blocks run in the order of blockIdx.x, which gets the shorter of the two loops. Concurrent blocks then share slices
    of the operand with more slices, and these are read from memory once. If the dimension y cannot count the longer
    one, the order is as in `bind_blocks`.
    """
    outer, (short, long) = axes[:-2], sorted(axes[-2:], key=lambda each: each[1])
    if any(count > min(REFERENCE.hardware.grid.extents) for _, count in (*outer, long)):
        bind_blocks(s, out, axes)
        return
    for (axis, _), letter in zip((short, long, *outer), "xyz", strict=False):
        s[out].bind(axis, thread_axis(f"blockIdx.{letter}"))


def width(of: Contraction, operand: MatrixOperand, tile: tuple[int, int], depth: int, whole: int) -> int:
    """Return the number of contiguous elements per fetch of a factor: either all or none of them must exist.

    `tile` is the block's rows and columns; `depth` is the number of its steps at a time, of `whole` steps in total.
    """
    if operand.along_depth:
        within = gcd(depth, of.depth) if whole > of.depth else depth
        return gcd(operand.together, within)
    return gcd(operand.together, gcd(tile[operand is not of.rows], operand.extent))


def store_vectors(
    s: ScheduleHandle, out: Tensor, axes: Sequence[IterVar], warps: tuple[int, int], run: int, size: int
) -> None:
    """Have the threads of a block store a tile of `axes` that lies in shared memory, as vectors of neighbours.

    `warps` are the warps along threadIdx.z and threadIdx.y; `run` neighbours always lie together. The tile has `size`
    results. The vectors are short enough that all threads store equally many, and none reaches beyond the tile.
    """
    together = gcd(gcd(run, widest_vector(str(out.dtype))), size // (LANES * prod(warps)))
    flat = in_vectors(s, out, together, axes)
    for tag, count in (("threadIdx.x", LANES), ("threadIdx.y", warps[1]), ("threadIdx.z", warps[0])):
        flat, thread = s[out].split(flat, factor=count)
        s[out].bind(thread, thread_axis(tag))


def pad_rows(s: ScheduleHandle, results: Tensor) -> None:
    """Begin each row of a tile of results in shared memory in other banks than the one before."""
    s[results].storage_align(s[results].op.axis[-2], *row_alignment(DType(results.dtype).bytes))


def deal_out(s: ScheduleHandle, tile: Tensor, elements: int, threads: tuple[int, int], width: int) -> None:
    """Let the threads of a block fetch a tile, `width` neighbours at a time.

    Neighbouring threads fetch neighbours.
    """
    tagged = ("threadIdx.y", threads[0]), ("threadIdx.x", threads[1])
    if elements // width < prod(threads):  # some threads have nothing to fetch
        fetch_together(s, tile, tagged, width)
        return
    rounds, *loops = in_rounds(s, tile, in_vectors(s, tile, width), tagged)
    s[tile].reorder(*loops, rounds)
