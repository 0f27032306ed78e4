"""Convolutions of few channels a sum on a GPU: depthwise and grouped ones, straight from memory into registers.

A thread computes a tile of results from a window of the input that it holds in registers, so that each input is
loaded once a thread. Rows are loaded in aligned chunks of up to 16 bytes: of neighbouring columns in the layout NCHW,
where a chunk is wholly in the image or wholly in its border, and of neighbouring channels in NHWC. 16-bit floats are
converted once, and summed in float32.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd, prod
from typing import Any

from ...schedule.handle import ScheduleHandle
from ...tensor.axis import IterVar
from ...tensor.tensor import Tensor
from ...tune.space.config import Config
from ...tune.space.knobs import split_knob, value_knob
from ...tune.space.space import Space
from .declarations import sums_of
from .direct_choice import usual
from .images import Images
from .schedule_helpers import GRID_LIMIT, bind_all
from .template import ScheduleStrategy
from .tensors import Tensors
from .window_cost import BYTES, REGISTERS, own_filters_of, registers, steps, widest

_STEPS = 4096
"""Products that a thread's code may write out: beyond it, compiling takes seconds."""
_CHANNELS = 32
_TAGS = ("threadIdx.z", "threadIdx.y", "threadIdx.x")


def space(of: Images) -> Space:
    """The knobs.

    `tile_c`: channels (those that a group has of its own are computed together by a thread), over blocks, threads and
    a thread's own; `tile_f`: filters of a group, over blocks and a thread's own (in NHWC all filters are of `tile_c`);
    `tile_y`, `tile_x`: rows and columns likewise. `chunk`: neighbours that are loaded at once.
    `window`: a thread holds all rows that its results need, or one row of the window at a time.
    """
    last = of.layout == "NHWC"
    rows, columns = of.places
    inner_y, inner_x = (1, 2, 3, 4, 5, 6, 7, 8, 14), (1, 2, 3, 4, 5, 6, 7, 8, 14, 16)
    channels = of.filters if last else of.groups
    per_group = of.filters // of.groups
    own = [i for i in (1, 2, 4, 8) if per_group in (1, i) or per_group % i == 0] if last else [1]
    fits = [[-1, t, i] for t in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128) for i in own if t * i <= channels]
    knobs = [
        split_knob("tile_c", channels, "candidate", candidate=[f for f in fits if not last or channels % f[2] == 0]),
        split_knob("tile_f", per_group, "candidate", candidate=[[-1, f] for f in own_filters_of(of)]),
        split_knob("tile_y", rows, "candidate", candidate=_tiles(rows, inner_y)),
        split_knob("tile_x", columns, "candidate", candidate=_tiles(columns, inner_x)),
        value_knob("chunk", [c for c in (1, 2, 4, 8) if c <= widest(of)]),
        value_knob("window", ["all", "row"]),
    ]

    tiles = ("tile_c", "tile_y", "tile_x")

    def aligned(choices: Mapping[str, Any]) -> bool:
        chunk = choices["chunk"].val
        if last:
            return bool(choices["tile_c"].size[-1] % chunk == 0)
        return bool(choices["tile_x"].size[-1] * of.stride[1] % chunk == 0)

    def small(choices: Mapping[str, Any]) -> bool:
        sizes = (
            choices["tile_c"].size[-1],
            choices["tile_f"].size[-1],
            choices["tile_y"].size[-1],
            choices["tile_x"].size[-1],
        )
        whole = choices["window"].val == "all"
        return steps(of, *sizes, whole) <= _STEPS and registers(of, *sizes, choices["chunk"].val, whole) <= REGISTERS

    def block(choices: Mapping[str, Any]) -> bool:
        return 1 <= prod(int(choices[name].size[-2]) for name in tiles) <= 512

    return (
        Space(knobs)
        .where(aligned, ("tile_c", "tile_x", "chunk"), "a thread's tile of whole chunks")
        .where(small, (*tiles, "tile_f", "chunk", "window"), f"{REGISTERS} registers and {_STEPS} products a thread")
        .where(block, tiles, "at most 512 threads a block")
    )


def _tiles(extent: int, inner: tuple[int, ...]) -> list[list[int]]:
    threads = sorted({1, 2, 4, 8, 16, 32, 64, 128, 256, *(-(-extent // i) for i in inner if -(-extent // i) <= 256)})
    found = [[-1, t, i] for t in threads for i in inner if t * i < extent + i]
    return found or [[-1, 1, 1]]


def declare(of: Images, data: Tensor, weights: Tensor, config: Config) -> Tensor:
    """Declare the sums over rows in chunks."""
    return sums_of(of, data, weights, config["chunk"].val)


def schedule(of: Images, config: Config, s: ScheduleHandle, t: Tensors) -> None:
    """Tile the results over blocks and threads; windows and sums in registers."""
    padded, out = t.padded, t.out
    sums = t.in_registers(s)
    s[padded].set_scope("local")
    thread, vector = _tile(of, config, s, out)
    s[sums].compute_at(s[out], thread)
    *channels, ry, rx = sums.op.reduce_axis
    inner = list(sums.op.axis)
    s[sums].reorder(*channels, ry, rx, *inner)
    if config["window"].val == "row":
        s[padded].compute_at(s[sums], ry)
    elif channels:
        s[padded].compute_at(s[sums], channels[-1])
    else:
        s[padded].compute_at(s[out], thread)
    chunk = config["chunk"].val
    if chunk > 1:
        together = padded.op.axis[-1]
        if of.layout == "NHWC":
            together = s[padded].split(together, factor=chunk)[1]
        s[padded].vectorize(together)
    width = gcd(config["tile_c" if of.layout == "NHWC" else "tile_x"].size[-1], _storable(of))
    if width > 1:
        s[out].vectorize(s[out].split(vector, factor=width)[1])


def _storable(of: Images) -> int:
    """How many neighbours of the result can be stored at once."""
    extent = of.filters if of.layout == "NHWC" else of.places[1]
    return gcd(extent, 16 // BYTES[of.dtype])


def _tile(of: Images, config: Config, s: ScheduleHandle, out: Tensor) -> tuple[IterVar, IterVar]:
    """Split and bind the loops over results; returns the innermost one of the threads, and that over neighbours."""
    last = of.layout == "NHWC"
    n, y, x, f = out.op.axis if last else (out.op.axis[0], *out.op.axis[2:], out.op.axis[1])
    outer, own = [], []
    if not last and of.filters > of.groups:  # a group's filters see the same inputs: one thread computes several
        f, of_group = s[out].split(f, factor=of.filters // of.groups)
        fo, fi = config["tile_f"].apply(s, out, of_group)
        outer, own = [fo], [fi]
    c_block, c_thread, ci = config["tile_c"].apply(s, out, f)
    y_block, y_thread, yi = config["tile_y"].apply(s, out, y)
    x_block, x_thread, xi = config["tile_x"].apply(s, out, x)
    threads = (y_thread, x_thread, c_thread) if last else (c_thread, y_thread, x_thread)
    inside = (yi, xi, ci) if last else (ci, *own, yi, xi)
    s[out].reorder(n, c_block, *outer, y_block, x_block, *threads, *inside)
    planes, tiles = s[out].fuse(n, c_block, *outer), s[out].fuse(y_block, x_block)
    blocks = of.shape[0] * of.filters
    bind_all(
        s, out, (planes, tiles), ("blockIdx.y", "blockIdx.x") if blocks <= GRID_LIMIT else ("blockIdx.x", "blockIdx.y")
    )
    bind_all(s, out, threads, _TAGS)
    return threads[-1], inside[-1]


def covers(of: Images) -> bool:
    """Channels last, and sums over few channels: with many, tiles in shared memory are worth more than windows."""
    return of.layout == "NHWC" or of.shape[1] // of.groups <= _CHANNELS


ON_GPU: ScheduleStrategy[Any] = ScheduleStrategy(space, schedule, usual, declare, covers)
