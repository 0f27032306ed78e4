"""The depthwise convolution on a GPU: planes and their tiles, what shared memory holds, how the sum runs."""

from __future__ import annotations

from typing import Any

from ...schedule.handle import create_schedule
from ...tune.space.config import Config
from ...tune.space.knobs import annotate_knob, reorder_knob, value_knob
from ...tune.space.space import Space
from ...tune.task import Program
from .convolutions import Depthwise
from .parts import GRID_LIMIT, bind_all, fetch_together, tile_knob, written_out
from .template import Way

_TILES = ("tile_c", "tile_y", "tile_x")


def space(of: Depthwise) -> Space:
    """The knobs. A block has several channels where images are too small to fill it."""
    return Space(
        [
            tile_knob("tile_c", of.out_shape[1], 2),
            tile_knob("tile_y", of.out_shape[2], 4),
            tile_knob("tile_x", of.out_shape[3], 4),
            reorder_knob("order", [0, 1], "all"),
            annotate_knob("unroll", [0, 1], "try_unroll"),
            value_knob("shared", ["none", "data", "both"]),
            value_knob("auto_unroll_max_step", [0, 64, 512]),
            value_knob("unroll_explicit", [0, 1]),
        ]
    )


def schedule(of: Depthwise, config: Config) -> Program:
    """Sums in registers; tiles of the images, and weights, in shared memory as the configuration says."""
    data, weights, out = of.declare()
    s = create_schedule(out.op)
    padded = next(t for t in out.op.input_tensors if t.op is not weights.op)
    s[padded].compute_inline()
    sums = s.cache_write(out, "local")
    wanted = {"none": [], "data": [padded], "both": [padded, weights]}[config["shared"].val]
    caches = [s.cache_read(t, "shared", [sums]) for t in wanted]

    n, c, y, x = out.op.axis
    c_block, c_thread = config["tile_c"].apply(s, out, c)
    rows, columns = (config[name].apply(s, out, axis) for name, axis in (("tile_y", y), ("tile_x", x)))
    (y_block, y_vthread, y_thread, yi), (x_block, x_vthread, x_thread, xi) = rows, columns
    s[out].reorder(n, c_block, y_block, x_block, y_vthread, x_vthread, c_thread, y_thread, x_thread, yi, xi)
    planes = s[out].fuse(n, c_block)
    letters = "zyx" if of.shape[0] * of.out_shape[1] <= GRID_LIMIT else "xyz"
    bind_all(s, out, (planes, y_block, x_block), [f"blockIdx.{letter}" for letter in letters])
    bind_all(s, out, (y_vthread, x_vthread), ("vthread",) * 2)
    bind_all(s, out, (c_thread, y_thread, x_thread), ("threadIdx.z", "threadIdx.y", "threadIdx.x"))
    written_out(s, out, planes, config["auto_unroll_max_step"].val, config["unroll_explicit"].val)

    s[sums].compute_at(s[out], x_thread)
    loops = config["order"].apply(s, sums, list(sums.op.reduce_axis))
    s[sums].reorder(*loops, *sums.op.axis)
    config["unroll"].apply(s, sums, loops)
    for cache in caches:
        s[cache].compute_at(s[out], x_block)
        counts = [config["tile_c"].size[1], config["tile_y"].size[2], config["tile_x"].size[2]]
        fetch_together(s, cache, list(zip(("threadIdx.z", "threadIdx.y", "threadIdx.x"), counts, strict=True)))
    return s, [data, weights, out]


def usual(of: Depthwise) -> dict[str, Any]:
    """A plane a block, in tiles of 8 × 16 results, one a thread, straight from memory."""
    return {"tile_c": [1], "tile_y": [1, 8, 1], "tile_x": [1, 16, 1], "auto_unroll_max_step": 64}


ON_GPU: Way[Depthwise] = Way(space, schedule, usual)
