"""Convolutions in small groups by matrix instructions over pairs of rows: few terms of an instruction are zeros.

The 16 terms of a matrix instruction are eight channels, of one group or several, in two neighbouring rows of the image.
Its 16 rows are eight filters in two neighbouring rows of results. For a window of three rows, a pair of result rows
reads four image rows: two instructions per column instead of three. The weights of a pair form a band: the weights of
the second row are shifted by one row. In NCHW, each thread loads some columns of eight channels and stores them
transposed, so that its loads are vectors, too.

The model counts lines of 128 bytes, and the latencies of a single warp. The L1 cache and shared memory move one line
per cycle. The model was fitted to 460 kernels of two layers, and is off by 14 % in the mean. The block that it ranks
first takes 1.00 to 1.07 times as long as the fastest measured one. For the larger of the two layers, in NHWC, that
block takes 1.24 times as long.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import gcd, prod
from typing import Any, ClassVar

from ...core.atoms import ATOMS, LANES
from ...core.occupancy import occupancy
from ...expr.operators import floordiv, floormod
from ...schedule.handle import ScheduleHandle
from ...tensor.axis import IterVar, reduce_axis, thread_axis
from ...tensor.tensor import Tensor, compute
from ...tune.model.fitted import Quantities
from ...tune.model.kernel_time import overlapped
from ...tune.model.machine import REFERENCE, Machine
from ...tune.space.config import Config
from ...tune.space.knobs import value_knob
from ...tune.space.space import Space
from . import grouped_mma
from .contraction import rounded
from .convolutions import Conv2dLayer
from .declarations import image_tensor, or_zero, sum_of_products
from .layouts import from_layout, in_layout
from .needs import HALVES, Needs
from .schedule_helpers import GPU, SHARED, bind_all, bind_grid, hold, in_rounds, in_vectors
from .strategy import ScheduleStrategy
from .tensors import Tensors, inputs_named
from .tile_model import EIGHT, EightsTile, TileModel, by_cycles, eights_of

PLANES = 64
"""The number of two-byte elements across all banks of shared memory. Planes of results begin a few elements after a
multiple of this number."""
_MOST_WARPS = 16
"""The most warps per block."""
_MOST_PRODUCTS = 16
"""The most matrix instructions per warp."""


@dataclass(frozen=True)
class RowPairBlock(EightsTile):
    """The work of a block in groups of eight channels, pairs of rows and groups of eight columns: over warps, and per
    warp.

    A lane stores `vector` results at a time to memory. If results are `staged`, it stores two at a time to shared
    memory. In NCHW, a thread loads `turn` columns at a time.
    """

    KNOBS: ClassVar = {
        "tile_y": ("down", "rows"), "tile_x": ("across", "eights"), "units": "units", "vector": "vector",
        "turn": "turn", "store": "staged",
    }  # fmt: skip
    WORDS: ClassVar = {"store": ("fragments", "shared")}
    OTHERS: ClassVar = {"resident": 1}
    HIGH: ClassVar = 2

    units: int
    down: int
    rows: int
    across: int
    eights: int
    vector: int
    turn: int
    staged: bool

    @property
    def warps(self) -> int:
        """The number of warps."""
        return self.units * self.down * self.across

    @property
    def products(self) -> int:
        """The number of matrix instructions that a warp's sums take."""
        return self.rows * self.eights

    @property
    def run(self) -> int:
        """The neighbouring columns of a lane, in groups of eight."""
        return self.vector // 2

    @property
    def tile(self) -> tuple[int, int, int]:
        """The channels, rows and columns of results."""
        return self.units * EIGHT, 2 * self.down * self.rows, self.across * self.eights * EIGHT

    def seen(self, of: Conv2dLayer) -> tuple[int, int]:
        """The rows and columns of the padded image that it reads."""
        _, rows, columns = self.tile
        high = (rows - 2) * of.stride[0] + 2 * pairs_of(of)
        return high, rounded(ahead_of(of, self) + (columns - 1) * of.stride[1] + of.covered[1], self.turn)

    def shared(self, of: Conv2dLayer) -> int:
        """Bytes of shared memory."""
        channels, rows, columns = self.tile
        line = channels if self.units == 1 else channels + EIGHT
        if of.layout == "NCHW":
            results = channels * (rounded(rows * columns, PLANES) + EIGHT)
        else:
            results = (channels + EIGHT) * rows * columns
        return 2 * max(line * prod(self.seen(of)) + taps_of(of) * channels * EIGHT, self.staged * results)

    def is_possible(self, of: Conv2dLayer) -> bool:
        """Whether it fits the hardware and lies mostly inside the image."""
        rows, eights = of.places[0], eights_of(of)
        even = self.eights % self.run == 0 if of.layout == "NCHW" else self.products % 2 == 0  # 16 places
        fits = self.shared(of) <= SHARED.capacity
        narrow = self.eights > eights  # the only tile of a row would be cut to a part of an instruction.
        if self.staged and of.layout == "NCHW":  # A tile of staged results has no more than there are.
            narrow |= self.tile[1] > rows or self.vector > 2 or of.places[1] < EIGHT
            even &= 4 * self.products % stored_together(of) == 0  # all threads store in all rounds
        few = self.products <= _MOST_PRODUCTS and self.warps <= _MOST_WARPS
        return even and fits and few and not self.is_outside(of) and not narrow

    def blocks(self, of: Conv2dLayer) -> int:
        """The number of blocks in the grid."""
        return of.shape[0] * of.shape[1] // self.tile[0] * self.tiles_of(of)

    def moved(self, of: Conv2dLayer, at: Quantities) -> float:
        """Return the cycles in which the cache and shared memory of a multiprocessor move the data of a block."""
        planes, steps, lanes = of.layout == "NCHW", of.kernel[1] * pairs_of(of), GPU.warp
        # Lines of a round of vectors in NHWC.
        lines = max(lanes * GPU.vector_bytes // GPU.warp_memory.line, lanes // self.units)
        if planes:  # eight loads of columns, and a vector of neighbours per thread
            copied = at.load_cycles * max(EIGHT // self.turn, 4) + at.move_cycles * 4 * self.turn
            stored = at.staged_cycles * (2 + 2 + 3) if self.staged else at.move_cycles * 4 * EIGHT / self.vector
        else:
            copied = at.load_cycles * lines + at.move_cycles * 4
            stored = at.staged_cycles * (4 + (lines + 4) / 2) if self.staged else at.move_cycles * 2 * EIGHT
        filled = prod(self.seen(of)) * self.units / lanes * copied
        weights = taps_of(of) * EIGHT * EIGHT * self.units / lanes * at.weight_cycles
        multiplied = at.move_cycles * steps * (2 * gcd(of.stride[1], EIGHT) * self.products + 4)
        return filled + weights + self.warps * (multiplied + self.products * stored)

    def cycles(self, of: Conv2dLayer, machine: Machine) -> float:
        """Return the cycles of the kernel."""
        each, on, at = -(-self.blocks(of) // machine.multiprocessors), machine.hardware, machine.fitted["grouped_rows"]
        threads, steps = self.threads(of), of.kernel[1] * pairs_of(of)
        registers = at.thread_registers + at.product_registers * self.products
        waves = -(-each // max(1, occupancy(on, threads, registers, self.shared(of)).blocks))
        rounds = -(-prod(self.seen(of)) * self.units // (self.turn * threads))
        alone = rounds * at.round_cycles + at.step_cycles + steps * self.products * at.alone_product_cycles
        memory = 2 * (prod(of.shape) + prod(of.out_shape)) / at.l2_bytes_per_cycle
        costs = each * self.moved(of, at), waves * (alone + at.block_cycles), memory
        return float(overlapped(costs, 2) + at.launch_cycles)


def compared(of: Conv2dLayer, cycles: float) -> float:
    """Return the cycles to compare with other strategies."""
    at = REFERENCE.fitted["grouped_rows"]
    return at.comparison_factor * cycles + at.comparison_cycles


def pairs_of(of: Conv2dLayer) -> int:
    """Return the number of pairs of rows of the image that two neighbouring rows of results read."""
    return -(-(of.stride[0] + of.covered[0]) // 2)


def taps_of(of: Conv2dLayer) -> int:
    """Return the number of matrices of eight by eight weights, including zeros above and below the window."""
    return of.kernel[1] * (2 * pairs_of(of) + of.stride[0])


def ahead_of(of: Conv2dLayer, block: RowPairBlock) -> int:
    """Return the zeros to the left of a row, so that each vector lies wholly in the border or wholly in the image."""
    return rounded(of.padding[1], block.turn)


def stored_together(of: Conv2dLayer) -> int:
    """Return the number of results that a thread stores at once from shared memory."""
    return EIGHT if of.layout == "NHWC" else (_divisors(of.places[1]) or [1])[0]


def _divisors(extent: int) -> list[int]:
    """Return the lengths of vectors of 16-bit floats that divide an extent."""
    return [count for count in (8, 4, 2) if extent % count == 0]


@lru_cache(maxsize=64)
def blocks(of: Conv2dLayer) -> tuple[RowPairBlock, ...]:
    """Return all blocks that are possible."""
    pairs, eights = -(-of.places[0] // 2), eights_of(of)
    wide = sorted({c for c in (1, 2, 4, 7, 8) if c <= eights} | {min(eights, EIGHT)})
    tall = [r for r in (1, 2, 4, 7, 8) if r <= pairs]
    units = [u for u in (1, 2, 4, 8) if of.shape[1] % (u * EIGHT) == 0]
    planes = of.layout == "NCHW"
    vectors = _divisors(of.places[1]) or [2] if planes else [2]
    turns = _divisors(of.shape[3]) or [1] if planes else [1]
    tiles = product(units, (1, 2, 4, 7, 8, 14), tall, (1, 2, 4), wide, vectors, turns, (False, True))
    made = (RowPairBlock(*each) for each in tiles)
    return tuple(block for block in made if block.is_possible(of))


def space(of: Conv2dLayer) -> Space:
    """The knobs.

    `tile_y`: pairs of rows of results, over blocks, warps and a warp's own; `tile_x`: the same for groups of eight
    columns. `units`: groups of eight channels per block. `vector`: neighbouring results that a lane stores at once.
    `turn`: columns of the image that a thread loads at once. `store`: whether results are stored straight from
    registers or through shared memory. `resident`: the blocks per multiprocessor for which the compiler limits
    registers.
    """
    extents = {"tile_y": -(-of.places[0] // 2), "tile_x": eights_of(of)}
    resident = value_knob("resident", [1, 2, 3, 4, 5, 6])
    return RowPairBlock.space_around(of, blocks(of), extents, resident)


def declare(of: Conv2dLayer, data: Tensor, weights: Tensor, config: Config, bias: Tensor | None = None) -> Tensor:
    """Declare the weights, the padded image, and the products over whole tiles, which start at the bias if there is
    one."""
    block, (sy, sx), (dy, dx) = RowPairBlock.of(config), of.stride, of.dilation
    _, rows, columns = block.tile
    pairs, spans = rounded(of.places[0], rows) // 2, rounded(of.places[1], columns) // (block.run * EIGHT)
    group, ahead = of.per_group, ahead_of(of, block)

    def tap(u: Any, x: Any, y: Any, f: Any, c: Any) -> Any:
        row = y - sy
        inside = [row >= 0, row < of.covered[0], floordiv(f, group).equal(floordiv(c, group))]
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
        start = None if bias is None else bias(u * EIGHT + f)
        return sum_of_products("float32", weight, seen, [ry, rx, ri, rc], start)

    products = compute((of.shape[0], eights, pairs, spans, *_extents(of, block)), summed, "products")

    def placed(n: Any, f: Any, y: Any, x: Any) -> Any:
        span = block.run * EIGHT
        inner = _outer(of, block, floormod(y, 2), floormod(f, EIGHT), floormod(x, span))
        return products(n, floordiv(f, EIGHT), floordiv(y, 2), floordiv(x, span), *inner)

    return image_tensor(of.layout, (of.shape[0], of.filters, *of.places), placed, "sums", "contraction")


def _extents(of: Conv2dLayer, block: RowPairBlock) -> tuple[int, ...]:
    """Return the extents of a tile of products: rows of a pair, filters, and columns; in NHWC, columns first.

    A lane holds two columns of each group of eight. In NCHW, columns are ordered so that a lane holds neighbours.
    """
    return (EIGHT, 2, EIGHT) if of.layout == "NHWC" else (2, EIGHT, block.run, 4, 2)


def _inner(of: Conv2dLayer, block: RowPairBlock, *inner: Any) -> tuple[Any, Any, Any]:
    """Return the row of a pair, the filter and the column of an element in a tile of products."""
    if of.layout == "NHWC":
        column, second, f = inner
        return second, f, column
    second, f, part, lane, neighbour = inner
    return second, f, lane * block.vector + part * 2 + neighbour


def _outer(of: Conv2dLayer, block: RowPairBlock, second: Any, f: Any, column: Any) -> tuple[Any, ...]:
    """Return the inverse of `_inner`."""
    if of.layout == "NHWC":
        return column, second, f
    part, lane = floormod(floordiv(column, 2), block.run), floordiv(column, block.vector)
    return second, f, part, lane, floormod(column, 2)


def _image(of: Conv2dLayer, data: Tensor, block: RowPairBlock, pairs: int, spans: int) -> Tensor:
    """Declare the padded image with channels last. In NCHW, it is built from columns that a thread loads together."""
    (images, channels, height, width), (sy, sx) = of.shape, of.stride
    (top, _, _, _), ahead, turn = of.padding, ahead_of(of, block), block.turn
    held, high = block.tile[0], 2 * (pairs - 1) * sy + 2 * pairs_of(of)
    wide = rounded(ahead + (spans * block.run * EIGHT - 1) * sx + of.covered[1], turn) // turn
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


def schedule(of: Conv2dLayer, config: Config, s: ScheduleHandle, t: Tensors) -> None:
    """Tile the results over blocks and warps, with image and weights in shared memory and sums in the registers of
    warps."""
    block, out = RowPairBlock.of(config), t.out
    (products,) = t.sums.op.input_tensors
    taps, image = inputs_named(products, "taps", "image")
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
        else:  # four lanes store pairs to each of eight planes
            s[holder].storage_align(inner[0], PLANES, EIGHT)
    warp = _over_warps(of, block, s, holder, inner)
    s[holder].bind(warp, thread_axis("threadIdx.y"))
    s[holder].pragma(warp, "resident_blocks", config["resident"].val)
    s[products].compute_at(s[holder], warp)
    _, _, *data = products.op.axis
    s[products].reorder(*data, *products.op.reduce_axis)
    for tile in (taps, image):
        hold(s, tile, "shared", out, tiles)
    if of.layout == "NCHW":
        _turn(s, image, block.warps)
    else:
        in_vectors(s, image, EIGHT)
    s[products].tensorize(data[0], ATOMS[HALVES[of.dtype]])


def _over_tiles(
    of: Conv2dLayer, block: RowPairBlock, s: ScheduleHandle, out: Tensor
) -> tuple[IterVar, IterVar, list[IterVar]]:
    """Split the loops of a result; returns a block's loops over channels and over positions, and the loops within a
    tile."""
    n, *axes = from_layout(of.layout, tuple(out.op.axis))
    (pack, f), (y_block, y), (x_block, x) = (
        s[out].split(axis, factor=size) for axis, size in zip(axes, block.tile, strict=True)
    )
    inner = [axis for axis in in_layout(of.layout, (None, f, y, x)) if axis is not None]
    s[out].reorder(n, pack, y_block, x_block, *inner)
    return s[out].fuse(n, pack), s[out].fuse(y_block, x_block), inner


def _over_warps(
    of: Conv2dLayer, block: RowPairBlock, s: ScheduleHandle, holder: Tensor, inner: list[IterVar]
) -> IterVar:
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
    hold(s, columns, "local", image, lane)
    *_, channel, j = columns.op.axis
    s[columns].unroll(channel)
    s[columns].vectorize(j)


def computes(of: Conv2dLayer, machine: Machine) -> bool:
    """Return whether `grouped_mma` computes the workload and some block fits the hardware."""
    return grouped_mma.computes(of, machine) and bool(blocks(of))


NEEDS = Needs(atoms=HALVES, layouts=("NCHW", "NHWC"), group_channels=(2, 4, 8))
_MODEL: TileModel[Conv2dLayer] = TileModel(by_cycles(blocks), RowPairBlock.of, compared=compared)
ON_GPU: ScheduleStrategy[Conv2dLayer] = ScheduleStrategy(
    space, schedule, _MODEL.default, NEEDS, None, computes, _MODEL.model, starts_at_bias=True, declare_for=declare
)
