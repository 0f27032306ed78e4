"""Tiles of a contraction by the matrix instructions of warpgroups, and their cycles.

Both factors lie in shared memory, swizzled. The hardware reads them there, so warps load no fragments. A slice has 128
bytes of terms per row. The tensor cores compute it in four instructions per warpgroup; meanwhile its warps copy a later
slice. The latency of a slice is exposed, unless another block of the multiprocessor multiplies meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf, prod
from typing import Any

from ...core.atoms import LANES, WARPGROUP, Atom
from ...core.dtype import DType
from ...core.hardware import SWIZZLE_LINE, SWIZZLE_PIECE, Hardware
from ...core.vectorized import Number, ceiling, either, most, of_each, upwards
from ...tune.model.fitted import Quantities
from ...tune.model.kernel_time import at_once, in_waves, shown_latency, sum_cycles
from ...tune.model.machine import REFERENCE, Machine
from .contraction import Contraction, MatrixOperand
from .mma_tiles import MmaTile

DEFAULT_ATOMS: Mapping[str, str] = {name: f"wgmma_{name}" for name in ("float16", "bfloat16", "int8", "uint8")}
"""The atom for each element type with products and sums as exact as in float32."""
ROUNDED: Mapping[str, str] = {"float32": "wgmma_tf32"}
"""The atom for each element type that permits rounding of operands to 11 bits."""
_OVERHEAD_REGISTERS = 40
"""Registers for addresses and loops."""
_LEAST_COLUMNS = 16
"""The columns of the smallest tile."""
_MOST_FEW_ROWS = 8
"""The most rows for which vectors of sums are faster than a warpgroup."""
_MOST_STATIONARY_SLICES = 4
"""The most slices of the columns' factor that stay in shared memory for several tiles of rows."""


class WgmmaTile(MmaTile):
    """The tile of a block of warpgroups: each warp has 16 rows and all columns of the block."""

    pooled = False
    warpgroups = True

    @classmethod
    def covers(cls, of: Contraction, atom: Atom) -> bool:
        """Return whether terms of both factors are contiguous, and rows fill more than half of a warpgroup's tile."""
        deep, columns = of.rows.along_depth and of.columns.along_depth, of.columns.extent
        # If there are fewer columns than in the smallest tile, one tile of whole instructions covers them.
        return deep and of.rows.extent > 32 and (columns >= _LEAST_COLUMNS or columns % atom.n == 0)

    @classmethod
    def choices(cls, of: Contraction, atom: Atom) -> dict[str, list[Any]]:
        """Return one to four warpgroups of rows, columns of all warps together, and slices of 128 bytes."""
        depth = SWIZZLE_LINE // DType(atom.operands).bytes
        rows, columns = _row_tiles(of.rows), _column_tiles(of.columns, atom)
        return {"rows": rows, "columns": columns, "depth": [depth], "stages": [1, 2, 3, 4, 5, 6]}

    @classmethod
    def is_ranked(cls, rows: tuple[int, int], columns: tuple[int, int]) -> bool:
        """Return True: all tiles are worth ranking."""
        return True

    def may_stay(self, of: Contraction) -> Number:
        """Whether the columns' factor consists of few slices."""
        return self.slices(of) <= _MOST_STATIONARY_SLICES

    def registers(self, atom: Atom) -> Number:
        """Registers for sums and for addresses."""
        return self.columns[1] * 16 * DType(atom.accumulator).bytes // 4 // LANES + _OVERHEAD_REGISTERS

    def _held(self, of: Contraction, atom: Atom, results: Number) -> Number:
        """Return the bytes of slices in shared memory. Results replace slices, unless slices of the next tile are in
        flight."""
        rows, columns = prod(self.rows), prod(self.columns)
        several = (columns + rows * self.stages) * SWIZZLE_LINE * self.slices(of) + results
        one = most((rows + columns) * SWIZZLE_LINE * self.stages, results)
        return either(self.tiles > 1, several, one) + 8 * SWIZZLE_LINE

    def slices(self, of: Contraction) -> Number:
        """Return the number of slices of a block, or of each of its tiles."""
        return ceiling(of.depth, self.depth * self.split)

    def is_possible(self, of: Contraction, atom: Atom, on: Hardware | None = None) -> Number:
        """Whether the hardware can run it, and every block has work."""
        on, threads = on or REFERENCE.hardware, self.warps * LANES
        rows, columns, slices = prod(self.rows), prod(self.columns), self.slices(of)
        # A tile of staged results has no more rows and columns than the contraction.
        fits = (rows <= of.rows.extent) & (columns <= of.columns.extent)
        power = columns & (columns - 1) == 0
        return (
            (threads <= on.block.threads)
            & (self.registers(atom) <= on.registers_at(threads))
            & self.fits(of, atom, on)
            & (self.split * self.depth < of.depth + self.depth)
            & (self.stages <= either(self.tiles > 1, self.tiles, slices))
            & ((self.tiles == 1) | ((self.split == 1) & (of.batch == 1) & (slices <= _MOST_STATIONARY_SLICES)))
            & (of_each(atom.width, self.columns[1]) > 0)
            & ((self.staged == 0) | (fits & power & (self.split == 1)))
            & ((self.vectors == 0) | (self._has_runs(of) & (columns <= of.columns.extent)))
        )

    def cycles(self, of: Contraction, atom: Atom, machine: Machine) -> Number:
        """Return the cycles that the contraction takes."""
        at, rows, columns = machine.fitted["wgmma"], prod(self.rows), prod(self.columns)
        resident = self.resident(of, atom, machine.hardware)
        blocks = self.blocks(of)
        together, slices = at_once(resident, blocks, machine), self.slices(of)
        groups = self.warps // WARPGROUP
        products = most(at.column_cycles * columns, (columns + 64) * SWIZZLE_LINE / at.operand_bytes_per_cycle)
        busy = most(groups * products, self._issued(of, machine, at))
        late = at.gap_cycles + at.latency_cycles * shown_latency(self.stages, at)
        each = most(busy + late, together * busy * (1 + at.crowd_factor))
        stored_by = either(self.vectors, at.vector_store_cycles, at.store_cycles)
        stored_by = either(self.staged, at.staged_store_cycles, stored_by)
        wave = self.tiles * (slices * each + columns * 16 / LANES * stored_by * groups * together) + at.block_cycles
        moved = (rows * self.tiles + columns) * slices * SWIZZLE_LINE * blocks / at.l2_bytes_per_cycle
        found = in_waves(wave, blocks, together, machine, at, moved, self._written(of, at))
        results = of.rows.extent * of.columns.extent * of.batch
        return either(resident > 0, found + sum_cycles(self.split, results, at.stored_bytes_per_cycle, at), inf)

    def _issued(self, of: Contraction, machine: Machine, at: Quantities) -> Number:
        """Return the scheduler cycles to copy a slice."""
        on, found = machine.hardware, 0.0 * self.warps
        for extent, operand in ((prod(self.rows), of.rows), (prod(self.columns), of.columns)):
            together = min(SWIZZLE_PIECE, operand.together * DType(of.dtype).bytes)
            pieces = upwards(extent * SWIZZLE_LINE / together / (self.warps * on.warp))
            single = at.scalar_slots if together < 4 else 0.0
            slots = at.copy_slots + single + at.border_slots * self._tests(of, operand)
            found = found + pieces * slots * self.warps / on.multiprocessor.schedulers
        return found

    def _written(self, of: Contraction, at: Quantities) -> Number:
        """Return the cycles to store results or partial sums."""
        size = either(self.split == 1, DType(of.dtype).bytes, 4)
        pairs = (size == 2) & (self.staged == 0) & (self.vectors == 0)
        rate = either(pairs, at.paired_bytes_per_cycle, at.stored_bytes_per_cycle)
        return of.rows.extent * of.columns.extent * of.batch * size / rate

    def _tests(self, of: Contraction, operand: MatrixOperand) -> bool:
        """Whether the copy of a factor tests that its elements exist."""
        return of.period > 1 and operand is of.rows


class TurnedWgmmaTile(WgmmaTile):
    """The tile of a right factor of 16-bit elements with contiguous columns in memory.

    A line of shared memory has 64 columns of one term. Only rows of results go through shared memory as vectors.
    """

    line = SWIZZLE_LINE // 2

    @classmethod
    def covers(cls, of: Contraction, atom: Atom) -> bool:
        """Return whether the columns fill lines, and there are enough rows: few rows would only wait for the columns'
        factor."""
        rows, columns = of.rows, of.columns
        fits = (
            rows.along_depth and rows.extent > _MOST_FEW_ROWS and not columns.along_depth and columns.extent >= cls.line
        )
        return fits and DType(atom.operands).bytes == 2

    @classmethod
    def choices(cls, of: Contraction, atom: Atom) -> dict[str, list[Any]]:
        """Return the tiles with whole lines of columns."""
        found = super().choices(of, atom)
        return found | {"columns": [each for each in found["columns"] if each[-1] % cls.line == 0]}

    def may_stay(self, of: Contraction) -> Number:
        """Return False: slices of the columns' factor have a different order."""
        return False

    def is_possible(self, of: Contraction, atom: Atom, on: Hardware | None = None) -> Number:
        """Whether the hardware can run it, and a block computes one tile."""
        return super().is_possible(of, atom, on) & (self.tiles == 1)


def _row_tiles(operand: MatrixOperand) -> list[list[int]]:
    """Return the splits of rows over blocks, warps and the 16 rows of a warp: one to four warpgroups."""
    return [[-1, WARPGROUP * n, 16] for n in (1, 2, 3, 4) if n == 1 or n * 64 <= operand.extent]


def _column_tiles(operand: MatrixOperand, atom: Atom) -> list[list[int]]:
    """Return the splits of columns over blocks and the tile of all warps."""
    widths = [
        n for n in (_LEAST_COLUMNS, 32, 64, 96, 128, 160, 192, 224, 256) if n == _LEAST_COLUMNS or n <= operand.extent
    ]
    return [[-1, 1, n] for n in widths if atom.width(n)]
