"""The common formulas of all cost models: waves of blocks, overlapping costs, slices of a product, moved bytes.

A model counts the instructions, bytes and waits of its kernels. The quantities `at` are the model's row of
`fitted.json`, scaled to the machine. Arguments are numbers, or arrays with one element per configuration.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import exp, log

from ...core.vectorized import Number, ceiling, either, least, most, of_each, upwards
from .fitted import Quantities
from .machine import Machine

_MOST_WHOLE_WAVES = 3
"""The most waves for which a partial wave takes as long as a full one."""


def overlapped(costs: Iterable[Number], sharpness: float) -> Number:
    """Return the cycles of costs that overlap: a p-norm, to which the largest contributes most."""
    return sum(cost**sharpness for cost in costs) ** (1 / sharpness)


def at_once(resident: Number, blocks: Number, machine: Machine) -> Number:
    """Return the number of concurrent blocks on the busiest multiprocessor, at least one."""
    return least(most(resident, 1), ceiling(blocks, machine.multiprocessors))


def in_waves(
    wave: Number, blocks: Number, together: Number, machine: Machine, at: Quantities, *bounds: Number
) -> Number:
    """Return the cycles of a kernel that runs in waves of blocks.

    Parameters
    ----------
    wave : number
        Cycles of a wave, the blocks that run together.
    blocks, together : number
        Blocks of the grid, and blocks that run together on a multiprocessor.
    bounds : number
        Lower bounds of the kernel's cycles, such as the time to move its bytes.
    """
    waves = blocks / (machine.multiprocessors * together)
    tail = getattr(at, "tail_waves", None)
    count = upwards(waves) if tail is None else either(waves <= _MOST_WHOLE_WAVES, upwards(waves), waves + tail)
    return most(count * wave, *bounds) + at.launch_cycles


def slice_cycles(issued: Number, warps: Number, alone: Number, shown: Number, at: Quantities) -> Number:
    """Return the cycles between two slices of a product.

    Parameters
    ----------
    issued : number
        Issue slots per warp.
    warps : number
        Warps per scheduler, which issue in turns.
    alone : number
        Slowdown of a warp that is alone on its scheduler.
    shown : number
        Fraction of a slice's latency that warps do not hide.
    """
    barrier = of_each(lambda many: at.barrier_cycles * exp(log(many) * at.crowd_exponent), warps)
    return most(warps * issued, issued * alone + at.latency_cycles * shown) + barrier


def shown_latency(stages: Number, at: Quantities) -> Number:
    """Return the fraction of a slice's latency that is exposed with `stages` slices in flight."""
    return of_each(lambda flying: at.shown_latency_factor ** (flying - 1), stages)


def sum_cycles(split: Number, results: int, bytes_per_cycle: float, at: Quantities) -> Number:
    """Return the cycles of the kernel that adds the partial sums of `split` blocks; 0 if there is no such kernel."""
    return either(split > 1, at.kernel_cycles + 2 * split * results * 4 / bytes_per_cycle, 0.0)


def memory_cycles(moved: float, at: Quantities) -> float:
    """Return the cycles to move bytes from memory, or from the L2 cache if it holds all of them."""
    return moved / (at.l2_bytes_per_cycle if moved < at.l2_capacity_bytes else at.memory_bytes_per_cycle)
