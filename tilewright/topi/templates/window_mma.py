"""Windows over channels-last images by matrix instructions: a tile of the image lies in shared memory once.

An implicit matrix product reads each element of the image once per tap of the window. Here a block fetches the part of
the padded image under the windows of a tile. It multiplies this part by the weights of one tap after another, shifted
by the tap each time. The weights of the block's filters stay in shared memory for all of its tiles, and the next tiles
are fetched meanwhile. So a tile waits for neither copies nor barriers.

A block is bound by matrix instructions or by the bandwidth of shared memory. The model takes the longer of both times,
and adds the time that they do not hide.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from math import ceil, gcd, inf, prod
from typing import Any, ClassVar

from ...core.atoms import ATOMS, Atom
from ...core.dtype import DType
from ...core.hardware import MemoryScope
from ...core.occupancy import occupancy
from ...schedule.handle import ScheduleHandle
from ...tensor.axis import IterVar, reduce_axis, thread_axis
from ...tensor.tensor import Tensor, compute
from ...tune.model.kernel_time import at_once, in_waves
from ...tune.model.machine import REFERENCE, Machine
from ...tune.space.config import Config
from ...tune.space.space import Space
from .contraction import padded_row
from .contraction_schedule import bind_tiles, pad_rows, repack, store_vectors
from .convolutions import Conv2dLayer
from .declarations import bordered, sum_of_products
from .implicit_gemm import weights_channels_last
from .needs import Needs
from .schedule_helpers import in_vectors, widest_vector
from .strategy import ScheduleStrategy
from .tensors import Tensors
from .tile_model import TileModel, WarpTile
from .workload import sum_dtype

Pair = tuple[int, int]
"""The split of a block's tile along one dimension: warps, and the tile of one warp."""
_OVERHEAD_REGISTERS = 60
"""Registers that hold neither sums nor fragments."""
_MOST_MODELLED_CHANNELS = 64
"""The most channels for which the model's times are right. With more channels, filters leave little room for the image.
The measured layers then take 1.1 to 5 times as long as their products, which the model does not predict."""
_MOST_UNROLLED_INSTRUCTIONS = 2048
"""The most unrolled matrix instructions of a warp; more take too long to compile."""
_MOST_UNROLLED_ROWS = 3
"""The most rows of a window that are unrolled."""
NEEDS = Needs(
    atoms={name: name for name in ("float16", "bfloat16", "int8", "uint8")}, layouts=("NHWC",), scope="windows"
)
"""The requirements. Weights of 32-bit elements would exceed shared memory."""


def atom_of(of: Conv2dLayer) -> Atom:
    """The instruction for a workload."""
    return ATOMS[NEEDS.atoms[of.element]]


@dataclass(frozen=True)
class WindowBlock(WarpTile):
    """The tile of a block: rows, columns and filters over warps and per warp, and the way it is computed."""

    KNOBS: ClassVar = {**{name: name for name in ("rows", "columns", "filters", "tiles", "stages")}, "store": "staged"}
    SIZES: ClassVar = ("rows", "columns", "filters")
    WORDS: ClassVar = {"store": ("fragments", "shared")}

    rows: Pair
    columns: Pair
    filters: Pair
    tiles: int
    stages: int
    staged: bool

    @property
    def warps(self) -> int:
        """Warps of a block."""
        return self.rows[0] * self.columns[0] * self.filters[0]

    @property
    def block(self) -> tuple[int, int, int]:
        """Rows, columns and filters of a block's tile."""
        return prod(self.rows), prod(self.columns), prod(self.filters)

    def count(self, of: Conv2dLayer) -> int:
        """The number of tiles of all images, for the filters of one block."""
        return of.shape[0] * prod(ceil(extent / size) for extent, size in zip(of.places, self.block, strict=False))

    def blocks(self, of: Conv2dLayer) -> int:
        """Blocks of the grid."""
        return ceil(self.count(of) / self.tiles) * ceil(of.filters / self.block[2])

    def registers(self, of: Conv2dLayer) -> int:
        """Registers for sums, for fragments of two steps, and for addresses."""
        atom, positions, filters = atom_of(of), self.rows[1] * self.columns[1], self.filters[1]
        fragments = (positions // atom.m * atom.halves + filters // atom.n) * atom.words
        return positions * filters // 32 + 2 * fragments + _OVERHEAD_REGISTERS

    def shared_bytes(self, of: Conv2dLayer) -> tuple[int, int, int]:
        """Bytes of shared memory: for the weights, for one tile of the image, and for its results; with padding.

        Rows of results are padded as they were when the constants were fitted. Few filters take more; see `fits`.
        """
        word, (rows, columns, filters), channels = DType(of.element).bytes, self.block, of.shape[1]
        seen = of.seen(rows, columns)
        line = word * channels + 16
        results = rows * columns * (filters + 8) * DType(of.result).bytes if self.staged else 0
        return filters * (prod(of.kernel) * channels * word + 16), prod(seen) * line, results

    def block_bytes(self, of: Conv2dLayer) -> int:
        """Return the bytes of shared memory of a block. Results replace the image, unless the next image is in
        flight."""
        return self._held(*self.shared_bytes(of))

    def fits(self, of: Conv2dLayer, most: int) -> bool:
        """Return whether a block fits `most` bytes, with each row of results in banks of its own."""
        (taps, image, _), (rows, columns, filters), word = self.shared_bytes(of), self.block, DType(of.result).bytes
        results = rows * columns * padded_row(filters, word) * word if self.staged else 0
        return max(self.block_bytes(of), self._held(taps, image, results)) <= most

    def _held(self, taps: int, image: int, results: int) -> int:
        return taps + (self.stages * image + results if self.stages > 1 else max(image, results))

    def is_possible(self, of: Conv2dLayer, machine: Machine = REFERENCE) -> bool:
        """Whether the hardware can run it."""
        on, threads, atom = machine.hardware, self.threads(of), atom_of(of)
        positions, filters = self.rows[1] * self.columns[1], self.block[2]
        written = positions // atom.m * (self.filters[1] // atom.n) * of.kernel[1] * (depth_of(of) // atom.k)
        return (
            positions % atom.m == 0
            and threads <= on.block.threads
            and self.registers(of) <= on.registers_at(threads)
            and self.fits(of, on.memory(MemoryScope.SHARED).most)
            and self.stages <= max(1, self.tiles)
            and written * min(of.kernel[0], 3) <= _MOST_UNROLLED_INSTRUCTIONS
            and not (self.staged and filters & (filters - 1))
            and not (self.staged and filters > of.filters)
        )

    def cycles(self, of: Conv2dLayer, machine: Machine) -> float:
        """Return the cycles that the convolution takes."""
        on, word, at = machine.hardware, DType(of.element).bytes, machine.fitted["window"]
        resident = occupancy(on, self.threads(of), self.registers(of), self.block_bytes(of)).blocks
        if not resident:
            return inf
        blocks, atom = self.blocks(of), atom_of(of)
        together = at_once(resident, blocks, machine)
        steps, positions = prod(of.kernel) * of.shape[1] // atom.k, self.rows[1] * self.columns[1]
        instructions = positions // atom.m * (self.filters[1] // atom.n)
        per_scheduler = ceil(together * self.warps / on.multiprocessor.schedulers)
        issued = per_scheduler * steps * instructions * at.instruction_cycles
        fragments = together * self.warps * steps * (positions + self.filters[1]) * atom.k * word
        read = fragments / at.shared_bytes_per_cycle
        taps, image, _ = self.shared_bytes(of)
        share = at.l2_bytes_per_cycle / machine.multiprocessors / together
        halves = not self.staged and DType(of.result).bytes == 2  # lanes store half a sector
        stored = prod(self.block) * DType(of.result).bytes / share * (at.paired_store_factor if halves else 1.0)
        fetched = image / share
        waiting = 0.0 if self.stages > 1 else (fetched + at.latency_cycles) / together
        one = max(max(issued, read) + waiting + stored / 2, fetched + stored) + at.tile_cycles
        wave = self.tiles * one + taps / share + at.latency_cycles + at.block_cycles
        return float(in_waves(wave, blocks, together, machine, at))


def depth_of(of: Conv2dLayer) -> int:
    """Return the channels of one statement of matrix instructions: all, or a divisor of them."""
    return next(n for n in (64, 48, 32, 16) if of.shape[1] % n == 0) if of.shape[1] > 64 else of.shape[1]


def choices(of: Conv2dLayer) -> dict[str, list[Any]]:
    """Return the choices of the knobs.

    `rows`, `columns`, `filters`: of results, over blocks, warps, and the tile of one warp; columns in groups of eight,
    which lanes load together. `tiles`: tiles that a block computes one after another. `stages`: tiles of the image in
    flight. `store`: whether results go from fragments to memory, or through shared memory as whole vectors.
    """

    def ways(extent: int, sizes: Sequence[int], warps: Sequence[int] = (1, 2, 4)) -> list[list[int]]:
        return [[-1, count, n] for n in sizes for count in warps if n <= extent > (count - 1) * n]

    return {
        "rows": ways(of.places[0], (1, 2, 4, 8)),
        "columns": ways(of.places[1], (8, 16), range(1, 9)),
        "filters": ways(of.filters, (8, 16, 32, 64, 128)),
        "tiles": [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 48, 56, 64],
        "stages": [1, 2, 3],
        "store": ["fragments", "shared"],
    }


def space(of: Conv2dLayer) -> Space:
    """Return the knobs of `choices`."""
    extents = dict(zip(WindowBlock.SIZES, (*of.places, of.filters), strict=True))
    return WindowBlock.space(choices(of), extents, lambda tile: bool(tile.is_possible(of)))


def candidates(of: Conv2dLayer, machine: Machine) -> Iterator[WindowBlock]:
    """Yield tiles that the model ranks: blocks of common sizes, in one, two or four waves."""
    ways = choices(of)
    counts = ways["tiles"]
    pairs = product(*([(warps, n) for _, warps, n in ways[name]] for name in WindowBlock.SIZES))
    for (rows, columns, filters), stages, staged in product(pairs, ways["stages"], (False, True)):
        one = WindowBlock(rows, columns, filters, stages, stages, staged)
        if not 2 <= one.warps <= 16 or not one.is_possible(of, machine):
            continue
        shares = ceil(of.filters / one.block[2])
        for waves in (1, 2, 4):
            wanted = one.count(of) * shares / (waves * machine.multiprocessors)
            tiles = next((n for n in counts if n >= wanted), counts[-1])
            if tiles >= stages:
                yield replace(one, tiles=tiles)


@lru_cache(maxsize=256)
def rank_tiles(of: Conv2dLayer, machine: Machine = REFERENCE) -> tuple[WindowBlock, ...]:
    """Return tiles, the fastest first."""
    return tuple(sorted(dict.fromkeys(candidates(of, machine)), key=lambda tile: tile.cycles(of, machine)))


def compared(of: Conv2dLayer, cycles: float) -> float:
    """Return the cycles to compare with other strategies; infinity for many channels."""
    return cycles if of.shape[1] <= _MOST_MODELLED_CHANNELS else inf


def computes(of: Conv2dLayer, machine: Machine) -> bool:
    """Return whether the channels fill whole instructions, and shared memory has room for the weights of some
    filters."""
    plain = of.groups == 1 and of.kernel != (1, 1)
    return plain and of.shape[1] % atom_of(of).k == 0 and _has_tiles(of, machine)


@lru_cache(maxsize=256)
def _has_tiles(of: Conv2dLayer, machine: Machine) -> bool:
    """Return whether there is a tile to rank. Ranking all tiles would take 100 ms."""
    return next(candidates(of, machine), None) is not None


def declare(of: Conv2dLayer, data: Tensor, weights: Tensor) -> Tensor:
    """Declare the padded image, the weights with their channels last, and the convolution of both."""
    kh, kw = of.kernel
    channels, kind = of.shape[1], of.dtype
    kept = weights if of.weights == "OHWI" else weights_channels_last(of, weights)
    pixel = bordered(of, data, *of.padding[:2])
    image = compute((of.shape[0], *of.bordered, channels), lambda n, y, x, c: pixel(n, c, y, x), "image")
    taps = compute((of.filters, kh, kw, channels), lambda *at: kept(*at), "taps")
    ry, rx, rc = (reduce_axis((0, extent), name) for extent, name in ((kh, "ry"), (kw, "rx"), (channels, "rc")))
    products = compute(
        (of.shape[0], *of.places, of.filters),
        lambda n, y, x, f: sum_of_products(
            sum_dtype(kind), image(n, *of.source(y, x, ry, rx), rc), taps(f, ry, rx, rc), [ry, rx, rc]
        ),
        "products",
    )
    made: Tensor = compute(of.out_shape, lambda n, y, x, f: products(n, y, x, f), "sums", "contraction")
    return made


def schedule(of: Conv2dLayer, config: Config, s: ScheduleHandle, t: Tensors) -> None:
    """Apply a configuration."""
    tile, out = WindowBlock.of(config), t.out
    products = t.sums if t.sums.op.reduce_axis else t.sums.op.input_tensors[0]
    image, taps = products.op.input_tensors
    s[products].round_up(*zip(products.op.axis[1:], tile.block, strict=True))
    repack(s, taps)
    s[products].set_scope("local")
    s[image].set_scope("shared")
    s[taps].set_scope("shared")
    holder = out
    if tile.staged:
        _over_tiles(tile, s, out)
        holder = s.cache_write(out, "shared")
    filters, block, each, inner = _over_tiles(tile, s, out)
    bind_tiles(s, out, [(block, -(-tile.count(of) // tile.tiles)), (filters, -(-of.filters // tile.block[2]))])
    if tile.staged:
        warps = tile.rows[0] * tile.columns[0], tile.filters[0]
        store_vectors(s, out, inner, warps, gcd(of.filters, tile.block[2]), prod(tile.block))
        s[holder].compute_at(s[out], each)
        pad_rows(s, holder)
        inner = list(s[holder].op.axis[-3:])
    s[products].compute_at(s[holder], _bind_warps(tile, s, holder, inner))
    n, y, x, f = s[products].op.axis
    ry, rx, rc = s[products].op.reduce_axis
    outer, rc = s[products].split(rc, factor=depth_of(of))
    s[products].reorder(ry, outer, n, y, x, f, rx, rc)
    if of.kernel[0] <= _MOST_UNROLLED_ROWS:
        s[products].unroll(ry)
    s[image].compute_at(s[out], each)
    s[taps].compute_at(s[out], block)
    for operand in (image, taps):
        in_vectors(s, operand, gcd(of.shape[1], widest_vector(of.element)))
    if tile.stages > 1:
        s[image].pipeline(tile.stages)
    s[products].tensorize(y, atom_of(of))


def _over_tiles(tile: WindowBlock, s: ScheduleHandle, out: Tensor) -> tuple[IterVar, IterVar, IterVar, list[IterVar]]:
    """Split the loops of a result; returns the loops over tiles of filters, over blocks, over a block's tiles, and
    within a tile."""
    n, *axes = out.op.axis
    (yo, y), (xo, x), (fo, f) = (s[out].split(a, factor=size) for a, size in zip(axes, tile.block, strict=True))
    s[out].reorder(fo, n, yo, xo, y, x, f)
    block, each = s[out].split(s[out].fuse(n, yo, xo), factor=tile.tiles)
    return fo, block, each, [y, x, f]


def _bind_warps(tile: WindowBlock, s: ScheduleHandle, holder: Tensor, axes: list[IterVar]) -> IterVar:
    """Split a tile over warps; returns the innermost loop over warps."""
    pairs = (tile.rows, tile.columns, tile.filters)
    (yw, y), (xw, x), (fw, f) = (s[holder].split(a, factor=pair[1]) for a, pair in zip(axes, pairs, strict=True))
    s[holder].reorder(yw, xw, fw, y, x, f)
    places = yw
    if tile.columns[0] > 1:
        places = s[holder].fuse(yw, xw) if tile.rows[0] > 1 else xw
    s[holder].bind(places, thread_axis("threadIdx.z"))
    s[holder].bind(fw, thread_axis("threadIdx.y"))
    return fw


_MODEL: TileModel[Conv2dLayer] = TileModel(rank_tiles, WindowBlock.of, compared=compared)
ON_GPU: ScheduleStrategy[Conv2dLayer] = ScheduleStrategy(
    space, schedule, _MODEL.default, NEEDS, declare, computes, _MODEL.model
)
