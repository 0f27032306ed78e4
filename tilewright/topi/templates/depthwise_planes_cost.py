"""What a kernel of `depthwise_planes` costs: by counting what a multiprocessor issues, moves and waits for.

None of its kernels has been timed yet. The counts are those of the generated code; rates of memory, latencies and the
power at which overlapping costs add up are those that other models fitted on an H200. So the model ranks the
configurations of this strategy for a tuner, and does not choose between strategies.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import ceil, gcd, inf, prod
from typing import Any, NamedTuple

from ...core.hardware import MemoryScope
from ...core.occupancy import occupancy
from .convolutions import Depthwise
from .gpu import USUAL, Gpu
from .window_cost import ACCESS, BYTES, STEPS, Tile, Window, widest

_CACHED, _BANDWIDTH, _CACHE = 3030.0, 2500.0, 45e6
"""Bytes that the L2 cache and memory move in a cycle, and those that the cache holds."""
_SCHEDULERS = 4
_MEMORY = USUAL.hardware.warp_memory
_LINE, _BANKS, _WORD, _SECTOR = _MEMORY.line, _MEMORY.banks, _MEMORY.word, _MEMORY.sector
_LATENCY, _STEP, _TURN = 1000.0, 250.0, 2.0
"""Cycles: until planes of a busy memory arrive; of barriers and of the first loads of an image; and for an instruction
of a warp by itself."""
_PER_COPY, _PER_LOAD, _PER_IMAGE = 4.0, 1.2, 40.0
"""Instructions to copy a vector, to load a chunk of a window, and of an image beside its elements."""
_OVERHEAD = 30
"""Registers beside those of sums, a row of the window and weights."""
_HOISTED = 16
"""Weights that stay in registers from image to image; more are loaded again."""
_POWER = 4.0
NUMBERS = ("planes", "images", "rows", "columns", "copies")
"""The knobs that are numbers."""
_LEAST_THREADS, _MOST_THREADS, _MOST_REGISTERS = 32, 1024, 216
_PLANES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
_IMAGES, _COPIES = (1, 2, 4, 8, 16), (1, 2, 3, 4)


@lru_cache(maxsize=64)
def _places(of: Depthwise) -> tuple[int, ...]:
    return of.places


@dataclass(frozen=True)
class Block:
    """What a block computes: `planes` channels of `images` images one after another, with room for `copies` of them.

    A thread computes `rows` by `columns` results. `together`: the block collects its results in shared memory first.
    """

    planes: int
    images: int
    rows: int
    columns: int
    copies: int
    together: bool

    @classmethod
    def of(cls, choices: Mapping[str, Any]) -> Block:
        """Return the block that a configuration's choices make."""
        planes, images, rows, columns, copies = (choices[name].val for name in NUMBERS)
        return cls(planes, images, rows, columns, copies, choices["store"].val == "together")

    def wanted(self) -> dict[str, Any]:
        """Return the choices of the knobs."""
        return {name: getattr(self, name) for name in NUMBERS} | {"store": "together" if self.together else "straight"}

    def tiles(self, of: Depthwise) -> tuple[int, int]:
        """Return how many tiles of threads a plane of results has, down and across."""
        rows, columns = _places(of)
        return -(-rows // self.rows), -(-columns // self.columns)

    def threads(self, of: Depthwise) -> int:
        """Return how many threads it has: one for each tile of its planes."""
        return self.planes * of.multiplier * prod(self.tiles(of))

    def blocks(self, of: Depthwise) -> int:
        """Return how many blocks the grid has."""
        return prod(of.shape[:2]) // (self.planes * self.images)

    def chunk(self, of: Depthwise) -> int:
        """Return how many neighbours a thread loads at once: its windows begin at a multiple of them."""
        return widest(of) if self.columns >= _places(of)[1] else gcd(widest(of), self.columns * of.stride[1])

    def tile(self, of: Depthwise) -> Tile:
        """Return what a thread computes."""
        return Tile(1, 1, self.rows, self.columns, self.chunk(of), Window.SLIDING)

    def results(self, of: Depthwise) -> int:
        """Return how many results of an image it has."""
        return self.planes * of.multiplier * prod(_places(of))

    def held(self, of: Depthwise) -> int:
        """Return how many elements the planes that it copies of an image have."""
        return self.planes * prod(of.shape[2:])

    def apart(self, of: Depthwise) -> int:
        """Return how many elements two copies of its ring begin apart; of one copy, how many it has.

        Addresses of a window reach into the border around the first and the last plane, where nothing is loaded. With
        as much room between the copies, addresses alone tell that copies under way do not touch what is read.
        """
        if self.copies == 1:
            return self.held(of)
        seen = (self.rows * self.tiles(of)[0] - 1) * of.stride[0] + (of.kernel[0] - 1) * of.dilation[0] + 1
        border = max(of.padding[0], seen - of.padding[0] - of.shape[2]) + 1
        line = _LINE // BYTES[of.dtype]
        room = border * (of.shape[3] + max(of.padding[1::2]) + self.columns * of.stride[1] + line)
        return -(-(self.held(of) + room) // line) * line

    def shared_bytes(self, of: Depthwise) -> int:
        """Return the bytes of shared memory that it takes; without a ring, results lie where the planes were."""
        held, results = self.copies * self.apart(of), self.results(of) if self.together else 0
        return BYTES[of.dtype] * (held + results if self.copies > 1 else max(held, results))

    def registers(self, of: Depthwise) -> int:
        """Return the registers of a thread; without a ring, all that it copies of an image passes through them."""
        words = 2 if of.dtype == "float64" else 1
        sums = words * (self.rows * self.columns + self.tile(of).columns_loaded(of))
        passing = self.held(of) * BYTES[of.dtype] // (4 * self.threads(of)) if self.copies == 1 else 0
        return max(sums + min(prod(of.kernel), _HOISTED), passing) + _OVERHEAD

    def is_possible(self, of: Depthwise) -> bool:
        """Whether its code is not too long, and the hardware can hold it."""
        return (
            self.copies <= self.images
            and _LEAST_THREADS <= self.threads(of) <= _MOST_THREADS
            and self.tile(of).steps(of) <= STEPS
            and self.registers(of) <= _MOST_REGISTERS + _OVERHEAD
            and self.shared_bytes(of) <= USUAL.hardware.memory(MemoryScope.SHARED).most
        )

    def cycles(self, of: Depthwise, gpu: Gpu = USUAL) -> float:
        """Return what the kernel takes, in cycles of a multiprocessor; infinity where the GPU cannot hold it."""
        on, size, threads = gpu.hardware, BYTES[of.dtype], self.threads(of)
        if self.shared_bytes(of) > on.memory(MemoryScope.SHARED).most:
            return inf
        warps, count = ceil(threads / on.warp), self.blocks(of)
        registers = min(self.registers(of), on.registers_per_thread)
        resident = occupancy(on, threads, registers, self.shared_bytes(of)).blocks
        if not resident:
            return inf
        each = ceil(count / gpu.processors)
        at_once = min(resident, each)
        issued, moved = self._issued(of), self._moved(of, on.warp)
        alone = _STEP + issued * _TURN + (_LATENCY if self.copies == 1 else 0.0)
        step = max(alone, _LATENCY / max(1, self.copies - 1))
        total = size * (prod(of.shape) + prod(of.out_shape))
        costs = (
            total / (_CACHED if total < _CACHE else _BANDWIDTH),
            each * self.images * warps * moved,
            each * self.images * warps * issued / _SCHEDULERS,
            ceil(each / at_once) * (self.images * step + _LATENCY),
        )
        return float(sum(cost**_POWER for cost in costs) ** (1 / _POWER) + _LATENCY)

    def _issued(self, of: Depthwise) -> float:
        """Return the instructions of a warp for an image."""
        size, threads = BYTES[of.dtype], self.threads(of)
        copied, stored = self.held(of) / threads * size / ACCESS, self.results(of) / threads * size / ACCESS
        mine = _mine(of, self.rows, self.columns, self.chunk(of))
        return mine.issued + copied * _PER_COPY + (2 * stored if self.together else 0) + _PER_IMAGE

    def _moved(self, of: Depthwise, warp: int) -> float:
        """Return the cycles in which the data of a warp pass the L1 cache, or the banks of shared memory, per image."""
        size, share = BYTES[of.dtype] / _LINE, warp / self.threads(of)
        mine = _mine(of, self.rows, self.columns, self.chunk(of))
        left = mine.collected + 3 * size * share * self.results(of) if self.together else mine.scattered
        return mine.loaded + left + 2 * size * share * self.held(of)


class _Mine(NamedTuple):
    """What a thread has to do for an image, whatever its block: instructions; and cycles of shared memory of a warp.

    `loaded` are those for its window and weights, `collected` and `scattered` those for its results, where they go to
    shared memory and where they go to memory, two sectors per cycle.
    """

    issued: float
    loaded: float
    collected: float
    scattered: float


@lru_cache(maxsize=1024)
def _mine(of: Depthwise, rows: int, columns: int, chunk: int) -> _Mine:
    size, warp = BYTES[of.dtype], USUAL.hardware.warp
    (height, width), places, area = of.shape[2:], _places(of), prod(of.kernel)
    tile = Tile(1, 1, rows, columns, chunk, Window.SLIDING)
    loads, results, again = tile.loads(of), tile.results(), area if area > _HOISTED else 0
    converted = (loads * chunk + results + again) * (size == 2)
    across, tiles = -(-places[1] // columns), -(-places[0] // rows) * -(-places[1] // columns)
    inputs, outputs = [], []
    for thread in range(warp):
        plane, y, x = thread // tiles, thread % tiles // across * rows, thread % across * columns
        inputs.append(((plane // of.multiplier * height + y * of.stride[0]) * width + x * of.stride[1]) * size)
        outputs.append(((plane * places[0] + y) * places[1] + x) * size)
    return _Mine(
        issued=results * (area + 1) + loads * _PER_LOAD + again + converted,
        loaded=loads * _passes(inputs, chunk * size) + again,
        collected=results * _passes(outputs, size),
        scattered=results * len({at // _SECTOR for at in outputs}) / 2,
    )


def _passes(addresses: list[int], size: int) -> int:
    """Return how many passes an access of all lanes takes, of so many bytes each: banks serve a word at a time."""
    lanes = min(len(addresses), _LINE // max(size, _WORD))
    return sum(_pass(addresses[first : first + lanes], size) for first in range(0, len(addresses), lanes))


def _pass(addresses: list[int], size: int) -> int:
    words = {word for at in addresses for word in range(at // _WORD, (at + size - 1) // _WORD + 1)}
    banks = [word % _BANKS for word in words]
    return max(map(banks.count, set(banks)))


def _tiled(extent: int) -> list[int]:
    """Return how many rows or columns a thread may compute."""
    return sorted({*(t for t in (1, 2, 4, 7, 14) if t < extent), extent})


def possible(of: Depthwise) -> Iterator[Block]:
    """Return all blocks that are possible."""
    planes = [p for p in _PLANES if of.shape[1] % p == 0]
    rounds = [(i, c) for i, c in product(_IMAGES, _COPIES) if of.shape[0] % i == 0 and c <= i]
    for p, rows, columns in product(planes, *map(_tiled, _places(of))):
        if Block(p, 1, rows, columns, 1, False).is_possible(of):
            ways = product(rounds, (False, True))
            made = (Block(p, images, rows, columns, copies, together) for (images, copies), together in ways)
            yield from (block for block in made if block.is_possible(of))


@lru_cache(maxsize=64)
def blocks(of: Depthwise) -> tuple[Block, ...]:
    """Return all blocks that are possible."""
    return tuple(possible(of))


@lru_cache(maxsize=64)
def ranked(of: Depthwise, gpu: Gpu = USUAL) -> tuple[Block, ...]:
    """Return all blocks that are possible: the best one of each kind, then the next ones, by what they cost.

    The kinds are tiles, numbers of copies and ways to store, which the model tells apart less surely than numbers.
    """
    costs = sorted((block.cycles(of, gpu), place, block) for place, block in enumerate(blocks(of)))
    seen: Counter[Any] = Counter()
    turns = []
    for cost, place, block in costs:
        kind = block.rows, block.columns, block.copies, block.together
        turns.append((seen[kind], cost, place, block))
        seen[kind] += 1
    return tuple(block for *_, block in sorted(turns))
