"""Transposed depthwise convolutions on a GPU: a thread computes a tile of whole strides from a window in registers.

Each result of the tile has a known phase, so its taps are constants, and missing taps of a phase cost nothing. A thread
first loads the input of its tile in vectors, and stores neighbours in vectors.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd, prod
from typing import Any

from ...expr.convert import cast
from ...expr.operators import all_of
from ...schedule.handle import ScheduleHandle
from ...tensor.axis import IterVar, reduce_axis
from ...tensor.tensor import Tensor, compute
from ...tune.model.machine import Machine
from ...tune.space.config import Config
from ...tune.space.knobs import split_knob, value_knob
from ...tune.space.space import Space
from .declarations import image_tensor, padded_view, sum_of_products
from .layouts import from_layout
from .needs import Needs
from .schedule_helpers import (
    THREAD_TAGS,
    THREADS_Z,
    bind_all,
    bind_grid,
    fetch_together,
    hold,
    split_all,
    vectorize,
    widest_vector,
)
from .strategy import ScheduleStrategy
from .tensors import Tensors
from .thread_tiles import BYTES
from .transposed import Transposed, border_of, has_phases, tap_and_place, taps_of
from .workload import DTYPES, sum_dtype

_TILE_KNOBS = ("tile_c", "tile_y", "tile_x")
_THREADS = (1, 2, 4, 7, 8, 14, 16, 28, 32, 56, 64, 128)
_MOST_PRODUCTS = 1024
"""The most products per tile."""
_MOST_REGISTERS = 160
"""The most registers for a tile's sums and window."""
_BLOCK_THREADS = 256
_LEAST_MANY_TAPS = 3
"""The least number of taps per result and dimension that counts as many."""
_MOST_RESULTS = 64
"""The most results of a thread if its results have many taps."""
_COMPACT_BLOCK_CHANNELS = 32
"""The most channels of a compact block."""


def computes(of: Transposed, machine: Any) -> bool:
    """Return whether channels are independent, results have phases, and a thread's smallest tile is small enough.

    In NCHW, rows of an odd number of columns are loaded element by element. For 7 × 7 images, the general strategy is
    then faster.
    """
    alone = of.groups == of.shape[1] == of.filters and (of.layout == "NHWC" or of.shape[3] % 2 == 0)
    return alone and max(of.stride) > 1 and has_phases(of) and prod(taps_of(of)) * prod(of.stride) <= _MOST_PRODUCTS


def space(of: Transposed) -> Space:
    """The knobs. `tile_c`, `tile_y`, `tile_x`: channels, rows and columns over blocks, threads and a thread's own.

    `chunk`: neighbours of the input per load. `window`: whether a thread first loads all elements of its tile, or only
    the elements of a row of taps.
    """
    (sy, sx), (rows, columns), last = of.stride, of.places, of.layout == "NHWC"
    widths = [n for n in (1, 2, 4, 8) if n <= widest_vector(of.dtype)]
    channels = [n for n in widths if of.filters % n == 0] if last else [1]
    chunks = [n for n in widths if last or of.shape[3] % n == 0]

    def small(choices: Mapping[str, Any]) -> bool:
        own = [int(choices[name].size[-1]) for name in _TILE_KNOBS]
        held = prod(own) + own[0] * prod(_window(of, own[1], own[2], choices["chunk"].val))
        return (prod(own) * prod(taps_of(of)) <= _MOST_PRODUCTS and held <= _MOST_REGISTERS) or own[1:] == [sy, sx]

    def aligned(choices: Mapping[str, Any]) -> bool:
        chunk = choices["chunk"].val
        return bool(choices["tile_c"].size[-1] == chunk if last else choices["tile_x"].size[-1] // sx % chunk == 0)

    def block(choices: Mapping[str, Any]) -> bool:
        threads = [int(choices[name].size[-2]) for name in _TILE_KNOBS]
        return prod(threads) <= 2 * _BLOCK_THREADS and threads[0 if not last else 1] <= THREADS_Z

    return (
        Space(
            [
                split_knob("tile_c", of.filters, "candidate", candidate=_splits(of.filters, channels)),
                split_knob("tile_y", rows, "candidate", candidate=_splits(rows, [sy * n for n in (1, 2, 4)])),
                split_knob("tile_x", columns, "candidate", candidate=_splits(columns, [sx * n for n in (1, 2, 4, 8)])),
                value_knob("chunk", chunks),
                value_knob("window", ["all", "row"]),
            ]
        )
        .where(aligned, ("tile_c", "tile_x", "chunk"), "a thread's tile of whole chunks")
        .where(small, (*_TILE_KNOBS, "chunk"), f"{_MOST_REGISTERS} registers and {_MOST_PRODUCTS} products per thread")
        .where(block, _TILE_KNOBS, f"at most {2 * _BLOCK_THREADS} threads per block")
    )


def _splits(extent: int, owns: list[int]) -> list[list[int]]:
    made = []
    for own in owns:
        count = -(-extent // own)
        threads = sorted({*_THREADS, *(n for n in range(1, _THREADS[-1] + 1) if count % n == 0)})
        made += [[-1, t, own] for t in threads if t <= count and own < 2 * extent]
    return made or [[-1, 1, owns[0]]]


def _window(of: Transposed, rows: int, columns: int, chunk: int) -> tuple[int, int]:
    """Return the rows and columns of the input that a tile reads, in whole chunks."""
    high, wide = (
        -(-own // step) + (taps - 1) * apart + (first % step > 0)
        for own, step, taps, apart, first in zip(
            (rows, columns), of.stride, taps_of(of), of.dilation, of.padding, strict=False
        )
    )
    return high, wide if of.layout == "NHWC" else (-(-(wide - 1) // chunk) + 1) * chunk


def default_choices(of: Transposed, machine: Machine) -> dict[str, Any]:
    """Choose one vector of results per row and thread, one stride of rows, and blocks of 256 threads.

    With channels last, blocks of 16-bit elements are smaller, and a thread has more results if each sums many products.
    """
    (sy, sx), (rows, columns), width = of.stride, of.places, widest_vector(of.dtype)
    if of.layout == "NHWC":
        many = min(taps_of(of)) >= _LEAST_MANY_TAPS
        if many or BYTES[of.dtype] == 2:
            found = _near(of, max(1, 4 // BYTES[of.dtype]), 2, 4) if many else _near(of, 4, 1, 2)
            if prod(found[name][-1] for name in _TILE_KNOBS) <= _MOST_RESULTS:
                return {**found, "chunk": found["tile_c"][-1]}
        own = next(n for n in (min(width, 4), 2, 1) if of.filters % n == 0)  # more would take too many registers
        channels = min(-(-of.filters // own), 64)
        across = _even(-(-columns // (2 * sx)), _BLOCK_THREADS // channels)
        down = _even(-(-rows // sy), min(_BLOCK_THREADS // (channels * across), THREADS_Z))
        return {"tile_c": [channels, own], "tile_y": [down, sy], "tile_x": [across, 2 * sx], "chunk": own}
    own = max(sx, width // sx * sx)
    chunk = max(n for n in (1, 2, 4, 8) if own // sx % n == 0 and of.shape[3] % n == 0 and n <= width)
    across = _even(-(-columns // own), _THREADS[-1])
    down = _even(-(-rows // sy), _BLOCK_THREADS // across)
    planes = max(1, min(of.filters, _BLOCK_THREADS // (across * down), THREADS_Z))
    return {"tile_c": [planes, 1], "tile_y": [down, sy], "tile_x": [across, own], "chunk": chunk}


def _near(of: Transposed, own: int, steps_down: int, steps_across: int) -> dict[str, Any]:
    """Return the tiles of a compact block of up to 32 channels, in which each thread has strides of its own."""
    (sy, sx), (rows, columns) = of.stride, of.places
    own = next(n for n in (own, 2, 1) if n <= own and of.filters % n == 0)
    channels = _even(of.filters // own, _COMPACT_BLOCK_CHANNELS)
    across, down = _even(-(-columns // (steps_across * sx)), 4 // steps_down), _even(-(-rows // (steps_down * sy)), 2)
    return {"tile_c": [channels, own], "tile_y": [down, steps_down * sy], "tile_x": [across, steps_across * sx]}


def _even(count: int, most: int) -> int:
    """Return the number of tiles per block along a dimension of `count` tiles: a divisor if one exceeds half of
    `most`."""
    most = max(1, min(count, most))
    return next((n for n in range(most, most // 2, -1) if count % n == 0), most)


def declare(of: Transposed, data: Tensor, weights: Tensor, config: Config) -> Tensor:
    """Declare the sums for whole tiles, over the padded input in chunks. A phase omits taps that it does not have."""
    rows, columns = (
        -(-extent // prod(config[name].size[1:])) * prod(config[name].size[1:])
        for extent, name in zip(of.places, _TILE_KNOBS[1:], strict=True)
    )
    kind, taps = sum_dtype(of.dtype), taps_of(of)
    (top, bottom), (left, right) = border_of(of, 0, rows), border_of(of, 1, columns)
    chunk = config["chunk"].val if of.layout == "NCHW" else 0
    seen = padded_view(of, data, (top, left, bottom, right), kind, chunk, "seen")
    kernels = _transposed_weights(of, weights) if of.layout == "NHWC" else lambda c, ry, rx: weights(c, 0, ry, rx)
    ry, rx = reduce_axis((0, taps[0]), name="ry"), reduce_axis((0, taps[1]), name="rx")

    def term(n: Any, c: Any, y: Any, x: Any) -> Any:
        (down, row), (across, column) = tap_and_place(of, 0, y, ry), tap_and_place(of, 1, x, rx)
        there = [tap < of.kernel[dim] for dim, tap in enumerate((down, across)) if of.kernel[dim] % of.stride[dim]]
        value, where = seen(n, c, row, column), all_of(*there) if there else None
        return sum_of_products(kind, value, kernels(c, down, across), [ry, rx], where=where)

    return image_tensor(of.layout, (of.shape[0], of.filters, rows, columns), term, "sums", "conv_transpose")


def _transposed_weights(of: Transposed, weights: Tensor) -> Any:
    """Return a function that reads weights from a copy with channels last, in the type of the sums."""
    kind = sum_dtype(of.dtype)
    made = compute((*of.kernel, of.filters), lambda ry, rx, c: cast(kind, weights(c, 0, ry, rx)), "turned")
    return lambda c, ry, rx: made(ry, rx, c)


def schedule(of: Transposed, config: Config, s: ScheduleHandle, t: Tensors) -> None:
    """Tile the results over blocks and threads, with windows and sums in registers."""
    out, sums, last = t.out, t.in_registers(s), of.layout == "NHWC"
    block, thread, vector = _tile(of, config, s, out)
    s[sums].compute_at(s[out], thread)
    ry, rx = sums.op.reduce_axis
    s[sums].reorder(ry, rx, *sums.op.axis)
    for axis in (ry, rx, *sums.op.axis):
        s[sums].unroll(axis)
    inputs = {each.op.name: each for each in sums.op.input_tensors}
    seen, chunk = inputs["seen"], config["chunk"].val
    hold(s, seen, "local", *((out, thread) if config["window"].val == "all" else (sums, ry)))
    if chunk > 1:
        s[seen].vectorize(s[seen].split(seen.op.axis[-1], factor=chunk)[1] if last else seen.op.axis[-1])
    if last:
        turned = inputs["turned"]
        hold(s, turned, "shared", out, block)
        counts = (config[name].size[-2] for name in ("tile_y", "tile_x", "tile_c"))
        fetch_together(s, turned, list(zip(THREAD_TAGS, counts, strict=True)), order=(2, 0, 1))
    width = gcd(config["tile_c" if last else "tile_x"].size[-1], of.out_shape[-1], widest_vector(of.dtype))
    vectorize(s, out, vector, width)


def _tile(of: Transposed, config: Config, s: ScheduleHandle, out: Tensor) -> tuple[IterVar, IterVar, IterVar]:
    """Split and bind the loops over results; returns the innermost loops over blocks, over threads, and of all."""
    last = of.layout == "NHWC"
    n, c, y, x = from_layout(of.layout, tuple(out.op.axis))
    (cb, ct, ci), (yb, yt, yi), (xb, xt, xi) = split_all(config, s, out, tile_c=c, tile_y=y, tile_x=x)
    threads, own = ((yt, xt, ct), (yi, xi, ci)) if last else ((ct, yt, xt), (ci, yi, xi))
    s[out].reorder(n, cb, yb, xb, *threads, *own)
    planes, tiles = s[out].fuse(n, cb), s[out].fuse(yb, xb)
    bind_grid(s, out, (planes, tiles), of.shape[0] * of.filters)
    bind_all(s, out, threads, THREAD_TAGS)
    for axis in own[:2]:
        s[out].unroll(axis)
    return tiles, threads[-1], own[-1]


ON_GPU: ScheduleStrategy[Transposed] = ScheduleStrategy(
    space,
    schedule,
    default_choices,
    Needs(types=DTYPES, layouts=("NCHW", "NHWC"), scope="channels by themselves, with a stride"),
    computes=computes,
    declare_for=declare,
)
