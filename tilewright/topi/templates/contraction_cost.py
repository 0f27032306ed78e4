"""Tiles of a contraction on ordinary arithmetic, and what they cost by a model of the hardware.

The model counts the issue slots of a scheduler: products, loads from shared memory, and what fetches slices. Blocks
run in waves; a wave takes as long as the slots of its warps, or the latency that too few of them cannot hide. Bytes
from memory bound the whole. The constants are fitted to 500 kernels that `benchmarks.dense` measured on an H200.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import ceil, exp, log, prod
from typing import Any

from ...core.hardware import Hardware, MemoryScope
from .contraction import Contraction, Operand, rounded
from .gpu import USUAL, Gpu

Shape = tuple[int, int, int]
"""Of a block's rows or columns: virtual threads, threads, and neighbours of one thread."""

_BANDWIDTH = 2810
"""Bytes a cycle that all multiprocessors get from the L2 cache."""
_BLOCK_START, _LATENCY, _KERNEL, _LAUNCH = 3000, 519, 1630, 1630
"""Cycles to begin a block, of a load from L2, of a further kernel, and of a first one."""
_PRODUCT, _LOAD, _STORE = 1.14, 2.14, 2.47
"""Issue slots of a product, of a load from shared memory, and of a result."""
_FETCH, _WINDOWED = 3.99, 6.32
"""Issue slots for an element that is fetched; further ones where borders are tested."""
_UNSTEADY = 2.95
"""How much more where neither rows nor steps of the window stay the same."""
_AHEAD, _SERIAL, _HELD = 0.289, 0.829, 32
"""The part of the latency that shows where slices are fetched ahead, and where not; elements that are held ahead."""
_SLICE, _CROWD, _ALONE, _TAIL = 294, 0.393, 2.04, 0.306
"""Cycles around a barrier, how they grow with warps, how much slower a warp is alone, and waves that are not full."""
_OVERHEAD = 36
"""Registers for addresses and loops."""
_MOST_TILE = 256
_LEAST_BLOCK, _MOST_BLOCK, _LEAST_OWN = 32, 256, 8
_FULL = 8
"""Blocks per multiprocessor beyond which the depth is not divided further."""


@dataclass(frozen=True)
class SimtTile:
    """What a block computes: rows and columns over virtual threads, threads and neighbours; and how it runs."""

    rows: Shape
    columns: Shape
    depth: int
    split: int
    stages: int

    @classmethod
    def of(cls, choices: Mapping[str, Any]) -> SimtTile:
        """Return the tile that a configuration's choices make."""
        rows, columns = (tuple(choices[name].size[1:]) for name in ("rows", "columns"))
        return cls(rows, columns, *(choices[name].val for name in ("depth", "split", "stages")))

    @property
    def threads(self) -> tuple[int, int]:
        """Threads over rows, and over columns."""
        return self.rows[1], self.columns[1]

    @property
    def block(self) -> int:
        """Threads of a block."""
        return prod(self.threads)

    @property
    def own(self) -> tuple[int, int]:
        """Rows and columns of one thread."""
        return self.rows[0] * self.rows[2], self.columns[0] * self.columns[2]

    def step(self, of: Contraction) -> int:
        """Steps along the depth of which a thread loads its factors at once."""
        both = of.rows.along_depth and of.columns.along_depth
        widest = 16 // (8 if of.sum_dtype == "float64" else 4)
        return next(n for n in (4, 2, 1) if self.depth % n == 0 and n <= (widest // 2 if both else widest))

    def registers(self, of: Contraction) -> int:
        """Registers for sums, for factors and for addresses."""
        rows, columns = self.own
        step = self.step(of)
        held = rows * (step if of.rows.along_depth else 1) + columns * (step if of.columns.along_depth else 1)
        return (rows * columns + held) * (2 if of.sum_dtype == "float64" else 1) + _OVERHEAD

    def shared_bytes(self, of: Contraction) -> int:
        """Bytes of slices in shared memory."""
        word = 8 if of.sum_dtype == "float64" else 4
        return (prod(self.rows) + prod(self.columns)) * self.depth * word * self.stages

    def resident(self, of: Contraction, on: Hardware) -> int:
        """Blocks that one multiprocessor holds at a time."""
        shared = on.memory(MemoryScope.SHARED)
        by_registers = on.multiprocessor.registers // (rounded(self.registers(of), 8) * rounded(self.block, on.warp))
        pool = shared.pool or shared.most
        by_shared = pool // max(1, self.shared_bytes(of))
        by_warps = on.multiprocessor.warps // ceil(self.block / on.warp)
        return min(by_registers, by_shared, by_warps, on.multiprocessor.blocks)

    def is_possible(self, of: Contraction, on: Hardware | None = None) -> bool:
        """Whether the hardware can run it, and every block has work."""
        on = on or USUAL.hardware
        return (
            self.block <= on.block.threads
            and self.registers(of) <= on.registers_at(self.block)
            and self.shared_bytes(of) <= on.memory(MemoryScope.SHARED).capacity
            and self.split * self.depth < of.depth + self.depth
            and (self.stages == 1 or ceil(of.depth / (self.split * self.depth)) >= self.stages)
        )

    def blocks(self, of: Contraction) -> int:
        """Blocks of the grid."""
        rows, columns = ceil(of.rows.extent / prod(self.rows)), ceil(of.columns.extent / prod(self.columns))
        return rows * columns * of.batch * self.split

    def cycles(self, of: Contraction, gpu: Gpu) -> float:
        """Cycles that the contraction takes."""
        on = gpu.hardware
        bi, bj = prod(self.rows), prod(self.columns)
        blocks = self.blocks(of)
        resident = self.resident(of, on)
        if not resident:
            return float("inf")
        depth = rounded(of.depth, self.depth * self.split) // self.split
        slices, (rows, columns) = depth / self.depth, self.own
        loads = rows / (self.step(of) if of.rows.along_depth else self.rows[2]) + columns / (
            self.step(of) if of.columns.along_depth else self.columns[2]
        )
        fetched = sum(
            ceil(extent * self.depth / operand.together / self.block) * self._effort(of, operand)
            for extent, operand in ((bi, of.rows), (bj, of.columns))
        )
        # A warp's instructions for a slice, and how long that takes where others wait for the same scheduler.
        issued = self.depth * (rows * columns * _PRODUCT + loads * _LOAD) + fetched
        at_once = min(resident, ceil(blocks / gpu.processors))
        warps = max(1.0, at_once * ceil(self.block / on.warp) / 4)
        hidden = _AHEAD if self.stages > 1 or fetched < _HELD * _FETCH else _SERIAL
        slice_cycles = max(warps * issued, issued * _ALONE + _LATENCY * hidden) + _SLICE * exp(log(warps) * _CROWD)
        wave = slices * slice_cycles + _BLOCK_START + rows * columns * _STORE * warps
        waves = blocks / (gpu.processors * at_once)
        full = ceil(waves) if waves <= 3 else waves + _TAIL
        moved = (bi + bj) * depth * blocks * 4 / _BANDWIDTH
        stored = 0.0
        if self.split > 1:
            stored = _KERNEL + 2 * self.split * of.rows.extent * of.columns.extent * of.batch * 4 / _BANDWIDTH
        return max(full * wave, moved) + _LAUNCH + stored

    def _width(self, operand: Operand) -> int:
        return operand.together

    def _effort(self, of: Contraction, operand: Operand) -> float:
        """Instructions for one load of a factor."""
        if operand.along_depth or operand.together > 1:
            return _FETCH
        if of.period == 1:
            return _FETCH
        steady = self.depth % of.period == 0 and self.block <= prod(self.columns)
        return _FETCH + _WINDOWED * (1.0 if steady else _UNSTEADY)

    def wanted(self) -> dict[str, Any]:
        """The choices that make it."""
        return {
            "rows": list(self.rows),
            "columns": list(self.columns),
            "depth": self.depth,
            "split": self.split,
            "stages": self.stages,
        }


def tile_of(config: Any) -> SimtTile:
    """Return what a configuration has a block compute."""
    return SimtTile.of(config)


def own_tiles(operand: Operand) -> list[list[int]]:
    """Ways to split rows or columns over blocks, virtual threads, threads, and a thread's neighbours.

    Neighbours are the thread's own where they lie together in shared memory; otherwise its rows are apart, so that a
    warp's are neighbours.
    """
    found: dict[tuple[int, ...], None] = {}
    for own in (8, 4, 2, 1):
        near = 1 if operand.along_depth else min(4, own)
        for wanted in (32, 16, 8, 4, 2, 1):
            threads = min(wanted, ceil(operand.extent / near))
            apart = min(own // near, ceil(ceil(operand.extent / near) / threads))
            if apart * threads * near <= _MOST_TILE:
                found[-1, apart, threads, near] = None
    return [list(each) for each in found]


def depths(of: Contraction) -> list[int]:
    """Slices to try: whole windows where they are short, powers of two."""
    whole = [n * of.period for n in (1, 2, 4, 8) if 4 <= n * of.period <= 40] if of.period > 1 else []
    plain = [n for n in (8, 16, 32) if n < 2 * of.depth]
    return sorted({*whole, *plain, min(of.depth, 8)})


def splits(of: Contraction) -> list[int]:
    """Ways to divide the depth among blocks."""
    return [n for n in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32) if n == 1 or of.depth // n >= 32]


def candidates(of: Contraction, gpu: Gpu = USUAL) -> Iterator[SimtTile]:
    """Tiles worth ranking: blocks of usual sizes, and splits that do not fill the hardware many times over."""
    on = gpu.hardware
    rows, columns = (_shapes(operand) for operand in (of.rows, of.columns))
    for r, c in product(rows, columns):
        own = r[0] * r[2] * c[0] * c[2]
        if not _LEAST_BLOCK <= r[1] * c[1] <= _MOST_BLOCK or own < _LEAST_OWN:
            continue
        tiles = ceil(of.rows.extent / prod(r)) * ceil(of.columns.extent / prod(c)) * of.batch
        shares = [n for n in splits(of) if n == 1 or tiles * n <= _FULL * gpu.processors]
        for depth, split, stages in product(depths(of), shares, (1, 2)):
            tile = SimtTile(r, c, depth, split, stages)
            if tile.is_possible(of, on):
                yield tile


def _shapes(operand: Operand) -> list[Shape]:
    return [(v, t, n) for _, v, t, n in own_tiles(operand)]


@lru_cache(maxsize=256)
def ranked(of: Contraction, gpu: Gpu = USUAL) -> tuple[SimtTile, ...]:
    """Return tiles, those that cost least first."""
    found = ((tile.cycles(of, gpu), n, tile) for n, tile in enumerate(candidates(of, gpu)))
    costs = sorted(found, key=lambda each: each[:2])
    if costs:
        return tuple(tile for _, _, tile in costs)
    r, c = (_shapes(operand)[-1] for operand in (of.rows, of.columns))
    return (SimtTile(r, c, min(of.depth, 8), 1, 1),)


def expected(of: Contraction, gpu: Gpu = USUAL) -> float:
    """Return the cycles of the tile that costs least."""
    return ranked(of, gpu)[0].cycles(of, gpu)
