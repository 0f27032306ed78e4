"""Depthwise convolutions: each channel convolved with its own filters.

For all of them: `stride`, `dilation`: an int or a pair; `padding`: see `padding_sides`; `out_dtype`: the type to
accumulate in, by default Input's. They raise UserError for shapes that do not fit each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...core.refusals import old_name as _old_name
from ...expr.operators import floordiv, floormod
from ...tensor.reduction import sum as reduce_sum
from ...tensor.tensor import Tensor, compute
from ..argument_checks import divisor, result_type
from .window import SlidingWindow, extents, same_extent

_POSITION = {"N": "b", "C": "c", "H": "i", "W": "j"}
_WINDOW = {"H": "di", "W": "dj"}


def depthwise_conv2d_nchw(
    Input: Tensor, Filter: Tensor, stride: Any, padding: Any, dilation: Any = 1, out_dtype: str | None = None
) -> Tensor:
    """Input (N, C, H, W) convolved channel by channel with Filter (C, M, KH, KW), as (N, C * M, OH, OW).

    M is the channel multiplier.
    """
    window = stride, padding, dilation
    return _depthwise(Input, Filter, window, ("NCHW", "CMHW"), out_dtype, "depthwise_conv2d_nchw")


def depthwise_conv2d_nhwc(
    Input: Tensor, Filter: Tensor, stride: Any, padding: Any, dilation: Any = 1, out_dtype: str | None = None
) -> Tensor:
    """Input (N, H, W, C) convolved channel by channel with Filter (KH, KW, C, M), as (N, OH, OW, C * M).

    M is the channel multiplier.
    """
    window = stride, padding, dilation
    return _depthwise(Input, Filter, window, ("NHWC", "HWCM"), out_dtype, "depthwise_conv2d_nhwc")


depthwise_conv2d = depthwise_conv2d_nchw  # the oldest scripts' name


def _depthwise(
    Input: Tensor, Filter: Tensor, window: tuple[Any, Any, Any], layouts: tuple[str, str], out_dtype: Any, name: str
) -> Tensor:
    layout, filter_layout = layouts
    sizes, weights = extents(Input, "Input", layout, name), extents(Filter, "Filter", filter_layout, name)
    same_extent(sizes["C"], weights["C"], "Input's and Filter's channels", name)
    view = SlidingWindow(Input, layout, weights, window, name, _WINDOW, "PaddedInput")
    kind, multiplier = result_type(out_dtype, Input, name), divisor(weights["M"])

    def element(*position: Any) -> Any:
        at = dict(zip(layout, position, strict=True))
        channel, which = floordiv(at["C"], multiplier), floormod(at["C"], multiplier)
        of_filter = {"C": channel, "M": which, **view.axes}
        value, weight = view.element({**at, "C": channel}), Filter[tuple(of_filter[d] for d in filter_layout)]
        return reduce_sum(value.astype(kind) * weight.astype(kind), axis=list(view.axes.values()))

    shape = [{**sizes, **view.extents, "C": sizes["C"] * weights["M"]}[d] for d in layout]
    names = [_POSITION[d] for d in layout]
    made: Tensor = compute(shape, element, "DepthwiseConv2d", name, varargs_names=names)
    return made


if not TYPE_CHECKING:  # type checkers see the names

    def __getattr__(name: str) -> object:
        return _old_name(__name__, name, globals())
