"""From counts to seconds: busy time of each part of a multiprocessor, exposed latency, and the tail.

A kernel takes as long as its busiest part, and a little longer if others are nearly as busy. The result is a p-norm of
the terms, with a large p. Blocks run in waves of as many as fit; a multiprocessor with one block more than the others
makes all of them wait.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np

from ...codegen.abi import Resources
from ...core.occupancy import occupancy
from ...passes.register_prefetch import MAX_HELD, OVERHEAD, SHARE
from .machine import Machine
from .work import Counts

TERMS = ("issue", "shared memory", "L1", "L2", "memory", "latency", "start")


@dataclass(frozen=True)
class Prediction:
    """Seconds per configuration, their terms (the seconds of each alone), and their limit."""

    seconds: np.ndarray
    terms: dict[str, np.ndarray]
    resident: np.ndarray
    registers: np.ndarray


def predict(counts: Counts, machine: Machine, compiled: Resources | None = None) -> Prediction:
    """The predicted time of one kernel for every configuration; `compiled` has the resources of its compiled form."""
    c, rates, w = counts, machine.rates, machine.weights
    warps = np.ceil(c["threads"] / machine.hardware.warp)
    registers, spilled = _registers(c, machine)
    if compiled is not None:
        registers = np.full_like(registers, -(-compiled.registers // 8) * 8)
        spilled = spilled * (compiled.spill_load_bytes > 0)
        c = {**c, "shared_bytes": np.full_like(c["shared_bytes"], compiled.shared_bytes)}
    resident = _resident(c, machine, warps, registers)
    each = np.ceil(c["blocks"] / machine.multiprocessors)  # blocks of the busiest multiprocessor
    spills = w.spill * c["fma"] * spilled
    instructions = _instructions(c, machine, spills)
    code = 1 + w.code * np.maximum(np.log2(np.maximum(c["written_out"], 1) / 4096), 0)
    # A scheduler has its own warps: if they are few, some schedulers have one more than others.
    together = np.minimum(each, resident) * warps
    uneven = np.ceil(together / machine.schedulers) * machine.schedulers / together
    issue = each * warps * uneven * instructions * w.issue / machine.schedulers * code
    waves = w.lds_wave * c["lds_waves"] + c["sts_waves"]
    shared = each * warps * (waves + spills)
    l1, l2, memory = _traffic(c, machine, warps, each, resident)
    # Barriers divide a block's work: while its tiles are filled, only other blocks use the idle units.
    chain = w.dependent / np.minimum(np.maximum(c["accumulators"], 1), w.dependent)
    busy = np.maximum.reduce([issue / each, shared / each, w.alone * instructions * chain])
    latency = np.ceil(each / resident) * _alone(c, machine, warps, busy)
    start = each * rates.block_start
    cycles = dict(zip(TERMS, (issue, shared, l1, l2, memory, latency, start), strict=True))
    total = sum(value**w.sharpness for value in cycles.values()) ** (1 / w.sharpness)
    seconds = w.whole * total / rates.clock + rates.launch_seconds
    return Prediction(seconds, {name: value / rates.clock for name, value in cycles.items()}, resident, registers)


def _instructions(c: Counts, machine: Machine, spills: np.ndarray) -> np.ndarray:
    """The instructions of a warp."""
    w = machine.weights
    found: np.ndarray = (
        c["fma"]
        + c["other_ops"]
        + w.compare * c["compares"]
        + w.loop_step * c["loop_steps"]
        + w.ldg * c["ldg"]
        + w.lds * c["lds"]
        + w.sts * c["sts"]
        + w.stg * c["stg"]
        + w.fill * c["fill_loads"]
        + w.thread
        + w.marked * c["marked"] * np.minimum(c["local_words"] / w.crowded, 1)
        + spills
    ) * (1 + w.uneven * np.minimum(c["uneven"], 1))
    return found


def _traffic(
    c: Counts, machine: Machine, warps: np.ndarray, each: np.ndarray, resident: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Cycles of a multiprocessor for traffic through the L1 cache, through the L2 cache, and to and from memory."""
    rates, w = machine.rates, machine.weights
    sector = machine.hardware.warp_memory.sector
    sector_bytes = c["ldg_sectors"] * warps * sector
    l1 = each * (sector_bytes + c["stg_sectors"] * warps * sector) / rates.l1_bytes
    filled = c["fill_sectors"] * warps * sector
    # The L1 cache keeps data that threads load directly, as far as it holds the data of all blocks.
    direct = np.maximum(sector_bytes - filled, 0)
    kept = np.minimum(c["near_bytes"], direct)
    crowd = np.minimum(np.minimum(each, resident) * kept / w.l1_capacity, 1)
    tiles = np.maximum(c["block_bytes"] - c["near_bytes"], 0)
    filled = tiles ** (1 - w.sectors) * filled**w.sectors
    missed = filled + kept + (direct - kept) * np.maximum(crowd, w.missed)
    l2 = (c["blocks"] * missed + c["stored_bytes"]) / machine.multiprocessors / rates.l2_bytes
    used = np.minimum(c["blocks"], machine.multiprocessors)  # few blocks need little
    l2 = l2 * machine.multiprocessors / np.maximum(used, 1) ** 0.5 / machine.multiprocessors**0.5
    moved = c["unique_bytes"] + c["stored_bytes"]
    far = np.where(moved > rates.l2_capacity, 1.0, 0.25)
    return l1, l2, far * moved / machine.multiprocessors / rates.memory_bytes


def _alone(c: Counts, machine: Machine, warps: np.ndarray, busy: np.ndarray) -> np.ndarray:
    """Cycles of a block by itself: `busy` ones, and cycles of waiting for loads and barriers."""
    rates, w = machine.rates, machine.weights
    prefetched = _is_prefetched(c, machine)
    waited = c["phases"] * np.where(prefetched, w.prefetched, 1.0) + w.fill_serial * c["fill_serial"]
    waited = waited + np.where(prefetched, w.guarded_ahead, w.fill_guarded) * c["fill_guarded"]
    waited = waited + w.tail * c["fill_tails"] + w.fill_alone * c["fill_alone"]
    waited = waited + w.serial * c["serial_loads"] + w.guarded * c["guarded"]
    found: np.ndarray = (
        w.busy * busy
        + w.overlap * rates.global_latency * (1 + waited)
        + w.cold * rates.global_latency * c["first_tails"]
        + w.scattered * c["guarded_sectors"]
        + w.branched * rates.shared_latency * c["branched"]
        + w.rolled * rates.shared_latency * c["loop_steps"]
        + c["barriers"] * (w.barrier * rates.barrier * np.sqrt(warps) + w.meeting * rates.shared_latency)
    )
    return found


def _is_prefetched(c: Counts, machine: Machine) -> np.ndarray:
    """Whether registers hold the next tiles while these are used (`passes/register_prefetch.py`)."""
    hardware = machine.hardware
    given = hardware.multiprocessor.registers // np.maximum(c["threads"], 1)
    most = np.minimum(ceil(SHARE * hardware.registers_per_thread), given)
    spare = np.minimum(MAX_HELD, most - c["local_words"] - OVERHEAD)
    found: np.ndarray = (c["held"] <= spare) & (c["phases"] > 1)
    return found


def _registers(c: Counts, machine: Machine) -> tuple[np.ndarray, np.ndarray]:
    """Registers per thread, and the part of its arrays that they do not hold."""
    w = machine.weights
    limit = np.minimum(machine.hardware.registers_per_thread, machine.hardware.multiprocessor.registers
                       // np.maximum(c["threads"], 1))  # fmt: skip
    # If tiles are filled repeatedly, values of several steps are alive at once.
    word = np.where(c["phases"] > 1, w.word, w.word_once)
    wanted = w.registers + word * c["local_words"] + np.minimum(c["held"], 32) * 0.5
    granted = np.ceil(np.clip(wanted, 16, np.maximum(limit, 16)) / 8) * 8
    return granted, np.maximum(wanted - np.maximum(limit, 16), 0) / np.maximum(wanted, 1)


def _resident(c: Counts, machine: Machine, warps: np.ndarray, registers: np.ndarray) -> np.ndarray:
    """The number of blocks that a multiprocessor holds at a time."""
    found: np.ndarray = np.maximum(occupancy(machine.hardware, c["threads"], registers, c["shared_bytes"]).blocks, 1)
    return found
