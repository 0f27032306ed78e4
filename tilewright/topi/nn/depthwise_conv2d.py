"""depthwise_conv2d_nchw: each channel convolved with its own filters."""

from __future__ import annotations

from typing import Any

from ...expr.operators import floordiv, floormod
from ...tensor.axis import reduce_axis
from ...tensor.reduction import sum as reduce_sum
from ...tensor.tensor import Tensor, compute
from .pad import pad
from .window import dilated, four, output_extent, padding_of, pair, same_extent


def depthwise_conv2d_nchw(
    Input: Tensor, Filter: Tensor, stride: Any, padding: Any, dilation: Any = 1, out_dtype: str | None = None
) -> Tensor:
    """Input (N, C, H, W) convolved channel by channel with Filter (C, M, KH, KW), as (N, C * M, OH, OW).

    M is the channel multiplier. `stride`, `dilation`: an int or a pair; `padding`: see `padding_of`;
    `out_dtype`: the type to accumulate in, by default Input's. Raises UserError for shapes that do not fit
    each other.
    """
    batch, in_channel, height, width = four(Input, "Input", "NCHW", "depthwise_conv2d_nchw")
    channel, multiplier, kernel_h, kernel_w = four(Filter, "Filter", "CMHW", "depthwise_conv2d_nchw")
    same_extent(in_channel, channel, "Input's and Filter's channels", "depthwise_conv2d_nchw")
    stride_h, stride_w = pair(stride, "stride", "depthwise_conv2d_nchw")
    dilation_h, dilation_w = pair(dilation, "dilation", "depthwise_conv2d_nchw")
    covered = dilated(kernel_h, dilation_h), dilated(kernel_w, dilation_w)
    border = padding_of(padding, covered, "depthwise_conv2d_nchw")
    out_h = output_extent(height, covered[0], border.top, border.bottom, stride_h, "depthwise_conv2d_nchw", "height")
    out_w = output_extent(width, covered[1], border.left, border.right, stride_w, "depthwise_conv2d_nchw", "width")
    before, after = [0, 0, border.top, border.left], [0, 0, border.bottom, border.right]
    padded = pad(Input, before, after, name="PaddedInput")
    di = reduce_axis((0, kernel_h), name="di")
    dj = reduce_axis((0, kernel_w), name="dj")
    kind = out_dtype or Input.dtype
    made: Tensor = compute(
        (batch, in_channel * multiplier, out_h, out_w),
        lambda b, c, i, j: reduce_sum(
            padded[b, floordiv(c, multiplier), i * stride_h + di * dilation_h, j * stride_w + dj * dilation_w].astype(
                kind
            )
            * Filter[floordiv(c, multiplier), floormod(c, multiplier), di, dj].astype(kind),
            axis=[di, dj],
        ),
        name="DepthwiseConv2d",
        tag="depthwise_conv2d_nchw",
    )
    return made


depthwise_conv2d = depthwise_conv2d_nchw  # the oldest scripts' name
