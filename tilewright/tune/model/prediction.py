"""The time of a kernel from its counts: busy time of each part of a multiprocessor, exposed latency, and the tail.

A kernel takes as long as its busiest part, and a little longer if others are nearly as busy. So the time is a p-norm of
the terms, with a large p. Blocks run in waves of as many blocks as fit. If one multiprocessor has one block more than
the others, the others wait for it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...codegen.abi import Resources
from ...core.occupancy import occupancy
from ...core.vectorized import most
from ...passes.register_prefetch import spare_registers
from .fitted import Quantities
from .kernel_time import overlapped
from .machine import Machine
from .work import Counts

TERMS = ("issue", "shared memory", "L1", "L2", "memory", "latency", "start")


@dataclass(frozen=True)
class Prediction:
    """Seconds per configuration, the seconds of each term alone, and the limiting term."""

    seconds: np.ndarray
    terms: dict[str, np.ndarray]
    resident: np.ndarray
    registers: np.ndarray


def predict(counts: Counts, machine: Machine, at: Quantities, compiled: Resources | None = None) -> Prediction:
    """Return the predicted time of a kernel for each configuration; `compiled` has the resources after compilation."""
    c, rates = counts, machine.rates
    warps = np.ceil(c["threads"] / machine.hardware.warp)
    registers, spilled = _registers(c, machine, at)
    if compiled is not None:
        registers = np.full_like(registers, -(-compiled.registers // 8) * 8)
        spilled = spilled * (compiled.spill_load_bytes > 0)
        c = {**c, "shared_bytes": np.full_like(c["shared_bytes"], compiled.shared_bytes)}
    resident = _resident(c, machine, warps, registers)
    each = np.ceil(c["blocks"] / machine.multiprocessors)  # blocks of the busiest multiprocessor
    spills = at.spill * c["fma"] * spilled
    instructions = _instructions(c, at, spills)
    code = 1 + at.code * np.maximum(np.log2(np.maximum(c["written_out"], 1) / 4096), 0)
    # Each scheduler has its own warps. If there are few warps, some schedulers have one more than others.
    together = np.minimum(each, resident) * warps
    uneven = np.ceil(together / machine.schedulers) * machine.schedulers / together
    issue = each * warps * uneven * instructions * at.issue / machine.schedulers * code
    waves = at.lds_wave * c["lds_waves"] + c["sts_waves"]
    shared = each * warps * (waves + spills)
    l1, l2, memory = _traffic(c, machine, at, warps, each, resident)
    # Barriers divide a block's work: while its tiles are filled, only other blocks use the arithmetic units.
    chain = at.dependent / np.minimum(np.maximum(c["accumulators"], 1), at.dependent)
    busy = np.maximum.reduce([issue / each, shared / each, at.alone * instructions * chain])
    latency = np.ceil(each / resident) * _alone(c, machine, at, warps, busy)
    start = each * rates.block_start_cycles
    cycles = dict(zip(TERMS, (issue, shared, l1, l2, memory, latency, start), strict=True))
    total = overlapped(cycles.values(), at.sharpness)
    seconds = at.whole * total / rates.clock_hertz + rates.launch_seconds
    return Prediction(seconds, {name: value / rates.clock_hertz for name, value in cycles.items()}, resident, registers)


def _instructions(c: Counts, at: Quantities, spills: np.ndarray) -> np.ndarray:
    """The instructions of a warp."""
    found: np.ndarray = (
        c["fma"]
        + c["other_ops"]
        + at.compare * c["compares"]
        + at.loop_step * c["loop_steps"]
        + at.ldg * c["ldg"]
        + at.lds * c["lds"]
        + at.sts * c["sts"]
        + at.stg * c["stg"]
        + at.fill * c["fill_loads"]
        + at.thread
        + at.branch * c["guarded"]
        + at.marked * c["marked"] * np.minimum(c["local_words"] / at.crowded, 1)
        + spills
    ) * (1 + at.uneven * np.minimum(c["uneven"], 1))
    return found


def _traffic(
    c: Counts, machine: Machine, at: Quantities, warps: np.ndarray, each: np.ndarray, resident: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return a multiprocessor's cycles for traffic through the L1 cache, through the L2 cache, and with memory."""
    rates = machine.rates
    sector = machine.hardware.warp_memory.sector
    sectors = {name: c[f"{name}_sectors"] * warps * sector for name in ("fill", "fresh", "near", "stg")}
    l1 = each * sum(sectors.values()) / rates.l1_bytes_per_cycle
    filled, direct = sectors["fill"], sectors["fresh"]
    # The L1 cache keeps directly loaded data to the extent that it holds the data of all resident blocks. Data that all
    # blocks read arrive once per wave.
    kept = np.minimum(c["near_bytes"], direct)
    own = np.maximum(kept - c["common_bytes"], 0)
    together = np.minimum(each, resident)
    crowd = np.minimum((kept - own + together * own) / at.l1_capacity, 1)
    tiles = np.maximum(c["block_bytes"] - c["near_bytes"], 0)
    filled = tiles ** (1 - at.sectors) * filled**at.sectors
    missed = filled + own + (kept - own) / together + (direct - kept) * np.maximum(crowd, at.missed)
    l2 = (c["blocks"] * missed + c["stored_bytes"]) / machine.multiprocessors / rates.l2_bytes_per_cycle
    used = np.minimum(c["blocks"], machine.multiprocessors)  # few blocks need little
    l2 = l2 * machine.multiprocessors / np.maximum(used, 1) ** 0.5 / machine.multiprocessors**0.5
    moved = c["unique_bytes"] + c["stored_bytes"]
    far = np.where(moved > rates.l2_capacity_bytes, 1.0, 0.25)
    return l1, l2, far * moved / machine.multiprocessors / rates.memory_bytes_per_cycle


def _alone(c: Counts, machine: Machine, at: Quantities, warps: np.ndarray, busy: np.ndarray) -> np.ndarray:
    """Return the cycles of a block alone: the `busy` cycles, and the cycles of waiting for loads and barriers."""
    rates = machine.rates
    prefetched = _is_prefetched(c, machine)
    waited = c["phases"] * np.where(prefetched, at.prefetched, 1.0) + at.fill_serial * c["fill_serial"]
    waited = waited + np.where(prefetched, at.guarded_ahead, at.fill_guarded) * c["fill_guarded"]
    waited = waited + at.tail * c["fill_tails"] + at.fill_alone * c["fill_alone"]
    waited = waited + at.serial * c["serial_loads"] + at.guarded * c["guarded"]
    found: np.ndarray = (
        at.busy * busy
        + at.overlap * rates.l2_latency_cycles * (1 + waited)
        + at.cold * rates.l2_latency_cycles * c["first_tails"]
        + at.scattered * c["guarded_sectors"]
        + at.branched * rates.shared_latency_cycles * c["branched"]
        + at.rolled * rates.shared_latency_cycles * c["loop_steps"]
        + c["barriers"]
        * (at.barrier * rates.barrier_cycles * np.sqrt(warps) + at.meeting * rates.shared_latency_cycles)
    )
    return found


def _is_prefetched(c: Counts, machine: Machine) -> np.ndarray:
    """Return whether registers hold the next tiles while the present ones are used."""
    found: np.ndarray = c["held"] <= spare_registers(machine.hardware, c["threads"], c["local_words"])
    return found & (c["phases"] > 1)


def _registers(c: Counts, machine: Machine, at: Quantities) -> tuple[np.ndarray, np.ndarray]:
    """Return the registers per thread, and the fraction of a thread's arrays that spills."""
    limit = most(machine.hardware.registers_at(c["threads"]), 16)
    # If tiles are filled repeatedly, values of several steps are live at once.
    word = np.where(c["phases"] > 1, at.word, at.word_once)
    wanted = at.registers + word * c["local_words"] + np.minimum(c["held"], 32) * 0.5
    granted = np.ceil(np.clip(wanted, 16, limit) / 8) * 8
    return granted, np.maximum(wanted - limit, 0) / np.maximum(wanted, 1)


def _resident(c: Counts, machine: Machine, warps: np.ndarray, registers: np.ndarray) -> np.ndarray:
    """Return the number of resident blocks per multiprocessor."""
    found: np.ndarray = np.maximum(occupancy(machine.hardware, c["threads"], registers, c["shared_bytes"]).blocks, 1)
    return found
