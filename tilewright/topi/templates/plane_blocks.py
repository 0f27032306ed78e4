"""Blocks of depthwise convolutions over whole planes, and their cycles.

The model counts the instructions, bytes and waits of a multiprocessor. Fitted to half of the measured layers, it has an
error of 13 % (standard deviation) on the other half.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain, product
from math import ceil, gcd, hypot, inf, log2, prod
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ...core.hardware import MemoryScope
from ...core.occupancy import occupancy
from ...core.warp_access import word_wavefronts
from ...tune.model.fitted import Quantities
from ...tune.model.kernel_time import overlapped
from ...tune.model.machine import REFERENCE, Machine
from .convolutions import Depthwise
from .schedule_helpers import SHARED, widest_vector
from .thread_tiles import BYTES, STEPS, Tile, Window, widest
from .tile_model import KnobTile

_MEMORY = REFERENCE.hardware.warp_memory
_LINE = _MEMORY.line
_BANKS = _MEMORY.banks
_WORD = _MEMORY.word
_SECTOR = _MEMORY.sector
_OVERHEAD_REGISTERS = 30
"""Registers that do not hold sums, a row of the window or weights."""
_MOST_HOISTED_WEIGHTS = 16
"""The most weights that stay in registers from image to image; further weights are loaded again."""
_MOST_MEASURED_TAPS = 49
"""The largest window of a layer that was measured."""
NUMBERS = ("planes", "images", "rows", "columns", "copies")
"""The knobs that are numbers."""
_LEAST_THREADS = 32
_MOST_THREADS = 1024
_MOST_REGISTERS = 216
"""The most registers of a thread beyond `_OVERHEAD_REGISTERS`."""
_PLANES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
_IMAGES = (1, 2, 4, 8, 16)
_COPIES = (1, 2, 3, 4)
"""Candidate choices of the knobs `planes`, `images` and `copies`."""
_RANKED_ROUNDS = ((1, 1, False), (1, 1, True), (2, 1, True), (2, 2, True), (4, 2, True))
"""For the ranked blocks: images, copies, and whether a block collects its results before it stores them."""


@dataclass(frozen=True)
class PlaneBlock(KnobTile):
    """The work of a block: `planes` channels of `images` images one after another, with `copies` of them in shared
    memory.

    A thread computes `rows` by `columns` results. `together`: the block collects its results in shared memory first.
    """

    KNOBS: ClassVar = {**{name: name for name in NUMBERS}, "store": "together"}
    WORDS: ClassVar = {"store": ("straight", "together")}

    planes: int
    images: int
    rows: int
    columns: int
    copies: int
    together: bool

    def tiles(self, of: Depthwise) -> tuple[int, int]:
        """Return the number of threads' tiles per plane of results, down and across."""
        rows, columns = of.places
        return -(-rows // self.rows), -(-columns // self.columns)

    def threads(self, of: Depthwise) -> int:
        """Return the number of threads: one per tile of its planes."""
        return self.planes * of.multiplier * prod(self.tiles(of))

    def blocks(self, of: Depthwise) -> int:
        """Return the number of blocks in the grid."""
        return prod(of.shape[:2]) // (self.planes * self.images)

    def chunk(self, of: Depthwise) -> int:
        """Return the number of neighbours per load of a thread; its windows begin at a multiple of this number."""
        return widest(of) if self.columns >= of.places[1] else gcd(widest(of), self.columns * of.stride[1])

    def tile(self, of: Depthwise) -> Tile:
        """Return the tile of a thread."""
        return Tile(1, 1, self.rows, self.columns, self.chunk(of), Window.SLIDING)

    def results(self, of: Depthwise) -> int:
        """Return the number of its results per image."""
        return self.planes * of.multiplier * prod(of.places)

    def held(self, of: Depthwise) -> int:
        """Return the elements of the planes of an image that it copies."""
        return self.planes * prod(of.shape[2:])

    def apart(self, of: Depthwise) -> int:
        """Return the stride, in elements, between copies in shared memory; with one copy, the size of the copy.

        Addresses of a window extend into the border before the first plane and behind the last plane, which is not
        loaded. Copies are separated by the size of this border, so address ranges prove that a copy in flight does not
        touch the planes in use.
        """
        if self.copies == 1:
            return self.held(of)
        seen = of.seen_along(0, self.rows * self.tiles(of)[0])
        border = max(of.padding[0], seen - of.padding[0] - of.shape[2]) + 1
        line = _LINE // BYTES[of.dtype]
        room = border * (of.shape[3] + max(of.padding[1::2]) + self.columns * of.stride[1] + line)
        return -(-(self.held(of) + room) // line) * line

    def shared_bytes(self, of: Depthwise) -> int:
        """Return its bytes of shared memory. With a single copy, results replace the planes."""
        held, results = self.copies * self.apart(of), self.results(of) if self.together else 0
        return BYTES[of.dtype] * (held + results if self.copies > 1 else max(held, results))

    def registers(self, of: Depthwise) -> int:
        """Return the registers of a thread. With a single copy, they also hold all elements of an image that it
        copies."""
        words = 2 if of.dtype == "float64" else 1
        sums = words * (self.rows * self.columns + self.tile(of).columns_loaded(of))
        passing = self.held(of) * BYTES[of.dtype] // (4 * self.threads(of)) if self.copies == 1 else 0
        return max(sums + min(prod(of.kernel), _MOST_HOISTED_WEIGHTS), passing) + _OVERHEAD_REGISTERS

    def is_possible(self, of: Depthwise) -> bool:
        """Whether its code is short enough, and the hardware can hold the block."""
        return (
            self.copies <= self.images
            and _LEAST_THREADS <= self.threads(of) <= _MOST_THREADS
            and self.tile(of).steps(of) <= STEPS
            and self.registers(of) <= _MOST_REGISTERS + _OVERHEAD_REGISTERS
            and self.shared_bytes(of) <= SHARED.most
        )

    def cycles(self, of: Depthwise, machine: Machine = REFERENCE) -> float:
        """Return the cycles of the kernel; infinity if the GPU cannot hold it."""
        on, threads, at = machine.hardware, self.threads(of), machine.fitted["planes"]
        if self.shared_bytes(of) > on.memory(MemoryScope.SHARED).most:
            return inf
        warps, count = ceil(threads / on.warp), self.blocks(of)
        registers = min(self.registers(of), on.registers_per_thread)
        resident = occupancy(on, threads, registers, self.shared_bytes(of)).blocks
        if not resident:
            return inf
        each = ceil(count / machine.multiprocessors)
        together = min(resident, each)
        issued, size = self._issued(of, at), BYTES[of.dtype]
        total, turns = size * (prod(of.shape) + prod(of.out_shape)), each * self.images * warps
        written = self._mine(of, at).sectors * _SECTOR
        costs = (
            total * _per_byte(total, at) * self._starved(of, together * warps, at),
            turns * self._moved(of, at),
            turns * issued * at.issue_cycles,
            ceil(each / together) * self.images * issued * at.alone_issue_cycles,
            0.0 if self.together else turns * machine.multiprocessors * written / at.l2_bytes_per_cycle,
        )
        return float(overlapped(costs, at.overlap_sharpness) + at.launch_cycles)

    def _starved(self, of: Depthwise, warps: int, at: Quantities) -> float:
        """Return the factor on memory time for few resident warps, and for warps that wait for each other."""
        waits = at.passing_factor * self._copied(of) if self.copies == 1 else at.ring_factor * (self.copies - 2)
        return (1 + at.idle_factor * max(0.0, log2(at.busy_warps / warps))) * (1 + waits)

    def _mine(self, of: Depthwise, at: Quantities) -> _Mine:
        return _mine(of, self.rows, self.columns, self.chunk(of), at)

    def _copied(self, of: Depthwise) -> float:
        """Return the number of vectors per image that a thread copies."""
        held = self.held(of)
        return held / self.threads(of) / gcd(held, widest_vector(of.dtype))

    def _issued(self, of: Depthwise, at: Quantities) -> float:
        """Return the instructions of a warp per image."""
        return self._mine(of, at).issued + self._copied(of) + at.image_slots

    def _moved(self, of: Depthwise, at: Quantities) -> float:
        """Return the cycles per image to move the data of a warp through the L1 cache or the banks of shared memory."""
        mine = self._mine(of, at)
        if not self.together:
            return mine.loaded
        results = self.results(of)
        vectors = results / self.threads(of) / gcd(results, widest_vector(of.dtype))
        return mine.loaded + mine.collected + vectors * at.store_cycles


def _per_byte(total: float, at: Quantities) -> float:
    """Return cycles per byte when `total` bytes are moved: memory serves the bytes that exceed the L2 cache."""
    cached, far = 1 / at.l2_bytes_per_cycle, 1 / at.memory_bytes_per_cycle
    return float(cached + (far - cached) / (1 + (at.l2_capacity_bytes / total) ** at.capacity_sharpness))


class _Mine(NamedTuple):
    """The work per image: instructions of a thread, and cycles of the L1 cache for a warp.

    `loaded` is the number of cycles to load windows and weights. `collected` is the number of cycles to store results
    in shared memory. A warp that stores results straight to memory writes `sectors`.
    """

    issued: float
    loaded: float
    collected: float
    sectors: float


@lru_cache(maxsize=1024)
def _mine(of: Depthwise, rows: int, columns: int, chunk: int, at: Quantities) -> _Mine:
    size, warp = BYTES[of.dtype], REFERENCE.hardware.warp
    (height, width), places, area = of.shape[2:], of.places, prod(of.kernel)
    tile = Tile(1, 1, rows, columns, chunk, Window.SLIDING)
    loads, results, again = tile.loads(of), tile.results(), area if area > _MOST_HOISTED_WEIGHTS else 0
    converted = (loads * chunk + results + again) * (size == 2)
    long = 1 + at.code_factor * max(0.0, log2(results * area / at.fetched_products))
    guard = at.guard_slots if columns < places[1] else 1.0
    across, tiles = -(-places[1] // columns), -(-places[0] // rows) * -(-places[1] // columns)
    inputs, outputs = [], []
    for thread in range(warp):
        plane, y, x = thread // tiles, thread % tiles // across * rows, thread % across * columns
        inputs.append(((plane // of.multiplier * height + y * of.stride[0]) * width + x * of.stride[1]) * size)
        outputs.append(((plane * places[0] + y) * places[1] + x) * size)
    return _Mine(
        issued=results * (area * at.product_slots * long + 1) + loads * guard + again + converted,
        loaded=loads * _passes(inputs, chunk * size) * at.read_cycles + again,
        collected=results * _passes(outputs, size) * at.collect_cycles,
        sectors=results * len({at // _SECTOR for at in outputs}),
    )


def _passes(addresses: list[int], size: int) -> int:
    """Return the passes of an access by all lanes, `size` bytes each: banks serve a word at a time.

    The model's constants are fitted without the faster access of equal pairs of lanes, unlike `wavefronts`.
    """
    lanes = min(len(addresses), _LINE // max(size, _WORD))
    words = [range(at // _WORD, (at + size - 1) // _WORD + 1) for at in addresses]
    parts = [words[first : first + lanes] for first in range(0, len(words), lanes)]
    return sum(int(word_wavefronts(np.array([[*chain(*part)]]), _BANKS)[0]) for part in parts)


def _tiled(extent: int) -> list[int]:
    """Return the candidate numbers of rows or columns per thread."""
    return sorted({*(t for t in (1, 2, 4, 7, 14) if t < extent), extent})


def possible(of: Depthwise) -> Iterator[PlaneBlock]:
    """Return all blocks that are possible."""
    rounds = [(i, c) for i, c in product(_IMAGES, _COPIES) if of.shape[0] % i == 0 and c <= i]
    for base in _bases(of):
        ways = product(rounds, (False, True))
        made = (replace(base, images=i, copies=c, together=together) for (i, c), together in ways)
        yield from (block for block in made if block.is_possible(of))


def _bases(of: Depthwise) -> Iterator[PlaneBlock]:
    """Return the possible blocks of one image that store results straight. All other blocks have the same tiles."""
    planes = [p for p in _PLANES if of.shape[1] % p == 0]
    for p, rows, columns in product(planes, *map(_tiled, of.places)):
        base = PlaneBlock(p, 1, rows, columns, 1, False)
        if base.is_possible(of):
            yield base


def numbers(of: Depthwise) -> dict[str, list[int]]:
    """Return the values that each of `NUMBERS` has in the possible blocks."""
    bases = list(_bases(of))
    images = [i for i in _IMAGES if of.shape[0] % i == 0]
    most = max(images)
    copies = [c for c in _COPIES if any(replace(base, images=most, copies=c).is_possible(of) for base in bases)]
    tiles = [sorted({getattr(base, name) for base in bases}) for name in ("planes", "rows", "columns")]
    planes, rows, columns = tiles
    return dict(zip(NUMBERS, (planes, images, rows, columns, copies), strict=True))


@lru_cache(maxsize=64)
def blocks(of: Depthwise) -> tuple[PlaneBlock, ...]:
    """Return all blocks that are possible."""
    return tuple(possible(of))


@lru_cache(maxsize=64)
def default_block(of: Depthwise, machine: Machine = REFERENCE) -> PlaneBlock:
    """Return the fastest of the ranked blocks; evaluating all possible blocks takes a second."""
    found = min(_ranked(of), key=lambda block: block.cycles(of, machine), default=None)
    if found is None or found.cycles(of, machine) == inf:
        found = min(blocks(of), key=lambda block: block.cycles(of, machine))
    return found


def _ranked(of: Depthwise) -> Iterator[PlaneBlock]:
    """Return blocks of one to about ten warps, with tiles that load vectors."""
    rounds = [each for each in _RANKED_ROUNDS if of.shape[0] % each[0] == 0]
    whole = of.places[1]
    for base in _bases(of):
        threads = base.threads(of)
        if (threads <= 64 or 192 <= threads <= 448) and (base.columns >= 4 or base.columns == whole):
            made = (replace(base, images=i, copies=c, together=together) for i, c, together in rounds)
            yield from (block for block in made if block.is_possible(of))


def cost(of: Depthwise, machine: Machine = REFERENCE) -> float:
    """Return the cycles of the default to compare with other strategies; infinity if no similar layer was measured."""
    at = machine.fitted["planes"]
    least = at.launch_cycles * at.comparison_factor + at.comparison_cycles
    if not is_compared(of) or cost_of_direct(of, machine) < least:
        return inf
    return default_block(of, machine).cycles(of, machine) * at.comparison_factor + at.comparison_cycles


def cost_of_direct(of: Depthwise, machine: Machine = REFERENCE) -> float:
    """Return the cycles of the direct strategy's default configuration for small images."""
    at = machine.fitted["planes"]
    elements, terms = prod(of.shape) + prod(of.out_shape), prod(of.out_shape) * prod(of.kernel)
    worked = at.direct_element_cycles * elements + at.direct_product_cycles * terms
    worked = worked * REFERENCE.multiprocessors / machine.multiprocessors
    total = BYTES[of.dtype] * elements
    return at.direct_launch_cycles + hypot(worked, total * _per_byte(total, at))


def is_compared(of: Depthwise) -> bool:
    """Whether layers of this kind were measured with several strategies."""
    small = of.multiplier == 1 and of.dilation == (1, 1) and prod(of.kernel) <= _MOST_MEASURED_TAPS
    return small and of.dtype in ("float32", "float16", "bfloat16")


@lru_cache(maxsize=64)
def rank_blocks(of: Depthwise, machine: Machine = REFERENCE) -> tuple[PlaneBlock, ...]:
    """Return all possible blocks: the fastest block of each kind, then the second fastest of each kind, and so on.

    A kind is a tile, a number of copies and a way to store. The model compares kinds less reliably than blocks of one
    kind.
    """
    costs = sorted((block.cycles(of, machine), place, block) for place, block in enumerate(blocks(of)))
    seen: Counter[Any] = Counter()
    turns = []
    for cost, place, block in costs:
        kind = block.rows, block.columns, block.copies, block.together
        turns.append((seen[kind], cost, place, block))
        seen[kind] += 1
    return tuple(block for *_, block in sorted(turns))
