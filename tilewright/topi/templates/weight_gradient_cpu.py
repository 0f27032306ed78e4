"""Weight gradients on a CPU: sums of a block of taps in vector registers, over shares of batch and rows.

With channels last, vectors hold neighbouring filters. Otherwise they hold neighbouring columns, and the halves of a
vector are added repeatedly until one sum is left. Each share of batch and rows has its own partial sums, which a second
loop adds. The number of shares depends on the layer only, so results do not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from ...expr.convert import cast
from ...expr.operators import floordiv, floormod, minimum
from ...schedule.handle import ScheduleHandle
from ...tensor.axis import AxisKind, IterVar, reduce_axis
from ...tensor.reduction import sum as reduce_sum
from ...tensor.tensor import Tensor, compute
from ...tune.space.config import Config
from ...tune.space.knobs import value_knob
from ...tune.space.space import Space
from .declarations import image_tensor, or_zero
from .layouts import in_layout
from .processor import AVX512, VectorRegisters
from .schedule_helpers import hold
from .strategy import ScheduleStrategy
from .tensors import Tensors
from .weight_gradient import WeightGradient
from .workload import sum_dtype

_COPY_LANES = 16
"""Lanes of the vectors that store padded rows of the input."""
_MOST_ROW_COLUMNS = 2048
"""The most columns of a row per share: processors divide long rows, and the stored part of a row fits a cache."""
_LANES = (4, 8, 16, 32, 64)
_MOST_TAPS = 16
"""The most taps per row, and the most rows of taps, in a block of sums."""
_SHARES = tuple(1 << n for n in range(11))
_LEAST_TASKS = 64
"""The number of tasks that keeps all processors busy."""
_LEAST_TASK_FLOP = 1 << 20
"""The least floating-point operations per task."""


def space(of: WeightGradient) -> Space:
    """The knobs.

    `lanes`: columns in a vector, or filters with channels last. `taps_y`, `taps_x`, `channels`, `filters`: the size of
    a block of sums in registers. `rows`: rows of results in the body of the loop; with channels last, `columns`.
    `store_padding`: whether the body reads copies of rows with their border. `shares`: parts of batch and space with
    sums of their own.
    """
    own, (high, wide) = of.per_group, of.kernel
    knobs = [
        value_knob("taps_y", [*range(1, min(high, _MOST_TAPS) + 1)]),
        value_knob("taps_x", [*range(1, min(wide, _MOST_TAPS) + 1)]),
        value_knob("channels", [n for n in range(1, 9) if own % n == 0]),
        value_knob("shares", [n for n in _SHARES if n <= of.shape[0] * prod(of.places)]),
    ]
    if of.layout == "NHWC":
        knobs += [value_knob("lanes", _lanes(of)), value_knob("columns", [1, 2, 3, 4, 7, 8, 14])]
    else:
        knobs += [
            value_knob("lanes", [*_LANES]),
            value_knob("rows", [*range(1, 9)]),
            value_knob("filters", [n for n in (1, 2, 3, 4) if of.shared_filters % n == 0]),
            value_knob("store_padding", [False, True]),
        ]
    return Space(knobs)


def _lanes(of: WeightGradient) -> list[int]:
    """Return the candidate numbers of filters per vector: whole groups, or a part of one group."""
    own, most = of.shared_filters, min(of.filters, _LANES[-1])
    whole = [n for n in (_LANES if own == 1 else range(own, most + 1, own)) if n <= most]
    return whole + [n for n in range(1, min(own, most + 1)) if own % n == 0 or n in _LANES] or [most]


def _parts(of: WeightGradient, tile: int) -> tuple[int, int]:
    """Return the number of parts of a row, and of tiles of columns per part."""
    tiles = -(-of.places[1] // tile)
    parts = -(-tiles * tile // _MOST_ROW_COLUMNS)
    return parts, -(-tiles // parts)


def declare(of: WeightGradient, data: Tensor, weights: Tensor, config: Config) -> Tensor:
    """Declare the sums over the padded input; with channels last by vectors of filters, else by vectors of columns.

    Columns and rows are extended to whole vectors and blocks; the gradient of the result is zero in the extension.
    """
    last, lanes = of.layout == "NHWC", config["lanes"].val
    whole = (1, 1) if last else (config["rows"].val, prod(_parts(of, lanes)) * lanes)
    rows, columns = (-(-n // many) * many for n, many in zip(of.places, whole, strict=True))
    rn, ry, rx = (reduce_axis((0, n), name=m) for m, n in (("rn", of.shape[0]), ("ry", rows), ("rx", columns)))
    padded, given = _padded(of, data, rows, columns), _given(of, weights, rows, columns)

    def term(f: Any, group: Any, i: Any, ky: Any, kx: Any) -> Any:
        seen = (rn, group * of.per_group + i, *of.source(ry, rx, ky, kx))
        product = padded(*in_layout(of.layout, seen)) * given(*in_layout(of.layout, (rn, f, ry, rx)))
        return reduce_sum(product, [rn, ry, rx])

    if last:
        return _of_vectors_of_filters(of, lanes, term)
    own = of.shared_filters
    made: Tensor = compute(of.out_shape, lambda f, *at: term(f, floordiv(f, own), *at), "sums", "weight_gradient")
    return made


def _of_vectors_of_filters(of: WeightGradient, lanes: int, term: Callable[..., Any]) -> Tensor:
    """Declare sums in vectors of filters, of whole groups or within a group, and the gradient that picks its
    elements."""
    own = of.shared_filters
    whole = lanes % own == 0
    count, each = (of.groups, lanes // own) if whole else (own, lanes)
    blocks = -(-count // each)

    def first(block: Any) -> Any:  # the last vector of all groups, or of a group, overlaps the one before
        return minimum(block * each, count - each) if count % each else block * each

    def vector(block: Any, i: Any, ky: Any, kx: Any, lane: Any) -> Any:
        group = floordiv(block, blocks)
        f = first(block) * own + lane if whole else group * own + first(floormod(block, blocks)) + lane
        return term(f, floordiv(f, own) if whole else group, i, ky, kx)

    def element(f: Any, *at: Any) -> Any:
        if whole:
            block = floordiv(f, lanes)
            return vectors(block, *at, f - first(block) * own)
        of_group = floormod(f, own)
        block = floordiv(of_group, lanes)
        return vectors(floordiv(f, own) * blocks + block, *at, of_group - first(block))

    shape = (blocks if whole else of.groups * blocks, *of.weights_shape[1:], lanes)
    vectors = compute(shape, vector, "vectors", "weight_gradient")
    made: Tensor = compute(of.out_shape, element, "sums", "weight_gradient")
    return made


def _padded(of: WeightGradient, data: Tensor, rows: int, columns: int) -> Tensor:
    """Return the padded input in the type of the sums, with zeros beyond the last window, too.

    A value outside all windows then has no effect, even if it is infinite.
    """
    top, left, _, _ = of.padding
    last = [before + size for before, size in zip((top, left), of.shape[2:], strict=True)]
    ends = [min(pair) for pair in zip(last, of.seen(*of.places), strict=True)]
    return _zero_outside(of, data, (top, left), ends, (*of.shape[:2], *of.seen(rows, columns)), "padded")


def _given(of: WeightGradient, weights: Tensor, rows: int, columns: int) -> Tensor:
    """Return the gradient of the result in the type of the sums, with zeros beyond its last row and column."""
    return _zero_outside(of, weights, (0, 0), of.places, (of.shape[0], of.filters, rows, columns), "given")


def _zero_outside(
    of: WeightGradient, data: Tensor, first: Sequence[int], ends: Sequence[int], shape: tuple[int, ...], name: str
) -> Tensor:
    """Return images of a shape: `data` in the rows and columns from `first` to `ends`, zeros elsewhere."""
    kind = sum_dtype(of.dtype)

    def value(n: Any, c: Any, *place: Any) -> Any:
        inside = [at >= start for at, start in zip(place, first, strict=True) if start]
        inside += [at < end for at, end, size in zip(place, ends, shape[2:], strict=True) if end < size]
        y, x = (at - start for at, start in zip(place, first, strict=True))
        return cast(kind, or_zero(inside, data(*in_layout(of.layout, (n, c, y, x))), of.dtype))

    return image_tensor(of.layout, shape, value, name, "injective,pad", "ncyx")


def _reduction(s: ScheduleHandle, stage: Tensor) -> list[IterVar]:
    return [axis for axis in s[stage].leaf_iter_vars if axis.kind is AxisKind.REDUCE]


def schedule(of: WeightGradient, config: Config, s: ScheduleHandle, t: Tensors) -> None:
    """Compute the partial sums of each share of batch and rows, then add them."""
    last, out, sums = of.layout == "NHWC", t.out, t.sums
    if last:
        (sums,) = t.sums.op.input_tensors
        if t.sums is not out:
            s[t.sums].compute_inline()
    rn, ry, rx = sums.op.reduce_axis
    yo, yi = s[sums].split(ry, factor=1 if last else config["rows"].val)
    tile = config["columns" if last else "lanes"].val
    xo, xi = s[sums].split(rx, factor=tile)
    part, xo = s[sums].split(xo, factor=_parts(of, tile)[1])
    s[sums].reorder(rn, yo, part, xo, yi, xi)
    share, _ = s[sums].split(s[sums].fuse(rn, yo, part), nparts=config["shares"].val)
    partial = s.rfactor(sums, share, 0)
    (_channels_last if last else _channels_first)(config, s, partial)
    s[out].parallel(out.op.axis[0])
    if last:
        first, *rest, lanes = sums.op.axis
        s[sums].reorder(first, *rest, *_reduction(s, sums), lanes)
        s[sums].vectorize(lanes)
        s[sums].parallel(first)
    elif sums is out:
        first, *rest = sums.op.axis
        s[sums].reorder(first, *_reduction(s, sums), *rest)
    else:
        s[sums].compute_at(s[out], out.op.axis[-1])


def _blocks(
    config: Config, s: ScheduleHandle, partial: Tensor, axes: dict[str, IterVar]
) -> tuple[list[IterVar], list[IterVar]]:
    """Split loops over sums; returns the loops over blocks, and the loops in a block."""
    pairs = [s[partial].split(axis, factor=config[name].val) for name, axis in axes.items()]
    outer, inner = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    return outer, inner


def _in_registers(s: ScheduleHandle, stage: Tensor, partial: Tensor, block: IterVar, unrolled: int) -> None:
    """Compute a block of sums in vector registers: the last dimension in vectors, the other dimensions unrolled."""
    hold(s, stage, "local", partial, block)
    share, *sums, lanes = s[stage].op.axis
    reduction = _reduction(s, stage)
    s[stage].reorder(share, *reduction, *sums, lanes)
    for axis in (*reduction[-unrolled:], *sums):
        s[stage].unroll(axis)
    s[stage].vectorize(lanes)


def _channels_first(config: Config, s: ScheduleHandle, partial: Tensor) -> None:
    """Compute a sum per lane of columns, then add halves of the vector until one sum is left."""
    width = config["lanes"].val
    stages = [s.rfactor(partial, _reduction(s, partial)[-1])]
    while width > 2:
        width //= 2
        _, half = s[partial].split(_reduction(s, partial)[0], factor=width)
        stages.append(s.rfactor(partial, half))
    share, f, i, ky, kx = s[partial].op.axis
    outer, inner = _blocks(config, s, partial, {"filters": f, "channels": i, "taps_y": ky, "taps_x": kx})
    s[partial].reorder(share, *outer, *inner, *_reduction(s, partial))
    s[partial].parallel(s[partial].fuse(share, outer[0]))
    for axis in (*inner, *_reduction(s, partial)):
        s[partial].unroll(axis)
    for stage in stages:
        s[stage].transform_layout(lambda lane, *rest: [*rest, lane])
        _in_registers(s, stage, partial, outer[-1], 1)
    sums = stages[0]
    for tensor in sums.op.input_tensors:
        if config["store_padding"].val:
            hold(s, tensor, "local", sums, _reduction(s, sums)[0])
            s[tensor].vectorize(s[tensor].split(tensor.op.axis[-1], factor=_COPY_LANES)[1])
        else:
            s[tensor].compute_inline()


def _channels_last(config: Config, s: ScheduleHandle, partial: Tensor) -> None:
    """Compute the sums of neighbouring filters in the lanes of a vector."""
    for tensor in partial.op.input_tensors:
        s[tensor].compute_inline()
    registers = s.cache_write(partial, "local")
    share, block, i, ky, kx, lanes = s[partial].op.axis
    outer, inner = _blocks(config, s, partial, {"channels": i, "taps_y": ky, "taps_x": kx})
    s[partial].reorder(share, block, *outer, *inner, lanes)
    s[partial].parallel(s[partial].fuse(share, block))
    s[partial].vectorize(lanes)
    _in_registers(s, registers, partial, outer[-1], 2)


def default_choices(of: WeightGradient, registers: VectorRegisters) -> dict[str, Any]:
    """Choose blocks of sums that fill at most three quarters of the vector registers."""
    choices = _defaults_channels_last(of, registers) if of.layout == "NHWC" else _defaults_channels_first(of, registers)
    return {**choices, "shares": _shares(of, choices)}


def _defaults_channels_first(of: WeightGradient, registers: VectorRegisters) -> dict[str, Any]:
    """Choose vectors of one register, or of several if there are few sums; the loop's body has four rows, or a small
    image.

    The padded input is stored first if columns lie apart or are converted. It is also stored for large windows over
    long rows, because each tap would test for the border again. AVX-512 masks loads of 16 bits, so small images need no
    copy.
    """
    (high, wide), (rows, columns) = of.kernel, of.places
    room, lanes = registers.number * 3 // 4, registers.lanes(of.dtype)
    taps = _even(wide, min(_MOST_TAPS, room))
    small = columns <= lanes
    if small:
        lanes = max(_LANES[0], 1 << (columns - 1).bit_length())
    elif high == 1 and of.per_group == 1:
        while wide * lanes // registers.lanes(of.dtype) * 2 <= room * 2 // 3 and lanes * 2 <= min(columns, _LANES[-1]):
            lanes *= 2
    vectors = max(1, lanes // registers.lanes(of.dtype))
    filters = next(n for n in (2, 3, 1) if of.shared_filters % n == 0 and (taps * n * vectors <= room or n == 1))
    taps_y = _even(high, max(1, room // (taps * vectors * filters)))
    apart, masks = of.stride[1] > 1, registers.bytes >= AVX512.bytes
    converted = sum_dtype(of.dtype) != of.dtype and not (small and masks)
    return {
        "lanes": lanes,
        "rows": rows if small and rows <= 8 and columns <= 8 else min(2 if apart else 4, rows),
        "filters": filters,
        "channels": _largest(of.per_group, room // (taps * taps_y * vectors * filters)) if taps_y == high else 1,
        "taps_y": taps_y,
        "taps_x": taps,
        "store_padding": apart or converted or (not small and high > 1 and wide >= 5),
    }


def _defaults_channels_last(of: WeightGradient, registers: VectorRegisters) -> dict[str, Any]:
    """Choose vectors of one register, or two for few sums. Blocks of groups have several channels and one row of
    taps."""
    (high, wide), lane, own = of.kernel, registers.lanes(of.dtype), of.per_group
    room, shared = registers.number * 3 // 4, of.shared_filters
    taps = _even(wide, min(_MOST_TAPS, room))
    most = lane * 2 if taps * high * own <= 4 else lane
    filled = {n: n if n % shared == 0 else shared / -(-shared // n) for n in _lanes(of)}
    lanes = max(filled, key=lambda n: (filled[n], n) if n <= most else (0, -n))
    vectors = -(-lanes // lane)
    wanted = (7, 8, 4) if own > 1 else (4, 7, 8)
    columns = of.places[1]
    return {
        "lanes": lanes,
        "columns": min(wanted, key=lambda n: -(-columns // n) * n) if columns >= 4 else columns,
        "channels": _largest(own, room // 2 // (taps * vectors)),
        "taps_y": 1 if own > 1 else _even(high, max(1, room // (taps * vectors))),
        "taps_x": taps,
    }


def _shares(of: WeightGradient, choices: dict[str, Any]) -> int:
    """The number of shares, which does not depend on the number of threads."""
    last = of.layout == "NHWC"
    blocks = -(-of.filters // choices["lanes" if last else "filters"])
    parts = of.shape[0] * -(-of.places[0] // choices.get("rows", 1))
    parts *= _parts(of, choices["columns" if last else "lanes"])[0]
    shares = 1
    while shares * 2 <= parts and blocks * shares < _LEAST_TASKS and of.flop / (blocks * shares) > _LEAST_TASK_FLOP:
        shares *= 2
    return shares


def _largest(count: int, most: int) -> int:
    """Return the largest divisor of `count` that is at most `most` and at most 8."""
    return max(n for n in range(1, max(1, min(most, 8)) + 1) if count % n == 0)


def _even(count: int, most: int) -> int:
    """Return the size of the parts when `count` is divided as evenly as possible into parts of at most `most`."""
    return -(-count // -(-count // most))


def _computes(of: WeightGradient, registers: VectorRegisters) -> bool:
    """Return whether no bias gradient is wanted: a separate pass computes it in the same time."""
    return not of.bias


ON_CPU: ScheduleStrategy[WeightGradient] = ScheduleStrategy(
    space, schedule, default_choices, computes=_computes, declare_for=declare
)
