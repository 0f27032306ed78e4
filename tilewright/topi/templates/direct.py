"""Convolutions of few channels a sum on a GPU: depthwise and grouped ones, straight from memory into registers.

A thread computes a tile of results from a window of the input that it holds in registers, so that each input is
loaded once per thread. Inputs are loaded in aligned chunks of up to 16 bytes: of neighbouring columns in the layout
NCHW, where a chunk is wholly in the image or wholly in its border, and of neighbouring channels in NHWC. 16-bit floats
are converted once, and summed in float32.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from math import gcd, prod
from typing import Any

from ...core.target import Target
from ...schedule.handle import ScheduleHandle
from ...tensor.axis import IterVar
from ...tensor.tensor import Tensor
from ...tune.space.config import Config
from ...tune.space.knobs import split_knob, value_knob
from ...tune.space.space import Space
from .declarations import sums_of
from .direct_choice import usual
from .gpu import Gpu
from .images import Images
from .schedule_helpers import GRID_LIMIT, bind_all, fetch_together
from .template import ScheduleStrategy
from .tensors import Tensors
from .window_cost import (
    ACCESS,
    BYTES,
    REGISTERS,
    SHARED_BYTES,
    STEPS,
    Tile,
    Weights,
    even_threads,
    own_channels,
    own_filters,
    weights_of,
    widest,
)
from .workload import INTEGERS

_CHANNELS = 32
_THREADS = (1, 2, 3, 4, 5, 6, 7, 8, 12, 14, 16, 24, 28, 32, 48, 56, 64, 96, 128, 192, 256)
_INNER = (1, 2, 3, 4, 5, 6, 7, 8, 14, 16)
_LARGEST_BLOCK = 512
_PLANE_BYTES, _ROW_BYTES = 2048, 128
_TAGS = ("threadIdx.z", "threadIdx.y", "threadIdx.x")
_TILES = ("tile_c", "tile_y", "tile_x")


def space(of: Images) -> Space:
    """The knobs.

    `tile_c`: groups of channels (in NHWC filters), over blocks, threads and a thread's own; `tile_f`: filters of a
    group, over blocks and a thread's own (in NHWC all of them are of `tile_c`); `tile_y`, `tile_x`: rows and columns,
    over blocks, threads and a thread's own. `chunk`: neighbours that are loaded at once. `window`: a thread holds all
    rows that its results need, or for each of its rows one row of the window at a time. `planes`: where windows are
    loaded from; a block may fetch whole small images to shared memory first.
    """
    last = of.layout == "NHWC"
    rows, columns = of.places
    channels = of.filters if last else of.groups
    threads = {i: sorted({*_THREADS, *even_threads(channels, i)}) for i in own_channels(of)}
    mine = [[-1, t, i] for i in threads for t in threads[i] if t * i <= channels]
    knobs = [
        split_knob("tile_c", channels, "candidate", candidate=mine),
        split_knob("tile_f", of.filters // of.groups, "candidate", candidate=[[-1, f] for f in own_filters(of)]),
        split_knob("tile_y", rows, "candidate", candidate=_tiles(rows)),
        split_knob("tile_x", columns, "candidate", candidate=_tiles(columns)),
        value_knob("chunk", [c for c in (1, 2, 4, 8) if c <= widest(of)]),
        value_knob("window", ["all", "row"]),
        value_knob("planes", ["memory", "shared"] if _small(of) else ["memory"]),
    ]

    def aligned(choices: Mapping[str, Any]) -> bool:
        chunk = choices["chunk"].val
        along = choices["tile_c"].size[-1] if last else choices["tile_x"].size[-1] * of.stride[1]
        return bool(along % chunk == 0)

    def small(choices: Mapping[str, Any]) -> bool:
        tile = tile_of(choices)
        return tile.steps(of) <= STEPS and tile.registers(of) <= REGISTERS

    def block(choices: Mapping[str, Any]) -> bool:
        return prod(int(choices[name].size[-2]) for name in _TILES) <= _LARGEST_BLOCK

    def whole(choices: Mapping[str, Any]) -> bool:
        covered = all(prod(choices[n].size[1:]) >= e for n, e in zip(("tile_y", "tile_x"), of.places, strict=True))
        return choices["planes"].val == "memory" or bool(covered)

    return (
        Space(knobs)
        .where(aligned, ("tile_c", "tile_x", "chunk"), "a thread's tile of whole chunks")
        .where(small, (*_TILES, "tile_f", "chunk", "window"), f"{REGISTERS} registers and {STEPS} products per thread")
        .where(whole, ("tile_y", "tile_x", "planes"), "whole planes in a block that shares them")
        .where(block, _TILES, f"at most {_LARGEST_BLOCK} threads per block")
    )


def _small(of: Images) -> bool:
    """Whether blocks may fetch whole planes: rows too short for wide loads, and planes that are small."""
    alone = of.layout == "NCHW" and of.groups == of.shape[1]
    return alone and prod(of.shape[2:]) * BYTES[of.dtype] <= _PLANE_BYTES and of.shape[3] * BYTES[of.dtype] < _ROW_BYTES


def _tiles(extent: int) -> list[list[int]]:
    threads = sorted({*_THREADS, *(-(-extent // i) for i in _INNER if -(-extent // i) <= _THREADS[-1])})
    return [[-1, t, i] for t in threads for i in _INNER if t * i < extent + i and i < 2 * extent] or [[-1, 1, 1]]


def tile_of(choices: Mapping[str, Any]) -> Tile:
    """Return what a configuration has a thread compute."""
    channels, filters, rows, columns = (choices[name].size[-1] for name in ("tile_c", "tile_f", "tile_y", "tile_x"))
    return Tile(channels, filters, rows, columns, choices["chunk"].val, choices["window"].val == "all")


def declare(of: Images, data: Tensor, weights: Tensor, config: Config) -> Tensor:
    """Declare the sums over rows in chunks."""
    return sums_of(of, data, weights, config["chunk"].val, weights_of(of, tile_of(config)) is Weights.SHARED)


def schedule(of: Images, config: Config, s: ScheduleHandle, t: Tensors) -> None:
    """Tile the results over blocks and threads; windows and sums in registers."""
    padded, out = t.padded, t.out
    weights = t.sums.op.input_tensors[1]
    planes = s.cache_read(t.data, "shared", [padded]) if config["planes"].val == "shared" else None
    sums = t.in_registers(s)
    s[padded].set_scope("local")
    block, thread, vector = _tile(of, config, s, out)
    s[sums].compute_at(s[out], thread)
    *channels, ry, rx = sums.op.reduce_axis
    s[sums].reorder(*channels, ry, rx, *sums.op.axis)
    if channels:  # several windows are under way at once
        channels = list(s[sums].split(channels[0], factor=_channels_at_once(of, config)))
        s[sums].unroll(channels[1])
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
    if planes is not None:
        s[planes].compute_at(s[out], block)
        counts = [config[name].size[-2] for name in _TILES]
        fetch_together(s, planes, list(zip(_TAGS, counts, strict=True)), _together(of, config))
    held = weights_of(of, tile_of(config))
    if held is Weights.SHARED:
        whole = len(channels) > 0 or prod(of.kernel) * prod(config["tile_c"].size[1:]) * 4 <= SHARED_BYTES
        _share_weights(of, config, s, (weights, sums), (out, block) if whole else (sums, ry), rx)
    elif held is Weights.REGISTERS:
        mine = s.cache_read(weights, "local", [sums])
        s[mine].compute_at(s[out], thread)
        at_once = gcd(config["tile_c"].size[-1] * prod(of.kernel), ACCESS // BYTES[of.dtype])
        if at_once > 1:
            s[mine].vectorize(s[mine].split(s[mine].fuse(*mine.op.axis), factor=at_once)[1])
    for extra in t.extras:
        if len(extra.shape) == 1 and held is not Weights.SHARED:  # early, as the sums do not wait for it
            s[s.cache_read(extra, "local", [out])].compute_at(s[out], thread)
    width = gcd(config["tile_c" if of.layout == "NHWC" else "tile_x"].size[-1], _storable(of))
    if width > 1:
        s[out].vectorize(s[out].split(vector, factor=width)[1])


def _together(of: Images, config: Config) -> int:
    """How many neighbours of whole planes can be fetched at once."""
    elements = prod(config["tile_c"].size[1:]) * prod(of.shape[2:])
    return gcd(elements, ACCESS // BYTES[of.dtype]) if of.groups % prod(config["tile_c"].size[1:]) == 0 else 1


def _channels_at_once(of: Images, config: Config) -> int:
    """How many channels of a sum are written out one after another."""
    steps = tile_of(config).steps(of)
    return next(n for n in (4, 2, 1) if of.shape[1] // of.groups % n == 0 and (n == 1 or n * steps <= STEPS // 3))


def _share_weights(
    of: Images,
    config: Config,
    s: ScheduleHandle,
    tensors: tuple[Tensor, Tensor],
    place: tuple[Tensor, IterVar],
    at: IterVar,
) -> None:
    """Have a block turn its weights in shared memory, from where a thread reads those of its filters at once.

    They are turned at `place`, all of them or a row of the window at a time.
    """
    turned, sums = tensors
    mine = s.cache_read(turned, "local", [sums])
    s[turned].set_scope("shared")
    s[turned].compute_at(s[place[0]], place[1])
    names = ("tile_y", "tile_x", "tile_c") if of.layout == "NHWC" else _TILES
    fetch_together(s, turned, list(zip(_TAGS, (config[n].size[-2] for n in names), strict=True)), order=(3, 0, 1, 2))
    s[mine].compute_at(s[sums], at)
    width = gcd(config["tile_c" if of.layout == "NHWC" else "tile_f"].size[-1], 4)
    if width > 1:
        s[mine].vectorize(s[mine].split(mine.op.axis[3], factor=width)[1])


def _storable(of: Images) -> int:
    """How many neighbours of the result can be stored at once."""
    extent = of.filters if of.layout == "NHWC" else of.places[1]
    return gcd(extent, 16 // BYTES[of.dtype])


def _tile(of: Images, config: Config, s: ScheduleHandle, out: Tensor) -> tuple[IterVar, IterVar, IterVar]:
    """Split and bind the loops over results; returns the innermost ones of blocks and threads, and over neighbours."""
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
    few = of.shape[0] * of.filters <= GRID_LIMIT
    bind_all(s, out, (planes, tiles), ("blockIdx.y", "blockIdx.x") if few else ("blockIdx.x", "blockIdx.y"))
    bind_all(s, out, threads, _TAGS)
    return tiles, threads[-1], inside[-1]


def covers(of: Images) -> bool:
    """Channels last, and sums over few channels: with many, tiles in shared memory are worth more than windows."""
    if getattr(of, "weights", "OIHW") != "OIHW" or of.dtype in INTEGERS:
        return False
    return of.layout == "NHWC" or of.shape[1] // of.groups <= _CHANNELS


def _on(target: Target) -> ScheduleStrategy[Any]:
    """The strategy, whose first configurations are those for the GPU of a target."""
    return replace(ON_GPU, usual=partial(usual, gpu=Gpu.of(target)))


ON_GPU: ScheduleStrategy[Any] = ScheduleStrategy(space, schedule, usual, declare, covers, tailored=_on)
