"""Convolutions of images on a CPU: vectors of neighbouring channels, and sums in registers.

The weights are transposed first, so that weights of neighbouring filters are contiguous: a vector of them is one load.
"""

from __future__ import annotations

from math import prod
from typing import Any

from ...codegen.vectors import covering_vectors
from ...core.dtype import DType
from ...core.target import Target
from ...schedule.handle import ScheduleHandle
from ...schedule.primitives.annotate import NONTEMPORAL_STORES
from ...tensor.tensor import Tensor
from ...tune.space.config import Config
from ...tune.space.knobs import split_knob, value_knob
from ...tune.space.space import Space
from .declarations import sums_of
from .images import Images
from .layouts import from_layout
from .needs import Needs
from .processor import VectorRegisters, exceeds_caches
from .schedule_helpers import split_all, unroll_window
from .strategy import ScheduleStrategy
from .tensors import Tensors

_LANES = (4, 8, 16, 32)
_COLUMNS = (1, 2, 4, 7, 8)
_MOST_LANES = 16
"""The most lanes of a vector with filters of one group, and the lanes of a vector of channels."""
_LEAST_SHARING_COLUMNS = 5
"""The least columns of a window for which neighbouring results share most of their inputs."""
_LEAST_LONG_COLUMNS = 16
"""The least columns of a one-row window for which vectors may exceed a register, if the data fits the caches.

Twice as many channels at a time then cost few more instructions. If the data comes from memory, half as many channels
are faster: loads of the next tile start before this tile is summed. For 31 taps on a Zen 5, half as many take 0.6 of
the time from memory, and 1.1 times as long from the caches.
"""
_SHARING_TILE_COLUMNS = 8
"""Columns of a tile if neighbouring columns share most of their inputs: 128 bytes of each are fetched together."""
_MOST_UNPADDED_CHANNELS = 32
"""The most channels per sum for which each read tests for the border: storing the padded input would cost more."""
_LEAST_TERMS_FOR_TILES = 64
"""The least terms of a sum for which tiles of columns are distributed over threads.

Few images have several times as many rows as there are threads.
"""
_LEAST_ROWS_ALONE = 64
"""The least rows of results in all images for which only rows are distributed over threads. With fewer, as for lines,
tiles of columns are distributed as well."""
_MOST_UNPADDED_COLUMNS = 64
"""The most columns of a window that reads unpadded input. With more, a loop over the taps would test for the border."""
_LEAST_MANY_TAPS = 36
"""The least taps of a window for which the overhead per tile is negligible.

With 25 taps, tiles of half as many columns take 1.2 times as long. With 49 taps, such tiles stay in registers, and take
0.88 times as long.
"""
_BUSY_SUM_VECTORS = 8
"""The number of vectors of sums that keep a processor busy: it starts two products per cycle, and each takes four
cycles."""
_LINE_BYTES = 64
"""Bytes of a cache line. If a non-temporal store writes part of a line, memory is written in parts."""
_PREFETCH_BYTES = 512
"""The distance of prefetches, in bytes of channels.

Each column is a separate stream, too short for the hardware prefetcher. With prefetches, 7 taps from memory take 0.7 of
the time. With a distance of 1024 bytes, half of the gain is lost.
"""
MANY_WEIGHTS = 1 << 16
"""The least number of weights that all processors transpose together; for fewer, waking the other processors does not
pay."""


def space(of: Images) -> Space:
    """The knobs: channels per vector, columns computed together, and the depth of unrolling."""
    own = of.shared_filters
    parts = {_dividing(n, _MOST_LANES, register) for n in (of.filters, own) for register in (_LANES[1], _MOST_LANES)}
    fit = {n for n in (*_LANES, *parts, lanes_of_one_group(of)) if n <= of.filters} or {of.filters}
    lanes = [[-1, n] for n in sorted(fit)]
    columns = [[-1, n] for n in _COLUMNS if n <= of.places[1]]
    return Space(
        [
            split_knob("tile_c", of.filters, "candidate", candidate=lanes),
            split_knob("tile_x", of.places[1], "candidate", candidate=columns),
            value_knob("unroll_kernel", [0, 1]),
            value_knob("store_padding", [True, False]),
        ]
    )


def declare(of: Images, data: Tensor, weights: Tensor) -> Tensor:
    """Declare the sums over the padded input and the transposed weights."""
    return sums_of(of, data, weights, transposed=True)


def schedule(of: Images, config: Config, s: ScheduleHandle, t: Tensors) -> None:
    """Compute tiles of columns and channels in registers, and rows on all processors."""
    if config["store_padding"].val:
        outer = list(t.padded.op.axis)[:2]
        s[t.padded].parallel(s[t.padded].fuse(*outer))
    else:
        s[t.padded].compute_inline()
    turned = t.sums.op.input_tensors[1]
    *terms, f = turned.op.axis
    block, lanes = s[turned].split(f, factor=config["tile_c"].size[-1])
    s[turned].reorder(block, *terms, lanes)  # the rows of a few filters at a time, which stay in the nearest cache
    s[turned].vectorize(lanes)
    if prod(of.weights_shape) > MANY_WEIGHTS:
        s[turned].parallel(block)
    out, sums = t.out, t.in_registers(s)
    if of.layout == "NCHW":
        s[sums].transform_layout(lambda n, c, y, x: [n, y, x, c])
    n, c, y, x = from_layout(of.layout, tuple(out.op.axis))
    (xo, xi), (co, ci) = split_all(config, s, out, tile_x=x, tile_c=c)
    inner = (xi, ci) if of.layout == "NHWC" else (ci, xi)
    # The larger of weights and images passes by once; the other stays in the cache.
    long = of.per_group * prod(of.kernel) >= _LEAST_TERMS_FOR_TILES or of.shape[0] * of.places[0] < _LEAST_ROWS_ALONE
    spread = [co, n, y] if prod(of.weights_shape) > prod(of.shape) else [n, y, xo] if long else [n, y]
    s[out].reorder(*spread, *(axis for axis in (xo, co) if axis not in spread), *inner)
    if co not in spread and _mostly_new(of, config["tile_x"].size[-1]):
        lane_bytes = config["tile_c"].size[-1] * DType(of.dtype).bytes
        s[out].prefetch(t.padded if config["store_padding"].val else t.data, co, max(1, _PREFETCH_BYTES // lane_bytes))
    if _passes_by(of, config["tile_c" if of.layout == "NHWC" else "tile_x"].size[-1]):
        s[out].pragma(inner[0], NONTEMPORAL_STORES, 1)
    s[out].vectorize(inner[-1])
    s[out].parallel(s[out].fuse(*spread))
    s[sums].compute_at(s[out], xo if co in spread else co)
    *channels, ry, rx = s[sums].op.reduce_axis
    n, y, x, c = s[sums].op.axis
    s[sums].reorder(*channels, ry, rx, n, y, x, c)
    unroll_window(s, sums, [rx] if config["unroll_kernel"].val else [], [x])
    s[sums].vectorize(c)


def lanes_of_one_group(of: Images) -> int:
    """Return the lanes per vector if all its filters belong to one group: one input value then serves all lanes."""
    own = of.shared_filters
    if of.groups == 1 or own == 1:  # a vector of channels is one load, too
        return _MOST_LANES
    return next((n for n in range(min(own, _MOST_LANES), 1, -1) if own % n == 0), _MOST_LANES)


def _of_near_groups(of: Images) -> int:
    """Return the lanes per vector: of several groups if that takes fewer instructions, else of one group.

    The channels of such a vector are picked from whole vectors, by one instruction for each of these. Relative to
    vectors of one group, 32 groups of four channels take 0.3 of the time, and 32 groups of two channels 0.23.
    """
    own, seen = of.shared_filters, of.per_group
    if of.layout != "NHWC" or _MOST_LANES % own:
        return lanes_of_one_group(of)
    _, loaded = covering_vectors((_MOST_LANES // own - 1) * seen + 1, _MOST_LANES)
    return _MOST_LANES if loaded and len(loaded) * own < _MOST_LANES else lanes_of_one_group(of)


def _passes_by(of: Images, lanes: int) -> bool:
    """Whether to use non-temporal stores, a whole line at a time. If the layer's data exceeds the caches, no results
    would stay there. Each ordinary store would first read the line that it overwrites.
    """
    width, line = DType(of.dtype).bytes, VectorRegisters.of(Target("llvm")).bytes
    return line == _LINE_BYTES and lanes * width % line == 0 and exceeds_caches(_touched(of))


def _touched(of: Images) -> int:
    """Return the bytes of the images and the results of a layer."""
    return (prod(of.shape) + of.shape[0] * of.filters * prod(of.places)) * DType(of.dtype).bytes


def _mostly_new(of: Images, columns: int) -> bool:
    """Whether at least half of a tile's inputs are new, not read by the previous tile: lines with windows that are not
    too long.

    Rows of images are read again for each row of a window, and stay in a near cache.
    """
    alone = of.groups == of.shape[1] == of.filters
    return alone and of.kernel[0] == 1 and columns * of.stride[1] >= of.covered[1] - 1


def _dividing(filters: int, most: int, register: int) -> int:
    """Return a number of lanes that divides the filters, at most `most`; `most` if there is none.

    A number of lanes that is no power of two must fit one register. 12 filters in one vector take 0.65 of the time of
    three vectors of four. 7 filters take a fifth of the time of eight lanes with one unused. Vectors of 6 doubles take
    longer than vectors of 4, and vectors of 14 three times as long.
    """
    least, whole = _LANES[0], [n for n in reversed(_LANES[1:]) if n <= most]
    one_register = range(min(most, register), 2 * least, -1)
    fit = (n for n in (*whole, *one_register, least, *range(2 * least - 1, least, -1)) if filters % n == 0)
    return next(fit, most)


def default_choices(of: Images, registers: VectorRegisters) -> dict[str, Any]:
    """Choose vectors of 16 channels, or of whole groups, and seven columns or a number that leaves few over.

    Sums fill at most half of the registers. If only four columns fit, and neighbouring columns share most of their
    inputs, shorter vectors make room for more columns. A tile has fewer columns if a row of its window then stays in
    registers as well.
    """
    columns, room = of.places[1], registers.room(of.dtype)
    alone, lanes, own = of.groups == of.shape[1], _of_near_groups(of), of.shared_filters
    if of.groups == 1 or own < lanes:
        most = min(lanes, max(_LANES[0], room // 4))
        if alone and of.kernel[1] >= _LEAST_SHARING_COLUMNS:
            long = of.kernel[0] > 1 or (of.kernel[1] >= _LEAST_LONG_COLUMNS and not exceeds_caches(_touched(of)))
            most = room // _SHARING_TILE_COLUMNS if long and own == 1 else registers.lanes(of.dtype)
        lanes = _dividing(of.filters, most, registers.lanes(of.dtype))
    elif lanes & (lanes - 1):  # whole groups
        lanes = _dividing(own, lanes, registers.lanes(of.dtype))
    fit = [n for n in (7, 8, 4) if n * lanes <= room] or [1]
    if alone and prod(of.kernel) >= _LEAST_MANY_TAPS:
        fit = [n for n in fit if _stays(of, n, lanes, registers)] or fit
    tile = min(fit, key=lambda n: (-(-columns // n) * n * (1.1 if n == 4 else 1), -n))  # each loads its weights
    stored = of.per_group > _MOST_UNPADDED_CHANNELS or (any(of.padding) and of.kernel[1] > _MOST_UNPADDED_COLUMNS)
    return {"tile_c": [lanes], "tile_x": [tile], "unroll_kernel": 1, "store_padding": stored}


def _stays(of: Images, columns: int, lanes: int, registers: VectorRegisters) -> bool:
    """Whether registers hold a row of the window and the sums of `columns` columns, and these sums keep a processor
    busy."""
    vectors = lanes // registers.lanes(of.dtype)
    return (
        columns * vectors >= _BUSY_SUM_VECTORS and (columns + of.seen_along(1, columns)) * vectors <= registers.number
    )


NEEDS = Needs(scope="channels last, or groups of few channels")


def computes(of: Images, registers: VectorRegisters) -> bool:
    """Return whether channels are last, and each of many filters sums over several channels. The filters are transposed
    as they are stored."""
    own = of.shared_filters
    return of.layout == "NHWC" or (of.shape[1] > of.groups and lanes_of_one_group(of) <= own and own >= _LANES[1])


ON_CPU: ScheduleStrategy[Any] = ScheduleStrategy(space, schedule, default_choices, NEEDS, declare, computes)
