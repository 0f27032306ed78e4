"""Two-dimensional convolutions under their legacy names.

For all of them: `stride`, `dilation`: an int or a pair; `padding`: see `padding_sides`; `out_dtype`: the type to
accumulate in, by default Input's. They raise UserError for shapes that do not fit each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...core.refusals import old_name as _old_name
from ...tensor.tensor import Tensor
from .convolution import convolution, layouts_of


def conv2d(
    input: Tensor,
    filter: Tensor,
    strides: Any,
    padding: Any,
    dilation: Any,
    data_layout: str = "NCHW",
    kernel_layout: str = "",
    out_dtype: str | None = None,
) -> Tensor:
    """`input` of layout `data_layout` convolved with `filter`, in the same layout.

    The layout of the filter is by default OIHW if the input's begins with NC, and HWIO otherwise.
    """
    layouts = layouts_of(data_layout, kernel_layout, "HW", "conv2d")
    window = strides, padding, dilation
    return convolution(input, filter, window, layouts, 1, out_dtype, "conv2d", ("input", "filter"))


def conv2d_nchw(
    Input: Tensor, Filter: Tensor, stride: Any, padding: Any, dilation: Any = 1, out_dtype: str | None = None
) -> Tensor:
    """Input (N, CI, H, W) convolved with Filter (CO, CI, KH, KW), as (N, CO, OH, OW)."""
    window = stride, padding, dilation
    return convolution(Input, Filter, window, ("NCHW", "OIHW"), 1, out_dtype, "conv2d_nchw")


def conv2d_nhwc(
    Input: Tensor, Filter: Tensor, stride: Any, padding: Any, dilation: Any = 1, out_dtype: str | None = "float32"
) -> Tensor:
    """Input (N, H, W, CI) convolved with Filter (KH, KW, CI, CO), as (N, OH, OW, CO), by default of type float32."""
    window = stride, padding, dilation
    return convolution(Input, Filter, window, ("NHWC", "HWIO"), 1, out_dtype, "conv2d_nhwc")


def conv2d_hwcn(
    Input: Tensor, Filter: Tensor, stride: Any, padding: Any, dilation: Any = 1, out_dtype: str | None = None
) -> Tensor:
    """Input (H, W, CI, N) convolved with Filter (KH, KW, CI, CO), as (OH, OW, CO, N)."""
    window = stride, padding, dilation
    return convolution(Input, Filter, window, ("HWCN", "HWIO"), 1, out_dtype, "conv2d_hwcn")


def group_conv2d_nchw(
    Input: Tensor,
    Filter: Tensor,
    stride: Any,
    padding: Any,
    dilation: Any = 1,
    groups: int = 1,
    out_dtype: str | None = None,
) -> Tensor:
    """Input (N, CI, H, W) convolved with Filter (CO, CI / groups, KH, KW), as (N, CO, OH, OW)."""
    window = stride, padding, dilation
    return convolution(Input, Filter, window, ("NCHW", "OIHW"), groups, out_dtype, "group_conv2d_nchw")


def group_conv2d_nhwc(
    Input: Tensor,
    Filter: Tensor,
    stride: Any,
    padding: Any,
    dilation: Any = 1,
    groups: int = 1,
    out_dtype: str | None = None,
) -> Tensor:
    """Input (N, H, W, CI) convolved with Filter (KH, KW, CI / groups, CO), as (N, OH, OW, CO)."""
    window = stride, padding, dilation
    return convolution(Input, Filter, window, ("NHWC", "HWIO"), groups, out_dtype, "group_conv2d_nhwc")


if not TYPE_CHECKING:  # type checkers see the names

    def __getattr__(name: str) -> object:
        return _old_name(__name__, name, globals())
