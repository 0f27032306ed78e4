"""conv2d_nchw: dense two-dimensional convolution."""

from __future__ import annotations

from typing import Any

from ...tensor.axis import reduce_axis
from ...tensor.reduction import sum as reduce_sum
from ...tensor.tensor import Tensor, compute
from .pad import pad
from .window import dilated, four, output_extent, padding_of, pair, same_extent


def conv2d_nchw(
    Input: Tensor, Filter: Tensor, stride: Any, padding: Any, dilation: Any = 1, out_dtype: str | None = None
) -> Tensor:
    """Input (N, CI, H, W) convolved with Filter (CO, CI, KH, KW), as (N, CO, OH, OW).

    `stride`, `dilation`: an int or a pair; `padding`: see `padding_of`; `out_dtype`: the type to accumulate
    in, by default Input's. Raises UserError for shapes that do not fit each other.
    """
    batch, in_channel, height, width = four(Input, "Input", "NCHW", "conv2d_nchw")
    filters, channel, kernel_h, kernel_w = four(Filter, "Filter", "OIHW", "conv2d_nchw")
    same_extent(in_channel, channel, "Input's and Filter's channels", "conv2d_nchw")
    stride_h, stride_w = pair(stride, "stride", "conv2d_nchw")
    dilation_h, dilation_w = pair(dilation, "dilation", "conv2d_nchw")
    covered = dilated(kernel_h, dilation_h), dilated(kernel_w, dilation_w)
    border = padding_of(padding, covered, "conv2d_nchw")
    out_h = output_extent(height, covered[0], border.top, border.bottom, stride_h, "conv2d_nchw", "height")
    out_w = output_extent(width, covered[1], border.left, border.right, stride_w, "conv2d_nchw", "width")
    temp = pad(Input, [0, 0, border.top, border.left], [0, 0, border.bottom, border.right], name="pad_temp")
    rc = reduce_axis((0, in_channel), name="rc")
    ry = reduce_axis((0, kernel_h), name="ry")
    rx = reduce_axis((0, kernel_w), name="rx")
    kind = out_dtype or Input.dtype
    made: Tensor = compute(
        (batch, filters, out_h, out_w),
        lambda nn, ff, yy, xx: reduce_sum(
            temp[nn, rc, yy * stride_h + ry * dilation_h, xx * stride_w + rx * dilation_w].astype(kind)
            * Filter[ff, rc, ry, rx].astype(kind),
            axis=[rc, ry, rx],
        ),
        name="conv2d_nchw",
        tag="conv2d_nchw",
    )
    return made
