"""Depthwise convolutions by matrix instructions: each row of a window as a band of a Toeplitz matrix.

Eight neighbouring results of a row are the product of their inputs and a band matrix, `T[k, j] = w[k - j]`. Several
such groups of eight fill the rows of a matrix instruction. A warp adds one product for each row of the window. At least
half of the terms are zeros. Matrix units make up for them: they multiply 16-bit floats eight times as fast as other
units, and sum exact products in float32.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import inf, prod
from typing import Any, ClassVar

from ...core.atoms import ATOMS
from ...core.occupancy import occupancy
from ...expr.operators import floordiv, floormod
from ...schedule.handle import ScheduleHandle
from ...tensor.axis import reduce_axis
from ...tensor.tensor import Tensor, compute
from ...tune.model.kernel_time import memory_cycles, overlapped
from ...tune.model.machine import REFERENCE, Machine
from ...tune.space.config import Config
from ...tune.space.space import Space
from .convolutions import Depthwise
from .declarations import bordered, or_zero, sum_of_products
from .needs import HALVES, Needs
from .schedule_helpers import SHARED, bind_all, bind_grid, hold, in_vectors, split_all
from .strategy import ScheduleStrategy
from .tensors import FIRST, HELD, Tensors, bias_knob, inputs_named, read_once, when
from .tile_model import EIGHT, EightsTile, TileModel, by_cycles, eights_of

NEEDS = Needs(atoms=HALVES, layouts=("NCHW",), scope="windows of stride and dilation 1")
_BLOCK_WARPS = 8
"""Warps of a block."""
_MOST_PRODUCTS = 8
"""The most matrix instructions that hold sums in a warp's registers."""
_LEAST_COLUMNS = 5
"""The least columns of a window for which a band pays."""
_LEAST_COLUMNS_OF_ONE_ROW = 16
"""The least columns of a window of one row that is not bound by memory."""


@dataclass(frozen=True)
class BandBlock(EightsTile):
    """The tile of a block in channels, rows and groups of eight columns: over warps, and per warp."""

    KNOBS: ClassVar = {
        "tile_y": ("down", "rows"), "tile_x": ("across", "eights"), "planes": "planes", "images": "images"
    }  # fmt: skip

    down: int
    rows: int
    across: int
    eights: int
    planes: int
    images: int

    @property
    def warps(self) -> int:
        """The number of warps."""
        return self.down * self.across * self.planes

    @property
    def products(self) -> int:
        """The number of matrix instructions that a warp's sums take."""
        return self.rows * self.eights // 16

    def tile(self, of: Depthwise) -> int:
        """The number of input elements that it holds per channel."""
        return (self.down * self.rows + of.kernel[0] - 1) * _width(of, self.across * self.eights)

    def is_possible(self, of: Depthwise) -> bool:
        """Whether it consists of whole matrix instructions, fits the hardware, and lies mostly inside the image."""
        whole = self.rows * self.eights % 16 == 0 and self.products <= _MOST_PRODUCTS and 1 in (self.down, self.across)
        held = 2 * self.planes * (self.tile(of) + _band(of))
        return whole and not self.is_outside(of) and self.warps <= _BLOCK_WARPS and held <= SHARED.capacity

    def blocks(self, of: Depthwise) -> int:
        """The number of blocks in the grid."""
        return prod(of.shape[:2]) // (self.planes * self.images) * self.tiles_of(of)

    def cycles(self, of: Depthwise, machine: Machine) -> float:
        """Return the cycles of the kernel."""
        each, at = -(-self.blocks(of) // machine.multiprocessors), machine.fitted["depthwise_mma"]
        steps = of.kernel[0] * _depth(of) / 16
        conflict = {1: 1.0, 2: at.paired_conflict_factor}.get(self.eights, at.conflict_factor)
        conflict = 1.0 if self.eights % EIGHT == 0 else conflict
        multiplied = self.warps * self.products * (steps * at.product_cycles * conflict + at.store_cycles)
        filled = self.planes * (self.tile(of) / _fetch(of) * at.fetch_cycles + _band(of) * at.band_cycles / self.images)
        held = 2 * self.planes * (self.tile(of) + _band(of))
        resident = occupancy(machine.hardware, self.threads(of), at.thread_registers, held).blocks
        resident = max(1, min(resident, each))
        alone = self.images * steps * (at.step_cycles + self.products * at.alone_product_cycles * conflict)
        alone = (self.images - 1) * at.image_cycles + alone
        memory = memory_cycles(2 * (prod(of.shape) + prod(of.out_shape)), at)
        busy = each * self.images * (multiplied + filled)
        return float(overlapped((busy, each / resident * alone, memory), 2) + at.launch_cycles)


@lru_cache(maxsize=64)
def blocks(of: Depthwise) -> tuple[BandBlock, ...]:
    """Return all blocks that are possible."""
    rows, eights = of.places[0], eights_of(of)
    wide = sorted({c for c in (1, 2, 4, 8, 16, 32) if c < 2 * eights} | {eights})
    tall = [r for r in (1, 2, 4, 8, 16) if r < 2 * rows]
    planes = [p for p in (1, 2, 4, 8) if of.shape[1] % p == 0]
    images = [i for i in (1, 2, 4, 8) if of.shape[0] % i == 0]
    tiles = [each for each in product((1, 2, 4, 7, 8), tall, (1, 2, 4, 8), wide) if each[1] * each[3] % 16 == 0]
    made = (BandBlock(*tile, *more) for tile, more in product(tiles, product(planes, images)))
    return tuple(block for block in made if block.is_possible(of))


def space(of: Depthwise) -> Space:
    """The knobs.

    `tile_y`: rows of results, over blocks, warps and a warp's own; `tile_x`: the same for groups of eight columns.
    `planes`: channels per block. `images`: images that a block computes one after another, with the same weights.
    `bias`: when the bias is added, see `tensors.py`.
    """
    extents = {"tile_y": of.places[0], "tile_x": eights_of(of)}
    return BandBlock.space_around(of, blocks(of), extents, bias_knob((FIRST, HELD)))


def _band(of: Depthwise) -> int:
    """Return the number of elements in the bands of a channel."""
    return of.kernel[0] * _depth(of) * EIGHT


def _fetch(of: Depthwise) -> int:
    """Return the number of neighbours per load that makes the sums shortest."""
    able = [c for c in (8, 4, 2, 1) if of.shape[3] % c == 0]
    return min(able, key=lambda c: (_terms(of, c), -c))


def _ahead(of: Depthwise, fetch: int) -> int:
    """Return the zeros to the left of a row, so that each vector lies wholly in the border or wholly in the image."""
    return -(-of.padding[1] // fetch) * fetch


def _terms(of: Depthwise, fetch: int) -> int:
    seen = _ahead(of, fetch) - of.padding[1] + EIGHT - 1 + of.kernel[1]
    return -(-seen // 16) * 16


def _depth(of: Depthwise) -> int:
    """Return the number of terms in the product of one row of the window."""
    return _terms(of, _fetch(of))


def _width(of: Depthwise, eights: int) -> int:
    """Input columns read by `eights` groups of eight outputs."""
    return (eights - 1) * EIGHT + _depth(of)


def declare(of: Depthwise, data: Tensor, weights: Tensor, bias: Tensor | None = None) -> Tensor:
    """Declare the bands, the padded input, and the products, which start at the bias if there is one."""
    (images, channels, _, _), (kh, kw), left = of.shape, of.kernel, _ahead(of, _fetch(of))
    before, depth, rows, eights = left - of.padding[1], _depth(of), of.places[0], eights_of(of)

    def banded(c: Any, ry: Any, k: Any, j: Any) -> Any:
        tap = k - j - before
        return or_zero([tap >= 0, tap < kw], weights(c, 0, ry, tap), of.dtype)

    padded = compute(
        (images, channels, rows + kh - 1, _width(of, eights)), bordered(of, data, of.padding[0], left), "padded"
    )
    band = compute((channels, kh, depth, EIGHT), banded, "band")
    ry, k = reduce_axis((0, kh), name="ry"), reduce_axis((0, depth), name="k")

    def summed(n: Any, c: Any, y: Any, o: Any, j: Any) -> Any:
        seen = padded(n, c, y + ry, o * EIGHT + k)
        start = None if bias is None else bias(c)
        return sum_of_products("float32", seen, band(c, ry, k, j), [ry, k], start)

    products = compute((images, channels, rows, eights, EIGHT), summed, "products")

    def placed(n: Any, c: Any, y: Any, x: Any) -> Any:
        return products(n, c, y, floordiv(x, EIGHT), floormod(x, EIGHT))

    made: Tensor = compute(of.out_shape, placed, "sums", "contraction")
    return made


def schedule(of: Depthwise, config: Config, s: ScheduleHandle, t: Tensors) -> None:
    """Tile the results over blocks and warps, with inputs and bands in shared memory and sums in the registers of
    warps."""
    out = t.out
    (products,) = t.sums.op.input_tensors
    padded, band = inputs_named(products, "padded", "band")
    *_, row, o, _ = products.op.axis
    s[products].round_up((row, prod(config["tile_y"].size[1:])), (o, prod(config["tile_x"].size[1:])))
    s[products].set_scope("local")
    n, c, y, x = out.op.axis
    n, image = s[out].split(n, factor=config["images"].val)
    c, plane = s[out].split(c, factor=config["planes"].val)
    eight, lane = s[out].split(x, factor=EIGHT)
    (y_block, y_warp, yi), (x_block, x_warp, xi) = split_all(config, s, out, tile_y=y, tile_x=eight)
    s[out].reorder(n, c, y_block, x_block, image, plane, y_warp, x_warp, yi, xi, lane)
    images, tiles = s[out].fuse(n, c), s[out].fuse(y_block, x_block)
    warp = s[out].fuse(y_warp, x_warp)
    bind_grid(s, out, (images, tiles), of.shape[0] * of.shape[1])
    bind_all(s, out, (plane, warp), ("threadIdx.z", "threadIdx.y"))
    s[products].compute_at(s[out], warp)
    *_, row, o, j = s[products].op.axis
    ry, k = s[products].op.reduce_axis
    s[products].reorder(ry, row, o, j, k)
    for tile, scope_at in ((padded, image), (band, tiles)):
        hold(s, tile, "shared", out, scope_at)
    fetch = _fetch(of)
    if fetch > 1:
        in_vectors(s, padded, fetch)
    s[products].tensorize(row, ATOMS[NEEDS.atoms[of.dtype]])
    if when(config) == HELD:
        read_once(s, t, (out,), (out, warp))


def _compared(of: Depthwise, cycles: float) -> float:
    """Return the cycles to compare with the direct strategy's; 0 for narrow windows of one row."""
    factor = REFERENCE.fitted["depthwise_mma"].comparison_factor
    return inf if of.places[0] == 1 and of.kernel[1] < _LEAST_COLUMNS_OF_ONE_ROW else cycles * factor


def computes(of: Depthwise, machine: Machine) -> bool:
    """Return whether windows have several columns and stride 1."""
    simple = of.multiplier == 1 and of.stride == (1, 1) and of.dilation == (1, 1)
    return simple and of.kernel[1] >= _LEAST_COLUMNS and bool(blocks(of))


_MODEL: TileModel[Depthwise] = TileModel(by_cycles(blocks), BandBlock.of, compared=_compared)
ON_GPU: ScheduleStrategy[Depthwise] = ScheduleStrategy(
    space, schedule, _MODEL.default, NEEDS, declare, computes, _MODEL.model, starts_at_bias=True
)
