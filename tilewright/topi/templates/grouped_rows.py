"""Convolutions in small groups by matrix instructions over pairs of rows: few terms of an instruction are zeros.

Eight channels, of one group or of several, and two neighbouring rows of the image are the 16 terms of a matrix
instruction; the same eight filters in two neighbouring rows of results are its 16 rows. A window of three rows sees
four rows of the image from there: two instructions for each of its columns, instead of three with one for each tap. The
weights of a pair are a band: the weights of the second row stand one row further. In NCHW, each thread loads some
columns of eight channels and stores them turned, so that loads are vectors too.
"""

from __future__ import annotations

from typing import Any

from ...core.atoms import ATOMS, LANES
from ...expr.convert import cast
from ...expr.operators import floordiv, floormod
from ...schedule.handle import ScheduleHandle
from ...tensor.axis import IterVar, reduce_axis, thread_axis
from ...tensor.reduction import sum as reduce_sum
from ...tensor.tensor import Tensor, compute
from ...tune.model.machine import Machine
from ...tune.space.config import Config
from ...tune.space.knobs import value_knob
from ...tune.space.space import Space
from . import grouped_mma
from .contraction import rounded
from .convolutions import Conv2d
from .declarations import image_tensor, or_zero
from .layouts import from_layout, in_layout
from .needs import Needs
from .row_pair_blocks import (
    EIGHT,
    PLANES,
    TYPES,
    RowPairBlock,
    ahead_of,
    blocks,
    compared,
    eights_of,
    pairs_of,
    reach,
    stored_together,
    taps_of,
)
from .schedule_helpers import bind_all, bind_grid, in_rounds, in_vectors
from .strategy import ScheduleStrategy
from .tensors import Tensors
from .tile_model import TileModel, by_cycles


def space(of: Conv2d) -> Space:
    """The knobs.

    `tile_y`: pairs of rows of results, over blocks, warps and a warp's own; `tile_x`: the same of columns, by eights.
    `units`: eights of channels of a block. `vector`: neighbouring results that a lane stores at once. `turn`: columns
    of the image that a thread loads at once. `store`: how results get to memory, right from the registers or through
    shared memory. `resident`: blocks that the compiler makes room for on a multiprocessor.
    """
    extents = {"tile_y": -(-of.places[0] // 2), "tile_x": eights_of(of)}
    resident = value_knob("resident", [1, 2, 3, 4, 5, 6])
    return RowPairBlock.space(of, blocks(of), extents, "a block that the hardware can hold", resident)


def declare(of: Conv2d, data: Tensor, weights: Tensor, config: Config, bias: Tensor | None = None) -> Tensor:
    """Declare the weights, the padded image, and the products over whole tiles, which start at a bias."""
    block, (sy, sx), (dy, dx) = RowPairBlock.of(config), of.stride, of.dilation
    _, rows, columns = block.tile
    pairs, spans = rounded(of.places[0], rows) // 2, rounded(of.places[1], columns) // (block.run * EIGHT)
    group, ahead = of.per_group, ahead_of(of, block)

    def tap(u: Any, x: Any, y: Any, f: Any, c: Any) -> Any:
        row = y - sy
        inside = [row >= 0, row <= reach(of)[0], floordiv(f, group).equal(floordiv(c, group))]
        inside += [floormod(row, dy).equal(0)] if dy > 1 else []
        return or_zero(inside, weights(u * EIGHT + f, floormod(c, group), floordiv(row, dy), x), of.dtype)

    eights = of.shape[1] // EIGHT
    taps = compute((eights, of.kernel[1], taps_of(of) // of.kernel[1], EIGHT, EIGHT), tap, "taps")
    image = _image(of, data, block, pairs, spans)
    ry, rx, ri, rc = (
        reduce_axis((0, extent), name)
        for extent, name in ((pairs_of(of), "ry"), (of.kernel[1], "rx"), (2, "ri"), (EIGHT, "rc"))
    )

    def summed(n: Any, u: Any, y: Any, o: Any, *inner: Any) -> Any:
        second, f, column = _inner(of, block, *inner)
        x = (o * block.run * EIGHT + column) * sx + rx * dx + ahead - of.padding[1]
        at = (floordiv(x, block.turn), floormod(x, block.turn))
        seen = image(
            n, floordiv(u, block.units), y * (2 * sy) + ry * 2 + ri, *at, floormod(u, block.units) * EIGHT + rc
        )
        weight = taps(u, rx, ry * 2 + ri + (1 - second) * sy, f, rc)
        start = None if bias is None else cast("float32", bias(u * EIGHT + f))
        return reduce_sum(cast("float32", weight) * cast("float32", seen), [ry, rx, ri, rc], init=start)

    products = compute((of.shape[0], eights, pairs, spans, *_extents(of, block)), summed, "products")

    def placed(n: Any, f: Any, y: Any, x: Any) -> Any:
        span = block.run * EIGHT
        inner = _outer(of, block, floormod(y, 2), floormod(f, EIGHT), floormod(x, span))
        return products(n, floordiv(f, EIGHT), floordiv(y, 2), floordiv(x, span), *inner)

    return image_tensor(of.layout, (of.shape[0], of.filters, *of.places), placed, "sums", "contraction")


def _extents(of: Conv2d, block: RowPairBlock) -> tuple[int, ...]:
    """The extents of a tile of products: row of a pair, filter, and columns; in NHWC the columns first.

    In NCHW, columns are in an order in which a lane, which holds two of each eight, holds neighbours.
    """
    return (EIGHT, 2, EIGHT) if of.layout == "NHWC" else (2, EIGHT, block.run, 4, 2)


def _inner(of: Conv2d, block: RowPairBlock, *inner: Any) -> tuple[Any, Any, Any]:
    """Row of a pair, filter and column of a place in a tile of products."""
    if of.layout == "NHWC":
        column, second, f = inner
        return second, f, column
    second, f, part, lane, neighbour = inner
    return second, f, lane * block.vector + part * 2 + neighbour


def _outer(of: Conv2d, block: RowPairBlock, second: Any, f: Any, column: Any) -> tuple[Any, ...]:
    """The opposite of `_inner`."""
    if of.layout == "NHWC":
        return column, second, f
    part, lane = floormod(floordiv(column, 2), block.run), floordiv(column, block.vector)
    return second, f, part, lane, floormod(column, 2)


def _image(of: Conv2d, data: Tensor, block: RowPairBlock, pairs: int, spans: int) -> Tensor:
    """Declare the padded image with channels last; of NCHW, from columns that a thread loads together."""
    (images, channels, height, width), (sy, sx) = of.shape, of.stride
    (top, _, _, _), ahead, turn = of.padding, ahead_of(of, block), block.turn
    held, high = block.tile[0], 2 * (pairs - 1) * sy + 2 * pairs_of(of)
    wide = rounded(ahead + (spans * block.run * EIGHT - 1) * sx + reach(of)[1] + 1, turn) // turn
    first, past = (ahead // turn, (width + ahead) // turn) if width % turn == 0 else (0, wide)

    def loaded(n: Any, p: Any, y: Any, q: Any, c: Any, j: Any) -> Any:
        x = q * turn + j
        inside = [y >= top, y < height + top, q >= first, q < past]
        inside += [] if width % turn == 0 else [x >= ahead, x < width + ahead]
        return or_zero(inside, data(*in_layout(of.layout, (n, p * held + c, y - top, x - ahead))), of.dtype)

    grid = (images, channels // held, high, wide)
    if of.layout == "NHWC":
        made: Tensor = compute((*grid, turn, held), lambda n, p, y, q, j, c: loaded(n, p, y, q, c, j), "image")
        return made
    columns = compute((*grid, held, turn), loaded, "columns")
    turned: Tensor = compute((*grid, turn, held), lambda n, p, y, q, j, c: columns(n, p, y, q, c, j), "image")
    return turned


def schedule(of: Conv2d, config: Config, s: ScheduleHandle, t: Tensors) -> None:
    """Tile the results over blocks and warps; image and weights in shared memory, sums in the registers of warps."""
    block, out = RowPairBlock.of(config), t.out
    (products,) = t.sums.op.input_tensors
    taps, image = (next(t for t in products.op.input_tensors if t.op.name == name) for name in ("taps", "image"))
    s[products].set_scope("local")
    holder = out
    if block.staged:
        _over_tiles(of, block, s, out)
        holder = s.cache_write(out, "shared")
    packs, tiles, inner = _over_tiles(of, block, s, out)
    bind_grid(s, out, (packs, tiles), of.shape[0] * of.shape[1] // block.tile[0])
    if block.staged:
        threads = ("threadIdx.y", block.warps), ("threadIdx.x", LANES)
        rounds, *loops = in_rounds(s, out, in_vectors(s, out, stored_together(of), inner), threads)
        s[out].reorder(*loops, rounds)
        s[holder].compute_at(s[out], tiles)
        inner = list(holder.op.axis[-3:])
        if of.layout == "NHWC":
            s[holder].storage_align(inner[1], 2 * EIGHT, EIGHT)
        else:  # eight planes, to each of which four lanes store pairs
            s[holder].storage_align(inner[0], PLANES, EIGHT)
    warp = _over_warps(of, block, s, holder, inner)
    s[holder].bind(warp, thread_axis("threadIdx.y"))
    s[holder].pragma(warp, "resident_blocks", config["resident"].val)
    s[products].compute_at(s[holder], warp)
    _, _, *data = products.op.axis
    s[products].reorder(*data, *products.op.reduce_axis)
    for tile in (taps, image):
        s[tile].set_scope("shared")
        s[tile].compute_at(s[out], tiles)
    if of.layout == "NCHW":
        _turn(s, image, block.warps)
    else:
        in_vectors(s, image, EIGHT)
    s[products].tensorize(data[0], ATOMS[TYPES[of.dtype]])


def _over_tiles(
    of: Conv2d, block: RowPairBlock, s: ScheduleHandle, out: Tensor
) -> tuple[IterVar, IterVar, list[IterVar]]:
    """Split the loops of a result; returns the loops over channels and over places of blocks, and the loops within a
    tile."""
    n, *axes = from_layout(of.layout, tuple(out.op.axis))
    (pack, f), (y_block, y), (x_block, x) = (
        s[out].split(axis, factor=size) for axis, size in zip(axes, block.tile, strict=True)
    )
    inner = [axis for axis in in_layout(of.layout, (None, f, y, x)) if axis is not None]
    s[out].reorder(n, pack, y_block, x_block, *inner)
    return s[out].fuse(n, pack), s[out].fuse(y_block, x_block), inner


def _over_warps(of: Conv2d, block: RowPairBlock, s: ScheduleHandle, holder: Tensor, inner: list[IterVar]) -> IterVar:
    """Split the loops over a tile; returns the loop over warps."""
    _, f, y, x = from_layout(of.layout, (None, *inner))
    unit, f = s[holder].split(f, factor=EIGHT)
    y, second = s[holder].split(y, factor=2)
    x, column = s[holder].split(x, factor=block.run * EIGHT)
    y, yi = s[holder].split(y, factor=block.rows)
    x, xi = s[holder].split(x, factor=block.eights // block.run)
    if of.layout == "NHWC":
        s[holder].reorder(unit, y, x, yi, xi, column, second, f)
    else:
        lane, column = s[holder].split(column, factor=block.vector)
        part, neighbour = s[holder].split(column, factor=2)
        s[holder].reorder(unit, y, x, yi, xi, second, f, lane, part, neighbour)
    warp: IterVar = s[holder].fuse(unit, s[holder].fuse(y, x))
    return warp


def _turn(s: ScheduleHandle, image: Tensor, warps: int) -> None:
    """Have each thread load some columns of eight channels, and store each of them as a vector."""
    (columns,) = image.op.input_tensors
    _, _, y, q, j, channel = image.op.axis
    unit, channel = s[image].split(channel, factor=EIGHT)
    s[image].reorder(unit, y, q, j, channel)
    _, thread = s[image].split(s[image].fuse(unit, s[image].fuse(y, q)), factor=warps * LANES)
    warp, lane = s[image].split(thread, factor=LANES)
    bind_all(s, image, (warp, lane), ("threadIdx.y", "threadIdx.x"))
    s[image].unroll(j)
    s[image].vectorize(channel)
    s[columns].set_scope("local")
    s[columns].compute_at(s[image], lane)
    *_, channel, j = columns.op.axis
    s[columns].unroll(channel)
    s[columns].vectorize(j)


def computes(of: Conv2d, machine: Machine) -> bool:
    """Return whether `grouped_mma` computes a workload, and a block fits."""
    return grouped_mma.computes(of, machine) and bool(blocks(of))


NEEDS = Needs(atoms=TYPES, layouts=("NCHW", "NHWC"), group_channels=(2, 4, 8))
_MODEL: TileModel[Conv2d] = TileModel(by_cycles(blocks), RowPairBlock.of, compared=compared)
ON_GPU: ScheduleStrategy[Conv2d] = ScheduleStrategy(
    space, schedule, _MODEL.default, NEEDS, None, computes, _MODEL.model, starts_at_bias=True, declare_for=declare
)
