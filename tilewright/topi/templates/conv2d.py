"""The 2-D convolution on a GPU: the tutorial's template, for batches, groups and any size.

Filters, rows and columns are split four ways over blocks, virtual threads, threads and a thread's own loops. Tiles of
the input and the weights go through shared memory into registers. The splits of the sum set their size.
"""

from __future__ import annotations

from typing import Any

from ...schedule.handle import ScheduleHandle
from ...tune.model.machine import Machine
from ...tune.space.config import Config
from ...tune.space.knobs import value_knob
from ...tune.space.space import Space
from .convolutions import Conv2dLayer
from .needs import Needs
from .schedule_helpers import THREAD_TAGS, bind_all, bind_grid, fetch_together, set_unrolling, tile_knob
from .strategy import ScheduleStrategy, SharedModel
from .tensors import Tensors
from .workload import DTYPES

_RESULT_KNOBS = ("tile_f", "tile_y", "tile_x")
_SUM_KNOBS = ("tile_rc", "tile_ry", "tile_rx")


def space(of: Conv2dLayer) -> Space:
    """The knobs: for the tutorial's layer 10,454,400 configurations."""
    outer = (of.shared_filters, *of.out_shape[2:])
    summed = (of.per_group, *of.kernel)
    return Space(
        [
            *(tile_knob(name, extent, 4) for name, extent in zip(_RESULT_KNOBS, outer, strict=True)),
            *(tile_knob(name, extent, 3) for name, extent in zip(_SUM_KNOBS, summed, strict=True)),
            value_knob("auto_unroll_max_step", [0, 512, 1500]),
            value_knob("unroll_explicit", [0, 1]),
        ]
    )


def schedule(of: Conv2dLayer, config: Config, s: ScheduleHandle, t: Tensors) -> None:
    """Apply a configuration."""
    weights, padded, out = t.weights, t.padded, t.out
    s[padded].compute_inline()
    sums = t.in_registers(s)
    tiles = [s.cache_read(t, "shared", [sums]) for t in (padded, weights)]
    registers = [s.cache_read(t, "local", [sums]) for t in tiles]

    thread = _bind_results(of, config, s, out)
    s[sums].compute_at(s[out], thread)
    splits = [config[name].apply(s, sums, axis) for name, axis in zip(_SUM_KNOBS, sums.op.reduce_axis, strict=True)]
    outer, middle, innermost = zip(*splits, strict=True)
    s[sums].reorder(*outer, *middle, *innermost, *sums.op.axis)
    for tile, register in zip(tiles, registers, strict=True):
        s[tile].compute_at(s[sums], outer[-1])
        s[register].compute_at(s[sums], middle[-1])
        counts = [config[name].size[2] for name in _RESULT_KNOBS]
        fetch_together(s, tile, list(zip(THREAD_TAGS, counts, strict=True)))


def _bind_results(of: Conv2dLayer, config: Config, s: ScheduleHandle, out: Any) -> Any:
    """Bind the output's loops to hardware indices; returns the innermost loop over threads."""
    n, f, y, x = out.op.axis
    parts = []
    if of.groups > 1:  # a tile of filters lies within a group, which has channels of its own
        group, f = s[out].split(f, factor=of.shared_filters)
        parts = [group]
    axes = [config[name].apply(s, out, axis) for name, axis in zip(_RESULT_KNOBS, (f, y, x), strict=True)]
    blocks, vthreads, threads, inner = zip(*axes, strict=True)
    s[out].reorder(n, *parts, *blocks, *vthreads, *threads, *inner)
    planes = s[out].fuse(n, *parts, blocks[0])
    bind_grid(s, out, (planes, *blocks[1:]), of.shape[0] * of.filters)
    bind_all(s, out, vthreads, ("vthread",) * 3)
    bind_all(s, out, threads, THREAD_TAGS)
    set_unrolling(s, out, planes, config["auto_unroll_max_step"].val, config["unroll_explicit"].val)
    return threads[-1]


def default_choices(of: Conv2dLayer, machine: Machine) -> dict[str, Any]:
    """Blocks of 16 × 4 × 8 threads, or nearly as many, each with a few filters; a few channels at a time."""
    return {
        "tile_f": [1, 16, 2],
        "tile_y": [1, 4, 1],
        "tile_x": [1, 8, 1],
        "tile_rc": [1, 4],
        "tile_ry": [1, of.kernel[0]],
        "tile_rx": [1, of.kernel[1]],
        "auto_unroll_max_step": 512,
    }


ON_GPU: ScheduleStrategy[Conv2dLayer] = ScheduleStrategy(
    space, schedule, default_choices, Needs(types=DTYPES, layouts=("NCHW",)), model=SharedModel(lead=None)
)
