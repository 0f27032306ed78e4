"""Contractions on a GPU's ordinary arithmetic: tiles of both factors in shared memory, tiles of results in registers.

A block computes a tile of rows times columns. Its threads fetch slices of both factors together; the configuration sets
the steps along the depth per slice. Each thread keeps some rows and columns of sums in registers. If there are fewer
tiles than multiprocessors, the depth is divided among blocks as well. They store partial sums, and a second kernel adds
them in a fixed order and applies the epilogue.

The model counts the issue slots of a scheduler: products, loads from shared memory, and fetches of slices. Blocks run
in waves; a wave takes as long as the slots of its warps, or the latency that too few of them cannot hide. Bytes from
memory bound the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, inf, prod
from typing import Any, ClassVar

import numpy as np

from ...core.hardware import Hardware, MemoryScope
from ...core.occupancy import occupancy
from ...core.vectorized import Number, ceiling, either, least, most, of_each, upwards
from ...schedule.handle import ScheduleHandle
from ...tensor.axis import IterVar
from ...tensor.tensor import Tensor
from ...tune.model.fitted import Quantities
from ...tune.model.kernel_time import at_once, in_waves, slice_cycles, sum_cycles
from ...tune.model.machine import REFERENCE, Machine
from ...tune.space.config import Config
from ...tune.space.space import Space
from ...tune.task import Expectation
from .contraction import Contraction, MatrixOperand, OfContraction, declare, rounded, splits
from .contraction_schedule import Begun, begin, bind_blocks, deal_out, leave_group, width
from .needs import Needs
from .schedule_helpers import GPU, bind_all, split_all, widest_vector
from .slice_rows import SliceRows, slice_rows
from .strategy import ScheduleStrategy, always
from .tensors import Tensors
from .tile_arrays import broadcast_tiles, select_tiles, sort_by_cycles
from .tile_model import KnobTile, TileModel
from .workload import W

Shape = tuple[Number, Number, Number]
"""The split of a block's rows or columns: virtual threads, threads, and neighbours of one thread."""

_MOST_PREFETCHED_ELEMENTS = 32
"""The largest number of elements that a thread prefetches into registers."""
_OVERHEAD_REGISTERS = 36
"""Registers for addresses and loops."""
_MOST_TILE_EXTENT = 256
_LEAST_THREADS = 32
_MOST_THREADS = 256
_LEAST_RESULTS_PER_THREAD = 8
_FULL_BLOCKS = 8
"""The number of blocks per multiprocessor beyond which the depth is not divided further."""


@dataclass(frozen=True)
class SimtTile(KnobTile):
    """The work of a block: rows and columns over virtual threads, threads and neighbours, and the way to compute it.
    For many tiles at once, fields are arrays (`tile_arrays.py`).
    """

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
        able = [n for n in (4, 2, 1) if n <= widest_vector(of.sum_dtype)]
        return of_each(lambda depth: next(n for n in able if depth % n == 0), self.depth)

    def registers(self, of: Contraction) -> Number:
        """Registers for sums, for factors and for addresses."""
        rows, columns = self.own
        step = self.step(of)
        held = rows * (step if of.rows.along_depth else 1) + columns * (step if of.columns.along_depth else 1)
        return (rows * columns + held) * (2 if of.sum_dtype == "float64" else 1) + _OVERHEAD_REGISTERS

    def slices(self, of: Contraction) -> tuple[SliceRows, SliceRows]:
        """The rows of both factors' slices in shared memory.

        If columns do not lie along the depth, neighbouring lanes read neighbouring elements of both slices. The lanes
        of a warp then read few rows, and kernels stay as they were timed.
        """
        (down, across), step, (left, right) = self.threads, self.step(of), word_bytes(of)
        if not of.columns.along_depth:
            return SliceRows(self.depth, 0), SliceRows(self.depth, 0)
        lanes = least(down, most(GPU.warp // across, 1)), across
        rows = slice_rows(of.rows, left, self.depth, step, lanes)
        return rows, slice_rows(of.columns, right, self.depth, step, (across, 1))

    def shared_bytes(self, of: Contraction) -> Number:
        """Bytes of slices in shared memory."""
        extents = prod(self.rows), prod(self.columns)
        each = zip(extents, self.slices(of), word_bytes(of), strict=True)
        return sum(extent * rows.stride * word for extent, rows, word in each) * self.stages

    def resident(self, of: Contraction, on: Hardware) -> Number:
        """Blocks that one multiprocessor holds at a time."""
        return occupancy(on, self.block, self.registers(of), self.shared_bytes(of), pooled=True).blocks

    def is_possible(self, of: Contraction, on: Hardware | None = None) -> Number:
        """Whether the hardware can run it, and every block has work."""
        on = on or REFERENCE.hardware
        return (
            (self.block <= on.block.threads)
            & (self.registers(of) <= on.registers_at(self.block))
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
        slots = at.product_slots * of.term_instructions
        issued = self.depth * (rows * columns * slots + loads * at.load_slots) + fetched
        # The schedulers share the banks: while loads of one warp conflict, no other warp loads.
        left, right = self.slices(of)
        waits = self.depth / step * (rows * left.conflict_cycles + columns * right.conflict_cycles)
        issued = most(issued, waits * on.multiprocessor.schedulers + fetched)
        together = at_once(resident, blocks, machine)
        warps = most(1.0, together * ceiling(self.block, on.warp) / on.multiprocessor.schedulers)
        ahead = (self.stages > 1) | (fetched < _MOST_PREFETCHED_ELEMENTS * at.fetch_slots)
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


def word_bytes(of: Contraction) -> tuple[int, int]:
    """Return the bytes of an element of both factors' slices."""
    sums = GPU.vector_bytes // widest_vector(of.sum_dtype)
    return of.rows.word or sums, of.columns.word or sums


def own_tiles(operand: MatrixOperand) -> list[list[int]]:
    """Ways to split rows or columns over blocks, virtual threads, threads, and a thread's neighbours.

    A thread has neighbouring rows if these are contiguous in shared memory. Otherwise the neighbours belong to
    different threads of a warp.
    """
    found: dict[tuple[int, ...], None] = {}
    for own in (8, 4, 2, 1):
        near = 1 if operand.along_depth else min(4, own)
        for wanted in (32, 16, 8, 4, 2, 1):
            threads = min(wanted, ceil(operand.extent / near))
            apart = min(own // near, ceil(ceil(operand.extent / near) / threads))
            if apart * threads * near <= _MOST_TILE_EXTENT:
                found[-1, apart, threads, near] = None
    return [list(each) for each in found]


def depths(of: Contraction) -> list[int]:
    """Return the candidate slice lengths: powers of two, and whole windows if these are short."""
    whole = [n * of.period for n in (1, 2, 4, 8) if 4 <= n * of.period <= 40] if of.period > 1 else []
    plain = [n for n in (8, 16, 32) if n < 2 * of.depth]
    return sorted({*whole, *plain, min(of.depth, 8)})


def candidates(of: Contraction, machine: Machine = REFERENCE) -> SimtTile:
    """Tiles that the model ranks: blocks of common sizes, and splits that do not fill the hardware many times over."""
    pairs = [
        (r, c)
        for r in _shapes(of.rows)
        for c in _shapes(of.columns)
        if _LEAST_THREADS <= r[1] * c[1] <= _MOST_THREADS and r[0] * r[2] * c[0] * c[2] >= _LEAST_RESULTS_PER_THREAD
    ]
    rows, columns = np.array(pairs, np.int64).reshape(-1, 2, 3).transpose(1, 2, 0)[..., None, None, None]
    ways = [np.array(each, np.int64) for each in (depths(of), splits(of), (1, 2))]
    depth, split, stages = (each[None] for each in np.meshgrid(*ways, indexing="ij", sparse=True))
    made = SimtTile(tuple(rows), tuple(columns), depth, split, stages)
    count = made.blocks(of) // made.split
    ranked = (made.split == 1) | (count * made.split <= _FULL_BLOCKS * machine.multiprocessors)
    flags = ranked & made.is_possible(of, machine.hardware)
    return select_tiles(broadcast_tiles(made, flags.shape), np.nonzero(flags))


def _shapes(operand: MatrixOperand) -> list[Shape]:
    return [(v, t, n) for _, v, t, n in own_tiles(operand)]


@lru_cache(maxsize=256)
def rank_tiles(of: Contraction, machine: Machine = REFERENCE) -> Sequence[SimtTile]:
    """Return tiles, the fastest first."""
    found = candidates(of, machine)
    if len(found.depth):
        return sort_by_cycles(found, found.cycles(of, machine))
    r, c = (_shapes(operand)[-1] for operand in (of.rows, of.columns))
    return (SimtTile(r, c, min(of.depth, 8), 1, 1),)


class Simt(OfContraction[W]):
    """The strategy for workloads that are contractions, by ordinary arithmetic."""

    def strategy(self, computes: Callable[[W, Machine], bool] = always, scope: str = "") -> ScheduleStrategy[W]:
        """The strategy as templates take it."""
        model: TileModel[W] = TileModel(self.tiles, SimtTile.of, self.predict)
        return ScheduleStrategy(
            self.space, self.schedule, model.default, Needs(scope=scope), self.declare, computes, model.model
        )

    def space(self, of: W) -> Space:
        """The knobs.

        `rows`, `columns`: over blocks, virtual threads, threads and neighbours of one thread. `depth`: steps in shared
        memory at a time. `split`: blocks that share the depth of one tile. `stages`: slices in flight.
        """
        made = self.contraction_of(of)
        choices: dict[str, list[Any]] = {
            "rows": own_tiles(made.rows),
            "columns": own_tiles(made.columns),
            "depth": depths(made),
        }
        choices |= {"split": splits(made), "stages": [1, 2, 3]}
        extents = {"rows": made.rows.extent, "columns": made.columns.extent}
        return SimtTile.space(choices, extents, lambda tile: tile.is_possible(made), many=True)

    def tiles(self, of: W, machine: Machine) -> Sequence[SimtTile]:
        """Return the tiles of a workload, the fastest first."""
        return rank_tiles(self.contraction_of(of), machine)

    def predict(self, of: W, tile: SimtTile, machine: Machine) -> Expectation:
        """Return the cycles, threads and blocks of a tile."""
        made = self.contraction_of(of)
        return Expectation(tile.cycles(made, machine), tile.block, tile.blocks(made))

    def declare(self, of: W, data: Tensor, weights: Tensor) -> Tensor:
        """Declare the contraction of factors that are converted once, on their way into shared memory."""
        made = self.contraction_of(of)
        return declare(made, self.views_of(of, data, weights), made.sum_dtype)

    def schedule(self, of: W, config: Config, s: ScheduleHandle, t: Tensors) -> None:
        """Apply a configuration."""
        schedule(self.contraction_of(of), config, s, t)


def schedule(of: Contraction, config: Config, s: ScheduleHandle, t: Tensors) -> None:
    """Tile the results over blocks and threads; factors in shared memory, sums in registers."""
    tile = SimtTile.of(config)
    size = prod(tile.rows), prod(tile.columns)
    begun = begin(of, s, t, (*size, tile.depth), tile.split)
    out, sums = begun.out, begun.sums
    shared = [s.cache_read(view, "shared", [sums]) for view in begun.views]
    held = [s.cache_read(each, "local", [sums]) for each in shared]
    thread, last = _tile(of, config, s, begun)
    hardware = REFERENCE.hardware if t.target is None else t.target.hardware
    if _overfills(of, tile, hardware.memory(MemoryScope.SHARED).most):
        s[out].pragma(last, "guarded_reads", 1)
    s[sums].compute_at(s[out], thread)
    slices, step, product = _loops(of, tile, s, sums)
    rows = tile.slices(of)
    for operand, extent, each, mine, own in zip((of.rows, of.columns), size, shared, held, rows, strict=True):
        s[each].compute_at(s[sums], slices)
        if own.stride != tile.depth:
            s[each].storage_align(each.op.axis[-2], own.stride, 0)
        together = width(of, operand, size, tile.depth, rounded(of.depth, tile.depth * tile.split))
        deal_out(s, each, extent * tile.depth, tile.threads, together)
        if tile.stages > 1:
            s[each].pipeline(tile.stages)
        s[mine].compute_at(s[sums], step if operand.along_depth else product)
        s[mine].vectorize(mine.op.axis[-1])
    run = of.columns.extent if tile.split > 1 else of.run
    if tile.columns[2] > 1 and run % tile.columns[2] == 0:
        s[out].vectorize(last)


def _overfills(of: Contraction, tile: SimtTile, room: int) -> bool:
    """Whether the slices of all groups that a tile may touch exceed shared memory.

    A tile is filled with all of them unless guards count. If they fit, kernels stay as they were timed.
    """
    size = prod(tile.rows), prod(tile.columns)
    if tile.split > 1 or of.grouped is None or not leave_group(of, size):
        return False
    dimension, own = of.grouped
    mine, other = size if dimension in of.row_axes else size[::-1]
    reached = 1 + (rounded(own, mine) - 1) // own
    line = max(rows.stride * word for rows, word in zip(tile.slices(of), word_bytes(of), strict=True))
    needed: int = line * tile.stages * (own + other) * reached
    return needed > room


def _tile(of: Contraction, config: Config, s: ScheduleHandle, begun: Begun) -> tuple[IterVar, IterVar]:
    """Split and bind the loops over results; returns the innermost loops of the threads, and over neighbours."""
    out, outer = begun.out, begun.outer
    (ib, iv, it, ii), (jb, jv, jt, ji) = split_all(config, s, out, rows=begun.rows, columns=begun.columns)
    s[out].reorder(*outer, ib, jb, iv, jv, it, jt, ii, ji)
    blocks = [(ib, -(-of.rows.extent // prod(config["rows"].size[1:])))]
    blocks += [(jb, -(-of.columns.extent // prod(config["columns"].size[1:])))]
    if outer:
        blocks.insert(0, (s[out].fuse(*outer) if len(outer) > 1 else outer[0], of.batch * config["split"].val))
    bind_blocks(s, out, blocks)
    bind_all(s, out, (iv, jv, it, jt), ("vthread", "vthread", "threadIdx.y", "threadIdx.x"))
    return jt, ji


def _loops(of: Contraction, tile: SimtTile, s: ScheduleHandle, sums: Tensor) -> tuple[IterVar, IterVar, IterVar]:
    """Split the depth into slices in shared memory, steps loaded at once by a thread, and single products."""
    (k,) = s[sums].op.reduce_axis
    slices, rest = s[sums].split(k, factor=tile.depth)
    step, product = s[sums].split(rest, factor=tile.step(of))
    s[sums].reorder(slices, step, product, *s[sums].op.axis)
    s[sums].unroll(product)
    return slices, step, product
