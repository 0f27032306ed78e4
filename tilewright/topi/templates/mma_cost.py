"""Tiles of a contraction by matrix instructions, and what they cost by a model of the hardware.

The model counts cycles of a multiprocessor: matrix instructions, loads of fragments from shared memory, and the fetch
of slices from the L2 cache. Blocks run in waves; a wave takes the longest of these, or the latency that too few warps
and slices in flight cannot hide.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import ceil, hypot, inf, prod
from typing import Any

from ...core.atoms import Atom
from ...core.dtype import DType
from ...core.hardware import Hardware, MemoryScope
from ...core.target import Target
from .contraction import Contraction, Operand, rounded

Pair = tuple[int, int]
"""Of a block's rows or columns: warps, and the tile of one warp."""
_PROCESSORS = 132
_BANDWIDTH = 2300.0
"""Bytes a cycle that all multiprocessors get from the L2 cache."""
_BLOCK_START, _LATENCY, _KERNEL = 900.0, 700.0, 1700.0
"""Cycles to begin and end a block, of a load from L2 behind a barrier, and of a further kernel."""
_SLICE = 150.0
"""Cycles that a slice takes beside its work: barriers, addresses, the first fragments."""
_RATE = {"float16": 1024.0, "bfloat16": 1024.0, "tf32": 512.0, "3xtf32": 512.0, "int8": 2048.0, "uint8": 2048.0}
"""Products a cycle of one multiprocessor at what `mma.sync` reaches."""
_OVERHEAD = 44
_FULL = 4
"""Blocks per multiprocessor beyond which the depth is not divided further."""


@dataclass(frozen=True)
class MmaTile:
    """What a block computes: rows and columns over warps and their tiles; and how it runs."""

    rows: Pair
    columns: Pair
    depth: int
    split: int
    stages: int

    @classmethod
    def of(cls, choices: Mapping[str, Any]) -> MmaTile:
        """Return the tile that a configuration's choices make."""
        rows, columns = (tuple(choices[name].size[1:]) for name in ("rows", "columns"))
        return cls(rows, columns, *(choices[name].val for name in ("depth", "split", "stages")))

    @property
    def warps(self) -> int:
        """Warps of a block."""
        return self.rows[0] * self.columns[0]

    def registers(self, atom: Atom) -> int:
        """Registers for sums, for fragments and for addresses."""
        rows, columns = self.rows[1], self.columns[1]
        sums = rows * columns // 32
        fragments = (rows // atom.m * 2 + columns // atom.n) * atom.words
        converted = fragments * {1: 1, 3: 2}[atom.products] if atom.shape.operands == "tfloat32" else fragments
        return sums + fragments + converted + _OVERHEAD + (16 if atom.products == 3 else 0)

    def shared_bytes(self, atom: Atom) -> int:
        """Bytes of slices in shared memory, padding included."""
        word = DType(atom.operands).bytes
        return (prod(self.rows) + prod(self.columns) + 16) * (self.depth + 8) * word * self.stages

    def resident(self, atom: Atom, on: Hardware) -> int:
        """Blocks that one multiprocessor holds at a time."""
        shared = on.memory(MemoryScope.SHARED)
        threads = self.warps * on.warp
        by_registers = on.multiprocessor.registers // (rounded(self.registers(atom), 8) * threads)
        by_shared = (shared.pool or shared.most) // max(1, self.shared_bytes(atom))
        return min(by_registers, by_shared, on.multiprocessor.warps // self.warps, on.multiprocessor.blocks)

    def is_possible(self, of: Contraction, atom: Atom, on: Hardware | None = None) -> bool:
        """Whether the hardware can run it, and every block has work."""
        on = on or _usual_hardware()
        slices = ceil(of.depth / (self.split * self.depth))
        return (
            self.warps * on.warp <= on.block.threads
            and self.registers(atom) <= on.registers_at(self.warps * on.warp)
            and self.shared_bytes(atom) <= on.memory(MemoryScope.SHARED).most
            and self.split * self.depth < of.depth + self.depth
            and (self.stages == 1 or slices >= self.stages)
        )

    def cycles(self, of: Contraction, atom: Atom, on: Hardware) -> float:
        """Cycles that the contraction takes."""
        bi, bj = prod(self.rows), prod(self.columns)
        blocks = ceil(of.rows.extent / bi) * ceil(of.columns.extent / bj) * of.batch * self.split
        depth = rounded(of.depth, self.depth * self.split) // self.split
        resident = self.resident(atom, on)
        if not resident:
            return float("inf")
        word = DType(atom.operands).bytes
        rate = _RATE.get(atom.name, 64.0) / atom.products
        work = bi * bj * depth / rate
        # Fragments: each warp reads its rows and columns for every step; 128 bytes a cycle.
        read = self.warps * (self.rows[1] + self.columns[1]) * depth * word / 128
        fetched = sum(
            extent * depth / operand.together * (2.0 if operand.along_depth else _effort(of, operand)) / 128
            for extent, operand in ((bi, of.rows), (bj, of.columns))
        )
        issue = work * (1.0 if atom.products == 1 else 0.6)
        at_once = min(resident, ceil(blocks / _PROCESSORS))
        busy = hypot(work, read, issue) + 0.5 * fetched
        slices = depth / self.depth
        alone = slices * _LATENCY / max(1.0, 2.0 * self.stages - 1.0) + busy
        warps = at_once * self.warps / 4
        wave = max(busy * at_once, alone) * (1 + 0.5 / warps) + slices * _SLICE * at_once
        waves = blocks / (_PROCESSORS * at_once)
        full = ceil(waves) if waves <= 4 else waves + 0.5
        moved = (bi + bj) * depth * blocks * word / _BANDWIDTH
        stored = 0.0
        if self.split > 1:
            stored = _KERNEL + 2 * self.split * of.rows.extent * of.columns.extent * of.batch * 4 / _BANDWIDTH
        return max(full * wave, moved) + _BLOCK_START + stored

    def wanted(self) -> dict[str, Any]:
        """The choices that make it."""
        return {
            "rows": list(self.rows),
            "columns": list(self.columns),
            "depth": self.depth,
            "split": self.split,
            "stages": self.stages,
        }


def _effort(of: Contraction, operand: Operand) -> float:
    """Instructions for one load of a factor whose neighbours lie along its extent."""
    return 3.0 if operand.together > 1 or of.period == 1 else 16.0


def _usual_hardware() -> Hardware:
    return Target("cuda").hardware


def warp_tiles(operand: Operand, unit: int) -> list[list[int]]:
    """Ways to split rows or columns over blocks, warps and the tile of a warp."""
    tiles = [n for n in (8, 16, 32, 64, 128) if n % unit == 0 and n <= max(unit, operand.extent)]
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


def candidates(of: Contraction, atom: Atom) -> Iterator[MmaTile]:
    """Tiles worth ranking: blocks of usual sizes, and splits that do not fill the hardware many times over."""
    on = _usual_hardware()
    rows, columns = (
        [(warps, n) for _, warps, n in warp_tiles(operand, unit)]
        for operand, unit in ((of.rows, atom.m), (of.columns, atom.n))
    )
    for r, c in product(rows, columns):
        if not 1 <= r[0] * c[0] <= 8 or r[1] * c[1] > 64 * 128:
            continue
        tiles = ceil(of.rows.extent / prod(r)) * ceil(of.columns.extent / prod(c)) * of.batch
        shares = [n for n in splits(of) if n == 1 or tiles * n <= _FULL * _PROCESSORS]
        for depth, split, flying in product(depths(of, atom), shares, stages()):
            tile = MmaTile(r, c, depth, split, flying)
            if tile.is_possible(of, atom, on):
                yield tile


@lru_cache(maxsize=256)
def ranked(of: Contraction, atom: Atom) -> tuple[MmaTile, ...]:
    """Return tiles, those that cost least first."""
    on = _usual_hardware()
    found = [(tile.cycles(of, atom, on), n, tile) for n, tile in enumerate(candidates(of, atom))]
    return tuple(tile for _, _, tile in sorted(found, key=lambda each: each[:2]))


def expected(of: Contraction, atom: Atom) -> float:
    """Return the cycles of the tile that costs least; infinity where there is none."""
    found = ranked(of, atom)
    return found[0].cycles(of, atom, _usual_hardware()) if found else inf
