"""The first configuration of the direct strategy: the tile whose cost, by a model of the GPU, is least.

The model counts, for a multiprocessor, the cycles that its schedulers issue instructions and that its L1 cache moves
data, and for the GPU the bytes that must move. A kernel takes the longest of them, and what it takes a thread to begin
and to end. The constants are fitted to some thousand kernels measured on an H200 by `benchmarks.convolution_sweep`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import ceil, gcd, prod
from typing import Any

from ...core.hardware import Hardware, MemoryScope
from ...core.occupancy import occupancy
from ...tune.task import Expectation
from .gpu import USUAL, Gpu
from .images import Images
from .schedule_helpers import GPU, THREADS_Z
from .window_cost import (
    ACCESS,
    BYTES,
    REGISTERS,
    STEPS,
    Tile,
    Weights,
    Window,
    even_threads,
    fits_shared,
    own_channels,
    own_filters,
    reach,
    weights_of,
    widest,
    windows,
)

_CLOCK = 1.7e9
_CACHE = 45e6
"""Bytes that the L2 cache holds."""
_IN_FLIGHT, _LOADS_IN_FLIGHT = 14_600, 16
"""Bytes that a multiprocessor must have asked for to be served at full bandwidth, and loads that a thread has."""


@dataclass(frozen=True)
class Rates:
    """What things cost.

    Attributes
    ----------
    bandwidth, cached_bandwidth : float
        Bytes per second from memory and from the L2 cache.
    latency, block_start : float
        Cycles: of a load from L2, and to begin a block.
    issue, per_load, per_store, per_thread : float
        Instructions a cycle of the four schedulers; instructions for a load, for four bytes stored, and for a thread.
    fill, copy : float
        Instructions to turn a weight in shared memory, from global memory and from a copy that lies there already.
    wavefront, weight, apart : float
        Cycles of the L1 cache for 128 bytes, for a weight that all threads of a warp read, and for vectors of weights
        that the threads of a warp read far apart.
    round, alone, turn : float
        Of a thread by itself: the latency of a further round of loads, cycles an instruction, and the part that shows.
    uneven : float
        What guards cost where tiles do not divide the channels.
    sharpness : float
        The power at which costs that overlap are added: the longest counts almost alone.
    """

    bandwidth: float
    cached_bandwidth: float
    latency: float
    block_start: float
    issue: float
    per_load: float
    per_store: float
    per_thread: float
    fill: float
    copy: float
    wavefront: float
    weight: float
    apart: float
    round: float
    alone: float
    turn: float
    uneven: float
    sharpness: float


RATES = {
    "NCHW": Rates(
        bandwidth=2.62e12, cached_bandwidth=7.72e12, latency=629.0, block_start=194.0,
        issue=6.28, per_load=1.56, per_store=21.0, per_thread=57.7, fill=17.8, copy=17.8,
        wavefront=2.23, weight=0.942, apart=16.0, round=0.485, alone=0.823, turn=1.73, uneven=1.38, sharpness=5.34,
    ),
    "NHWC": Rates(
        bandwidth=3.36e12, cached_bandwidth=7.1e12, latency=1118.0, block_start=56.7,
        issue=3.59, per_load=1.98, per_store=18.6, per_thread=58.5, fill=10.2, copy=9.99,
        wavefront=2.23, weight=0.278, apart=18.0, round=0.192, alone=0.813, turn=1.73, uneven=1.69, sharpness=4.36,
    ),
}  # fmt: skip
"""By layout, fitted to some thousand kernels and to 633."""
_SPARE = 24
"""Registers of `REGISTERS` that the first choice leaves: windows beyond spill, and take ptxas 10 s and more."""
_ROW_REGISTERS = 168
"""For sums and one row of a window for each row of them, which all are in use at a time."""
_STEPS = 3 * STEPS // 4
_TRIED_ROWS = (1, 2, 3, 4, 6, 7, 8, 14)
_BLOCK_SIZES = (64, 98, 112, 128, 196, 224, 256)


def usual(of: Images, gpu: Gpu = USUAL) -> dict[str, Any]:
    """Return the choices of the tile and the block that cost least."""
    counted = ((cycles(of, tile, block, gpu), tile, block) for tile, block in candidates(of))
    found = min(counted, key=lambda each: each[0], default=None)
    if found is None:  # sums over so many channels that every window is long: the shortest one
        least = Tile(min(own_channels(of)), min(own_filters(of)), 1, 1, 1, windows(of)[0])
        return wanted(least, next(block for block in blocks(of, least) if _has_room(of, least, block[0])))
    return wanted(*found[1:])


def order(of: Images, gpu: Gpu = USUAL) -> list[dict[str, Any]]:
    """Return the choices of all tiles and blocks worth ranking, those first that cost least."""
    counted = sorted(((cycles(of, *each, gpu), n, each) for n, each in enumerate(candidates(of))), key=lambda x: x[:2])
    return [wanted(*each) for _, _, each in counted]


def expected(of: Images, tile: Tile, block: tuple[int, int, int], gpu: Gpu) -> Expectation:
    """Return what the model expects of a kernel, wherever its windows are loaded from."""
    return Expectation(cycles(of, tile, block, gpu), prod(block), _blocks_of_grid(of, tile, block))


def wanted(tile: Tile, block: tuple[int, int, int]) -> dict[str, Any]:
    """Return the choices that give a thread that tile, and a block so many threads over channels, rows, columns."""
    c, y, x = block
    return {
        "tile_c": [c, tile.channels],
        "tile_f": [tile.filters],
        "tile_y": [y, tile.rows],
        "tile_x": [x, tile.columns],
        "chunk": tile.chunk,
        "window": tile.window.value,
        "planes": "memory",
        "order": "terms",
        "resident": 0,
    }


def candidates(of: Images) -> Iterator[tuple[Tile, tuple[int, int, int]]]:
    """Tiles of a thread, and threads of a block over channels, rows and columns."""
    last = of.layout == "NHWC"
    grouped = last and of.groups < of.shape[1] and widest(of) > 1
    rows, columns = of.places
    for chunk in [c for c in (1, 2, 4, 8) if c <= widest(of)][-3 if last else -2 :]:
        if grouped and 1 < chunk < widest(of):
            continue
        own = [c for c in own_channels(of) if not last or grouped or c % chunk == 0]
        across = [
            x
            for x in ((1, 2, 4, 7, 8, 14) if last else (1, 2, 4, 8, 16))
            if (last or x * of.stride[1] % chunk == 0) and x < 2 * columns
        ]
        shapes = (
            Tile(channels, filters, y, x, chunk, window)
            for channels in (own if grouped else own[:3] if last else own)
            for filters in own_filters(of)
            for x in across
            for y in _TRIED_ROWS
            for window in windows(of)
            if y <= rows and (not window.slides or chunk >= min(2, widest(of)))
        )
        for tile in shapes:
            most = REGISTERS - _SPARE if tile.window is Window.ALL else _ROW_REGISTERS
            if tile.registers(of) <= most and tile.steps(of) <= _STEPS:
                found = dict.fromkeys(blocks(of, tile))
                yield from ((tile, block) for block in found if _has_room(of, tile, block[0]))


def _has_room(of: Images, tile: Tile, threads: int) -> bool:
    """Whether shared memory holds the weights of a block of so many threads over channels, where they lie there."""
    if weights_of(of, tile) is not Weights.SHARED:
        return True
    weights = tile.channels * prod(of.kernel) * (of.shape[1] // of.groups) * threads
    if tile.window.slides or fits_shared(of, weights):
        return fits_shared(of, weights)
    held = weights * tile.filters if of.layout == "NCHW" else weights // of.kernel[0]  # there, a row at a time
    return held * (8 if of.dtype == "float64" else 4) <= GPU.memory(MemoryScope.SHARED).most


def blocks(of: Images, tile: Tile) -> Iterator[tuple[int, int, int]]:
    """Blocks of 64 to 256 threads, as wide as the results are."""
    rows, columns = (-(-n // t) for n, t in zip(of.places, (tile.rows, tile.columns), strict=True))
    if of.layout == "NHWC":
        channels = max(even_threads(of.filters, tile.channels))
        channels = channels if channels >= 16 or of.filters <= 16 * tile.channels else 32
        for size in (64, 128, 256, 384):
            x = max(1, min(columns, size // channels))
            yield channels, max(1, min(rows, size // (channels * x), THREADS_Z)), x
        for x, y in product((1, 2, 4, 7, 8), (2, 4)):
            if x <= columns and y <= rows and 64 <= channels * x * y <= 384:
                yield channels, y, x
        if channels % 4 == 0 and channels > 16 and tile.shares_groups(of):
            yield from ((channels // 4, y, x) for x, y in product((2, 4), (2, 4)) if x <= columns and y <= rows)
        return
    groups = -(-of.groups // tile.channels)
    for size in _BLOCK_SIZES:
        x = min(columns, size)
        y = max(1, min(rows, size // x))
        y = next((n for n in range(y, 0, -1) if rows % n == 0 and 2 * n > y), y)
        yield max(1, min(groups, size // (x * y), THREADS_Z)), y, x


def cycles(of: Images, tile: Tile, block: tuple[int, int, int], gpu: Gpu = USUAL) -> float:
    """Return how long the kernel takes, in cycles of a multiprocessor."""
    threads, size, at = prod(block), BYTES[of.dtype], RATES[of.layout]
    warps = ceil(threads / gpu.hardware.warp)
    each = ceil(_blocks_of_grid(of, tile, block) / gpu.processors)
    issued, moved = _work(of, tile, block)
    loads, rounds = tile.loads(of), _rounds(of, tile)
    alone = at.latency * (1 + at.round * (rounds - 1)) + at.alone * issued * at.issue
    resident = _resident(of, tile, warps, gpu.hardware)
    memory = size * (prod(of.shape) + of.shape[0] * of.filters * prod(of.places))
    asked = min(each, resident) * threads * min(loads / rounds, _LOADS_IN_FLIGHT) * tile.chunk * size
    rate = (at.cached_bandwidth if memory < _CACHE else at.bandwidth) * min(1.0, asked / _IN_FLIGHT)
    if _uneven(of, tile, block):
        alone *= at.uneven
        issued *= at.uneven
    costs = (
        each * warps * moved,
        each * warps * issued,
        memory / rate * _CLOCK,
        each * at.block_start,
        max(1.0, each / resident) * alone * at.turn,
    )
    return float(sum(cost**at.sharpness for cost in costs) ** (1 / at.sharpness) + alone / 2)


def _rounds(of: Images, tile: Tile) -> int:
    """Return how often a thread waits for loads before it asks for the next ones."""
    if tile.window.slides:
        return reach(of, 0, tile.rows) if tile.window is Window.ROLLED else 1
    together = 1 if tile.shares_groups(of) else of.shape[1] // of.groups
    return together * (1 if tile.window is Window.ALL else of.kernel[0])


def _uneven(of: Images, tile: Tile, block: tuple[int, int, int]) -> bool:
    """Whether some threads have no channels: each of a thread's accesses then gets a guard."""
    return (of.filters if of.layout == "NHWC" else of.groups) % (block[0] * tile.channels) > 0


def _blocks_of_grid(of: Images, tile: Tile, block: tuple[int, int, int]) -> int:
    c, y, x = block
    last = of.layout == "NHWC"
    filters = 1 if last else of.filters // of.groups // tile.filters
    channels = of.shape[0] * ceil((of.filters if last else of.groups) / (c * tile.channels)) * filters
    return channels * ceil(of.places[0] / (y * tile.rows)) * ceil(of.places[1] / (x * tile.columns))


def _work(of: Images, tile: Tile, block: tuple[int, int, int]) -> tuple[float, float]:
    """Return the cycles in which a warp's instructions are issued, and those in which its data pass the L1 cache."""
    last, size, half, at = of.layout == "NHWC", BYTES[of.dtype], BYTES[of.dtype] == 2, RATES[of.layout]
    area, per_group = prod(of.kernel), of.shape[1] // of.groups
    loads, results = tile.loads(of), tile.results()
    products, read, held = results * area * per_group, tile.weights_read(of), weights_of(of, tile)
    vector = gcd(tile.channels, 4) if last else 4
    at_once = {Weights.SHARED: vector, Weights.REGISTERS: gcd(read, ACCESS // size)}.get(held, 1)
    weights = read / at_once
    step = (tile.channels if last else tile.columns * of.stride[1]) * size
    spread = step / 4 if last or block[2] >= 8 else max(2.0, step / 4 + 8 / block[2])
    wavefronts = min(32.0, max(1.0, spread))
    own = weights * at.apart if held is Weights.REGISTERS else weights * at.weight * (vector if last else 1)
    moved = loads * wavefronts * at.wavefront + own + results * size / 4
    fill = 0.0
    if held is Weights.SHARED:
        each = tile.channels * tile.filters * area * per_group * block[0] / prod(block)
        fill = each * (at.copy if last and not tile.shares_groups(of) else at.fill)
    converted = (loads * tile.chunk + (0 if last and held is Weights.SHARED else read)) * half
    issued = (
        products + converted + loads * at.per_load + weights + results * at.per_store * size / 4 + at.per_thread + fill
    )
    return issued / at.issue, moved + fill / 4


def _resident(of: Images, tile: Tile, warps: int, on: Hardware) -> int:
    """Return how many blocks a multiprocessor runs at a time."""
    window = tile.registers(of) - tile.results()
    held = prod(of.kernel) * tile.channels * BYTES[of.dtype] / 4 if weights_of(of, tile) is Weights.REGISTERS else 0
    registers = min(on.registers_per_thread, max(24, 13 + tile.results() + window + held)) // 8 * 8
    return max(1, int(occupancy(on, warps * on.warp, int(registers), 0, pooled=True).blocks))
