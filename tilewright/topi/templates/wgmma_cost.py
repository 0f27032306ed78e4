"""Tiles of a contraction by the matrix instructions of warpgroups, and what they cost by a model of the hardware.

A slice has the 128 bytes of terms that the hardware reads of a row. The tensor cores compute it in four instructions
for each warpgroup; meanwhile its warps copy a later slice. What shows is the time until a slice is there, unless
another block of the multiprocessor multiplies then. The constants are fitted to 390 kernels of dense convolutions
measured on an H200.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import product
from math import ceil, inf, prod

from ...core.atoms import LANES, WARPGROUP, Atom
from ...core.dtype import DType
from ...core.hardware import SWIZZLE_LINE, SWIZZLE_PIECE, Hardware, MemoryScope
from .contraction import Contraction, Operand
from .gpu import USUAL, Gpu
from .mma_cost import FULL, MmaTile, splits, tiles

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
_STATIONARY = 4
"""Slices of the columns' factor that may stay in shared memory for several tiles of rows."""


class WgmmaTile(MmaTile):
    """What a block of warpgroups computes: 16 rows a warp, and all columns of the block."""

    def registers(self, atom: Atom) -> int:
        """Registers for sums and for addresses."""
        return self.columns[1] * 16 * DType(atom.accumulator).bytes // 4 // LANES + _OVERHEAD

    def shared_bytes(self, of: Contraction, atom: Atom) -> int:
        """Bytes of slices in shared memory; results lie where slices were, unless those of the next tile are there."""
        rows, columns = prod(self.rows), prod(self.columns)
        results = rows * (columns + 8) * max(DType(atom.operands).bytes, 2) if self.staged else 0
        if self.tiles > 1:
            slices = self.slices(of)
            return (columns + rows * self.stages) * SWIZZLE_LINE * slices + results + 8 * SWIZZLE_LINE
        return max((rows + columns) * SWIZZLE_LINE * self.stages, results) + 8 * SWIZZLE_LINE

    def slices(self, of: Contraction) -> int:
        """Slices of a block, or of each of its tiles."""
        return ceil(of.depth / (self.depth * self.split))

    def is_possible(self, of: Contraction, atom: Atom, on: Hardware | None = None) -> bool:
        """Whether the hardware can run it, and every block has work."""
        on, threads = on or USUAL.hardware, self.warps * LANES
        # Of results that go through shared memory, a tile holds no more than there are.
        fits = prod(self.rows) <= of.rows.extent and prod(self.columns) <= of.columns.extent
        power = prod(self.columns) & (prod(self.columns) - 1) == 0
        return (
            threads <= on.block.threads
            and self.registers(atom) <= on.registers_at(threads)
            and self.shared_bytes(of, atom) <= on.memory(MemoryScope.SHARED).most
            and self.split * self.depth < of.depth + self.depth
            and self.stages <= (self.tiles if self.tiles > 1 else self.slices(of))
            and (self.tiles == 1 or (self.split == of.batch == 1 and self.slices(of) <= _STATIONARY))
            and atom.width(self.columns[1]) > 0
            and (not self.staged or (fits and power and self.split == 1))
            and (not self.vectors or self._has_runs(of))
        )

    def cycles(self, of: Contraction, atom: Atom, gpu: Gpu) -> float:
        """Cycles that the contraction takes."""
        rows, columns = prod(self.rows), prod(self.columns)
        resident = self.resident(of, atom, gpu.hardware)
        if not resident:
            return inf
        blocks = self.blocks(of)
        at_once, slices = min(resident, ceil(blocks / gpu.processors)), self.slices(of)
        groups = self.warps // WARPGROUP
        busy = max(groups * max(_COLUMN * columns, (columns + 64) * SWIZZLE_LINE / _READ), self._issued(of, gpu))
        late = _GAP + _LATENCY * _AHEAD ** (self.stages - 1)
        slice_cycles = max(busy + late, at_once * busy * (1 + _CROWD))
        stored_by = _STAGED if self.staged else _VECTORS if self.vectors else _STORE
        wave = self.tiles * (slices * slice_cycles + columns * 16 / LANES * stored_by * groups * at_once) + _BLOCK
        waves = blocks / (gpu.processors * at_once)
        full = ceil(waves) if waves <= 3 else waves + _TAIL
        moved = (rows * self.tiles + columns) * slices * SWIZZLE_LINE * blocks / _BANDWIDTH
        return max(full * wave, moved, self._written(of)) + _LAUNCH + self._added(of)

    def _issued(self, of: Contraction, gpu: Gpu) -> float:
        """Cycles of a scheduler for the copies of a slice."""
        threads, found = self.warps * gpu.hardware.warp, 0.0
        for extent, operand in ((prod(self.rows), of.rows), (prod(self.columns), of.columns)):
            together = min(SWIZZLE_PIECE, operand.together * DType(of.dtype).bytes)
            pieces = ceil(extent * SWIZZLE_LINE / together / threads)
            single = _SINGLE if together < 4 else 0.0
            found += pieces * (_COPY + single + _WINDOWED * self._tests(of, operand)) * self.warps / 4
        return found

    def _written(self, of: Contraction) -> float:
        """Cycles to store the results, or partial sums."""
        size = DType(of.dtype).bytes if self.split == 1 else 4
        pairs = size == 2 and not self.staged and not self.vectors
        return of.rows.extent * of.columns.extent * of.batch * size / (_PAIRS if pairs else _WRITTEN)

    def _added(self, of: Contraction) -> float:
        """Cycles of the kernel that adds partial sums."""
        if self.split == 1:
            return 0.0
        return _KERNEL + 2 * self.split * of.rows.extent * of.columns.extent * of.batch * 4 / _WRITTEN

    def _tests(self, of: Contraction, operand: Operand) -> bool:
        """Whether a copy of a factor finds out whether its elements are there."""
        return of.period > 1 and operand is of.rows


def row_tiles(operand: Operand) -> list[list[int]]:
    """Ways to split rows over blocks, warps and the 16 rows of one: one to four warpgroups."""
    return [[-1, WARPGROUP * n, 16] for n in (1, 2, 3, 4) if n == 1 or n * 64 <= operand.extent]


def column_tiles(operand: Operand, atom: Atom) -> list[list[int]]:
    """Ways to split columns over blocks and the tile of all warps."""
    usual = [n for n in (16, 32, 64, 96, 128, 160, 192, 224, 256) if n == 16 or n <= operand.extent]
    return [[-1, 1, n] for n in usual if atom.width(n)]


def depth_of(atom: Atom) -> int:
    """The terms of a slice."""
    return SWIZZLE_LINE // DType(atom.operands).bytes


def stages() -> list[int]:
    """Slices in flight."""
    return [1, 2, 3, 4, 5, 6]


def candidates(of: Contraction, atom: Atom, gpu: Gpu = USUAL) -> Iterator[WgmmaTile]:
    """Tiles worth ranking."""
    for row, column in product(row_tiles(of.rows), column_tiles(of.columns, atom)):
        rows, columns = (row[1], row[2]), (column[1], column[2])
        count = ceil(of.rows.extent / prod(rows)) * ceil(of.columns.extent / prod(columns)) * of.batch
        shares = [n for n in splits(of) if n == 1 or count * n <= FULL * gpu.processors]
        for split, stage, store in product(shares, stages(), ("fragments", "shared", "vectors")):
            tile = WgmmaTile(rows, columns, depth_of(atom), split, stage, store == "shared", 1, store == "vectors")
            if tile.is_possible(of, atom, gpu.hardware):
                yield tile
            yield from _stationary(tile, count, of, atom, gpu)


def _stationary(tile: WgmmaTile, count: int, of: Contraction, atom: Atom, gpu: Gpu) -> Iterator[WgmmaTile]:
    """The tile with so many of them per block that one or two waves of blocks do all `count` of them."""
    if tile.split > 1 or of.batch > 1 or tile.slices(of) > _STATIONARY:
        return
    below = tiles(of)
    resident = replace(tile, tiles=max(2, tile.stages)).resident(of, atom, gpu.hardware)
    for least in {count / (gpu.processors * resident * waves) for waves in (1, 2)} if resident else ():
        made = replace(tile, tiles=next((n for n in below if n >= least), below[-1]))
        if made.tiles > 1 and made.is_possible(of, atom, gpu.hardware):
            yield made


@lru_cache(maxsize=256)
def ranked(of: Contraction, atom: Atom, gpu: Gpu = USUAL) -> tuple[WgmmaTile, ...]:
    """Return tiles, those that cost least first."""
    found = [(tile.cycles(of, atom, gpu), n, tile) for n, tile in enumerate(candidates(of, atom, gpu))]
    return tuple(tile for _, _, tile in sorted(found, key=lambda each: each[:2]))
