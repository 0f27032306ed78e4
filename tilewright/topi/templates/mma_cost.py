"""Tiles of a contraction by matrix instructions, and what they cost by a model of the hardware.

The model counts the slots of a scheduler: matrix instructions, loads of fragments, copies of slices, stores. Blocks run
in waves; a wave takes as long as the slots of its warps, or the latency that too few warps and slices in flight cannot
hide. The constants are fitted to 900 kernels that `benchmarks.dense` measured on an H200.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from math import ceil, exp, log, prod
from typing import Any

from ...core.atoms import LANES, Atom
from ...core.dtype import DType
from ...core.hardware import Hardware, MemoryScope
from .contraction import Contraction, Operand, rounded
from .gpu import USUAL, Gpu

DIRECT = "direct"
"""The form of a workload whose data is read as it lies."""
Forms = tuple[tuple[str, Contraction], ...]
"""The contractions that compute a workload, by what they are called."""
Pair = tuple[int, int]
"""Of a block's rows or columns: warps, and the tile of one warp."""
_BANDWIDTH = 2130.0
"""Bytes a cycle that all multiprocessors get from the L2 cache."""
_HALVES, _NARROW = 585.0, ("float16", "bfloat16")
"""The same where lanes store pairs of 16-bit results, which fill half a sector; the types of such results."""
_BLOCK_START, _LATENCY, _KERNEL, _LAUNCH = 3850.0, 100.0, 2150.0, 1120.0
"""Cycles to begin and end a block, of a load from L2, of a further kernel, and of a first one."""
_SINGLE, _ROUNDED, _SPLIT, _BYTES = 6.68, 9.69, 26.8, 12.8
"""Cycles of a scheduler for a matrix instruction: of 16-bit floats, tf32, three products of parts, and integers."""
_FRAGMENT, _STORE, _STAGED = 0.567, 9.55, 9.71
"""Cycles for a register of a fragment, and for a register of sums that is stored, or goes through shared memory."""
_COPY, _WINDOWED, _SYNCHRONOUS = 29.7, 39.8, 2.75
"""Issue slots to copy neighbours; further ones where borders are tested, and where registers are between."""
_SCALAR, _UNEVEN, _HELD_UP = 12.0, 55.3, 1.6
"""Fewer ones for less than a word; further ones where such copies find their places one by one: in slices of whole
windows, in parts of a depth, and in tiles that are there in part. How much slower a warp is alone that awaits them."""
_AHEAD, _SLICE, _CROWD, _ALONE, _TAIL = 0.1, 78.6, 0.358, 1.01, 0.207
"""The part of the latency that shows with slices in flight; cycles around a barrier, and how they grow with warps; how
much slower a warp is alone; waves that are not full."""
_OVERHEAD, _SPLIT_OVERHEAD = 44, 36
"""Registers for addresses and loops; where operands are split into parts."""
_PER_COPY, _SPILLED = 5.0, 5.68
"""Registers that a copy keeps for its address and condition; cycles of a slice for each register that is not there."""
_STORES = ((False, False), (True, False), (False, True))
"""Results from fragments, through shared memory, and in vectors from fragments."""
_MEAN = 0.93
"""What kernels take in the mean of what the model says: the fit counts too little twice as much as too much."""
_LEAST_ROWS = 256
"""Rows for each tile of a block from which on a block may compute several: there have to be enough blocks."""
FULL = 4
"""Blocks per multiprocessor beyond which the depth is not divided further."""


@dataclass(frozen=True)
class MmaTile:
    """What a block computes: rows and columns over warps and their tiles; and how it runs.

    A block computes several `tiles` one after another, below each other: its columns' factor stays in shared memory.
    Results go from fragments to memory, `staged` through shared memory, or in `vectors` from fragments.
    """

    rows: Pair
    columns: Pair
    depth: int
    split: int
    stages: int
    staged: bool = False
    tiles: int = 1
    vectors: bool = False
    data: str = DIRECT

    @classmethod
    def of(cls, choices: Mapping[str, Any]) -> MmaTile:
        """Return the tile that a configuration's choices make."""
        rows, columns = (tuple(choices[name].size[1:]) for name in ("rows", "columns"))
        depth, split, flying = (choices[name].val for name in ("depth", "split", "stages"))
        below = choices["tiles"].val if "tiles" in choices else 1  # older records have one tile per block
        store = choices["store"].val
        data = choices["data"].val if "data" in choices else DIRECT
        return cls(rows, columns, depth, split, flying, store == "shared", below, store == "vectors", data)

    def run(self, of: Contraction) -> int:
        """Neighbouring results that a lane stores as a vector of 16 bytes; 0 where columns are in their own order."""
        return 16 // DType(of.sum_dtype if of.dtype not in _NARROW else of.dtype).bytes if self.vectors else 0

    @property
    def warps(self) -> int:
        """Warps of a block."""
        return self.rows[0] * self.columns[0]

    def registers(self, atom: Atom) -> int:
        """Registers for sums, for fragments and for addresses."""
        rows, columns = self.rows[1], self.columns[1]
        sums = rows * columns // LANES * (1 + atom.partial_sums)
        fragments = (rows // atom.m * atom.halves + columns // atom.n) * atom.words
        if atom.products > 1:  # fragments are split as they are used, and not loaded ahead
            return sums + fragments + _SPLIT_OVERHEAD
        return sums + fragments * 2 + _OVERHEAD

    def shared_bytes(self, of: Contraction, atom: Atom) -> int:
        """Bytes of slices in shared memory, padding included.

        Results lie where slices were, but not while slices of the next tile are in flight.
        """
        word, (rows, columns) = DType(atom.operands).bytes, (prod(self.rows), prod(self.columns))
        results = rows * (columns + 8) * max(word, 2) if self.staged else 0
        if self.tiles == 1:
            return max((rows + columns + 16) * (self.depth + 8) * word * self.stages, results)
        slices, whole = rows * (self.depth + 8) * word * self.stages, rounded(of.depth, self.depth)
        in_flight = self.stages > 1 and self.depth == whole
        return columns * (whole + 8) * word + (slices + results if in_flight else max(slices, results))

    def resident(self, of: Contraction, atom: Atom, on: Hardware) -> int:
        """Blocks that one multiprocessor holds at a time."""
        shared = on.memory(MemoryScope.SHARED)
        threads = self.warps * on.warp
        by_registers = on.multiprocessor.registers // (rounded(self.registers(atom), 8) * threads)
        by_shared = (shared.pool or shared.most) // max(1, self.shared_bytes(of, atom))
        return min(by_registers, by_shared, on.multiprocessor.warps // self.warps, on.multiprocessor.blocks)

    def is_possible(self, of: Contraction, atom: Atom, on: Hardware | None = None) -> bool:
        """Whether the hardware can run it, and every block has work."""
        on = on or USUAL.hardware
        slices = ceil(of.depth / (self.split * self.depth))
        return (
            self.warps * on.warp <= on.block.threads
            and self.registers(atom) <= on.registers_at(self.warps * on.warp)
            and self.shared_bytes(of, atom) <= on.memory(MemoryScope.SHARED).most
            and self.split * self.depth < of.depth + self.depth
            and (self.stages == 1 or max(slices, self.tiles if slices == 1 else 1) >= self.stages)
            and (self.tiles == 1 or self.split == of.batch == 1)
            and not (self.staged and (self.split > 1 or prod(self.columns) & (prod(self.columns) - 1)))
            and (not self.vectors or self._has_runs(of))
        )

    def blocks(self, of: Contraction) -> int:
        """Blocks of the grid."""
        rows = ceil(of.rows.extent / (prod(self.rows) * self.tiles))
        return rows * ceil(of.columns.extent / prod(self.columns)) * of.batch * self.split

    def _has_runs(self, of: Contraction) -> bool:
        """Whether lanes can hold neighbouring results, of columns that may be in any order in shared memory."""
        run = self.run(of)
        whole = self.columns[1] % (4 * run) == of.run % run == of.columns.extent % run == 0
        return whole and self.split == 1 and of.columns.along_depth

    def cycles(self, of: Contraction, atom: Atom, gpu: Gpu) -> float:
        """Cycles that the contraction takes."""
        on = gpu.hardware
        bi, bj = prod(self.rows), prod(self.columns)
        blocks = self.blocks(of)
        resident = self.resident(of, atom, on)
        if not resident:
            return float("inf")
        depth = rounded(of.depth, self.depth * self.split) // self.split
        slices, threads = depth / self.depth, self.warps * on.warp
        instructions = self.rows[1] // atom.m * (self.columns[1] // atom.n) * (self.depth // atom.k)
        fragments = (self.rows[1] // atom.m * atom.halves + self.columns[1] // atom.n) * atom.words
        copied = [
            ceil(extent * self.depth / operand.together / threads) * self._effort(of, operand)
            for extent, operand in ((bi, of.rows), (bj, of.columns))
        ]
        # A warp's slots for a slice, and how long that takes where others wait for the same scheduler.
        issued = instructions * _cycles_of(atom) + fragments * (self.depth // atom.k) * _FRAGMENT
        issued += copied[0] if self.tiles > 1 else sum(copied)
        wanted = self.registers(atom) + self._address_registers(of, threads)
        issued += max(0.0, wanted - on.registers_at(threads)) * _SPILLED
        at_once = min(resident, ceil(blocks / gpu.processors))
        warps = max(1.0, at_once * self.warps / 4)
        hidden = _AHEAD ** (self.stages - 1)
        alone = _ALONE if all(_is_asynchronous(of, operand) for operand in (of.rows, of.columns)) else _HELD_UP
        slice_cycles = max(warps * issued, issued * alone + _LATENCY * hidden) + _SLICE * exp(log(warps) * _CROWD)
        sums = self.rows[1] * self.columns[1] / on.warp
        stored_by = _STAGED if self.staged else _STORE
        wave = self.tiles * (slices * slice_cycles + sums * stored_by * warps) + _BLOCK_START
        if self.tiles > 1:
            wave += _LATENCY + slices * copied[1] * warps
        waves = blocks / (gpu.processors * at_once)
        full = ceil(waves) if waves <= 3 else waves + _TAIL
        word = DType(atom.operands).bytes
        moved = (bi * self.tiles + bj) * depth * blocks * word / _BANDWIDTH
        results, stored = of.rows.extent * of.columns.extent * of.batch, 0.0
        if self.split > 1:
            stored = _KERNEL + 2 * self.split * results * 4 / _BANDWIDTH
        narrow = of.dtype in _NARROW and self.split == 1
        pairs = narrow and not self.staged and not self.vectors
        written = results * (2 if narrow else 4) / (_HALVES if pairs else _BANDWIDTH)
        before = sum(_KERNEL + 2 * size / _BANDWIDTH for size in of.prepared)
        return _MEAN * (max(full * wave, moved, written) + _LAUNCH + stored + before)

    def _address_registers(self, of: Contraction, threads: int) -> float:
        """Registers for the addresses and conditions of copies, where all slices have the same.

        A slice of whole windows begins at the same tap as every other: the compiler then computes what each copy needs
        ahead of the loop over slices.
        """
        if self.stages == 1 or of.period == 1 or self.depth % of.period or of.columns.along_depth:
            return 0.0
        copies = sum(
            ceil(prod(pair) * self.depth / operand.together / threads)
            for pair, operand in ((self.rows, of.rows), (self.columns, of.columns))
        )
        return _PER_COPY * copies

    def _effort(self, of: Contraction, operand: Operand) -> float:
        """Issue slots for one copy of a factor.

        A copy finds its tap by itself where slices do not consist of whole windows or parts of one; hardware copies no
        less than 4 bytes asynchronously.
        """
        whole = self.depth % of.period == 0
        parts = of.period % self.depth and (of.columns.along_depth or not whole)
        windowed = of.period > 1 and (not operand.along_depth or (parts and operand is of.rows))
        narrow = not _is_asynchronous(of, operand)
        size = prod(self.rows if operand is of.rows else self.columns)
        uneven = narrow and of.period > 1 and (whole or operand.extent % size > 0 or self.split > 1)
        copy = _COPY + _WINDOWED * windowed + _SYNCHRONOUS * (self.stages == 1)
        return copy - _SCALAR * narrow + _UNEVEN * uneven

    def wanted(self) -> dict[str, Any]:
        """The choices that make it."""
        return {
            "rows": list(self.rows),
            "columns": list(self.columns),
            "depth": self.depth,
            "split": self.split,
            "stages": self.stages,
            "store": "vectors" if self.vectors else "shared" if self.staged else "fragments",
            "tiles": self.tiles,
            "data": self.data,
        }


def _is_asynchronous(of: Contraction, operand: Operand) -> bool:
    """Whether hardware copies a factor asynchronously: no less than a word at a time."""
    return operand.together * DType(of.dtype).bytes >= 4


def _cycles_of(atom: Atom) -> float:
    """Cycles of a scheduler for one matrix instruction, or three of them."""
    if atom.shape.operands == "tfloat32":
        return _ROUNDED if atom.products == 1 else _SPLIT
    if atom.products > 1:  # as many instructions as two steps of tf32 take
        return 2 * _SPLIT
    return _SINGLE if atom.accumulator in ("float32", "float16") else _BYTES


def warp_tiles(operand: Operand, unit: int) -> list[list[int]]:
    """Ways to split rows or columns over blocks, warps and the tile of a warp."""
    tiles = [n for n in (8, 16, 32, 48, 64, 96, 128) if n % unit == 0 and n <= max(unit, operand.extent)]
    return [[-1, warps, n] for n in tiles for warps in (1, 2, 4, 8) if warps <= ceil(operand.extent / n)]


def depths(of: Contraction, atom: Atom) -> list[int]:
    """Steps in shared memory at a time."""
    whole = rounded(of.depth, atom.k)
    found = {atom.k * n for n in (1, 2, 4, 8) if atom.k * n <= min(128, whole)}
    if of.period > 1:
        found |= {n * of.period for n in (1, 2, 4, 8, 16) if n * of.period % atom.k == 0 and n * of.period <= 144}
    return sorted(found)


def splits(of: Contraction) -> list[int]:
    """Ways to divide the depth among blocks."""
    return [n for n in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32) if n == 1 or of.depth // n >= 32]


def stages() -> list[int]:
    """Slices in flight."""
    return [1, 2, 3, 4]


def tiles(of: Contraction) -> list[int]:
    """Tiles below each other that one block computes."""
    few = (*range(1, 11), 12, 14, 16, 18, 20, 24, 28, 32, 36, 40, 48, 49, 56, 64, 72, 80, 96, 98, 112, 128)
    return [n for n in few if n == 1 or n * _LEAST_ROWS <= of.rows.extent]


def candidates(of: Contraction, atom: Atom, gpu: Gpu = USUAL) -> Iterator[MmaTile]:
    """Tiles worth ranking: blocks of usual sizes, and splits that do not fill the hardware many times over."""
    on = gpu.hardware
    rows, columns = (
        [(warps, n) for _, warps, n in warp_tiles(operand, unit)]
        for operand, unit in ((of.rows, atom.m), (of.columns, atom.n))
    )
    below = tiles(of)
    for r, c in product(rows, columns):
        if not 1 <= r[0] * c[0] <= 8 or r[1] * c[1] > 64 * 128:
            continue
        count = ceil(of.rows.extent / prod(r)) * ceil(of.columns.extent / prod(c)) * of.batch
        shares = [n for n in splits(of) if n == 1 or count * n <= FULL * gpu.processors]
        if of.prepared:  # in whole vectors along the depth, in flight
            ways = product((n for n in depths(of, atom) if n >= 4 * atom.k), shares, (2, 4), _STORES[:1])
        else:
            ways = product(depths(of, atom), shares, stages(), _STORES)
        for depth, split, flying, (staged, vectors) in ways:
            tile = MmaTile(r, c, depth, split, flying, staged, vectors=vectors)
            if tile.is_possible(of, atom, on):
                yield tile
            yield from _stationary(tile, count, below, of, atom, gpu)


def _stationary(
    tile: MmaTile, count: int, below: list[int], of: Contraction, atom: Atom, gpu: Gpu
) -> Iterator[MmaTile]:
    """The tile with so many of them per block that one or two waves of blocks do all `count` of them."""
    if tile.stages == 1 or tile.split > 1 or of.batch > 1 or tile.depth < of.depth:
        return
    resident = replace(tile, tiles=2).resident(of, atom, gpu.hardware)
    wanted = {count / (gpu.processors * resident * waves) for waves in (1, 2)} if resident else set()
    for least in wanted:
        made = replace(tile, tiles=next((n for n in below if n >= least), below[-1]))
        if made.tiles > 1 and made.is_possible(of, atom, gpu.hardware):
            yield made


@lru_cache(maxsize=256)
def ranked(forms: Forms, atom: Atom, gpu: Gpu = USUAL) -> tuple[MmaTile, ...]:
    """Return tiles, those that cost least first."""
    made, known = dict(forms), depths(forms[0][1], atom)
    tiles = (
        replace(tile, data=name) for name, of in forms for tile in candidates(of, atom, gpu) if tile.depth in known
    )
    found = [(tile.cycles(made[tile.data], atom, gpu), n, tile) for n, tile in enumerate(tiles)]
    return tuple(tile for _, _, tile in sorted(found, key=lambda each: each[:2]))
