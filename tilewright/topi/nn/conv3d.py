"""Convolutions of volumes, and grouped ones of lines, under their legacy names.

All of them have these options. `strides`, `dilation`: an int, or one per spatial dimension. `padding`: likewise, or one
per side of each dimension, or "SAME" or "VALID". `out_dtype`: the type of the sums, by default the type of the data.
They raise UserError for shapes that do not fit each other.
"""

from __future__ import annotations

from typing import Any

from ...tensor.tensor import Tensor
from .convolution import convolution


def conv3d_ncdhw(
    Input: Tensor,
    Filter: Tensor,
    stride: Any,
    padding: Any,
    dilation: Any = 1,
    groups: int | str = 1,
    out_dtype: Any = None,
) -> Tensor:
    """Input (N, CI, D, H, W) convolved with Filter (CO, CI / groups, KD, KH, KW), as (N, CO, OD, OH, OW)."""
    window = stride, padding, dilation
    parts, dtype = _groups_and_type(groups, out_dtype)
    return convolution(Input, Filter, window, ("NCDHW", "OIDHW"), parts, dtype, "conv3d_ncdhw")


def conv3d_ndhwc(
    Input: Tensor,
    Filter: Tensor,
    stride: Any,
    padding: Any,
    dilation: Any = 1,
    groups: int | str = 1,
    out_dtype: Any = "float32",
) -> Tensor:
    """Input (N, D, H, W, CI) convolved with Filter (KD, KH, KW, CI / groups, CO), as (N, OD, OH, OW, CO)."""
    window = stride, padding, dilation
    parts, dtype = _groups_and_type(groups, out_dtype)
    return convolution(Input, Filter, window, ("NDHWC", "DHWIO"), parts, dtype, "conv3d_ndhwc")


def _groups_and_type(groups: int | str, out_dtype: Any) -> tuple[Any, Any]:
    """Return both arguments; before groups existed, the type stood in their place."""
    return (1, groups) if isinstance(groups, str) else (groups, out_dtype)


def group_conv1d_ncw(
    data: Tensor,
    kernel: Tensor,
    strides: Any = 1,
    padding: Any = "VALID",
    dilation: Any = 1,
    groups: int = 1,
    out_dtype: Any = None,
) -> Tensor:
    """`data` (N, CI, W) convolved with `kernel` (CO, CI / groups, KW), as (N, CO, OW)."""
    window = strides, padding, dilation
    return convolution(data, kernel, window, ("NCW", "OIW"), groups, out_dtype, "group_conv1d_ncw", ("data", "kernel"))


def group_conv1d_nwc(
    data: Tensor,
    kernel: Tensor,
    strides: Any = 1,
    padding: Any = "VALID",
    dilation: Any = 1,
    groups: int = 1,
    out_dtype: Any = None,
) -> Tensor:
    """`data` (N, W, CI) convolved with `kernel` (KW, CI / groups, CO), as (N, OW, CO)."""
    window = strides, padding, dilation
    return convolution(data, kernel, window, ("NWC", "WIO"), groups, out_dtype, "group_conv1d_nwc", ("data", "kernel"))
