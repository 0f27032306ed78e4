"""The first configuration of the direct strategy: the tile whose cost, by a model of the GPU, is least.

The model counts, for a multiprocessor, the cycles that its schedulers issue instructions and that its L1 cache moves
data, and for the GPU the bytes that must move. A kernel takes the longest of them, and what it takes a thread to begin
and to end. The constants are fitted to some thousand kernels measured on an H200 by `benchmarks.convolution_sweep`.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, prod
from typing import Any

from ...core.hardware import Hardware
from .gpu import USUAL, Gpu
from .images import Images
from .window_cost import (
    BYTES,
    REGISTERS,
    STEPS,
    Tile,
    Weights,
    even_threads,
    own_channels,
    own_filters,
    weights_of,
    widest,
)

_CLOCK = 1.7e9
_BANDWIDTH, _CACHED_BANDWIDTH, _CACHE = 2.62e12, 7.72e12, 45e6
"""Bytes per second from memory and from the L2 cache, and what that holds."""
_IN_FLIGHT, _LOADS_IN_FLIGHT = 14_600, 16
"""Bytes that a multiprocessor must have asked for to be served at full bandwidth, and loads that a thread has."""
_LATENCY, _BLOCK_START = 629.0, 194.0
"""Cycles: of a load from L2, and to begin a block."""
_ISSUE, _PER_LOAD, _PER_STORE, _PER_THREAD = 6.28, 1.56, 21.0, 57.7
"""Instructions a cycle of the four schedulers; instructions for a load, for four bytes stored, and for a thread."""
_FILL = 17.8
"""Instructions to turn a weight in shared memory."""
_WAVEFRONT, _WEIGHT = 2.23, 0.942
"""Cycles of the L1 cache for 128 bytes, and for a weight that all threads of a warp read."""
_ROUND, _ALONE, _TURN = 0.485, 0.823, 1.73
"""Of a thread by itself: the latency of a further round of loads, cycles an instruction, and the part that shows."""
_UNEVEN = 1.38
"""What guards cost where tiles do not divide the results."""
_WINDOW = 1.0
"""The part of a window that is in registers at a time."""
_SHARPNESS = 5.34
"""The power at which costs that overlap are added: the longest counts almost alone."""
_SPARE = 24
"""Registers of `REGISTERS` that the first choice leaves: windows beyond spill, and take ptxas 10 s and more."""
_ROW_REGISTERS = 168
"""For sums and one row of a window for each row of them, which all are in use at a time."""
_STEPS = 3 * STEPS // 4
_TRIED_ROWS = (1, 2, 3, 4, 6, 7, 8, 14)
_BLOCK_SIZES = (64, 98, 112, 128, 196, 224, 256)


def usual(of: Images, gpu: Gpu = USUAL) -> dict[str, Any]:
    """Return the choices of the tile and the block that cost least."""
    found = min(
        ((cycles(of, tile, block, gpu), tile, block) for tile, block in candidates(of)), key=lambda each: each[0]
    )
    return wanted(*found[1:])


def wanted(tile: Tile, block: tuple[int, int, int]) -> dict[str, Any]:
    """Return the choices that give a thread that tile, and a block so many threads over channels, rows, columns."""
    c, y, x = block
    return {
        "tile_c": [c, tile.channels],
        "tile_f": [tile.filters],
        "tile_y": [y, tile.rows],
        "tile_x": [x, tile.columns],
        "chunk": tile.chunk,
        "window": "all" if tile.whole else "row",
        "planes": "memory",
    }


def candidates(of: Images) -> Iterator[tuple[Tile, tuple[int, int, int]]]:
    """Tiles of a thread, and threads of a block over channels, rows and columns."""
    last = of.layout == "NHWC"
    rows, columns = of.places
    for chunk in [c for c in (1, 2, 4, 8) if c <= widest(of)][-3 if last else -2 :]:
        own = [c for c in own_channels(of) if not last or c % chunk == 0]
        across = [x for x in (1, 2, 4, 8, 16) if (last or x * of.stride[1] % chunk == 0) and x < 2 * columns]
        shapes = (
            Tile(channels, filters, y, x, chunk, whole)
            for channels in (own[:2] if last else own)
            for filters in own_filters(of)
            for x in across
            for y in _TRIED_ROWS
            for whole in (True, False)
            if y <= rows
        )
        for tile in shapes:
            most = REGISTERS - _SPARE if tile.whole else _ROW_REGISTERS
            if tile.registers(of) <= most and tile.steps(of) <= _STEPS:
                yield from ((tile, block) for block in dict.fromkeys(blocks(of, tile)))


def blocks(of: Images, tile: Tile) -> Iterator[tuple[int, int, int]]:
    """Blocks of 64 to 256 threads, as wide as the results are."""
    rows, columns = (-(-n // t) for n, t in zip(of.places, (tile.rows, tile.columns), strict=True))
    if of.layout == "NHWC":
        channels = max(even_threads(of.filters, tile.channels))
        channels = channels if channels >= 16 or of.filters <= 16 * tile.channels else 32
        for size in (64, 128, 256):
            x = max(1, min(columns, size // channels))
            yield channels, max(1, min(rows, size // (channels * x))), x
        return
    groups = -(-of.groups // tile.channels)
    for size in _BLOCK_SIZES:
        x = min(columns, size)
        y = max(1, min(rows, size // x))
        y = next((n for n in range(y, 0, -1) if rows % n == 0 and 2 * n > y), y)
        yield max(1, min(groups, size // (x * y))), y, x


def cycles(of: Images, tile: Tile, block: tuple[int, int, int], gpu: Gpu = USUAL) -> float:
    """Return how long the kernel takes, in cycles of a multiprocessor."""
    threads, size = prod(block), BYTES[of.dtype]
    warps = ceil(threads / gpu.hardware.warp)
    each = ceil(_blocks_of_grid(of, tile, block) / gpu.processors)
    issued, moved = _work(of, tile, block)
    loads, rounds = tile.loads(of), of.shape[1] // of.groups * (1 if tile.whole else of.kernel[0])
    alone = _LATENCY * (1 + _ROUND * (rounds - 1)) + _ALONE * issued * _ISSUE
    resident = _resident(of, tile, warps, gpu.hardware)
    memory = size * (prod(of.shape) + of.shape[0] * of.filters * prod(of.places))
    asked = min(each, resident) * threads * min(loads / rounds, _LOADS_IN_FLIGHT) * tile.chunk * size
    rate = (_CACHED_BANDWIDTH if memory < _CACHE else _BANDWIDTH) * min(1.0, asked / _IN_FLIGHT)
    if _uneven(of, tile, block):
        alone *= _UNEVEN
        issued *= _UNEVEN
    costs = (
        each * warps * moved,
        each * warps * issued,
        memory / rate * _CLOCK,
        each * _BLOCK_START,
        max(1.0, each / resident) * alone * _TURN,
    )
    return float(sum(cost**_SHARPNESS for cost in costs) ** (1 / _SHARPNESS) + alone / 2)


def _uneven(of: Images, tile: Tile, block: tuple[int, int, int]) -> bool:
    """Whether some threads have no results: each of a thread's accesses then gets a guard."""
    extents = (of.filters if of.layout == "NHWC" else of.groups, *of.places)
    mine = (tile.channels, tile.rows, tile.columns)
    return any(extent % (count * own) for extent, count, own in zip(extents, block, mine, strict=True))


def _blocks_of_grid(of: Images, tile: Tile, block: tuple[int, int, int]) -> int:
    c, y, x = block
    last = of.layout == "NHWC"
    filters = 1 if last else of.filters // of.groups // tile.filters
    channels = of.shape[0] * ceil((of.filters if last else of.groups) / (c * tile.channels)) * filters
    return channels * ceil(of.places[0] / (y * tile.rows)) * ceil(of.places[1] / (x * tile.columns))


def _work(of: Images, tile: Tile, block: tuple[int, int, int]) -> tuple[float, float]:
    """Return the cycles in which a warp's instructions are issued, and those in which its data pass the L1 cache."""
    last, size, half = of.layout == "NHWC", BYTES[of.dtype], BYTES[of.dtype] == 2
    area, per_group = prod(of.kernel), of.shape[1] // of.groups
    loads, results = tile.loads(of), tile.results()
    products, read = results * area * per_group, tile.channels * tile.filters * area * per_group
    held = weights_of(of, tile)
    weights = read / 4 if held is Weights.SHARED else read * size / 16 if held is Weights.REGISTERS else read
    step = (tile.channels if last else tile.columns * of.stride[1]) * size
    spread = step / 4 if last or block[2] >= 8 else max(2.0, step / 4 + 8 / block[2])
    wavefronts = min(32.0, max(1.0, spread))
    own = read * size / 4 if held is Weights.REGISTERS else weights * _WEIGHT * (4 if last else 1)
    moved = loads * wavefronts * _WAVEFRONT + own + results * size / 4
    fill = _FILL * read * block[0] / prod(block) if held is Weights.SHARED else 0.0
    converted = (loads * tile.chunk + read) * half
    issued = products + converted + loads * _PER_LOAD + weights + results * _PER_STORE * size / 4 + _PER_THREAD + fill
    return issued / _ISSUE, moved + fill / 4


def _resident(of: Images, tile: Tile, warps: int, on: Hardware) -> int:
    """Return how many blocks a multiprocessor runs at a time."""
    window = tile.registers(of) - tile.results()
    held = prod(of.kernel) * tile.channels * BYTES[of.dtype] / 4 if weights_of(of, tile) is Weights.REGISTERS else 0
    registers = min(on.registers_per_thread, max(24, 13 + tile.results() + _WINDOW * window + held)) // 8 * 8
    by_registers = int(on.multiprocessor.registers // (registers * warps * on.warp))
    return max(1, min(on.multiprocessor.warps // warps, on.multiprocessor.blocks, by_registers))
