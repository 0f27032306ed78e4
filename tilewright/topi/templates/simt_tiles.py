"""Tiles of a contraction on ordinary arithmetic, and their cycles.

The model counts the issue slots of a scheduler: products, loads from shared memory, and fetches of slices. Blocks run
in waves; a wave takes as long as the slots of its warps, or the latency that too few of them cannot hide. Bytes from
memory bound the whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, inf, prod
from typing import ClassVar

import numpy as np

from ...core.hardware import Hardware, MemoryScope
from ...core.occupancy import occupancy
from ...core.vectorized import Number, ceiling, either, most, of_each, upwards
from ...tune.model.fitted import Quantities
from ...tune.model.kernel_time import at_once, in_waves, slice_cycles, sum_cycles
from ...tune.model.machine import REFERENCE, Machine
from .contraction import Contraction, MatrixOperand, rounded, splits
from .many import cheapest_first, spread_over, taken
from .tile_model import KnobTile

Shape = tuple[Number, Number, Number]
"""Of a block's rows or columns: virtual threads, threads, and neighbours of one thread."""

_HELD_FETCHES = 32
"""Elements up to which a thread fetches ahead into registers."""
_OVERHEAD = 36
"""Registers for addresses and loops."""
_MOST_TILE = 256
_LEAST_BLOCK, _MOST_BLOCK, _LEAST_OWN = 32, 256, 8
_FULL = 8
"""Blocks per multiprocessor beyond which the depth is not divided further."""


@dataclass(frozen=True)
class SimtTile(KnobTile):
    """The work of a block: rows and columns over virtual threads, threads and neighbours; and how it runs.

    Of many tiles at once, fields are arrays (`many.py`).
    """

    KNOBS: ClassVar = {name: name for name in ("rows", "columns", "depth", "split", "stages")}
    SIZES: ClassVar = ("rows", "columns")

    rows: Shape
    columns: Shape
    depth: Number
    split: Number
    stages: Number

    @property
    def threads(self) -> tuple[Number, Number]:
        """Threads over rows, and over columns."""
        return self.rows[1], self.columns[1]

    @property
    def block(self) -> Number:
        """Threads of a block."""
        return prod(self.threads)

    @property
    def own(self) -> tuple[Number, Number]:
        """Rows and columns of one thread."""
        return self.rows[0] * self.rows[2], self.columns[0] * self.columns[2]

    def step(self, of: Contraction) -> Number:
        """Return the steps along the depth that one load of a thread covers."""
        both = of.rows.along_depth and of.columns.along_depth
        widest = 16 // (8 if of.sum_dtype == "float64" else 4)
        able = [n for n in (4, 2, 1) if n <= (widest // 2 if both else widest)]
        return of_each(lambda depth: next(n for n in able if depth % n == 0), self.depth)

    def registers(self, of: Contraction) -> Number:
        """Registers for sums, for factors and for addresses."""
        rows, columns = self.own
        step = self.step(of)
        held = rows * (step if of.rows.along_depth else 1) + columns * (step if of.columns.along_depth else 1)
        return (rows * columns + held) * (2 if of.sum_dtype == "float64" else 1) + _OVERHEAD

    def shared_bytes(self, of: Contraction) -> Number:
        """Bytes of slices in shared memory."""
        word = 8 if of.sum_dtype == "float64" else 4
        return (prod(self.rows) + prod(self.columns)) * self.depth * word * self.stages

    def resident(self, of: Contraction, on: Hardware) -> Number:
        """Blocks that one multiprocessor holds at a time."""
        return occupancy(on, self.block, self.registers(of), self.shared_bytes(of), pooled=True).blocks

    def is_possible(self, of: Contraction, on: Hardware | None = None) -> Number:
        """Whether the hardware can run it, and every block has work."""
        on = on or REFERENCE.hardware
        return (
            (self.block <= on.block.threads)
            & (self.registers(of) <= of_each(on.registers_at, self.block))
            & (self.shared_bytes(of) <= on.memory(MemoryScope.SHARED).capacity)
            & (self.split * self.depth < of.depth + self.depth)
            & ((self.stages == 1) | (ceiling(of.depth, self.split * self.depth) >= self.stages))
        )

    def blocks(self, of: Contraction) -> Number:
        """Blocks of the grid."""
        rows, columns = ceiling(of.rows.extent, prod(self.rows)), ceiling(of.columns.extent, prod(self.columns))
        return rows * columns * of.batch * self.split

    def cycles(self, of: Contraction, machine: Machine) -> Number:
        """Return the cycles that the contraction takes."""
        on, at = machine.hardware, machine.fitted["gemm"]
        bi, bj = prod(self.rows), prod(self.columns)
        blocks = self.blocks(of)
        resident = self.resident(of, on)
        depth = rounded(of.depth, self.depth * self.split) // self.split
        slices, (rows, columns), step = depth / self.depth, self.own, self.step(of)
        loads = rows / (step if of.rows.along_depth else self.rows[2]) + columns / (
            step if of.columns.along_depth else self.columns[2]
        )
        fetched = sum(
            upwards(extent * self.depth / operand.together / self.block) * self._effort(of, operand, at)
            for extent, operand in ((bi, of.rows), (bj, of.columns))
        )
        # A warp's instructions for a slice; other warps wait for the same scheduler.
        issued = self.depth * (rows * columns * at.product_slots + loads * at.load_slots) + fetched
        together = at_once(resident, blocks, machine)
        warps = most(1.0, together * ceiling(self.block, on.warp) / on.multiprocessor.schedulers)
        ahead = (self.stages > 1) | (fetched < _HELD_FETCHES * at.fetch_slots)
        shown = either(ahead, at.ahead_latency_factor, at.serial_latency_factor)
        each = slice_cycles(issued, warps, at.alone_factor, shown, at)
        wave = slices * each + at.block_cycles + rows * columns * at.store_cycles * warps
        moved = (bi + bj) * depth * blocks * 4 / at.l2_bytes_per_cycle
        found = in_waves(wave, blocks, together, machine, at, moved)
        results = of.rows.extent * of.columns.extent * of.batch
        return either(resident > 0, found + sum_cycles(self.split, results, at.l2_bytes_per_cycle, at), inf)

    def _effort(self, of: Contraction, operand: MatrixOperand, at: Quantities) -> Number:
        """Instructions for one load of a factor."""
        if operand.along_depth or operand.together > 1 or of.period == 1:
            return at.fetch_slots
        steady = (self.depth % of.period == 0) & (self.block <= prod(self.columns))
        return at.fetch_slots + at.border_slots * either(steady, 1.0, at.unsteady_factor)


def own_tiles(operand: MatrixOperand) -> list[list[int]]:
    """Ways to split rows or columns over blocks, virtual threads, threads, and a thread's neighbours.

    Neighbours are the thread's own if they lie together in shared memory; otherwise its rows are apart, so that a
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
    """Return slices to try: whole windows if they are short, powers of two."""
    whole = [n * of.period for n in (1, 2, 4, 8) if 4 <= n * of.period <= 40] if of.period > 1 else []
    plain = [n for n in (8, 16, 32) if n < 2 * of.depth]
    return sorted({*whole, *plain, min(of.depth, 8)})


def candidates(of: Contraction, machine: Machine = REFERENCE) -> SimtTile:
    """Tiles worth ranking: blocks of usual sizes, and splits that do not fill the hardware many times over."""
    pairs = [
        (r, c)
        for r in _shapes(of.rows)
        for c in _shapes(of.columns)
        if _LEAST_BLOCK <= r[1] * c[1] <= _MOST_BLOCK and r[0] * r[2] * c[0] * c[2] >= _LEAST_OWN
    ]
    rows, columns = np.array(pairs, np.int64).reshape(-1, 2, 3).transpose(1, 2, 0)[..., None, None, None]
    ways = [np.array(each, np.int64) for each in (depths(of), splits(of), (1, 2))]
    depth, split, stages = (each[None] for each in np.meshgrid(*ways, indexing="ij", sparse=True))
    made = SimtTile(tuple(rows), tuple(columns), depth, split, stages)
    count = made.blocks(of) // made.split
    usual = (made.split == 1) | (count * made.split <= _FULL * machine.multiprocessors)
    flags = usual & made.is_possible(of, machine.hardware)
    return taken(spread_over(made, flags.shape), np.nonzero(flags))


def _shapes(operand: MatrixOperand) -> list[Shape]:
    return [(v, t, n) for _, v, t, n in own_tiles(operand)]


@lru_cache(maxsize=256)
def rank_tiles(of: Contraction, machine: Machine = REFERENCE) -> Sequence[SimtTile]:
    """Return tiles, the fastest first."""
    found = candidates(of, machine)
    if len(found.depth):
        return cheapest_first(found, found.cycles(of, machine))
    r, c = (_shapes(operand)[-1] for operand in (of.rows, of.columns))
    return (SimtTile(r, c, min(of.depth, 8), 1, 1),)
