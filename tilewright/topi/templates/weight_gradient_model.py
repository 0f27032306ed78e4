"""The cycles of weight gradients on GPUs, for the default configuration and the first ones of a search.

The model counts three times: multiprocessors issue instructions, their L1 caches move data, and bytes move from the L2
cache and memory. A kernel takes a little more than the longest of the three. If there is one warp per scheduler, few
loads are in flight, so the warp waits for them. The mean of the logarithm of the error, capped at a limit, is 0.195.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from math import ceil, gcd, log2, prod

from ...core.hardware import MemoryScope
from ...core.occupancy import occupancy
from ...tune.model.fitted import Quantities
from ...tune.model.kernel_time import overlapped
from ...tune.model.machine import Machine
from ...tune.task import Expectation
from .schedule_helpers import GPU
from .thread_tiles import BYTES
from .weight_gradient import WeightGradient
from .weight_gradient_shares import LANES, SHARES, Share, candidates, least

_MEMORY = GPU.warp_memory


def expectation(of: WeightGradient, share: Share, machine: Machine) -> Expectation:
    """Return the cycles, threads and blocks of a share."""
    return Expectation(cycles(of, share, machine), share.threads(of), share.blocks(of))


@lru_cache(maxsize=64)
def ranked(of: WeightGradient, machine: Machine, copied: bool) -> Sequence[Share]:
    """Return the ranked shares, the fastest first: of blocks that copy their part first if `copied`, else of the
    others."""
    room = machine.hardware.memory(MemoryScope.SHARED).most
    fit = (block for block in candidates(of, copied) if block.shared_bytes(of) <= room)
    found = [share for block in fit for share in _shared_out(of, block, machine)]
    return sorted(found or [least(of)] * (not copied), key=lambda share: cycles(of, share, machine))


def _shared_out(of: WeightGradient, block: Share, machine: Machine) -> Iterator[Share]:
    """Yield the block with batch and space divided so that the grid has whole waves."""
    most = of.shape[0] * prod(block.tiles(of)) // block.workers(of)
    wave = machine.multiprocessors * _resident_blocks(of, block, machine) / block.blocks(of)
    whole_images = block.copies and of.layout == "NCHW"
    found = set()
    for waves in (0.5, 1, 2, 4):
        wanted = max(1, min(most, wave * waves))
        found.add(max(n for n in SHARES if n <= wanted and not (whole_images and of.shape[0] % n)))
    yield from (replace(block, shares=n) for n in sorted(found))


def cycles(of: WeightGradient, share: Share, machine: Machine) -> float:
    """Return the cycles of both kernels."""
    rates, count, at = machine.rates, machine.multiprocessors, machine.fitted["weight_gradient"]
    warps = ceil(share.threads(of) / machine.hardware.warp)
    loads, moved, bytes_apart = _loads(of, share)
    each = ceil(share.blocks(of) / count)
    together = min(each, _resident_blocks(of, share, machine))
    full, rest = divmod(each, together)
    wave = _wave(of, share, at, loads, together * warps / machine.schedulers)
    work = wave * (full if full < at.many_waves else each / together)
    if rest and full < at.many_waves:
        work += at.last_wave_factor * _wave(of, share, at, loads, rest * warps / machine.schedulers)
    through = each * warps * share.steps(of) * moved * at.l1_cycles
    size = BYTES[of.dtype]
    image, given = size * prod(of.shape), size * of.shape[0] * of.filters * prod(of.places)
    far = image + given > rates.l2_capacity_bytes
    per_byte = at.memory_factor / rates.memory_bytes_per_cycle if far else at.l2_factor / rates.l2_bytes_per_cycle
    threads = together * warps * machine.hardware.warp
    again = max(0.0, threads * bytes_apart / at.l1_bytes - 0.5) if bytes_apart > _MEMORY.sector else 0.0
    memory = (image + given) * per_byte / count * (1 + at.crowded_factor * again)
    repeated = _read_again(of, share, image, given) * at.repeated_l2_factor / rates.l2_bytes_per_cycle / count
    partial = share.shares * share.warps * prod(of.out_shape) * 4 / rates.l2_bytes_per_cycle / count
    launches = at.launches * rates.launch_seconds * rates.clock_hertz
    return float(overlapped((work, through, memory, repeated), at.overlap_sharpness) + 2 * partial + launches)


def _loads(of: WeightGradient, share: Share) -> tuple[int, float, int]:
    """Return the loads of a thread per tile, the passes of a warp through the L1 cache, and the byte stride between
    lanes.

    The stride is zero if one load fetches a lane's part of a row.
    """
    size, across = BYTES[of.dtype], share.channels if of.per_group > 1 else 1
    if of.layout == "NHWC":
        across //= gcd(across, share.channels_at_once(of))
    loads = share.seen(of)[0] * (share.loaded(of) // share.chunk) * across
    chunk = share.gradient_chunk(of)
    if share.lanes_have_tiles(of):
        given = share.rows * share.columns // chunk * share.filters
        apart = share.columns * size
        passes = loads * min(LANES, max(share.chunk * size, apart * of.stride[1]) / _MEMORY.word)
        passes += given * min(LANES, max(chunk * size, apart) / _MEMORY.word)
        return loads + given, passes, apart if apart > share.chunk * size else 0
    given = share.rows * share.columns // (chunk if share.copies else 1)
    vector = share.chunk if share.copies else max(share.filters, share.channels_at_once(of))
    return loads + given, (loads + given) * max(1.0, vector * size / _MEMORY.word), 0


def _wave(of: WeightGradient, share: Share, at: Quantities, loads: int, issuing: float) -> float:
    """Return the cycles of the blocks of one wave, with `issuing` warps per scheduler."""
    rows, columns = share.seen(of)
    half = BYTES[of.dtype] == 2
    across = share.filters if of.per_group == 1 and of.layout == "NHWC" else share.channels
    converted = half * (rows * columns * across + share.rows * share.columns * share.filters)
    products = share.products() * (2 if of.dtype == "float64" else 1)
    long = 1 + at.code_factor * max(0.0, log2(products / at.fetched_products))
    issued = products * long + at.load_slots * loads + converted + at.step_slots
    latency = at.barrier_cycles + at.shared_latency_cycles * loads / at.loads_in_flight if share.copies else 0.0
    latency = latency or at.latency_cycles * loads / at.loads_in_flight
    step = ((issuing * issued * at.slot_cycles) ** 4 + (issued * at.alone_slot_cycles + latency) ** 4) ** 0.25
    step *= at.small_block_factor if share.warps * share.jobs < at.few_warps and not share.copies else 1.0
    end = share.sums() * (at.exchange_slots if share.lanes_have_tiles(of) else 2) * issuing
    return float(share.steps(of) * step + end + at.block_cycles)


def _read_again(of: WeightGradient, share: Share, image: float, given: float) -> float:
    """Return the bytes read from the L2 cache: tiles overlap, and blocks with different sums read the same tiles."""
    jobs = share.jobs_of_group(of) / share.jobs
    filters = of.shared_filters // share.filters if share.lanes_have_tiles(of) else 1
    rows = 1.0 if share.copies and of.layout == "NCHW" else share.seen(of)[0] / (share.rows * of.stride[0])
    columns = 1.0
    if not share.lanes_have_tiles(of) and not share.copies:
        wide = min(share.warps, share.tiles(of)[1]) * share.columns * of.stride[1]
        columns = (wide + share.seen(of)[1] - share.columns * of.stride[1]) / wide
    images = image * rows * columns * max(1.0, jobs / (of.per_group // share.channels))
    return images + given * max(1.0, jobs / filters)


def _resident_blocks(of: WeightGradient, share: Share, machine: Machine) -> int:
    """Return the blocks that a multiprocessor runs at a time."""
    warps = ceil(share.threads(of) / machine.hardware.warp)
    return _resident(machine, warps, -(-share.registers(of) // 8) * 8, share.shared_bytes(of))


@lru_cache(maxsize=4096)
def _resident(machine: Machine, warps: int, registers: int, shared_bytes: int) -> int:
    on = machine.hardware
    return max(1, int(occupancy(on, warps * on.warp, registers, shared_bytes).blocks))
