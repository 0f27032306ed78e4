"""The 1-D convolution on a GPU: threads, results per thread, the order of the sum, and the use of shared memory."""

from __future__ import annotations

from math import prod
from typing import Any

from ...schedule.handle import ScheduleHandle
from ...tune.model.machine import Machine
from ...tune.space.config import Config
from ...tune.space.knobs import annotate_knob, split_knob, value_knob
from ...tune.space.space import Space
from .convolutions import Conv1dVector
from .schedule_helpers import bind_all, fetch_together, set_unrolling, tile_knob
from .strategy import ScheduleStrategy, SharedModel
from .tensors import Tensors

_LEAST_WARP_BLOCKS = 16
"""The least number of blocks of one warp per multiprocessor: shorter lines are spread over all multiprocessors."""
_SIZES = [(v, t, n) for t in (16, 32, 64, 128, 256, 512) for v in (1, 2, 4) for n in (1, 2, 4, 8)]


def space(of: Conv1dVector) -> Space:
    """The knobs. Tiles need not divide the length: the last one may be incomplete."""
    (length,) = of.out_shape
    tiles = [[-1, *size] for size in _SIZES if prod(size) <= length] or [[-1, 1, length, 1]]
    return Space(
        [
            split_knob("tile", length, "candidate", candidate=tiles),
            tile_knob("tile_r", of.kernel, 3),
            annotate_knob("unroll", [0, 1], "try_unroll"),
            value_knob("shared", ["none", "weights", "both"]),
            value_knob("auto_unroll_max_step", [0, 64, 512]),
            value_knob("unroll_explicit", [0, 1]),
        ]
    )


def schedule(of: Conv1dVector, config: Config, s: ScheduleHandle, t: Tensors) -> None:
    """Keep sums in registers, and weights and input in shared memory if the configuration says so."""
    weights, padded, out = t.weights, t.padded, t.out
    s[padded].compute_inline()
    sums = t.in_registers(s)
    wanted = {"none": [], "weights": [weights], "both": [weights, padded]}[config["shared"].val]
    caches = [s.cache_read(t, "shared", [sums]) for t in wanted]

    block, vthread, thread, _ = config["tile"].apply(s, out, out.op.axis[0])
    bind_all(s, out, (block, vthread, thread), ("blockIdx.x", "vthread", "threadIdx.x"))
    set_unrolling(s, out, block, config["auto_unroll_max_step"].val, config["unroll_explicit"].val)

    s[sums].compute_at(s[out], thread)
    ro, rm, ri = config["tile_r"].apply(s, sums, sums.op.reduce_axis[0])
    s[sums].reorder(ro, rm, ri, *sums.op.axis)
    config["unroll"].apply(s, sums, [rm, ri])
    for cache in caches:
        s[cache].compute_at(s[sums], ro)
        fetch_together(s, cache, [("threadIdx.x", config["tile"].size[2])])


def default_choices(of: Conv1dVector, machine: Machine) -> dict[str, Any]:
    """Return small blocks for short lines, one result per thread, and up to 32 terms written out."""
    warp = machine.hardware.warp
    threads = warp if of.out_shape[0] <= _LEAST_WARP_BLOCKS * warp * machine.multiprocessors else 4 * warp
    return {
        "tile": [1, threads, 1],
        "tile_r": [1, min(of.kernel, 32)],
        "unroll": (0, 1),
        "auto_unroll_max_step": 64,
        "unroll_explicit": 1,
    }


ON_GPU: ScheduleStrategy[Conv1dVector] = ScheduleStrategy(
    space, schedule, default_choices, model=SharedModel(), starts_at_bias=True
)
"""Sums start at a bias: it arrives with the first terms, not after the last one."""
