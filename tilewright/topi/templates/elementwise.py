"""Schedules with one thread per result, or a few results per thread: transposed convolutions and pooling.

The results are fused into one loop, which is split into blocks of threads. A thread computes a few neighbours and, if
channels share inputs, a few channels. On a CPU, rows run on all processors, and neighbours in vectors.
"""

from __future__ import annotations

from typing import Any

from ...schedule.handle import ScheduleHandle
from ...tensor.axis import IterVar
from ...tune.model.machine import Machine
from ...tune.space.config import Config
from ...tune.space.knobs import split_knob, value_knob
from ...tune.space.space import Space
from .images import Images
from .processor import VectorRegisters
from .schedule_helpers import bind_all, set_unrolling
from .strategy import ScheduleStrategy, SharedModel
from .tensors import Tensors

_LANES = (4, 8, 16, 32)
"""Lanes per vector for any number of results: the remainder is computed element by element."""
_MOST_ROW_LANES = 64
"""The most lanes of a vector that divides a row."""


def space(of: Images) -> Space:
    """The knobs: a block's threads, a thread's neighbours and channels, and the depth of unrolling."""
    row = of.out_shape[-1]
    filters = [[-1, n] for n in (1, 2, 4, 8, 16) if of.shared_filters % n == 0]
    return Space(
        [
            value_knob("threads", [64, 128, 256]),
            split_knob("tile_x", row, "candidate", candidate=[[-1, n] for n in (1, 2, 4, 8) if n <= row]),
            split_knob("tile_f", of.channels, "candidate", candidate=filters if of.layout == "NCHW" else [[-1, 1]]),
            value_knob("auto_unroll_max_step", [0, 64, 512]),
        ]
    )


def schedule(of: Images, config: Config, s: ScheduleHandle, t: Tensors) -> None:
    """Keep sums in registers, and distribute all results over blocks of threads."""
    out, sums = t.out, t.in_registers(s)
    outer, inner = _tiles(of, config, s, out)
    flat = s[out].fuse(*outer)
    block, thread = s[out].split(flat, factor=config["threads"].val)
    bind_all(s, out, (block, thread), ("blockIdx.x", "threadIdx.x"))
    s[sums].compute_at(s[out], thread)
    s[sums].reorder(*sums.op.reduce_axis, *sums.op.axis)
    set_unrolling(s, out, block, config["auto_unroll_max_step"].val, 0)
    for axis in inner:
        s[out].unroll(axis)


def _tiles(of: Images, config: Config, s: ScheduleHandle, out: Any) -> tuple[list[IterVar], list[IterVar]]:
    """Split the loops over results into loops of the grid and loops of a thread."""
    axes = list(out.op.axis)
    inner = []
    if of.layout == "NCHW":
        axes[1], own = config["tile_f"].apply(s, out, axes[1])
        inner.append(own)
    axes[-1], own = config["tile_x"].apply(s, out, axes[-1])
    inner.append(own)
    s[out].reorder(*axes, *inner)
    return axes, inner


def default_choices(of: Images, machine: Machine) -> dict[str, Any]:
    """Choose one result per thread, or several channels if they share inputs."""
    return {"threads": 128, "tile_x": [1], "tile_f": [min(8, of.shared_filters)], "auto_unroll_max_step": 64}


def cpu_space(of: Images) -> Space:
    """The knobs: neighbours per vector, and channels computed together."""
    row = of.out_shape[-1]
    fit = {n for n in _LANES if n <= row} | {_largest_part(row)}
    lanes = [[-1, n] for n in sorted(fit)]
    filters = [[-1, n] for n in (1, 2, 4, 8) if of.shared_filters % n == 0]
    return Space(
        [
            split_knob("tile_x", row, "candidate", candidate=lanes),
            split_knob("tile_f", of.channels, "candidate", candidate=filters if of.layout == "NCHW" else [[-1, 1]]),
        ]
    )


def cpu_schedule(of: Images, config: Config, s: ScheduleHandle, t: Tensors) -> None:
    """Keep sums in registers; compute rows on all processors, and neighbours in vectors."""
    out, sums = t.out, t.in_registers(s)
    outer, inner = _tiles(of, config, s, out)
    s[out].vectorize(inner[-1])
    s[out].parallel(s[out].fuse(*outer[:-1]))
    s[sums].compute_at(s[out], outer[-1])
    s[sums].reorder(*sums.op.reduce_axis, *sums.op.axis)
    if len(inner) > 1:
        s[sums].unroll(sums.op.axis[1])
    s[sums].vectorize(sums.op.axis[-1])


def cpu_default_choices(of: Images, machine: VectorRegisters) -> dict[str, Any]:
    """Choose vectors without a remainder, of 16 or 8 if possible, and four channels together.

    Vectors of 16 make averages five times as slow for 24 channels, and six times for rows of 28 columns.
    """
    row = of.out_shape[-1]
    lanes = next((n for n in (16, 8) if row % n == 0), _largest_part(row))
    return {"tile_x": [lanes], "tile_f": [min(4, of.shared_filters)]}


def _largest_part(row: int) -> int:
    """Return the lanes of the longest vector that divides a row; 16 if no vector of at least four lanes does."""
    return next(
        (n for n in range(min(row, _MOST_ROW_LANES), 0, -1) if row % n == 0 and (n >= _LANES[0] or n == row)), 16
    )


ON_GPU: ScheduleStrategy[Any] = ScheduleStrategy(space, schedule, default_choices, model=SharedModel(lead=0.05))
ON_CPU: ScheduleStrategy[Any] = ScheduleStrategy(cpu_space, cpu_schedule, cpu_default_choices)
