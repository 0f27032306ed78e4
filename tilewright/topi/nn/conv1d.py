"""One-dimensional convolutions under their legacy names.

All of them have these options. `strides`, `dilation`: an int. `padding`: an int, (left, right), "SAME" or "VALID".
`out_dtype`: the type of the sums, by default the type of `data`. They raise UserError for shapes that do not fit each
other.
"""

from __future__ import annotations

from typing import Any

from ...tensor.tensor import Tensor
from .convolution import convolution, layouts_of

_ARGUMENTS = ("data", "kernel")


def conv1d(
    data: Tensor,
    kernel: Tensor,
    strides: Any = 1,
    padding: Any = "VALID",
    dilation: Any = 1,
    groups: int = 1,
    data_layout: str = "NCW",
    kernel_layout: str = "",
    out_dtype: str | None = None,
) -> Tensor:
    """`data` of layout `data_layout` convolved with `kernel`, in the same layout.

    The layout of the kernel is by default OIW if the data's begins with NC, and WIO otherwise.
    """
    layouts = layouts_of(data_layout, kernel_layout, "W", "conv1d")
    return convolution(data, kernel, (strides, padding, dilation), layouts, groups, out_dtype, "conv1d", _ARGUMENTS)


def conv1d_ncw(
    data: Tensor,
    kernel: Tensor,
    strides: Any = 1,
    padding: Any = "VALID",
    dilation: Any = 1,
    out_dtype: str | None = None,
) -> Tensor:
    """`data` (N, CI, W) convolved with `kernel` (CO, CI, KW), as (N, CO, OW)."""
    window = strides, padding, dilation
    return convolution(data, kernel, window, ("NCW", "OIW"), 1, out_dtype, "conv1d_ncw", _ARGUMENTS)


def conv1d_nwc(
    data: Tensor,
    kernel: Tensor,
    strides: Any = 1,
    padding: Any = "VALID",
    dilation: Any = 1,
    out_dtype: str | None = None,
) -> Tensor:
    """`data` (N, W, CI) convolved with `kernel` (KW, CI, CO), as (N, OW, CO)."""
    window = strides, padding, dilation
    return convolution(data, kernel, window, ("NWC", "WIO"), 1, out_dtype, "conv1d_nwc", _ARGUMENTS)
