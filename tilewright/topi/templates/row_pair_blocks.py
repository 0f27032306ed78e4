"""Blocks of convolutions in small groups over pairs of rows, and their cycles.

The model counts lines of 128 bytes and the latencies of a warp alone. The L1 cache and shared memory move one line per
cycle. It is off by 14 % in the mean. The block that it ranks first takes 1.00 to 1.07 times as long as the fastest
measured one. For the larger layer in NHWC, it takes 1.24 times as long.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import gcd, prod
from typing import ClassVar

from ...core.hardware import MemoryScope
from ...core.occupancy import occupancy
from ...tune.model.fitted import Quantities
from ...tune.model.kernel_time import overlapped
from ...tune.model.machine import REFERENCE, Machine
from .contraction import rounded
from .convolutions import Conv2d
from .schedule_helpers import GPU
from .tile_model import KnobTile

EIGHT = 8
"""Channels that are packed, and columns of a matrix instruction."""
TYPES = {"float16": "float16", "bfloat16": "bfloat16"}
"""The atom for elements of a type."""
PLANES = 64
"""Elements of two bytes that take all banks of shared memory: planes of results start so far apart, and a few more."""
_WARPS, _PRODUCTS = 16, 16
"""The most warps of a block, and matrix instructions of a warp."""
_LINE, _VECTOR = 128, 16
"""Bytes that the cache moves in a cycle, and of a vector."""


@dataclass(frozen=True)
class RowPairBlock(KnobTile):
    """The work of a block, by warps: eights of channels, pairs of rows, eights of columns; and the work of each warp.

    A lane stores `vector` results at a time to memory. If results are `staged`, it stores two at a time to shared
    memory. In NCHW, a thread loads `turn` columns at a time.
    """

    KNOBS: ClassVar = {
        "tile_y": ("down", "rows"), "tile_x": ("across", "eights"), "units": "units", "vector": "vector",
        "turn": "turn", "store": "staged",
    }  # fmt: skip
    WORDS: ClassVar = {"store": ("fragments", "shared")}
    OTHERS: ClassVar = {"resident": 1}

    units: int
    down: int
    rows: int
    across: int
    eights: int
    vector: int
    turn: int
    staged: bool

    @property
    def warps(self) -> int:
        """How many warps it has."""
        return self.units * self.down * self.across

    @property
    def products(self) -> int:
        """How many matrix instructions a warp's sums take."""
        return self.rows * self.eights

    @property
    def run(self) -> int:
        """Neighbouring columns of a lane, in eights."""
        return self.vector // 2

    @property
    def tile(self) -> tuple[int, int, int]:
        """Its channels, rows and columns of results."""
        return self.units * EIGHT, 2 * self.down * self.rows, self.across * self.eights * EIGHT

    def seen(self, of: Conv2d) -> tuple[int, int]:
        """Rows and columns of the padded image that it sees."""
        _, rows, columns = self.tile
        high = (rows - 2) * of.stride[0] + 2 * pairs_of(of)
        return high, rounded(ahead_of(of, self) + (columns - 1) * of.stride[1] + reach(of)[1] + 1, self.turn)

    def shared(self, of: Conv2d) -> int:
        """Bytes of shared memory."""
        channels, rows, columns = self.tile
        line = channels if self.units == 1 else channels + EIGHT
        if of.layout == "NCHW":
            results = channels * (rounded(rows * columns, PLANES) + EIGHT)
        else:
            results = (channels + EIGHT) * rows * columns
        return 2 * max(line * prod(self.seen(of)) + taps_of(of) * channels * EIGHT, self.staged * results)

    def is_possible(self, of: Conv2d) -> bool:
        """Whether it fits the hardware, and is not mostly outside of the image."""
        rows, eights = of.places[0], eights_of(of)
        outside = 2 * (self.down - 1) * self.rows >= rows or (self.across - 1) * self.eights >= eights
        even = self.eights % self.run == 0 if of.layout == "NCHW" else self.products % 2 == 0  # 16 places
        fits = self.shared(of) <= GPU.memory(MemoryScope.SHARED).capacity
        narrow = self.eights > eights  # the only tile of a row would be cut to a part of an instruction.
        if self.staged and of.layout == "NCHW":  # A tile of staged results has no more than there are.
            narrow |= self.tile[1] > rows or self.vector > 2 or of.places[1] < EIGHT
            even &= 4 * self.products % stored_together(of) == 0  # all threads store in all rounds
        return even and fits and self.products <= _PRODUCTS and self.warps <= _WARPS and not (outside or narrow)

    def blocks(self, of: Conv2d) -> int:
        """How many blocks the grid has."""
        channels, rows, columns = self.tile
        return of.shape[0] * of.shape[1] // channels * -(-of.places[0] // rows) * -(-of.places[1] // columns)

    def moved(self, of: Conv2d, at: Quantities) -> float:
        """Return the cycles in which the cache and shared memory of a multiprocessor move the data of a block."""
        planes, steps, lanes = of.layout == "NCHW", of.kernel[1] * pairs_of(of), GPU.warp
        lines = max(lanes * _VECTOR // _LINE, lanes // self.units)  # of a round of vectors in NHWC
        if planes:  # eight loads of columns, and a vector of neighbours per thread
            copied = at.load_cycles * max(EIGHT // self.turn, 4) + at.move_cycles * 4 * self.turn
            stored = at.staged_cycles * (2 + 2 + 3) if self.staged else at.move_cycles * 4 * EIGHT / self.vector
        else:
            copied = at.load_cycles * lines + at.move_cycles * 4
            stored = at.staged_cycles * (4 + (lines + 4) / 2) if self.staged else at.move_cycles * 2 * EIGHT
        filled = prod(self.seen(of)) * self.units / lanes * copied
        weights = taps_of(of) * EIGHT * EIGHT * self.units / lanes * at.weight_cycles
        multiplied = at.move_cycles * steps * (2 * gcd(of.stride[1], EIGHT) * self.products + 4)
        return filled + weights + self.warps * (multiplied + self.products * stored)

    def cycles(self, of: Conv2d, machine: Machine) -> float:
        """Return the cycles of the kernel."""
        each, on, at = -(-self.blocks(of) // machine.multiprocessors), machine.hardware, machine.fitted["grouped_rows"]
        threads, steps = self.warps * on.warp, of.kernel[1] * pairs_of(of)
        registers = at.thread_registers + at.product_registers * self.products
        waves = -(-each // max(1, occupancy(on, threads, registers, self.shared(of)).blocks))
        rounds = -(-prod(self.seen(of)) * self.units // (self.turn * threads))
        alone = rounds * at.round_cycles + at.step_cycles + steps * self.products * at.alone_product_cycles
        memory = 2 * (prod(of.shape) + prod(of.out_shape)) / at.l2_bytes_per_cycle
        costs = each * self.moved(of, at), waves * (alone + at.block_cycles), memory
        return float(overlapped(costs, 2) + at.launch_cycles)


def compared(of: Conv2d, cycles: float) -> float:
    """Return the cycles to compare with other strategies."""
    at = REFERENCE.fitted["grouped_rows"]
    return at.comparison_factor * cycles + at.comparison_cycles


def eights_of(of: Conv2d) -> int:
    """How many times eight columns the result has."""
    return -(-of.places[1] // EIGHT)


def reach(of: Conv2d) -> tuple[int, int]:
    """How far the last row and column of a window are from its first ones."""
    high, wide = ((taps - 1) * apart for taps, apart in zip(of.kernel, of.dilation, strict=True))
    return high, wide


def pairs_of(of: Conv2d) -> int:
    """How many pairs of rows of the image two neighbouring rows of results see."""
    return -(-(of.stride[0] + reach(of)[0] + 1) // 2)


def taps_of(of: Conv2d) -> int:
    """Return how many matrices of eight by eight weights there are, zeros above and below the window included."""
    return of.kernel[1] * (2 * pairs_of(of) + of.stride[0])


def ahead_of(of: Conv2d, block: RowPairBlock) -> int:
    """Return the zeros on the left of a row: whole vectors of columns then lie in the border or in the image."""
    return rounded(of.padding[1], block.turn)


def stored_together(of: Conv2d) -> int:
    """Return how many results a thread stores at once from shared memory."""
    return EIGHT if of.layout == "NHWC" else (_divisors(of.places[1]) or [1])[0]


def _divisors(extent: int) -> list[int]:
    """Return the lengths of vectors of 16-bit floats that divide an extent."""
    return [count for count in (8, 4, 2) if extent % count == 0]


@lru_cache(maxsize=64)
def blocks(of: Conv2d) -> tuple[RowPairBlock, ...]:
    """Return all blocks that are possible."""
    pairs, eights = -(-of.places[0] // 2), eights_of(of)
    wide = sorted({c for c in (1, 2, 4, 7, 8) if c <= eights} | {min(eights, EIGHT)})
    tall = [r for r in (1, 2, 4, 7, 8) if r <= pairs]
    units = [u for u in (1, 2, 4, 8) if of.shape[1] % (u * EIGHT) == 0]
    planes = of.layout == "NCHW"
    vectors = _divisors(of.places[1]) or [2] if planes else [2]
    turns = _divisors(of.shape[3]) or [1] if planes else [1]
    tiles = product(units, (1, 2, 4, 7, 8, 14), tall, (1, 2, 4), wide, vectors, turns, (False, True))
    made = (RowPairBlock(*each) for each in tiles)
    return tuple(block for block in made if block.is_possible(of))
