"""The tiles of the direct strategy, ranked by their cycles.

The model counts three times: of issuing instructions, of moving data through the L1 cache, and of moving bytes from the
L2 cache and memory. A kernel takes the longest of the three, plus the time to start and end a thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import product
from math import ceil, gcd, prod
from typing import Any

from ...core.occupancy import occupancy
from ...tune.model.fitted import Quantities
from ...tune.model.kernel_time import memory_cycles, overlapped
from ...tune.model.machine import REFERENCE, Machine
from ...tune.task import Expectation
from .images import Images
from .schedule_helpers import SHARED, THREADS_Z, widest_vector
from .thread_tiles import (
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
    weights_of,
    widest,
    windows,
)

_LOADS_IN_FLIGHT = 16
"""The number of loads that a thread has in flight."""
_SPARE_REGISTERS = 24
"""The number of `REGISTERS` that default tiles leave free. Larger windows spill, and ptxas takes 10 s or more for
them."""
_MOST_ROW_REGISTERS = 168
"""The most registers of a tile that does not hold its whole window: all its values are live at the same time."""
_MOST_STEPS = 3 * STEPS // 4
_TRIED_ROWS = (1, 2, 3, 4, 6, 7, 8, 14)
_BLOCK_SIZES = (64, 98, 112, 128, 196, 224, 256)


def default_choices(of: Images, machine: Machine = REFERENCE) -> dict[str, Any]:
    """Return the choices of the fastest tile and block."""
    counted = ((cycles(of, tile, block, machine), tile, block) for tile, block in candidates(of))
    found = min(counted, key=lambda each: each[0], default=None)
    if found is None:  # sums over many channels, so that every window is long: the shortest one
        least = Tile(min(own_channels(of)), min(own_filters(of)), 1, 1, 1, windows(of)[0])
        return wanted(least, next(block for block in blocks(of, least) if _has_room(of, least, block[0])))
    return wanted(*found[1:])


def rank(of: Images, machine: Machine = REFERENCE) -> list[dict[str, Any]]:
    """Return the choices of all tiles and blocks worth ranking, the fastest first."""
    found = sorted(candidates(of), key=lambda pair: cycles(of, pair[0], pair[1], machine))
    return [wanted(*pair) for pair in found]


def expected(of: Images, tile: Tile, block: tuple[int, int, int], machine: Machine) -> Expectation:
    """Return the cycles, threads and blocks of a kernel; the source of its windows does not matter."""
    return Expectation(cycles(of, tile, block, machine), prod(block), _blocks_of_grid(of, tile, block))


def wanted(tile: Tile, block: tuple[int, int, int]) -> dict[str, Any]:
    """Return the choices for a thread's tile, and a block's threads over channels, rows and columns."""
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
    """Yield tiles of a thread with the threads of a block over channels, rows and columns."""
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
            most = REGISTERS - _SPARE_REGISTERS if tile.window is Window.ALL else _MOST_ROW_REGISTERS
            if tile.registers(of) <= most and tile.steps(of) <= _MOST_STEPS:
                found = dict.fromkeys(blocks(of, tile))
                yield from ((tile, block) for block in found if _has_room(of, tile, block[0]))


def _has_room(of: Images, tile: Tile, threads: int) -> bool:
    """Return whether shared memory has room for the weights of a block with `threads` over channels, if they are kept
    there."""
    if weights_of(of, tile) is not Weights.SHARED:
        return True
    weights = tile.channels * prod(of.kernel) * of.per_group * threads
    if tile.window.slides or fits_shared(of, weights):
        return fits_shared(of, weights)
    held = weights * tile.filters if of.layout == "NCHW" else weights // of.kernel[0]  # there, a row at a time
    return fits_shared(of, held, SHARED.most)


def blocks(of: Images, tile: Tile) -> Iterator[tuple[int, int, int]]:
    """Yield a block's threads over channels, rows and columns: about 64 to 384 in all, and no more than there are
    results."""
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


def cycles(of: Images, tile: Tile, block: tuple[int, int, int], machine: Machine = REFERENCE) -> float:
    """Return the time of the kernel, in cycles of a multiprocessor."""
    threads, size, at = prod(block), BYTES[of.dtype], _quantities(of, machine)
    warps = ceil(threads / machine.hardware.warp)
    each = ceil(_blocks_of_grid(of, tile, block) / machine.multiprocessors)
    issued, moved = _work(of, tile, block, at)
    loads, rounds = tile.loads(of), _rounds(of, tile)
    alone = at.latency_cycles * (1 + at.round_latency_factor * (rounds - 1))
    alone += at.alone_issue_factor * issued * at.issue_per_cycle
    resident = _resident(of, tile, warps, machine)
    memory = size * (prod(of.shape) + of.shape[0] * of.filters * prod(of.places))
    asked = min(each, resident) * threads * min(loads / rounds, _LOADS_IN_FLIGHT) * tile.chunk * size
    if _uneven(of, tile, block):
        alone *= at.guard_factor
        issued *= at.guard_factor
    costs = (
        each * warps * moved,
        each * warps * issued,
        memory_cycles(memory, at) / min(1.0, asked / at.bytes_in_flight),
        each * at.block_cycles,
        max(1.0, each / resident) * alone * at.alone_factor,
    )
    return float(overlapped(costs, at.overlap_sharpness) + alone / 2)


def _quantities(of: Images, machine: Machine) -> Quantities:
    """Return the fitted quantities for the layout of a workload."""
    return machine.fitted["direct_nhwc" if of.layout == "NHWC" else "direct_nchw"]


def _rounds(of: Images, tile: Tile) -> int:
    """Return the number of times that a thread waits for its loads before it issues the next ones."""
    if tile.window.slides:
        return of.seen_along(0, tile.rows) if tile.window is Window.ROLLED else 1
    together = 1 if tile.shares_groups(of) else of.per_group
    return together * (1 if tile.window is Window.ALL else of.kernel[0])


def _uneven(of: Images, tile: Tile, block: tuple[int, int, int]) -> bool:
    """Whether some threads have no channels. Then each access gets a guard."""
    return (of.filters if of.layout == "NHWC" else of.groups) % (block[0] * tile.channels) > 0


def _blocks_of_grid(of: Images, tile: Tile, block: tuple[int, int, int]) -> int:
    c, y, x = block
    last = of.layout == "NHWC"
    filters = 1 if last else of.shared_filters // tile.filters
    channels = of.shape[0] * ceil((of.filters if last else of.groups) / (c * tile.channels)) * filters
    return channels * ceil(of.places[0] / (y * tile.rows)) * ceil(of.places[1] / (x * tile.columns))


def _work(of: Images, tile: Tile, block: tuple[int, int, int], at: Quantities) -> tuple[float, float]:
    """Return the cycles to issue a warp's instructions, and to pass its data through the L1 cache."""
    last, size, half = of.layout == "NHWC", BYTES[of.dtype], BYTES[of.dtype] == 2
    area, per_group = prod(of.kernel), of.per_group
    loads, results = tile.loads(of), tile.results()
    products, read, held = results * area * per_group, tile.weights_read(of), weights_of(of, tile)
    vector = gcd(tile.channels, 4) if last else 4
    at_once = {Weights.SHARED: vector, Weights.REGISTERS: gcd(read, widest_vector(of.dtype))}.get(held, 1)
    weights = read / at_once
    step = (tile.channels if last else tile.columns * of.stride[1]) * size
    spread = step / 4 if last or block[2] >= 8 else max(2.0, step / 4 + 8 / block[2])
    wavefronts = min(32.0, max(1.0, spread))
    own = weights * at.weight_cycles * (vector if last else 1)
    if held is Weights.REGISTERS:
        own = weights * at.scattered_weight_cycles
    moved = loads * wavefronts * at.wavefront_cycles + own + results * size / 4
    fill = 0.0
    if held is Weights.SHARED:
        each = tile.channels * tile.filters * area * per_group * block[0] / prod(block)
        fill = each * (at.shared_transpose_slots if last and not tile.shares_groups(of) else at.transpose_slots)
    converted = (loads * tile.chunk + (0 if last and held is Weights.SHARED else read)) * half
    issued = (
        products
        + converted
        + loads * at.load_slots
        + weights
        + results * at.store_slots * size / 4
        + at.thread_slots
        + fill
    )
    return issued / at.issue_per_cycle, moved + fill / 4


def _resident(of: Images, tile: Tile, warps: int, machine: Machine) -> int:
    """Return the number of resident blocks per multiprocessor."""
    window = tile.registers(of) - tile.results()
    held = prod(of.kernel) * tile.channels * BYTES[of.dtype] / 4 if weights_of(of, tile) is Weights.REGISTERS else 0
    most = machine.hardware.registers_per_thread
    return _resident_with(machine, warps, int(min(most, max(24, 13 + tile.results() + window + held)) // 8 * 8))


@lru_cache(maxsize=1024)
def _resident_with(machine: Machine, warps: int, registers: int) -> int:
    on = machine.hardware
    return max(1, int(occupancy(on, warps * on.warp, registers, 0, pooled=True).blocks))
