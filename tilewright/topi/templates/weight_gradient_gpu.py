"""Weight gradients on GPUs: each thread sums the products of its share of batch and space in registers.

A thread walks over tiles of the result's gradient. Each input row of a tile is loaded once, and serves all rows of
taps. The sums of the thread's taps stay in registers from the first tile to the last. In NCHW, neighbouring lanes have
neighbouring tiles, and a warp adds up the sums of its lanes; in NHWC, lanes have neighbouring channels. A second kernel
adds the partial sums of all warps in a fixed order.

Rows of channels (NHWC) and planes of small images (NCHW) pass through shared memory. A block copies its part of the
next step while it computes the present step. Otherwise a thread would need more registers for loads in flight than it
has.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod
from typing import Any

from ...expr.convert import cast
from ...expr.operators import all_of, floordiv, floormod, maximum, minimum, select
from ...schedule.handle import ScheduleHandle
from ...tensor.axis import IterVar, reduce_axis
from ...tensor.reduction import sum as reduce_sum
from ...tensor.tensor import Tensor, compute
from ...tune.model.machine import Machine
from ...tune.space.config import Config
from ...tune.space.space import Space
from .declarations import border_for, or_zero, padded_view, within
from .layouts import LAYOUTS, in_layout
from .needs import Needs
from .schedule_helpers import THREAD_TAGS, add_parts, bind_all, hold, in_ordered_rounds, vectorize, widest_vector
from .strategy import ScheduleStrategy
from .tensors import Tensors
from .tile_model import TileModel
from .weight_gradient import WeightGradient
from .weight_gradient_model import expectation, ranked
from .weight_gradient_shares import ACROSS, DOWN, LANES, SHARES, WARPS, Share, copies_pay, parts
from .workload import DTYPES, sum_dtype

_ADDING_WARPS = 8


def space(of: WeightGradient, copies: Sequence[int] = (0,)) -> Space:
    """The knobs: the fields of `Share`."""
    rows, columns = of.places
    widest = widest_vector(of.dtype)
    first = of.layout == "NCHW"
    tiles = of.shape[0] * rows * columns
    values: dict[str, list[Any]] = {
        "rows": [n for n in DOWN if n <= rows],
        "columns": [n for n in ACROSS if n < 2 * columns or n == 1],
        "filters": [n for n in (1, 2, 4, 8) if of.shared_filters % n == 0 or (not first and of.filters % n == 0)],
        "channels": [n for n in (1, 2, 4, 8) if of.per_group % n == 0],
        "tap_rows": parts(of.kernel[0]),
        "tap_columns": parts(of.kernel[1]),
        "chunk": [n for n in (1, 2, 4, 8) if n <= widest and (n == 1 or (first and of.shape[3] % n == 0))],
        "warps": [*WARPS],
        "jobs": [1, 2, 4, 8, 16],
        "shares": [n for n in SHARES if n == 1 or n <= tiles],
        "copies": [*copies],
    }

    return Share.space(values, {}, lambda share: share.is_possible(of))


def declare(of: WeightGradient, data: Tensor, weights: Tensor, config: Config) -> Tensor:
    """Declare the sums in three stages: per thread, per warp, and in total."""
    share = Share.of(config)
    kind = sum_dtype(of.dtype)
    first = share.lanes_have_tiles(of)
    partial_sums = _of_threads(of, data, weights, share)
    window, names = (of.filters, of.per_group, *_taps(of, share)), ("o", "i", *_TAP_DIMENSIONS[of.bias])
    if first:
        lane = reduce_axis((0, LANES), name="lane")
        partial = compute(
            (share.shares, share.warps, *window),
            lambda p, w, *at: reduce_sum(partial_sums(p, w, lane, *at), [lane]),
            "partial",
            varargs_names=names,
        )
    else:
        partial = compute(
            (share.shares, share.warps, *window[1:], of.filters),
            lambda p, w, *at: partial_sums(p, w, 0, at[-1], *at[:-1]),
            "partial",
            varargs_names=(*names[1:], "o"),
        )
    rp, rw = reduce_axis((0, share.shares), name="rp"), reduce_axis((0, share.warps), name="rw")

    def total(o: Any, *at: Any) -> Any:
        return reduce_sum(cast(kind, partial(rp, rw, *((o, *at) if first else (*at, o)))), [rp, rw])

    def element(e: Any) -> Any:
        return total(*_place_in_parts(of, share, e))

    made: Tensor = (
        compute(of.out_shape, element, "sums", "weight_gradient")
        if of.bias
        else compute(of.out_shape, total, "sums", "weight_gradient", varargs_names=names[1:])
    )
    return made


_TAP_DIMENSIONS = ("ky", "kx"), ("down", "across", "tap")
"""The dimensions of taps. With a bias, a thread has one more tap, the last, that multiplies by 1."""


def _taps(of: WeightGradient, share: Share) -> tuple[int, ...]:
    """Return the extents of the dimensions of taps."""
    rows, columns = share.taps(of)
    if not of.bias:
        return rows, columns
    return rows // share.tap_rows, columns // share.tap_columns, share.tap_rows * share.tap_columns + 1


def _place_in_parts(of: WeightGradient, share: Share, e: Any) -> tuple[Any, ...]:
    """Return the filter, the channel and the tap of element `e` of the result, which belongs to a weight or to the
    bias."""
    count, (_, per_group, high, wide) = prod(of.weights_shape), of.weights_shape
    ky, kx = floormod(floordiv(e, wide), high), floormod(e, wide)
    own = floormod(ky, share.tap_rows) * share.tap_columns + floormod(kx, share.tap_columns)
    weight = (
        floordiv(e, per_group * high * wide), floormod(floordiv(e, high * wide), per_group),
        floordiv(ky, share.tap_rows), floordiv(kx, share.tap_columns), own,
    )  # fmt: skip
    of_bias = (e - count, 0, 0, 0, share.tap_rows * share.tap_columns)
    return tuple(select(e < count, a, b) for a, b in zip(weight, of_bias, strict=True))


def _of_threads(of: WeightGradient, data: Tensor, weights: Tensor, share: Share) -> Tensor:
    """Declare the sums of each thread over its tiles."""
    kind, taps, steps = sum_dtype(of.dtype), share.taps(of), share.steps(of)
    (sy, sx), (dy, dx) = of.stride, of.dilation
    down, across = share.tiles(of)
    rows, columns = share.rows, share.columns
    lanes = LANES if share.lanes_have_tiles(of) else 1
    uneven = share.images(of) > of.shape[0]
    reached = (rows - 1) * sy + (share.tap_rows - 1) * dy + 1
    seen = (
        (down * rows - 1) * sy + (taps[0] - 1) * dy + 1,
        (across * columns - 1) * sx + (taps[1] - 1) * dx + 1,
    )
    image = padded_view(of, data, border_for(of, seen), kind, share.chunk if share.chunk > 1 else 0)
    given = _gradient_view(of, weights, share)
    step, r, rx = (
        reduce_axis((0, extent), name=name) for extent, name in ((steps, "step"), (reached, "r"), (columns, "rx"))
    )

    def value(p: Any, w: Any, lane: Any, o: Any, i: Any, *at: Any) -> Any:
        (part_row, own_row), kx = _rows_and_column(of, share, at)
        tile = ((p * steps + step) * share.warps + w) * lanes + lane
        n, place = floordiv(tile, down * across), floormod(tile, down * across)
        ty, tx = floordiv(place, across), floormod(place, across)
        group = floordiv(o, of.shared_filters) if of.groups > 1 else 0
        ahead = r - own_row * dy
        row = ty * (rows * sy) + part_row * (share.tap_rows * dy) + r
        inside = all_of(ahead >= 0, floordiv(ahead, sy) < rows, *([floormod(ahead, sy).equal(0)] if sy > 1 else []))
        column = tx * columns + rx
        seen_by = image(
            minimum(n, of.shape[0] - 1) if uneven else n, group * of.per_group + i, row, column * sx + kx * dx
        )
        held = maximum(minimum(floordiv(ahead, sy), rows - 1), 0)  # other rows do not count
        product = cast(kind, seen_by) * given(n, o, ty * rows + held, column)
        if of.bias:
            product = select(_is_of_bias(share, at), given(n, o, ty * rows + held, column), product)
        return reduce_sum(product, [step, r, rx], where=inside)

    shape = (share.shares, share.warps, lanes, of.filters, of.per_group, *_taps(of, share))
    made: Tensor = compute(shape, value, "thread_sums", "weight_gradient", varargs_names=_TAP_DIMENSIONS[of.bias])
    return made


def _rows_and_column(of: WeightGradient, share: Share, at: tuple[Any, ...]) -> tuple[tuple[Any, Any], Any]:
    """Return a tap's part and row within the part, and its column; for the bias, the values of the first tap."""
    if not of.bias:
        ky, kx = at
        return (floordiv(ky, share.tap_rows), floormod(ky, share.tap_rows)), kx
    down, across, tap = at
    row = select(_is_of_bias(share, at), 0, floordiv(tap, share.tap_columns))
    return (down, row), across * share.tap_columns + floormod(tap, share.tap_columns)


def _is_of_bias(share: Share, at: tuple[Any, ...]) -> Any:
    return at[-1].equal(share.tap_rows * share.tap_columns)


def _gradient_view(of: WeightGradient, weights: Tensor, share: Share) -> Any:
    """Return a function that reads the gradient of the result at (n, o, y, x), and zero beyond the end."""
    kind, (rows, columns) = sum_dtype(of.dtype), of.places
    down, across = share.tiles(of)
    chunk = share.gradient_chunk(of)
    images = share.images(of)

    def value(n: Any, o: Any, y: Any, xo: Any, xi: Any) -> Any:
        inside = within((n, 0, of.shape[0], images), (y, 0, rows, down * share.rows))
        inside += [xo * chunk < columns] if across * share.columns > columns else []
        return cast(kind, or_zero(inside, weights(*in_layout(of.layout, (n, o, y, xo * chunk + xi))), of.dtype))

    shape = (images, of.filters, down * share.rows, across * share.columns // chunk, chunk)
    if of.layout == "NCHW":
        made = compute(shape, value, "given", "injective")
        return lambda n, o, y, x: made(n, o, y, floordiv(x, chunk), floormod(x, chunk))
    last = compute((shape[0], *shape[2:4], of.filters), lambda n, y, x, o: value(n, o, y, x, 0), "given", "injective")
    return lambda n, o, y, x: last(n, y, x, o)


def schedule(of: WeightGradient, config: Config, s: ScheduleHandle, t: Tensors) -> None:
    """Keep sums in registers; warps add them up, then a second kernel does."""
    share = Share.of(config)
    (partial,) = t.sums.op.input_tensors
    (sums,) = partial.op.input_tensors
    given, image = sorted(sums.op.input_tensors, key=lambda tensor: tensor.op.name != "given")
    lane = _place_partial(of, share, s, partial)
    hold(s, sums, "local", partial, lane)
    step, r, rx = sums.op.reduce_axis
    if of.bias:
        *outer, o, i, down, across, tap = sums.op.axis
        s[sums].reorder(*outer, down, across, step, r, tap, rx, o, i)
    else:
        *outer, o, i, ky, kx = sums.op.axis
        s[sums].reorder(*outer, step, r, ky, rx, kx, o, i)
    s[sums].unroll(r)
    for tensor, at in ((given, step), (image, r)):
        hold(s, tensor, "local", sums, at)
    if share.copies:
        s[image].unroll(image.op.axis[3 if of.layout == "NCHW" else 2])
        for source, reader in ((t.data, image), (t.weights, given)):
            _copy_together(of, share, s, s.cache_read(source, "shared", [reader]), source is t.data, (sums, step))
    if of.layout == "NCHW":
        for tensor, width in ((given, share.gradient_chunk(of)), (image, share.chunk)):
            if width > 1:
                s[tensor].vectorize(tensor.op.axis[-1])
    else:
        for tensor, width in ((given, share.filters), (image, share.channels_at_once(of))):
            vectorize(s, tensor, tensor.op.axis[-1], width)
    _add_partial_sums(of, share, s, t)


def _add_partial_sums(of: WeightGradient, share: Share, s: ScheduleHandle, t: Tensors) -> None:
    """Have several threads of a block add the partial sums of each weight."""
    o, *taps = t.out.op.axis
    order = (o, *taps) if share.lanes_have_tiles(of) or of.bias else (*taps, o)  # the order in memory
    s[t.out].reorder(*order)
    block, thread = s[t.out].split(s[t.out].fuse(*order), factor=LANES)
    bind_all(s, t.out, (block, thread), ("blockIdx.x", "threadIdx.x"))
    add_parts(s, t, share.shares * share.warps, _ADDING_WARPS, "threadIdx.y", thread)


def _copy_together(
    of: WeightGradient, share: Share, s: ScheduleHandle, held: Tensor, of_input: bool, place: tuple[Tensor, IterVar]
) -> None:
    """Have a block copy its part of the input or of the gradient to shared memory in each step.

    The parts of a warp's lanes, neighbouring channels (NHWC) or planes (NCHW), lie in different banks.
    """
    s[held].compute_at(s[place[0]], place[1])
    s[held].storage_align(held.op.axis[0], share.apart(of, of_input), 0)
    if of.layout == "NHWC":
        _, width = share.neighbours(of, of_input)
    else:
        each, width = share.plane(of, of_input)
        if each % (2 * width) == width:
            s[held].storage_align(held.op.axis[1], 2 * width, width)
    flat, lanes = s[held].split(s[held].fuse(*held.op.axis), factor=width)
    if width > 1:
        s[held].vectorize(lanes)
    counts = share.jobs, share.warps, share.lanes(of)
    in_ordered_rounds(s, held, flat, list(zip(THREAD_TAGS, counts, strict=True)))
    if share.copies > 1:
        s[held].pipeline(share.copies)


def _place_partial(of: WeightGradient, share: Share, s: ScheduleHandle, partial: Tensor) -> Any:
    """Split the sums over blocks and threads; returns the innermost loop over threads."""
    first = share.lanes_have_tiles(of)
    p, w, *taps = partial.op.axis
    o, i, ky, kx, *own = taps if first else (taps[-1], *taps[:-1])
    parts = (share.filters, share.channels, *((1, 1) if of.bias else (share.tap_rows, share.tap_columns)))
    (o, oi), (i, ii), (ky, kyi), (kx, kxi) = (
        s[partial].split(axis, factor=part) for axis, part in zip((o, i, ky, kx), parts, strict=True)
    )
    if first:
        (lane,) = partial.op.reduce_axis
    else:
        o, lane = s[partial].split(o, factor=share.lanes(of))
    s[partial].reorder(p, o, i, ky, kx, w, lane, oi, ii, kyi, kxi, *own)
    jobs, job = s[partial].split(s[partial].fuse(o, i, ky, kx), factor=share.jobs)
    s[partial].reorder(p, jobs, job, w, lane)
    block = s[partial].fuse(p, jobs)
    bind_all(s, partial, (block, job, w, lane), ("blockIdx.x", "threadIdx.z", "threadIdx.y", "threadIdx.x"))
    return lane


def _copies_pay(of: WeightGradient, machine: Machine) -> bool:
    """Return whether a block may copy its part, and has room for two copies."""
    return copies_pay(of) and bool(ranked(of, machine, True))


_UNCOPIED_MODEL: TileModel[WeightGradient] = TileModel(partial(ranked, copied=False), Share.of, expectation)
_COPIED_MODEL: TileModel[WeightGradient] = TileModel(partial(ranked, copied=True), Share.of, expectation)
DIRECT: ScheduleStrategy[Any] = ScheduleStrategy(
    space,
    schedule,
    _UNCOPIED_MODEL.default,
    Needs(types=DTYPES, layouts=LAYOUTS),
    model=_UNCOPIED_MODEL.model,
    declare_for=declare,
)
COPIED: ScheduleStrategy[Any] = ScheduleStrategy(
    partial(space, copies=(1, 2, 3)),
    schedule,
    _COPIED_MODEL.default,
    Needs(types=DTYPES, layouts=LAYOUTS, scope="rows of channels, or small images of a channel each"),
    computes=_copies_pay,
    model=_COPIED_MODEL.model,
    declare_for=declare,
)
