"""Tiles of a window over channels-last images by matrix instructions, and their cycles.

Matrix instructions, or the shared memory that holds their operands, bound a block. The model takes the larger of both,
and adds the time that is not hidden behind them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import ceil, inf, prod
from typing import ClassVar

from ...core.atoms import Atom
from ...core.dtype import DType
from ...core.hardware import MemoryScope
from ...core.occupancy import occupancy
from ...tune.model.kernel_time import at_once, in_waves
from ...tune.model.machine import REFERENCE, Machine
from .contraction import padded_row
from .convolutions import Conv2d
from .tile_model import KnobTile

Pair = tuple[int, int]
"""Along one dimension of a block's tile: warps, and the tile of one warp."""
_OVERHEAD = 60
"""Registers beside sums and fragments."""
_CHANNELS = 64
"""Channels up to which the model's times are right. With more, filters leave little room for the image. The measured
layers take 1.1 to 5 times as long as their products, which the model does not see."""
_MOST_TERMS = 2048
"""Matrix instructions that are written out for a warp; more take too long to compile."""


@dataclass(frozen=True)
class WindowTile(KnobTile):
    """The work of a block: rows, columns and filters over warps and their tiles; and how it runs."""

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

    def count(self, of: Conv2d) -> int:
        """Tiles of all images, for the filters of one block."""
        return of.shape[0] * prod(ceil(extent / size) for extent, size in zip(of.places, self.block, strict=False))

    def blocks(self, of: Conv2d) -> int:
        """Blocks of the grid."""
        return ceil(self.count(of) / self.tiles) * ceil(of.filters / self.block[2])

    def registers(self, atom: Atom) -> int:
        """Registers for sums, for fragments of two steps, and for addresses."""
        positions, filters = self.rows[1] * self.columns[1], self.filters[1]
        fragments = (positions // atom.m * atom.halves + filters // atom.n) * atom.words
        return positions * filters // 32 + 2 * fragments + _OVERHEAD

    def shared_bytes(self, of: Conv2d) -> tuple[int, int, int]:
        """Bytes of shared memory: for the weights, for one tile of the image, and for its results; with padding.

        Rows of results are padded as the constants were fitted to them; few filters take more, see `fits`.
        """
        word, (rows, columns, filters), channels = DType(of.element).bytes, self.block, of.shape[1]
        seen = of.seen(rows, columns)
        line = word * channels + 16
        results = rows * columns * (filters + 8) * DType(of.result).bytes if self.staged else 0
        return filters * (prod(of.kernel) * channels * word + 16), prod(seen) * line, results

    def block_bytes(self, of: Conv2d) -> int:
        """Return the bytes of shared memory of a block. Results replace the image, unless the next one is in flight."""
        return self._held(*self.shared_bytes(of))

    def fits(self, of: Conv2d, most: int) -> bool:
        """Return whether `most` bytes hold a block, with each row of results in its own banks."""
        (taps, image, _), (rows, columns, filters), word = self.shared_bytes(of), self.block, DType(of.result).bytes
        results = rows * columns * padded_row(filters, word) * word if self.staged else 0
        return max(self.block_bytes(of), self._held(taps, image, results)) <= most

    def _held(self, taps: int, image: int, results: int) -> int:
        return taps + (self.stages * image + results if self.stages > 1 else max(image, results))


def depth_of(of: Conv2d) -> int:
    """Return the channels of one statement of matrix instructions: all, or a divisor of them."""
    return next(n for n in (64, 48, 32, 16) if of.shape[1] % n == 0) if of.shape[1] > 64 else of.shape[1]


def is_possible(tile: WindowTile, of: Conv2d, atom: Atom, machine: Machine = REFERENCE) -> bool:
    """Whether the hardware can run it."""
    on, threads = machine.hardware, tile.warps * machine.hardware.warp
    positions, filters = tile.rows[1] * tile.columns[1], tile.block[2]
    written = positions // atom.m * (tile.filters[1] // atom.n) * of.kernel[1] * (depth_of(of) // atom.k)
    return (
        positions % atom.m == 0
        and threads <= on.block.threads
        and tile.registers(atom) <= on.registers_at(threads)
        and tile.fits(of, on.memory(MemoryScope.SHARED).most)
        and tile.stages <= max(1, tile.tiles)
        and written * min(of.kernel[0], 3) <= _MOST_TERMS
        and not (tile.staged and filters & (filters - 1))
        and not (tile.staged and filters > of.filters)
    )


def row_tiles(of: Conv2d) -> list[list[int]]:
    """Ways to split rows over blocks, warps and the tile of a warp."""
    return [[-1, warps, n] for n in (1, 2, 4, 8) for warps in (1, 2, 4) if n <= of.places[0] > (warps - 1) * n]


def column_tiles(of: Conv2d) -> list[list[int]]:
    """Ways to split columns: whole groups of the eight lines that lanes load together."""
    return [[-1, warps, n] for n in (8, 16) for warps in range(1, 9) if n <= of.places[1] > (warps - 1) * n]


def filter_tiles(of: Conv2d) -> list[list[int]]:
    """Ways to split filters over blocks, warps and the tile of a warp."""
    return [[-1, warps, n] for n in (8, 16, 32, 64, 128) for warps in (1, 2, 4) if n <= of.filters > (warps - 1) * n]


def counts() -> list[int]:
    """Tiles that a block computes one after another."""
    return [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 48, 56, 64]


def cycles(tile: WindowTile, of: Conv2d, atom: Atom, machine: Machine = REFERENCE) -> float:
    """Return the cycles that the convolution takes."""
    on, word, at = machine.hardware, DType(of.element).bytes, machine.fitted["window"]
    resident = occupancy(on, tile.warps * on.warp, tile.registers(atom), tile.block_bytes(of)).blocks
    if not resident:
        return inf
    blocks = tile.blocks(of)
    together = at_once(resident, blocks, machine)
    steps, positions = prod(of.kernel) * of.shape[1] // atom.k, tile.rows[1] * tile.columns[1]
    instructions = positions // atom.m * (tile.filters[1] // atom.n)
    per_scheduler = ceil(together * tile.warps / on.multiprocessor.schedulers)
    issued = per_scheduler * steps * instructions * at.instruction_cycles
    fragments = together * tile.warps * steps * (positions + tile.filters[1]) * atom.k * word
    read = fragments / at.shared_bytes_per_cycle
    taps, image, _ = tile.shared_bytes(of)
    share = at.l2_bytes_per_cycle / machine.multiprocessors / together
    halves = not tile.staged and DType(of.result).bytes == 2  # lanes store half a sector
    stored = prod(tile.block) * DType(of.result).bytes / share * (at.paired_store_factor if halves else 1.0)
    fetched = image / share
    waiting = 0.0 if tile.stages > 1 else (fetched + at.latency_cycles) / together
    one = max(max(issued, read) + waiting + stored / 2, fetched + stored) + at.tile_cycles
    wave = tile.tiles * one + taps / share + at.latency_cycles + at.block_cycles
    return float(in_waves(wave, blocks, together, machine, at))


def candidates(of: Conv2d, atom: Atom, machine: Machine = REFERENCE) -> Iterator[WindowTile]:
    """Yield tiles worth ranking: blocks of usual sizes, in one, two or four waves."""
    ways = product(row_tiles(of), column_tiles(of), filter_tiles(of), (1, 2, 3), (False, True))
    for rows, columns, filters, stages, staged in ways:
        one = WindowTile((rows[1], rows[2]), (columns[1], columns[2]), (filters[1], filters[2]), stages, stages, staged)
        if not 2 <= one.warps <= 16 or not is_possible(one, of, atom, machine):
            continue
        shares = ceil(of.filters / one.block[2])
        for blocks in (machine.multiprocessors, 2 * machine.multiprocessors, 4 * machine.multiprocessors):
            wanted = one.count(of) * shares / blocks
            tiles = next((n for n in counts() if n >= wanted), counts()[-1])
            if tiles >= stages:
                yield WindowTile(one.rows, one.columns, one.filters, tiles, stages, staged)


@lru_cache(maxsize=256)
def rank_tiles(of: Conv2d, atom: Atom, machine: Machine = REFERENCE) -> tuple[WindowTile, ...]:
    """Return tiles, the fastest first."""
    found = [
        (cycles(tile, of, atom, machine), n, tile)
        for n, tile in enumerate(dict.fromkeys(candidates(of, atom, machine)))
    ]
    return tuple(tile for _, _, tile in sorted(found, key=lambda each: each[:2]))


def compared(of: Conv2d, cycles: float) -> float:
    """Return the cycles to compare with other strategies; infinity for many channels."""
    return cycles if of.shape[1] <= _CHANNELS else inf
