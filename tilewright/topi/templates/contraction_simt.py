"""Contractions on a GPU's ordinary arithmetic: tiles of both factors in shared memory, tiles of results in registers.

A block computes a tile of rows times columns. Its threads fetch slices of both factors together, as many steps along
the depth at a time as the configuration says; each thread keeps some rows and columns of sums in registers. Where there
are fewer tiles than multiprocessors, the depth is divided among blocks as well: they store partial sums, and a second
kernel adds them, in one order, and applies the epilogue.
"""

from __future__ import annotations

from collections.abc import Callable
from math import gcd, prod
from typing import Any, Generic, TypeVar

from ...schedule.handle import ScheduleHandle
from ...tensor.axis import IterVar, thread_axis
from ...tensor.tensor import ComputeOp, Tensor
from ...tune.space.config import Config
from ...tune.space.knobs import split_knob, value_knob
from ...tune.space.space import Space
from .contraction import Contraction, Operand, Padded, Views, declare, rounded
from .contraction_cost import SimtTile, depths, own_tiles, ranked, splits, tile_of
from .schedule_helpers import bind_all
from .template import ScheduleStrategy
from .tensors import Tensors
from .workload import Convolution

W = TypeVar("W", bound=Convolution)
_REDUCERS = 128
"""Threads of a block of the kernel that adds partial sums."""


class Simt(Generic[W]):
    """The strategy for workloads that are contractions: `contraction_of` and `views_of` say which."""

    def __init__(
        self, contraction_of: Callable[[W], Contraction], views_of: Callable[[W, Tensor, Tensor], Views]
    ) -> None:
        self.contraction_of = contraction_of
        self.views_of = views_of

    def strategy(self, covers: Callable[[W], bool]) -> ScheduleStrategy[W]:
        """The strategy as templates take it."""
        return ScheduleStrategy(self.space, self.schedule, self.usual, self.declare, covers, self.order)

    def space(self, of: W) -> Space:
        """The knobs.

        `rows`, `columns`: over blocks, virtual threads, threads and neighbours of one thread. `depth`: steps in shared
        memory at a time. `split`: blocks that share the depth of one tile. `stages`: slices in flight.
        """
        return space_of(self.contraction_of(of))

    def usual(self, of: W) -> dict[str, Any]:
        """The choices that cost least by the model of `contraction_cost`."""
        return ranked(self.contraction_of(of))[0].wanted()

    def order(self, of: W) -> list[dict[str, Any]]:
        """All choices that the model ranks, those that cost least first."""
        return [tile.wanted() for tile in ranked(self.contraction_of(of))]

    def declare(self, of: W, data: Tensor, weights: Tensor, config: Config) -> Tensor:
        """Declare the contraction in whole tiles of a configuration."""
        made, tile = self.contraction_of(of), tile_of(config)
        kind = made.sum_dtype  # converted once, on the way into shared memory
        return declare(made, self.views_of(of, data, weights), _padded(made, tile), kind)

    def schedule(self, of: W, config: Config, s: ScheduleHandle, t: Tensors) -> None:
        """Apply a configuration."""
        schedule(self.contraction_of(of), config, s, t)


def space_of(of: Contraction) -> Space:
    """Return the knobs of a contraction."""
    knobs = [
        split_knob("rows", of.rows.extent, "candidate", candidate=own_tiles(of.rows)),
        split_knob("columns", of.columns.extent, "candidate", candidate=own_tiles(of.columns)),
        value_knob("depth", depths(of)),
        value_knob("split", splits(of)),
        value_knob("stages", [1, 2, 3]),
    ]

    def block(choices: Any) -> bool:
        return SimtTile.of(choices).is_possible(of)

    names = ("rows", "columns", "depth", "split", "stages")
    return Space(knobs).where(block, names, "a block that the hardware can hold")


def _padded(of: Contraction, tile: SimtTile) -> Padded:
    """Extents of whole tiles."""
    return Padded(
        rounded(of.rows.extent, prod(tile.rows)),
        rounded(of.columns.extent, prod(tile.columns)),
        rounded(of.depth, tile.depth * tile.split),
    )


def schedule(of: Contraction, config: Config, s: ScheduleHandle, t: Tensors) -> None:
    """Tile the results over blocks and threads; factors in shared memory, sums in registers."""
    tile = tile_of(config)
    products = contraction_in(t)
    views = list(products.op.input_tensors)
    for view in views:
        s[view].compute_inline()
        _repack(s, view)
    if t.sums is not t.out:
        s[t.sums].compute_inline()
    if tile.split > 1:
        out, sums, axes = _partial(of, tile, s, t, products)
    else:
        out, sums, axes = t.out, products, _result_axes(of, s, t.out)
        s[products].set_scope("local")
    shared = [s.cache_read(view, "shared", [sums]) for view in views]
    held = [s.cache_read(each, "local", [sums]) for each in shared]
    thread, last = _tile(of, config, s, out, axes)
    s[sums].compute_at(s[out], thread)
    slices, step, product = _loops(of, tile, s, sums)
    for operand, each, mine in zip((of.rows, of.columns), shared, held, strict=True):
        s[each].compute_at(s[sums], slices)
        extent = prod(tile.rows if operand is of.rows else tile.columns)
        deal_out(s, each, extent * tile.depth, tile.threads, _width(of, operand, tile, padded_depth(of, tile)))
        if tile.stages > 1:
            s[each].pipeline(tile.stages)
        s[mine].compute_at(s[sums], step if operand.along_depth else product)
        s[mine].vectorize(mine.op.axis[-1])
    run = of.columns.extent if tile.split > 1 else of.run
    if tile.columns[2] > 1 and run % tile.columns[2] == 0:
        s[out].vectorize(last)


def contraction_in(t: Tensors) -> Tensor:
    """Return the contraction that a result reads."""
    (made,) = t.sums.op.input_tensors
    return made


def padded_depth(of: Contraction, tile: SimtTile) -> int:
    """Return the depth in whole slices."""
    return rounded(of.depth, tile.depth * tile.split)


def _width(of: Contraction, operand: Operand, tile: SimtTile, depth: int) -> int:
    """How many neighbours of a factor are fetched at once: only where all or none of them exist."""
    if operand.along_depth:
        within = gcd(tile.depth, of.depth) if depth > of.depth else tile.depth
        return gcd(operand.together, within)
    size = prod(tile.rows if operand is of.rows else tile.columns)
    return gcd(operand.together, gcd(size, operand.extent))


def _repack(s: ScheduleHandle, view: Tensor) -> None:
    """Schedule what a view reads that is not an argument: weights in another order, a kernel of its own."""
    for source in view.op.input_tensors:
        if isinstance(source.op, ComputeOp):
            block, thread = s[source].split(s[source].fuse(*source.op.axis), factor=256)
            bind_all(s, source, (block, thread), ("blockIdx.x", "threadIdx.x"))


Axes = tuple[list[IterVar], IterVar, IterVar]
"""Loops over batches, rows and columns."""


def _result_axes(of: Contraction, s: ScheduleHandle, out: Tensor) -> Axes:
    """The loops over a result as those over a contraction."""
    axes = list(out.op.axis)
    outer = [axes[d] for d in of.batch_axes]
    if of.grouped is not None:
        dimension, own = of.grouped
        group, axes[dimension] = s[out].split(axes[dimension], factor=own)
        outer.append(group)
    rows, columns = [axes[d] for d in of.row_axes], [axes[d] for d in of.column_axes]
    s[out].reorder(*outer, *rows, *columns)
    return outer, _fused(s, out, rows), _fused(s, out, columns)


def _fused(s: ScheduleHandle, out: Tensor, axes: list[IterVar]) -> IterVar:
    return axes[0] if len(axes) == 1 else s[out].fuse(*axes)


def _partial(
    of: Contraction, tile: SimtTile, s: ScheduleHandle, t: Tensors, products: Tensor
) -> tuple[Tensor, Tensor, Axes]:
    """Divide the depth among blocks: partial sums in memory, and a kernel that adds them."""
    part, _ = s[products].split(products.op.reduce_axis[0], nparts=tile.split)
    partial = s.rfactor(products, part)
    sums = s.cache_write(partial, "local")
    flat = s[t.out].fuse(*t.out.op.axis)
    block, thread = s[t.out].split(flat, factor=_REDUCERS)
    bind_all(s, t.out, (block, thread), ("blockIdx.x", "threadIdx.x"))
    s[products].set_scope("local")
    s[products].compute_at(s[t.out], thread)
    s[products].unroll(s[products].op.reduce_axis[0])
    *outer, i, j = s[partial].op.axis
    return partial, sums, (outer, i, j)


def _tile(of: Contraction, config: Config, s: ScheduleHandle, out: Tensor, axes: Axes) -> tuple[IterVar, IterVar]:
    """Split and bind the loops over results; returns the innermost loops of the threads, and over neighbours."""
    outer, i, j = axes
    rows, columns = config["rows"].apply(s, out, i), config["columns"].apply(s, out, j)
    (ib, iv, it, ii), (jb, jv, jt, ji) = rows, columns
    s[out].reorder(*outer, ib, jb, iv, jv, it, jt, ii, ji)
    between = [s[out].fuse(*outer)] if len(outer) > 1 else outer
    s[out].reorder(*between, ib, jb)
    counts = [of.batch * config["split"].val] * len(between) + [
        -(-operand.extent // prod(config[name].size[1:]))
        for operand, name in ((of.rows, "rows"), (of.columns, "columns"))
    ]
    # The dimension x of a grid is the only one that counts further than some ten thousands.
    by_count = sorted(zip(counts, (*between, ib, jb), strict=True), key=lambda each: -each[0])
    for (_, axis), letter in zip(by_count, "xyz", strict=False):
        s[out].bind(axis, thread_axis(f"blockIdx.{letter}"))
    bind_all(s, out, (iv, jv, it, jt), ("vthread", "vthread", "threadIdx.y", "threadIdx.x"))
    return jt, ji


def _loops(of: Contraction, tile: SimtTile, s: ScheduleHandle, sums: Tensor) -> tuple[IterVar, IterVar, IterVar]:
    """Split the depth: slices in shared memory, steps whose factors a thread loads at once, and single products."""
    (k,) = s[sums].op.reduce_axis
    slices, rest = s[sums].split(k, factor=tile.depth)
    step, product = s[sums].split(rest, factor=tile.step(of))
    s[sums].reorder(slices, step, product, *s[sums].op.axis)
    s[sums].unroll(product)
    return slices, step, product


def deal_out(s: ScheduleHandle, tile: Tensor, elements: int, threads: tuple[int, int], width: int) -> None:
    """Let the threads of a block fetch a tile of so many elements, `width` neighbours at a time.

    Neighbouring threads fetch neighbours.
    """
    rest = s[tile].fuse(*tile.op.axis)
    down, across = threads
    inner = []
    if width > 1:
        rest, lanes = s[tile].split(rest, factor=width)
        s[tile].vectorize(lanes)
        inner = [lanes]
    if elements // width < down * across:  # some threads have nothing to fetch
        y, rest = s[tile].split(rest, nparts=down)
        x, rounds = s[tile].split(rest, nparts=across)
    else:
        rounds, thread = s[tile].split(rest, factor=down * across)
        y, x = s[tile].split(thread, factor=across)
    s[tile].reorder(y, x, rounds, *inner)
    s[tile].bind(y, thread_axis("threadIdx.y"))
    s[tile].bind(x, thread_axis("threadIdx.x"))
