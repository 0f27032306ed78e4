"""Tiles of a window over channels-last images by matrix instructions, and what they cost by a model of the hardware.

A block is bound by the rate of matrix instructions or by shared memory, whose fragments they read: the model takes the
larger of both, and adds what is not hidden behind them. The constants are fitted to 80 kernels measured on an H200.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import ceil, inf, prod
from typing import Any

from ...core.atoms import Atom
from ...core.dtype import DType
from ...core.hardware import MemoryScope
from ...core.occupancy import occupancy
from .contraction import padded_row
from .convolutions import Conv2d
from .gpu import USUAL, Gpu

Pair = tuple[int, int]
"""Along one dimension of a block's tile: warps, and the tile of one warp."""
_INSTRUCTION, _WIDTH = 7.9, 122.0
"""Cycles of a scheduler for a matrix instruction; bytes of shared memory that fragments get per cycle."""
_BANDWIDTH, _LATENCY = 3850.0, 828.0
"""Bytes a cycle that all multiprocessors get from the L2 cache; cycles until a tile that is not in flight arrives."""
_HALVES = 3.17
"""How much longer results take that lanes store as pairs of 16 bits."""
_TILE, _BLOCK, _LAUNCH = 1170.0, 1190.0, 626.0
"""Cycles beside the instructions: of a tile, to begin and end a block, and of a kernel."""
_OVERHEAD = 60
"""Registers beside sums and fragments."""
_CHANNELS = 64
"""Channels up to which the model's times are right. With more, filters leave little room for the image: the layers that
were measured take 1.1 to 5 times as long as products do, which the model does not see."""
_MOST_TERMS = 2048
"""Matrix instructions that are written out for a warp; more take too long to compile."""


@dataclass(frozen=True)
class WindowTile:
    """What a block computes: rows, columns and filters over warps and their tiles; and how it runs."""

    rows: Pair
    columns: Pair
    filters: Pair
    tiles: int
    stages: int
    staged: bool

    @classmethod
    def of(cls, choices: Mapping[str, Any]) -> WindowTile:
        """Return the tile that a configuration's choices make."""
        rows, columns, filters = (tuple(choices[name].size[1:]) for name in ("rows", "columns", "filters"))
        return cls(
            rows, columns, filters, choices["tiles"].val, choices["stages"].val, choices["store"].val == "shared"
        )

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
        seen = [
            (extent - 1) * stride + (window - 1) * dilation + 1
            for extent, stride, window, dilation in zip((rows, columns), of.stride, of.kernel, of.dilation, strict=True)
        ]
        line = word * channels + 16
        results = rows * columns * (filters + 8) * DType(of.result).bytes if self.staged else 0
        return filters * (prod(of.kernel) * channels * word + 16), prod(seen) * line, results

    def block_bytes(self, of: Conv2d) -> int:
        """Bytes of shared memory of a block. Results lie where the image was, unless the next one is in flight."""
        return self._held(*self.shared_bytes(of))

    def fits(self, of: Conv2d, most: int) -> bool:
        """Whether so many bytes hold a block, with each row of results in its own banks."""
        (taps, image, _), (rows, columns, filters), word = self.shared_bytes(of), self.block, DType(of.result).bytes
        results = rows * columns * padded_row(filters, word) * word if self.staged else 0
        return max(self.block_bytes(of), self._held(taps, image, results)) <= most

    def _held(self, taps: int, image: int, results: int) -> int:
        return taps + (self.stages * image + results if self.stages > 1 else max(image, results))

    def wanted(self) -> dict[str, Any]:
        """The choices that make it."""
        return {
            "rows": list(self.rows),
            "columns": list(self.columns),
            "filters": list(self.filters),
            "tiles": self.tiles,
            "stages": self.stages,
            "store": "shared" if self.staged else "fragments",
        }


def depth_of(of: Conv2d) -> int:
    """Channels of one statement of matrix instructions: as many as there are, or what divides them."""
    return next(n for n in (64, 48, 32, 16) if of.shape[1] % n == 0) if of.shape[1] > 64 else of.shape[1]


def is_possible(tile: WindowTile, of: Conv2d, atom: Atom, gpu: Gpu = USUAL) -> bool:
    """Whether the hardware can run it."""
    on, threads = gpu.hardware, tile.warps * gpu.hardware.warp
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


def cycles(tile: WindowTile, of: Conv2d, atom: Atom, gpu: Gpu = USUAL) -> float:
    """Cycles that the convolution takes."""
    on, word = gpu.hardware, DType(of.element).bytes
    resident = occupancy(on, tile.warps * on.warp, tile.registers(atom), tile.block_bytes(of)).blocks
    if not resident:
        return inf
    blocks = tile.blocks(of)
    at_once = min(resident, ceil(blocks / gpu.processors))
    steps, positions = prod(of.kernel) * of.shape[1] // atom.k, tile.rows[1] * tile.columns[1]
    instructions = positions // atom.m * (tile.filters[1] // atom.n)
    per_scheduler = ceil(at_once * tile.warps / 4)
    issued = per_scheduler * steps * instructions * _INSTRUCTION
    read = at_once * tile.warps * steps * (positions + tile.filters[1]) * atom.k * word / _WIDTH
    taps, image, _ = tile.shared_bytes(of)
    share = _BANDWIDTH / gpu.processors / at_once
    halves = not tile.staged and DType(of.result).bytes == 2  # lanes store half a sector
    stored = prod(tile.block) * DType(of.result).bytes / share * (_HALVES if halves else 1.0)
    fetched = image / share
    busy = max(issued, read)
    waiting = 0.0 if tile.stages > 1 else (fetched + _LATENCY) / at_once
    one = max(busy + waiting + stored / 2, fetched + stored) + _TILE
    waves = ceil(blocks / (gpu.processors * at_once))
    return float(waves * (tile.tiles * one + taps / share + _LATENCY + _BLOCK) + _LAUNCH)


def candidates(of: Conv2d, atom: Atom, gpu: Gpu = USUAL) -> Iterator[WindowTile]:
    """Tiles worth ranking: blocks of usual sizes, with so many tiles that one or two waves of blocks do all."""
    ways = product(row_tiles(of), column_tiles(of), filter_tiles(of), (1, 2, 3), (False, True))
    for rows, columns, filters, stages, staged in ways:
        one = WindowTile((rows[1], rows[2]), (columns[1], columns[2]), (filters[1], filters[2]), stages, stages, staged)
        if not 2 <= one.warps <= 16 or not is_possible(one, of, atom, gpu):
            continue
        shares = ceil(of.filters / one.block[2])
        for blocks in (gpu.processors, 2 * gpu.processors, 4 * gpu.processors):
            wanted = one.count(of) * shares / blocks
            tiles = next((n for n in counts() if n >= wanted), counts()[-1])
            if tiles >= stages:
                yield WindowTile(one.rows, one.columns, one.filters, tiles, stages, staged)


@lru_cache(maxsize=256)
def ranked(of: Conv2d, atom: Atom, gpu: Gpu = USUAL) -> tuple[WindowTile, ...]:
    """Return tiles, those that cost least first."""
    found = [(cycles(tile, of, atom, gpu), n, tile) for n, tile in enumerate(dict.fromkeys(candidates(of, atom, gpu)))]
    return tuple(tile for _, _, tile in sorted(found, key=lambda each: each[:2]))


def expected(of: Conv2d, atom: Atom, gpu: Gpu = USUAL) -> float:
    """Return the cycles of the tile that costs least; infinity where there is none, and for many channels."""
    found = ranked(of, atom, gpu) if of.shape[1] <= _CHANNELS else ()
    return cycles(found[0], of, atom, gpu) if found else inf
