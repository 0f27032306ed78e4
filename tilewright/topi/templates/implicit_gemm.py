"""Dense and grouped convolutions as contractions: filters times positions (NCHW, HWCN), or positions times filters.

In NCHW, rows of a window begin at any address, so an implicit product copies single elements and tests the border for
each. If the data is contiguous along the depth, it is copied in vectors of 16 bytes instead. Two kernels can write such
copies of the data first:

- unfolded (im2col): the window of each position is contiguous. The copy is larger by the size of the window, which pays
  for few positions and many filters.
- channels last: the channels of a pixel are contiguous, as in NHWC. The weights are repacked, too.
"""

from __future__ import annotations

from dataclasses import replace
from math import gcd, prod
from typing import Any

from ...core.dtype import DType
from ...expr.convert import const
from ...expr.operators import floordiv, floormod, if_then_else
from ...tensor.tensor import Tensor, compute
from ...tune.model.machine import Machine
from .contraction import Contraction, MatrixOperand, Views, rounded
from .contraction_mma import PreparedForm
from .contraction_schedule import TRANSPOSED
from .convolutions import Conv2dLayer
from .declarations import or_zero, within
from .layouts import IMAGES_LAST, from_layout, in_layout
from .schedule_helpers import widest_vector
from .workload import sum_dtype

_LEAST_TERMS = 16
_LEAST_FILTERS_PER_GROUP = 8
_LEAST_CHANNELS_PER_GROUP = 32
"""The least terms of a sum, and filters and channels of a group, for which tiles of a product share data."""


def contraction_of(of: Conv2dLayer) -> Contraction:
    """Return the contraction that computes a convolution.

    In NCHW, the depth runs over channels, then over the window, which is the memory order of the weights. In NHWC, it
    runs over the window, then over channels, which is the memory order of images; the weights are repacked. In HWCN, it
    also runs over the window, then over channels; filters are contiguous in the weights, and images in the data.
    """
    images, channels = of.shape[0], of.per_group
    filters, positions = of.shared_filters, images * prod(of.places)
    window, wide = prod(of.kernel), widest_vector(of.dtype)
    plain = _is_plain(of)
    first_run = prod(of.places)
    if of.layout == "NCHW":
        rows = MatrixOperand(filters, True, gcd(channels * window, wide))
        columns = MatrixOperand(positions, False, gcd(first_run, wide) if plain else 1)
        return Contraction(
            of.groups, rows, columns, channels * window, of.dtype, sum_dtype(of.dtype),
            batch_axes=(), row_axes=(1,), column_axes=(0, 2, 3), period=window, run=first_run,
            grouped=(1, filters) if of.groups > 1 else None,
        )  # fmt: skip
    if of.layout == IMAGES_LAST:
        rows, columns = (
            MatrixOperand(filters, False, gcd(filters, wide)),
            MatrixOperand(positions, False, gcd(images, wide)),
        )
        return Contraction(
            of.groups, rows, columns, channels * window, of.dtype, sum_dtype(of.dtype),
            batch_axes=(), row_axes=(2,), column_axes=(0, 1, 3), period=channels, run=images,
            grouped=(2, filters) if of.groups > 1 else None,
        )  # fmt: skip
    rows = MatrixOperand(positions, True, gcd(channels, wide))
    across = of.weights == "HWIO"
    columns = MatrixOperand(filters, not across, gcd(filters if across else channels, wide))
    return Contraction(
        of.groups, rows, columns, channels * window, of.dtype, sum_dtype(of.dtype),
        batch_axes=(), row_axes=(0, 1, 2), column_axes=(3,), period=channels, run=filters,
        grouped=(3, filters) if of.groups > 1 else None,
    )  # fmt: skip


def _is_plain(of: Conv2dLayer) -> bool:
    """Whether each position of the result reads the same position of the input: a 1 × 1 window without a border."""
    return prod(of.kernel) == 1 and not any(of.padding) and of.stride == (1, 1)


def views_of(of: Conv2dLayer, data: Tensor, weights: Tensor) -> Views:
    """Return the elements of a convolution's contraction over its tensors."""
    filters, channels = of.shared_filters, of.per_group
    rows, columns = of.places
    area, (kh, kw) = rows * columns, of.kernel
    window = kh * kw
    last, across = of.layout == "NHWC", of.layout == IMAGES_LAST
    repacked = weights_channels_last(of, weights) if last and window > 1 and of.weights == "OIHW" else weights

    def taps(k: Any) -> tuple[Any, Any, Any]:
        if window == 1:
            return k, 0, 0
        if last or across:
            channel, tap = floormod(k, channels), floordiv(k, channels)
        else:
            channel, tap = floordiv(k, window), floormod(k, window)
        return channel, floordiv(tap, kw), floormod(tap, kw)

    def weight(b: Any, f: Any, k: Any) -> Any:
        channel, ry, rx = taps(k)
        f = b * filters + f if of.groups > 1 else f
        if of.weights == "HWIO":
            return weights(ry, rx, channel, f)
        by_channel = repacked is not weights or of.weights == "OHWI"
        return repacked(f, ry, rx, channel) if by_channel else weights(f, channel, ry, rx)

    def seen(b: Any, k: Any, position: Any) -> Any:
        channel, ry, rx = taps(k)
        channel = b * channels + channel if of.groups > 1 else channel
        parts = (floordiv, floormod) if not across else (floormod, floordiv)
        unit = of.shape[0] if across else area
        n, place = (part(position, unit) for part in parts) if of.shape[0] > 1 else (0, position)
        y, x = floordiv(place, columns), floormod(place, columns)
        return _bordered(of, data, n, channel, *of.source(y, x, ry, rx))

    def place(*indices: Any) -> tuple[Any, Any, Any]:
        n, f, y, x = from_layout(of.layout, indices)
        b, own = of.group_of(f)
        position = (y * columns + x) * of.shape[0] + n if across else (n * rows + y) * columns + x
        return (b, position, own) if last else (b, own, position)

    names = in_layout(of.layout, ("n", "f", "y", "x"))
    if last:
        return Views(lambda b, i, k: seen(b, k, i), lambda b, k, j: weight(b, j, k), place, of.out_shape, names)
    return Views(weight, seen, place, of.out_shape, names)


def weights_channels_last(of: Conv2dLayer, weights: Tensor) -> Tensor:
    """Return the weights in the order of images in NHWC, which a kernel computes before the product."""
    shape = (of.filters, *of.kernel, of.per_group)
    last = of.weights == "HWIO"
    made: Tensor = compute(
        shape, lambda f, ry, rx, rc: weights(ry, rx, rc, f) if last else weights(f, rc, ry, rx), "turned"
    )
    return made


def _bordered(of: Conv2dLayer, data: Tensor, n: Any, channel: Any, y: Any, x: Any) -> Any:
    """Return the input at a position of the padded image."""
    (top, left, _, _), (_, _, height, width) = of.padding, of.shape
    rows, columns = of.bordered
    inside = within((y, top, top + height, rows), (x, left, left + width, columns))
    return or_zero(inside, data(*in_layout(of.layout, (n, channel, y - top, x - left))), of.dtype)


def computes(of: Conv2dLayer, machine: Machine) -> bool:
    """Return whether a convolution is dense with sums of many terms, or has large groups."""
    channels, filters = of.per_group, of.shared_filters
    return (
        channels * prod(of.kernel) >= _LEAST_TERMS
        and filters >= _LEAST_FILTERS_PER_GROUP
        and (of.groups == 1 or channels >= _LEAST_CHANNELS_PER_GROUP)
    )


_MOST_UNFOLDED_BYTES = 1 << 25
"""The most bytes of unfolded data that stay in the L2 cache."""


def may_unfold(of: Conv2dLayer) -> bool:
    """Return whether a layer's data may be unfolded: NCHW, a window, and little data."""
    size = of.shape[0] * prod(of.places) * _row_of(of) * DType(of.dtype).bytes
    return _is_plain_nchw(of) and of.kernel != (1, 1) and size <= _MOST_UNFOLDED_BYTES


def unfolded(of: Conv2dLayer) -> Contraction:
    """Return the contraction over unfolded data: the one of NCHW, except that the data is contiguous along the
    depth."""
    made, row, word = contraction_of(of), _row_of(of), DType(of.dtype).bytes
    columns = MatrixOperand(made.columns.extent, True, widest_vector(of.dtype))
    return replace(made, columns=columns, depth=row, period=1, prepared=(columns.extent * row * word,))


def views_of_unfolded(of: Conv2dLayer, data: Tensor, weights: Tensor) -> Views:
    """Return the elements of that contraction."""
    direct, depth, row = views_of(of, data, weights), contraction_of(of).depth, _row_of(of)

    def within(value: Any, k: Any) -> Any:
        return value if row == depth else if_then_else(k < depth, value, const(0, of.dtype))

    made = compute(
        (of.shape[0] * prod(of.places), row), lambda j, k: within(direct.right(0, k, j), k), "unfolded"
    )  # fmt: skip
    return replace(
        direct, left=lambda b, i, k: within(direct.left(b, i, k), k), right=lambda b, k, j: made(j, k)
    )  # fmt: skip


def _row_of(of: Conv2dLayer) -> int:
    """Return the elements per unfolded window, rounded up to whole vectors."""
    return rounded(of.shape[1] * prod(of.kernel), widest_vector(of.dtype))


def may_put_channels_last(of: Conv2dLayer) -> bool:
    """Return whether a layer's data may be stored with channels last first: NCHW, with whole vectors of channels."""
    return _is_plain_nchw(of) and of.shape[1] % (2 * widest_vector(of.dtype)) == 0


def channels_last(of: Conv2dLayer) -> Contraction:
    """Return the contraction over data with channels last: the one of NHWC, with filters as rows."""
    made, last = contraction_of(of), contraction_of(_last(of))
    word = DType(of.dtype).bytes
    moved = (prod(of.shape) * word, *([of.filters * made.depth * word] if of.kernel != (1, 1) else []))
    return replace(made, rows=last.columns, columns=last.rows, period=last.period, prepared=moved)


def views_of_channels_last(of: Conv2dLayer, data: Tensor, weights: Tensor) -> Views:
    """Return the elements of that contraction."""
    images, channels, height, width = of.shape
    image = compute((images, height, width, channels), lambda n, y, x, c: data(n, c, y, x), "image", TRANSPOSED)
    by_channel = weights if of.kernel == (1, 1) else weights_channels_last(of, weights)
    direct, last = views_of(of, data, weights), views_of(_last(of), image, by_channel)
    left = direct.left if by_channel is weights else lambda b, i, k: last.right(b, k, i)
    return replace(direct, left=left, right=lambda b, k, j: last.left(b, j, k))


def _last(of: Conv2dLayer) -> Conv2dLayer:
    """Return the same layer in the layout NHWC."""
    return replace(of, layout="NHWC", weights="OHWI")


def _is_plain_nchw(of: Conv2dLayer) -> bool:
    return of.layout == "NCHW" and of.groups == 1


FORMS = {
    "unfolded": PreparedForm(unfolded, views_of_unfolded, may_unfold),
    "channels last": PreparedForm(channels_last, views_of_channels_last, may_put_channels_last),
}
"""The forms by name; the names are choices of the knob `data`."""
