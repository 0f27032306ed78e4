"""Tiles of a contraction by matrix instructions, and their cycles.

The model counts issue slots of a scheduler: matrix instructions, loads of fragments, copies of slices, and stores.
Blocks run in waves. A wave takes the time of its warps' slots, or of the latency that few warps and slices cannot hide.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil, inf, prod
from typing import Any, ClassVar, Self, TypeVar

import numpy as np

from ...core.atoms import LANES, Atom
from ...core.dtype import DType
from ...core.hardware import Hardware, MemoryScope
from ...core.occupancy import occupancy
from ...core.vectorized import Number, ceiling, either, most, upwards
from ...tune.model.fitted import Quantities
from ...tune.model.kernel_time import at_once, in_waves, shown_latency, slice_cycles, sum_cycles
from ...tune.model.machine import REFERENCE, Machine
from .contraction import Contraction, MatrixOperand, padded_row, rounded, splits
from .schedule_helpers import GPU
from .tile_arrays import broadcast_tiles, concatenate_tiles, select_tiles, sort_by_cycles
from .tile_model import KnobTile

IN_PLACE = "direct"
"""The form of a workload that reads its data directly, not from a copy."""
Forms = tuple[tuple[str, Contraction], ...]
"""The contractions that compute a workload, by name."""
Pair = tuple[Number, Number]
"""The split of a block's rows or columns: warps, and the tile of one warp."""
_NARROW = ("float16", "bfloat16")
"""Result types that lanes store in pairs: the pairs of four lanes fill half a sector."""
_OVERHEAD_REGISTERS = 44
"""Registers for addresses and loops."""
_SPLIT_OVERHEAD_REGISTERS = 36
"""Registers for addresses and loops if operands are split into parts."""
STORES = ((False, False), (True, False), (False, True))
"""The ways to store results: from fragments, through shared memory, and in vectors from fragments."""
_LEAST_ROWS_PER_TILE = 256
"""The least rows of a contraction for each of several tiles per block: enough blocks must remain."""
FULL = 4
"""The number of blocks per multiprocessor beyond which the depth is not divided further."""


@dataclass(frozen=True)
class MmaTile(KnobTile):
    """The tile of a block: rows and columns over warps and per warp, and the way it is computed.

    A block computes `tiles` tiles, one below the other, while the columns' factor stays in shared memory. Results are
    stored from fragments, through shared memory (`staged`), or from fragments as `vectors`. For many tiles at once,
    fields are arrays (`tile_arrays.py`).
    """

    KNOBS: ClassVar = {name: name for name in ("rows", "columns", "depth", "split", "stages", "tiles")}
    SIZES: ClassVar = ("rows", "columns")

    rows: Pair
    columns: Pair
    depth: Number
    split: Number
    stages: Number
    staged: Number = False
    tiles: Number = 1
    vectors: Number = False
    data: Any = IN_PLACE
    pooled: ClassVar[bool] = True
    """Whether all warps share one pool of registers, as assumed when the constants were fitted."""
    warpgroups: ClassVar[bool] = False
    """Whether warpgroups, rather than warps, issue matrix instructions."""
    line: ClassVar[int] = 0
    """Columns per line of shared memory if a line has columns of one term; else 0."""

    @classmethod
    def of(cls, choices: Mapping[str, Any]) -> Self:
        store = choices["store"].val
        data = choices["data"].val if "data" in choices else IN_PLACE
        return replace(super().of(choices), data=data, staged=store == "shared", vectors=store == "vectors")

    @classmethod
    def covers(cls, of: Contraction, atom: Atom) -> bool:
        """Return whether a contraction fills an instruction, and its operands can be loaded."""
        deep = of.rows.along_depth and of.columns.along_depth
        return of.rows.extent >= atom.m and of.columns.extent >= atom.n and (deep or atom.per_word < 4)

    @classmethod
    def choices(cls, of: Contraction, atom: Atom) -> dict[str, list[Any]]:
        """Return the choices of the knobs for rows, columns, depth and stages."""
        rows, columns = _warp_tiles(of.rows, atom.m), _warp_tiles(of.columns, atom.n)
        return {"rows": rows, "columns": columns, "depth": _depths(of, atom), "stages": [1, 2, 3, 4]}

    @classmethod
    def is_ranked(cls, rows: tuple[int, int], columns: tuple[int, int]) -> bool:
        """Return whether a block of these warps and tiles is worth ranking."""
        return 1 <= rows[0] * columns[0] <= 8 and rows[1] * columns[1] <= 64 * 128

    def may_stay(self, of: Contraction) -> Number:
        """Whether the columns' factor may stay in shared memory for several tiles of rows."""
        return (self.stages > 1) & (self.depth >= of.depth)

    def run(self, of: Contraction) -> int:
        """Return the results in a lane's vector of 16 bytes; 0 if columns keep their order."""
        return _vector(of) if self.vectors else 0

    @property
    def warps(self) -> Number:
        """Warps of a block."""
        return self.rows[0] * self.columns[0]

    def registers(self, atom: Atom) -> Number:
        """Registers for sums, for fragments and for addresses."""
        rows, columns = self.rows[1], self.columns[1]
        sums = rows * columns // LANES * (1 + atom.partial_sums)
        fragments = (rows // atom.m * atom.halves + columns // atom.n) * atom.words
        if atom.products > 1:  # fragments are split as they are used, and not loaded ahead
            return sums + fragments + _SPLIT_OVERHEAD_REGISTERS
        return sums + fragments * 2 + _OVERHEAD_REGISTERS

    def shared_bytes(self, of: Contraction, atom: Atom) -> Number:
        """Bytes of slices in shared memory, including padding, as counted when the constants were fitted.

        Results replace slices, except while slices of the next tile are in flight. Short rows of results take more; see
        `fits`.
        """
        word, (rows, columns) = DType(atom.operands).bytes, (prod(self.rows), prod(self.columns))
        return self._held(of, atom, rows * (columns + 8) * max(word, 2) * self.staged)

    def fits(self, of: Contraction, atom: Atom, on: Hardware) -> Number:
        """Whether shared memory holds the slices and the staged results, with each row of results in banks of its
        own."""
        word, most_bytes = result_bytes(of), on.memory(MemoryScope.SHARED).most
        results = prod(self.rows) * padded_row(prod(self.columns), word) * word * self.staged
        return (self.shared_bytes(of, atom) <= most_bytes) & (self._held(of, atom, results) <= most_bytes)

    def _held(self, of: Contraction, atom: Atom, results: Number) -> Number:
        """Return the bytes of shared memory, given the bytes for `results`."""
        word, (rows, columns) = DType(atom.operands).bytes, (prod(self.rows), prod(self.columns))
        one = most((rows + columns + 16) * (self.depth + 8) * word * self.stages, results)
        slices, whole = rows * (self.depth + 8) * word * self.stages, rounded(of.depth, self.depth)
        in_flight = (self.stages > 1) & (self.depth == whole)
        several = columns * (whole + 8) * word + either(in_flight, slices + results, most(slices, results))
        return either(self.tiles == 1, one, several)

    def resident(self, of: Contraction, atom: Atom, on: Hardware) -> Number:
        """The number of resident blocks per multiprocessor."""
        threads, shared_bytes = self.warps * on.warp, self.shared_bytes(of, atom)
        return occupancy(on, threads, self.registers(atom), shared_bytes, self.pooled).blocks

    def is_possible(self, of: Contraction, atom: Atom, on: Hardware | None = None) -> Number:
        """Whether the hardware can run it, and every block has work."""
        on = on or REFERENCE.hardware
        slices, columns = ceiling(of.depth, self.split * self.depth), prod(self.columns)
        return (
            (self.warps * on.warp <= on.block.threads)
            & (self.registers(atom) <= on.registers_at(self.warps * on.warp))
            & self.fits(of, atom, on)
            & (self.split * self.depth < of.depth + self.depth)
            & ((self.stages == 1) | (most(slices, either(slices == 1, self.tiles, 1)) >= self.stages))
            & ((self.tiles == 1) | ((self.split == 1) & (of.batch == 1)))
            & ((self.staged == 0) | ((self.split == 1) & (columns & (columns - 1) == 0)))
            & ((self.vectors == 0) | self._has_runs(of))
        )

    def blocks(self, of: Contraction) -> Number:
        """Blocks of the grid."""
        rows = ceiling(of.rows.extent, prod(self.rows) * self.tiles)
        return rows * ceiling(of.columns.extent, prod(self.columns)) * of.batch * self.split

    def _has_runs(self, of: Contraction) -> Number:
        """Whether lanes can hold neighbouring results: the columns may have any order in shared memory."""
        run = _vector(of)
        whole = of.run % run == of.columns.extent % run == 0 and of.columns.along_depth
        return (self.columns[1] % (4 * run) == 0) & (self.split == 1) & whole

    def cycles(self, of: Contraction, atom: Atom, machine: Machine) -> Number:
        """Return the cycles that the contraction takes."""
        on, at = machine.hardware, machine.fitted["mma"]
        bi, bj = prod(self.rows), prod(self.columns)
        blocks = self.blocks(of)
        resident = self.resident(of, atom, on)
        depth = rounded(of.depth, self.depth * self.split) // self.split
        slices, threads = depth / self.depth, self.warps * on.warp
        instructions = self.rows[1] // atom.m * (self.columns[1] // atom.n) * (self.depth // atom.k)
        fragments = (self.rows[1] // atom.m * atom.halves + self.columns[1] // atom.n) * atom.words
        copied = [
            upwards(extent * self.depth / operand.together / threads) * self._effort(of, operand, at)
            for extent, operand in ((bi, of.rows), (bj, of.columns))
        ]
        # A warp's issue slots per slice; other warps wait for the same scheduler.
        issued = instructions * _cycles_of(atom, at) + fragments * (self.depth // atom.k) * at.fragment_cycles
        issued = issued + either(self.tiles > 1, copied[0], sum(copied))
        wanted = self.registers(atom) + self._address_registers(of, threads, at)
        issued = issued + most(0.0, wanted - on.registers_at(threads)) * at.spill_cycles
        together = at_once(resident, blocks, machine)
        warps = most(1.0, together * self.warps / on.multiprocessor.schedulers)
        asynchronous = all(_is_asynchronous(of, operand) for operand in (of.rows, of.columns))
        alone = at.alone_factor if asynchronous else at.scalar_wait_factor
        each = slice_cycles(issued, warps, alone, shown_latency(self.stages, at), at)
        sums = self.rows[1] * self.columns[1] / on.warp
        stored_by = either(self.staged, at.staged_store_cycles, at.store_cycles)
        wave = self.tiles * (slices * each + sums * stored_by * warps) + at.block_cycles
        wave = wave + either(self.tiles > 1, at.latency_cycles + slices * copied[1] * warps, 0.0)
        moved = (bi * self.tiles + bj) * depth * blocks * DType(atom.operands).bytes / at.l2_bytes_per_cycle
        results = of.rows.extent * of.columns.extent * of.batch
        narrow = (self.split == 1) & (of.dtype in _NARROW)
        pairs = narrow & (self.staged == 0) & (self.vectors == 0)
        written = results * either(narrow, 2, 4) / either(pairs, at.paired_bytes_per_cycle, at.l2_bytes_per_cycle)
        before = sum(at.kernel_cycles + 2 * size / at.l2_bytes_per_cycle for size in of.prepared)
        found = in_waves(wave, blocks, together, machine, at, moved, written)
        found = found + sum_cycles(self.split, results, at.l2_bytes_per_cycle, at) + before
        return either(resident > 0, at.whole_factor * found, inf)

    def _address_registers(self, of: Contraction, threads: Number, at: Quantities) -> Number:
        """Return the registers for addresses and conditions of copies, if all slices share them.

        If slices are whole windows, they begin at the same tap. The compiler then computes addresses before the loop
        over slices.
        """
        if of.period == 1 or of.columns.along_depth:
            return 0.0
        copies = sum(
            upwards(prod(pair) * self.depth / operand.together / threads)
            for pair, operand in ((self.rows, of.rows), (self.columns, of.columns))
        )
        return at.copy_registers * copies * ((self.stages > 1) & (self.depth % of.period == 0))

    def _effort(self, of: Contraction, operand: MatrixOperand, at: Quantities) -> Number:
        """Issue slots for one copy of a factor. Each copy computes the index of its tap, unless slices are whole
        windows or fractions of one. Asynchronous copies move at least 4 bytes.
        """
        whole = self.depth % of.period == 0
        parts = (of.period % self.depth > 0) & ((whole == 0) | of.columns.along_depth)
        windowed = (parts & (operand is of.rows) | (not operand.along_depth)) & (of.period > 1)
        narrow = not _is_asynchronous(of, operand)
        size = prod(self.rows if operand is of.rows else self.columns)
        uneven = (whole | (operand.extent % size > 0) | (self.split > 1)) & (narrow and of.period > 1)
        copy = at.copy_slots + at.border_slots * windowed + at.synchronous_slots * (self.stages == 1)
        return copy - at.scalar_slots * narrow + at.uneven_slots * uneven

    def wanted(self) -> dict[str, Any]:
        store = "vectors" if self.vectors else "shared" if self.staged else "fragments"
        return {**super().wanted(), "store": store, "data": self.data}


M = TypeVar("M", bound=MmaTile)


def result_bytes(of: Contraction) -> int:
    """Return the bytes per result, which has the element type for 16-bit floats, else the type of the sums."""
    return DType(of.sum_dtype if of.dtype not in _NARROW else of.dtype).bytes


def _vector(of: Contraction) -> int:
    """Return the number of results in a vector of 16 bytes."""
    return GPU.vector_bytes // result_bytes(of)


def _is_asynchronous(of: Contraction, operand: MatrixOperand) -> bool:
    """Whether a factor is copied asynchronously: the hardware copies at least a word at a time."""
    return operand.together * DType(of.dtype).bytes >= 4


def _cycles_of(atom: Atom, at: Quantities) -> float:
    """Return the scheduler cycles of one matrix instruction, or of three if operands are split."""
    if atom.shape.operands == "tfloat32":
        return at.tf32_cycles if atom.products == 1 else at.split_tf32_cycles
    if atom.products > 1:  # the instructions of two steps of tf32
        return 2 * at.split_tf32_cycles
    return at.instruction_cycles if atom.accumulator in ("float32", "float16") else at.integer_cycles


def _warp_tiles(operand: MatrixOperand, unit: int) -> list[list[int]]:
    """Return the splits of rows or columns over blocks, warps and the tile of a warp."""
    tiles = [n for n in (8, 16, 32, 48, 64, 96, 128) if n % unit == 0 and n <= max(unit, operand.extent)]
    return [[-1, warps, n] for n in tiles for warps in (1, 2, 4, 8) if warps <= ceil(operand.extent / n)]


def _depths(of: Contraction, atom: Atom) -> list[int]:
    """Return the candidate numbers of steps in shared memory at a time."""
    whole = rounded(of.depth, atom.k)
    found = {atom.k * n for n in (1, 2, 4, 8) if atom.k * n <= min(128, whole)}
    if of.period > 1:
        found |= {n * of.period for n in (1, 2, 4, 8, 16) if n * of.period % atom.k == 0 and n * of.period <= 144}
    return sorted(found)


def tiles(of: Contraction) -> list[int]:
    """Return the candidate numbers of tiles, one below the other, per block."""
    few = (*range(1, 11), 12, 14, 16, 18, 20, 24, 28, 32, 36, 40, 48, 49, 56, 64, 72, 80, 96, 98, 112, 128)
    return [n for n in few if n == 1 or n * _LEAST_ROWS_PER_TILE <= of.rows.extent]


def _grid(
    pairs: Sequence[tuple[Pair, Pair]],
    ways: tuple[Iterable[int], ...],
    stores: Iterable[tuple[bool, bool]],
    kind: type[M],
) -> M:
    """Return all combinations of the arguments as tiles. The fields are arrays that broadcast together."""
    rows, columns = np.array(pairs, np.int64).reshape(-1, 2, 2).transpose(1, 2, 0)[..., None, None, None, None]
    depth, split, flying = np.meshgrid(*(np.array(each, np.int64) for each in ways), indexing="ij", sparse=True)
    depth, split, flying = (each[None, ..., None] for each in (depth, split, flying))
    staged, vectors = np.array(stores, bool).T
    return kind((rows[0], rows[1]), (columns[0], columns[1]), depth, split, flying, staged, vectors=vectors)


def candidates(of: Contraction, atom: Atom, machine: Machine, kind: type[M]) -> M:
    """Return the tiles that the model ranks: blocks of common sizes, and splits that do not fill the hardware many
    times over."""
    ways = kind.choices(of, atom)
    rows, columns = ([(warps, n) for _, warps, n in ways[name]] for name in ("rows", "columns"))
    pairs = [(r, c) for r in rows for c in columns if kind.is_ranked(r, c)]
    if of.prepared:  # in whole vectors along the depth, in flight
        made = _grid(pairs, ([n for n in ways["depth"] if n >= 4 * atom.k], splits(of), (2, 4)), STORES[:1], kind)
    else:
        made = _grid(pairs, (ways["depth"], splits(of), ways["stages"]), STORES, kind)
    count = made.blocks(of) // made.split
    ranked = (made.split == 1) | (count * made.split <= FULL * machine.multiprocessors)
    several = ranked & (made.split == 1) & made.may_stay(of) & (of.batch == 1)
    resident = replace(made, tiles=most(2, made.stages)).resident(of, atom, machine.hardware)
    return _with_stationary(made, ranked, several, of, atom, machine, resident)


def _with_stationary(
    made: M, ranked: Number, several: Number, of: Contraction, atom: Atom, machine: Machine, resident: Number
) -> M:
    """Return the ranked tiles that the hardware can run, followed by variants in which a block computes several tiles.

    In a variant, all tiles take one or two waves of blocks, with `resident` blocks per multiprocessor.
    """
    flags = ranked & made.is_possible(of, atom, machine.hardware)
    whole, below = broadcast_tiles(made, flags.shape), np.array(tiles(of))
    parts = [select_tiles(whole, np.nonzero(flags))]
    order = [3 * np.flatnonzero(flags)]
    places = np.nonzero(np.broadcast_to(several, flags.shape))
    some, resident = select_tiles(whole, places), np.broadcast_to(resident, flags.shape)[places]
    for waves in (1, 2):
        wanted = some.blocks(of) / (machine.multiprocessors * most(resident, 1) * waves)
        each = replace(some, tiles=below[np.minimum(np.searchsorted(below, wanted), len(below) - 1)])
        good = np.nonzero((resident > 0) & (each.tiles > 1) & each.is_possible(of, atom, machine.hardware))
        parts.append(select_tiles(each, good))
        order.append(3 * np.ravel_multi_index(places, flags.shape)[good] + waves)
    return select_tiles(concatenate_tiles(parts), np.argsort(np.concatenate(order)))


@lru_cache(maxsize=256)
def rank_tiles(
    forms: Forms, atom: Atom, machine: Machine = REFERENCE, kind: type[MmaTile] = MmaTile
) -> Sequence[MmaTile]:
    """Return tiles, the fastest first."""
    known, parts, costs = kind.choices(forms[0][1], atom)["depth"], [], []
    for name, of in forms:
        found = candidates(of, atom, machine, kind)
        found = select_tiles(found, np.flatnonzero(np.isin(found.depth, known)))
        parts.append(replace(found, data=np.full(len(found.depth), name)))
        costs.append(found.cycles(of, atom, machine))
    return sort_by_cycles(concatenate_tiles(parts), np.concatenate(costs))
