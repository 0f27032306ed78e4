"""Convolutions in small groups by matrix instructions: several groups form one block-diagonal matrix.

A matrix instruction multiplies 16 terms, more than the channels of a small group. So the filters of neighbouring groups
are packed. The weights of one tap are a matrix of 16 filters by 16 channels, with zeros for pairs of different groups.
Matrix units are fast enough to make up for the zeros. A tile of the image lies in shared memory with channels last, for
any layout in memory. Each tap reads a matrix from there, shifted by that tap.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import prod
from typing import Any, ClassVar

from ...core.atoms import ATOMS
from ...core.occupancy import occupancy
from ...expr.convert import const
from ...expr.operators import floordiv, floormod, if_then_else
from ...schedule.handle import ScheduleHandle
from ...tensor.axis import reduce_axis
from ...tensor.tensor import Tensor, compute
from ...tune.model.kernel_time import overlapped
from ...tune.model.machine import Machine
from ...tune.space.config import Config
from ...tune.space.knobs import value_knob
from ...tune.space.space import Space
from .convolutions import Conv2dLayer
from .declarations import bordered, image_tensor, sum_of_products
from .direct import direct_beside
from .layouts import from_layout
from .needs import HALVES, Needs
from .schedule_helpers import SHARED, bind_all, bind_grid, hold, in_vectors, split_all
from .strategy import ScheduleStrategy
from .tensors import Tensors, inputs_named
from .tile_model import EIGHT, EightsTile, TileModel, by_cycles, eights_of

_PACK_CHANNELS = 16
"""The number of channels, and of filters, in a pack."""
_POSITION_ELEMENTS = 24
"""Elements from one place of the image to the next in shared memory: 16 channels, and a padding against bank
conflicts."""
NEEDS = Needs(atoms=HALVES, layouts=("NCHW", "NHWC"), group_channels=(2, 4, 8, 16))
_MOST_WARPS = 14
"""The most warps per block."""
_MOST_PRODUCTS = 28
"""The most matrix instructions that hold sums in a warp's registers."""


@dataclass(frozen=True)
class GroupBlock(EightsTile):
    """The tile of a block for one pack of filters, in rows and groups of eight columns: over warps, and per warp."""

    KNOBS: ClassVar = {"tile_y": ("down", "rows"), "tile_x": ("across", "eights")}
    OTHERS: ClassVar = {"vector": 8, "resident": 1}

    down: int
    rows: int
    across: int
    eights: int

    @property
    def warps(self) -> int:
        """The number of warps."""
        return self.down * self.across

    @property
    def products(self) -> int:
        """The number of matrix instructions that a warp's sums take."""
        return self.rows * self.eights

    def seen(self, of: Conv2dLayer) -> tuple[int, int]:
        """The rows and columns of the padded image that it reads."""
        return of.seen(self.down * self.rows, self.across * self.eights * EIGHT)

    def shared(self, of: Conv2dLayer) -> int:
        """Bytes of shared memory."""
        return 2 * _POSITION_ELEMENTS * (prod(self.seen(of)) + prod(of.kernel) * _PACK_CHANNELS)

    def is_possible(self, of: Conv2dLayer) -> bool:
        """Whether it fits the hardware and lies mostly inside the image."""
        fits = self.shared(of) <= SHARED.capacity
        whole = of.layout == "NCHW" or self.products % 2 == 0  # places are the rows of a matrix instruction, 16 of them
        return (
            whole and self.products <= _MOST_PRODUCTS and self.warps <= _MOST_WARPS and fits and not self.is_outside(of)
        )

    def blocks(self, of: Conv2dLayer) -> int:
        """The number of blocks in the grid."""
        return of.shape[0] * of.shape[1] // _PACK_CHANNELS * self.tiles_of(of)

    def cycles(self, of: Conv2dLayer, machine: Machine) -> float:
        """Return the cycles of the kernel."""
        each, at = -(-self.blocks(of) // machine.multiprocessors), machine.fitted["grouped"]
        on, taps, threads = machine.hardware, prod(of.kernel), self.threads(of)
        rounds = -(-prod(self.seen(of)) * _PACK_CHANNELS // (EIGHT * threads)) if of.layout == "NCHW" else 0
        filled = rounds * at.fetch_cycles + -(-taps * _PACK_CHANNELS * _PACK_CHANNELS // threads) * at.tap_cycles
        busy = each * self.warps * (taps * self.products * at.product_cycles + filled)
        resident = occupancy(on, threads, at.thread_registers + 4 * self.products, self.shared(of)).blocks
        waves = max(1.0, each / max(1, resident))
        alone = rounds * at.round_cycles + taps * (at.step_cycles + self.products * at.alone_product_cycles)
        memory = 2 * (prod(of.shape) + prod(of.out_shape)) / at.l2_bytes_per_cycle
        return float(overlapped((busy, waves * (alone + at.block_cycles), memory), 2) + at.launch_cycles)


@lru_cache(maxsize=64)
def blocks(of: Conv2dLayer) -> tuple[GroupBlock, ...]:
    """Return all blocks that are possible."""
    wide = sorted({c for c in (1, 2, 4, 7) if c <= eights_of(of)} | {min(eights_of(of), _MOST_PRODUCTS)})
    tall = [r for r in (1, 2, 4, 7, 8) if r <= of.places[0]]
    made = (GroupBlock(*each) for each in product((1, 2, 4, 7, 8, 14), tall, (1, 2, 4), wide))
    return tuple(block for block in made if block.is_possible(of))


def space(of: Conv2dLayer) -> Space:
    """The knobs.

    `tile_y`: rows of results, over blocks, warps and a warp's own; `tile_x`: the same for groups of eight columns.
    `vector`: channels of the image that a thread copies at once. `resident`: the blocks per multiprocessor for which
    the compiler limits registers.
    """
    extents = {"tile_y": of.places[0], "tile_x": eights_of(of)}
    others = value_knob("vector", [4, 8]), value_knob("resident", [1, 2, 3, 4, 5, 6])
    return GroupBlock.space_around(of, blocks(of), extents, *others)


def declare(of: Conv2dLayer, data: Tensor, weights: Tensor, bias: Tensor | None = None) -> Tensor:
    """Declare the packed weights, the padded image, and the products, which start at the bias if there is one."""
    (images, channels, _, _), (kh, kw) = of.shape, of.kernel
    group = channels // of.groups
    packs, rows, eights, zero = channels // _PACK_CHANNELS, of.places[0], eights_of(of), const(0.0, of.dtype)

    pixel = bordered(of, data, *of.padding[:2])

    def tap(p: Any, ry: Any, rx: Any, f: Any, c: Any) -> Any:
        same = floordiv(f, group).equal(floordiv(c, group))
        return if_then_else(same, weights(p * _PACK_CHANNELS + f, floormod(c, group), ry, rx), zero)

    high, wide = of.seen(rows, eights * EIGHT)
    image = compute(
        (images, packs, high, wide, _PACK_CHANNELS),
        lambda n, p, y, x, c: pixel(n, p * _PACK_CHANNELS + c, y, x),
        "image",
    )
    taps = compute((packs, kh, kw, _PACK_CHANNELS, _PACK_CHANNELS), tap, "taps")
    ry, rx, rc = (reduce_axis((0, extent), name) for extent, name in ((kh, "ry"), (kw, "rx"), (_PACK_CHANNELS, "rc")))

    def summed(n: Any, p: Any, y: Any, o: Any, *inner: Any) -> Any:
        f, j = _inner(of, *inner)
        seen = image(n, p, *of.source(y, o * EIGHT + j, ry, rx), rc)
        start = None if bias is None else bias(p * _PACK_CHANNELS + f)
        return sum_of_products("float32", taps(p, ry, rx, f, rc), seen, [ry, rx, rc], start)

    products = compute((images, packs, rows, eights, *_inner(of, _PACK_CHANNELS, EIGHT)), summed, "products")

    def placed(n: Any, f: Any, y: Any, x: Any) -> Any:
        inner = _inner(of, floormod(f, _PACK_CHANNELS), floormod(x, EIGHT))
        return products(n, floordiv(f, _PACK_CHANNELS), y, floordiv(x, EIGHT), *inner)

    return image_tensor(of.layout, (of.shape[0], of.filters, *of.places), placed, "sums", "contraction")


def _inner(of: Conv2dLayer, filters: Any, columns: Any) -> tuple[Any, Any]:
    """Put filters and columns of a tile in the order of the results in memory, or back."""
    return (columns, filters) if of.layout == "NHWC" else (filters, columns)


def schedule(of: Conv2dLayer, config: Config, s: ScheduleHandle, t: Tensors) -> None:
    """Tile the results over blocks and warps, with image and weights in shared memory and sums in the registers of
    warps."""
    out = t.out
    (products,) = t.sums.op.input_tensors
    taps, image = inputs_named(products, "taps", "image")
    _, _, row, o, *_ = products.op.axis
    s[products].round_up((row, prod(config["tile_y"].size[1:])), (o, prod(config["tile_x"].size[1:])))
    s[products].set_scope("local")
    n, f, y, x = from_layout(of.layout, tuple(out.op.axis))
    pack, f = s[out].split(f, factor=_PACK_CHANNELS)
    eight, lane = s[out].split(x, factor=EIGHT)
    (y_block, y_warp, yi), (x_block, x_warp, xi) = split_all(config, s, out, tile_y=y, tile_x=eight)
    s[out].reorder(n, pack, y_block, x_block, y_warp, x_warp, yi, xi, *_inner(of, f, lane))
    packs, tiles = s[out].fuse(n, pack), s[out].fuse(y_block, x_block)
    warp = s[out].fuse(y_warp, x_warp)
    bind_grid(s, out, (packs, tiles), of.shape[0] * of.groups)
    bind_all(s, out, (warp,), ("threadIdx.y",))
    s[out].pragma(warp, "resident_blocks", config["resident"].val)
    s[products].compute_at(s[out], warp)
    *_, row, o, left, right = s[products].op.axis
    ry, rx, rc = s[products].op.reduce_axis
    s[products].reorder(ry, rx, row, o, left, right, rc)
    for tile in (taps, image):
        hold(s, tile, "shared", out, tiles)
    in_vectors(s, image, config["vector"].val)
    s[products].tensorize(row, ATOMS[NEEDS.atoms[of.dtype]])


def computes(of: Conv2dLayer, machine: Machine) -> bool:
    """Return whether groups have as many filters as channels, and packs have no remainder."""
    same = of.groups > 1 and of.filters == of.shape[1] and of.shape[1] % _PACK_CHANNELS == 0
    return same and of.weights == "OIHW" and of.places[1] >= EIGHT and bool(blocks(of))


_MODEL: TileModel[Conv2dLayer] = TileModel(by_cycles(blocks), GroupBlock.of)
ON_GPU: ScheduleStrategy[Conv2dLayer] = ScheduleStrategy(
    space, schedule, _MODEL.default, NEEDS, declare, computes, _MODEL.model, starts_at_bias=True
)
DIRECT: ScheduleStrategy[Conv2dLayer] = direct_beside(ON_GPU)
"""The direct strategy for convolutions in groups; its cost decides between both."""
