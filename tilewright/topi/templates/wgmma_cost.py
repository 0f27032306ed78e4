"""Tiles of a contraction by the matrix instructions of warpgroups, and what they cost by a model of the hardware.

A slice has the 128 bytes of terms that the hardware reads of a row. The tensor cores compute it in four instructions
for each warpgroup; meanwhile its warps copy a later slice. What shows is the time until a slice is there, unless
another block of the multiprocessor multiplies then. The constants are fitted to 390 kernels of dense convolutions
measured on an H200.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from math import inf, prod

from ...core.atoms import LANES, WARPGROUP, Atom
from ...core.dtype import DType
from ...core.hardware import SWIZZLE_LINE, SWIZZLE_PIECE, Hardware
from ...core.vectorized import Number, ceiling, either, least, most, of_each, upwards
from .contraction import Contraction, Operand
from .gpu import USUAL, Gpu
from .many import cheapest_first
from .mma_cost import FULL, STORES, MmaTile, grid, splits, with_stationary

_COLUMN, _READ = 2.0, 128.0
"""Cycles of the tensor cores for a column of 64 sums of a slice; bytes of shared memory that they read in a cycle."""
_GAP, _LATENCY, _AHEAD, _CROWD = 136.0, 1222.0, 0.346, 0.279
"""Cycles between the products of two slices; until a slice is there, and the part of them that shows with each further
slice in flight; how much slower blocks multiply that share a multiprocessor."""
_SINGLE = 80.0
"""Issue slots to copy less than a word, which no hardware copies asynchronously."""
_COPY, _WINDOWED = 9.65, 35.2
"""Issue slots to copy 16 bytes; further ones where borders are tested."""
_BLOCK, _STORE, _STAGED, _VECTORS = 478.0, 22.7, 18.5, 9.99
"""Cycles to begin and end a block; for a register of sums that is stored, goes through shared memory, or is part of a
vector."""
_BANDWIDTH, _WRITTEN, _PAIRS = 6030.0, 1397.0, 235.0
"""Bytes a cycle that all multiprocessors get from the L2 cache, that they store, and that lanes store in pairs of
16-bit results, which fill half a sector."""
_LAUNCH, _KERNEL, _TAIL = 1191.0, 891.0, 0.363
"""Cycles of a first kernel, and of a further one; waves that are not full."""
_OVERHEAD = 40
"""Registers for addresses and loops."""
LEAST_COLUMNS = 16
"""Columns of the smallest tile."""
_STATIONARY = 4
"""Slices of the columns' factor that may stay in shared memory for several tiles of rows."""


class WgmmaTile(MmaTile):
    """What a block of warpgroups computes: 16 rows a warp, and all columns of the block."""

    pooled = False

    def registers(self, atom: Atom) -> Number:
        """Registers for sums and for addresses."""
        return self.columns[1] * 16 * DType(atom.accumulator).bytes // 4 // LANES + _OVERHEAD

    def _held(self, of: Contraction, atom: Atom, results: Number) -> Number:
        """Bytes of slices in shared memory; results lie where slices were, unless those of the next tile are there."""
        rows, columns = prod(self.rows), prod(self.columns)
        several = (columns + rows * self.stages) * SWIZZLE_LINE * self.slices(of) + results
        one = most((rows + columns) * SWIZZLE_LINE * self.stages, results)
        return either(self.tiles > 1, several, one) + 8 * SWIZZLE_LINE

    def slices(self, of: Contraction) -> Number:
        """Slices of a block, or of each of its tiles."""
        return ceiling(of.depth, self.depth * self.split)

    def is_possible(self, of: Contraction, atom: Atom, on: Hardware | None = None) -> Number:
        """Whether the hardware can run it, and every block has work."""
        on, threads = on or USUAL.hardware, self.warps * LANES
        rows, columns, slices = prod(self.rows), prod(self.columns), self.slices(of)
        # Of results that go through shared memory, a tile holds no more than there are.
        fits = (rows <= of.rows.extent) & (columns <= of.columns.extent)
        power = columns & (columns - 1) == 0
        return (
            (threads <= on.block.threads)
            & (self.registers(atom) <= of_each(on.registers_at, threads))
            & self.fits(of, atom, on)
            & (self.split * self.depth < of.depth + self.depth)
            & (self.stages <= either(self.tiles > 1, self.tiles, slices))
            & ((self.tiles == 1) | ((self.split == 1) & (of.batch == 1) & (slices <= _STATIONARY)))
            & (of_each(atom.width, self.columns[1]) > 0)
            & ((self.staged == 0) | (fits & power & (self.split == 1)))
            & ((self.vectors == 0) | (self._has_runs(of) & (columns <= of.columns.extent)))
        )

    def cycles(self, of: Contraction, atom: Atom, gpu: Gpu) -> Number:
        """Cycles that the contraction takes."""
        rows, columns = prod(self.rows), prod(self.columns)
        resident = self.resident(of, atom, gpu.hardware)
        blocks = self.blocks(of)
        at_once, slices = least(most(resident, 1), ceiling(blocks, gpu.processors)), self.slices(of)
        groups = self.warps // WARPGROUP
        busy = most(groups * most(_COLUMN * columns, (columns + 64) * SWIZZLE_LINE / _READ), self._issued(of, gpu))
        late = of_each(lambda flying: _GAP + _LATENCY * _AHEAD ** (flying - 1), self.stages)
        slice_cycles = most(busy + late, at_once * busy * (1 + _CROWD))
        stored_by = either(self.staged, _STAGED, either(self.vectors, _VECTORS, _STORE))
        wave = self.tiles * (slices * slice_cycles + columns * 16 / LANES * stored_by * groups * at_once) + _BLOCK
        waves = blocks / (gpu.processors * at_once)
        full = either(waves <= 3, upwards(waves), waves + _TAIL)
        moved = (rows * self.tiles + columns) * slices * SWIZZLE_LINE * blocks / _BANDWIDTH
        found = most(full * wave, moved, self._written(of)) + _LAUNCH + self._added(of)
        return either(resident > 0, found, inf)

    def _issued(self, of: Contraction, gpu: Gpu) -> Number:
        """Cycles of a scheduler for the copies of a slice."""
        threads, found = self.warps * gpu.hardware.warp, 0.0 * self.warps
        for extent, operand in ((prod(self.rows), of.rows), (prod(self.columns), of.columns)):
            together = min(SWIZZLE_PIECE, operand.together * DType(of.dtype).bytes)
            pieces = upwards(extent * SWIZZLE_LINE / together / threads)
            single = _SINGLE if together < 4 else 0.0
            found = found + pieces * (_COPY + single + _WINDOWED * self._tests(of, operand)) * self.warps / 4
        return found

    def _written(self, of: Contraction) -> Number:
        """Cycles to store the results, or partial sums."""
        size = either(self.split == 1, DType(of.dtype).bytes, 4)
        pairs = (size == 2) & (self.staged == 0) & (self.vectors == 0)
        return of.rows.extent * of.columns.extent * of.batch * size / either(pairs, _PAIRS, _WRITTEN)

    def _added(self, of: Contraction) -> Number:
        """Cycles of the kernel that adds partial sums."""
        moved = 2 * self.split * of.rows.extent * of.columns.extent * of.batch * 4
        return either(self.split == 1, 0.0, _KERNEL + moved / _WRITTEN)

    def _tests(self, of: Contraction, operand: Operand) -> bool:
        """Whether a copy of a factor finds out whether its elements are there."""
        return of.period > 1 and operand is of.rows


def row_tiles(operand: Operand) -> list[list[int]]:
    """Ways to split rows over blocks, warps and the 16 rows of one: one to four warpgroups."""
    return [[-1, WARPGROUP * n, 16] for n in (1, 2, 3, 4) if n == 1 or n * 64 <= operand.extent]


def column_tiles(operand: Operand, atom: Atom) -> list[list[int]]:
    """Ways to split columns over blocks and the tile of all warps."""
    usual = [
        n for n in (LEAST_COLUMNS, 32, 64, 96, 128, 160, 192, 224, 256) if n == LEAST_COLUMNS or n <= operand.extent
    ]
    return [[-1, 1, n] for n in usual if atom.width(n)]


def depth_of(atom: Atom) -> int:
    """The terms of a slice."""
    return SWIZZLE_LINE // DType(atom.operands).bytes


def stages() -> list[int]:
    """Slices in flight."""
    return [1, 2, 3, 4, 5, 6]


def candidates(of: Contraction, atom: Atom, gpu: Gpu = USUAL) -> WgmmaTile:
    """Tiles worth ranking."""
    pairs = [((r[1], r[2]), (c[1], c[2])) for r in row_tiles(of.rows) for c in column_tiles(of.columns, atom)]
    made = grid(pairs, ([depth_of(atom)], splits(of), stages()), STORES, WgmmaTile)
    count = made.blocks(of) // made.split
    usual = (made.split == 1) | (count * made.split <= FULL * gpu.processors)
    several = usual & (made.split == 1) & (of.batch == 1) & (made.slices(of) <= _STATIONARY)
    resident = replace(made, tiles=most(2, made.stages)).resident(of, atom, gpu.hardware)
    return with_stationary(made, usual, several, of, atom, gpu, resident)


@lru_cache(maxsize=256)
def ranked(of: Contraction, atom: Atom, gpu: Gpu = USUAL) -> Sequence[MmaTile]:
    """Return tiles, those that cost least first."""
    found = candidates(of, atom, gpu)
    return cheapest_first(found, found.cycles(of, atom, gpu))
