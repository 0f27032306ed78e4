"""The depthwise convolution on a GPU: planes and their tiles, the source of a thread's window, the order of the sum."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from ...schedule.handle import ScheduleHandle
from ...tensor.tensor import Tensor
from ...tune.model.machine import Machine
from ...tune.space.config import Config
from ...tune.space.knobs import reorder_knob, value_knob
from ...tune.space.space import Space
from .convolutions import Depthwise
from .needs import Needs
from .schedule_helpers import (
    GPU,
    THREAD_TAGS,
    THREADS_Z,
    bind_all,
    bind_grid,
    fetch_together,
    store_together,
    tile_knob,
    written_out,
)
from .strategy import ScheduleStrategy, SharedModel
from .tensors import Tensors

_TILES = ("tile_c", "tile_y", "tile_x")
_REGISTERS = GPU.registers_per_thread - 31
"""That a thread can fill with inputs and sums: some are for addresses."""
_THREADS, _BLOCKS = 128, 256
"""A block of usual size, and how many of them keep a large GPU busy."""
_BUSY = _BLOCKS * _THREADS // 2


def space(of: Depthwise) -> Space:
    """The knobs. A block has several channels if images are too small to fill it.

    `shared`: which tiles threads share, of the input as it is, of the input with its border, of that and the weights.
    `window`: a thread reads each input for each product ("none"), a row of them at a time, or all that its results need
    before it begins. Then every input is read once by each thread, and all reads are under way at once.
    """
    knobs = [
        tile_knob("tile_c", of.out_shape[1], 3),
        tile_knob("tile_y", of.out_shape[2], 3),
        tile_knob("tile_x", of.out_shape[3], 4),
        reorder_knob("order", [0, 1], "all"),
        value_knob("shared", ["none", "input", "data", "both"]),
        value_knob("window", ["none", "row", "all"]),
        value_knob("auto_unroll_max_step", [0, 64, 512]),
    ]

    def fits(choices: Mapping[str, Any]) -> bool:
        channels, rows, columns = (choices[name].size for name in _TILES)
        mine = channels[-1], rows[-1], columns[1] * columns[-1]  # virtual threads are copies in each thread
        return choices["window"].val != "all" or _registers(of, *mine) <= _REGISTERS

    return Space(knobs).where(fits, (*_TILES, "window"), f"{_REGISTERS} registers for a thread's window and sums")


def _registers(of: Depthwise, channels: int, rows: int, columns: int) -> int:
    """Registers, of four bytes, for the sums of a number of results and for their inputs."""
    values = channels * rows * columns + -(-channels // of.multiplier) * prod(of.seen(rows, columns))
    return values * np.dtype(of.dtype).itemsize // 4


def schedule(of: Depthwise, config: Config, s: ScheduleHandle, t: Tensors) -> None:
    """Sums in registers; windows there too, tiles of images and weights in shared memory, as the configuration says."""
    data, weights, padded, out = t.data, t.weights, t.padded, t.out
    shared = config["shared"].val
    planes = s.cache_read(data, "shared", [padded]) if shared == "input" else None
    s[padded].compute_inline()
    sums = t.in_registers(s)
    tiles = [s.cache_read(t, "shared", [sums]) for t in {"data": [padded], "both": [padded, weights]}.get(shared, [])]
    window = s.cache_read(tiles[0] if tiles else padded, "local", [sums]) if config["window"].val != "none" else None
    block, thread = _tile(of, s, config, out)

    s[sums].compute_at(s[out], thread)
    loops = config["order"].apply(s, sums, list(sums.op.reduce_axis))
    s[sums].reorder(*loops, *sums.op.axis)
    if window is not None:
        whole = config["window"].val == "all"
        s[window].compute_at(*((s[out], thread) if whole else (s[sums], loops[0])))
    threads = list(zip(THREAD_TAGS, (config[name].size[-2] for name in _TILES), strict=True))
    for tile in [planes] if planes is not None else tiles:
        s[tile].compute_at(s[out], block)
        fetch_together(s, tile, threads, _contiguous(of, config) if tile is planes else 1)


def _contiguous(of: Depthwise, config: Config) -> int:
    """How many neighbours of the input can be fetched at once: four if a block has all of its channels' images."""
    channels, rows, columns = (config[name].size for name in _TILES)
    images, rest = divmod(prod(channels[1:]), of.multiplier)
    whole = prod(rows[1:]) == of.out_shape[2] and prod(columns[1:]) == of.out_shape[3]
    return 4 if whole and not rest and images * prod(of.shape[2:]) % 4 == 0 else 1


def _tile(of: Depthwise, s: ScheduleHandle, config: Config, out: Tensor) -> tuple[Any, Any]:
    """Split and bind the loops over results; returns the innermost one of the blocks and of the threads."""
    n, c, y, x = out.op.axis
    c_block, c_thread, ci = config["tile_c"].apply(s, out, c)
    y_block, y_thread, yi = config["tile_y"].apply(s, out, y)
    x_block, x_vthread, x_thread, xi = config["tile_x"].apply(s, out, x)
    s[out].reorder(n, c_block, y_block, x_block, x_vthread, c_thread, y_thread, x_thread, ci, yi, xi)
    planes = s[out].fuse(n, c_block)
    bind_grid(s, out, (planes, y_block, x_block), of.shape[0] * of.out_shape[1])
    bind_all(s, out, (x_vthread,), ("vthread",))
    bind_all(s, out, (c_thread, y_thread, x_thread), THREAD_TAGS)
    store_together(s, out, xi, config["tile_x"].size[3], of.out_shape[3])
    written_out(s, out, planes, config["auto_unroll_max_step"].val, explicit=0)
    return x_block, x_thread


def usual(of: Depthwise, machine: Machine) -> dict[str, Any]:
    """A thread for each column, or each four if images are one row high; small images share a block.

    A thread has as many rows as leave enough threads, and as its registers hold with all of their window.
    """
    images, height, width = of.shape[0] * of.shape[1], *of.out_shape[2:]

    def suits(rows: int, columns: int) -> bool:
        threads = images * -(-height // rows) * -(-width // columns)
        return threads >= _BUSY and _registers(of, of.multiplier, rows, columns) <= _REGISTERS - 64

    columns = 4 if height == 1 and suits(1, 4) else 1
    rows = next((n for n in (8, 4, 2) if n <= height and suits(n, columns)), 1)
    across, down = min(-(-width // columns), 128), min(-(-height // rows), 4)
    return {
        "tile_c": [max(1, min(_THREADS // (across * down), images // _BLOCKS, THREADS_Z)), of.multiplier],
        "tile_y": [down, rows],
        "tile_x": [1, across, columns],
        "window": "all" if _registers(of, of.multiplier, rows, columns) <= _REGISTERS else "none",
        "auto_unroll_max_step": 64,
    }


ON_GPU: ScheduleStrategy[Depthwise] = ScheduleStrategy(
    space, schedule, usual, Needs(layouts=("NCHW",)), model=SharedModel()
)
