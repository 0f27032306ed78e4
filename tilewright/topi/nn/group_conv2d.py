"""group_conv2d_nchw: two-dimensional convolution in which each group of filters sees its own channels only."""

from __future__ import annotations

from typing import Any

from ...core.errors import UserError
from ...expr.nodes import IntImm
from ...expr.operators import floordiv
from ...tensor.axis import reduce_axis
from ...tensor.reduction import sum as reduce_sum
from ...tensor.tensor import Tensor, compute
from .pad import pad
from .window import dilated, four, output_extent, padding_of, pair, same_extent


def group_conv2d_nchw(
    Input: Tensor,
    Filter: Tensor,
    stride: Any,
    padding: Any,
    dilation: Any = 1,
    groups: int = 1,
    out_dtype: str | None = None,
) -> Tensor:
    """Input (N, CI, H, W) convolved with Filter (CO, CI / groups, KH, KW), as (N, CO, OH, OW).

    Of `groups` equal parts of the channels, the i-th is seen by the i-th part of the filters only. `stride`,
    `dilation`: an int or a pair; `padding`: see `padding_of`; `out_dtype`: the type to accumulate in, by default
    Input's. Raises UserError for shapes that do not fit each other.
    """
    name = "group_conv2d_nchw"
    batch, in_channel, height, width = four(Input, "Input", "NCHW", name)
    filters, channel, kernel_h, kernel_w = four(Filter, "Filter", "OIHW", name)
    if not isinstance(groups, int):
        raise UserError(f"argument 'groups' is {groups!r}", primitive=name, fix="give a whole number: groups=2")
    for extent, what in ((in_channel, "Input's channels"), (filters, "Filter's filters")):
        if groups < 1 or (isinstance(extent, IntImm) and extent.value % groups):
            raise UserError(
                f"{what}, {extent}, do not part into groups={groups}", primitive=name, fix="give a common divisor"
            )
    same_extent(floordiv(in_channel, groups), channel, "a group's channels of Input and Filter", name)
    stride_h, stride_w = pair(stride, "stride", name)
    dilation_h, dilation_w = pair(dilation, "dilation", name)
    covered = dilated(kernel_h, dilation_h), dilated(kernel_w, dilation_w)
    border = padding_of(padding, covered, name)
    out_h = output_extent(height, covered[0], border.top, border.bottom, stride_h, name, "height")
    out_w = output_extent(width, covered[1], border.left, border.right, stride_w, name, "width")
    padded = pad(Input, [0, 0, border.top, border.left], [0, 0, border.bottom, border.right], name="pad_temp")
    rc, ry, rx = (
        reduce_axis((0, extent), name=axis) for axis, extent in (("rc", channel), ("ry", kernel_h), ("rx", kernel_w))
    )
    kind = out_dtype or Input.dtype
    per_group = floordiv(filters, groups)
    made: Tensor = compute(
        (batch, filters, out_h, out_w),
        lambda nn, ff, yy, xx: reduce_sum(
            padded[
                nn,
                floordiv(ff, per_group) * channel + rc,
                yy * stride_h + ry * dilation_h,
                xx * stride_w + rx * dilation_w,
            ].astype(kind)
            * Filter[ff, rc, ry, rx].astype(kind),
            axis=[rc, ry, rx],
        ),
        name=name,
        tag=name,
    )
    return made
