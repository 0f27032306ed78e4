"""Operators of `topi` with the arguments that they had in old releases."""

from __future__ import annotations

from typing import Any

from ...core.errors import UserError
from ...tensor.tensor import Tensor
from ...topi import image, nn
from ...topi.nn.convolution import convolution
from ..topi import cuda

l2norm_instance = nn.l2_normalize

_METHODS = {"BILINEAR": "linear", "NEAREST_NEIGHBOR": "nearest_neighbor", "BICUBIC": "cubic"}


def pool(
    data: Tensor,
    kernel: Any,
    stride: Any,
    padding: Any,
    pool_type: str,
    ceil_mode: bool = False,
    layout: str = "NCHW",
    count_include_pad: bool = True,
) -> Tensor:
    """Pool images: `topi.nn.pool2d` without a dilation."""
    return nn.pool2d(data, kernel, stride, (1, 1), padding, pool_type, ceil_mode, layout, count_include_pad)


def upsampling_nchw(data: Tensor, scale: int) -> Tensor:
    """Repeat each element of images of layout NCHW `scale` times in both directions."""
    return nn.upsampling(data, scale, scale, "NCHW")


def upsampling_nhwc(data: Tensor, scale: int) -> Tensor:
    """Repeat each element of images of layout NHWC `scale` times in both directions."""
    return nn.upsampling(data, scale, scale, "NHWC")


def batch_norm_inference(
    data: Tensor, gamma: Tensor, beta: Tensor, moving_mean: Tensor, moving_var: Tensor, eps: float, fix_gamma: bool
) -> Tensor:
    """Normalise channels by their moving statistics; `fix_gamma` takes 1 for `gamma`."""
    return nn.batch_norm(data, gamma, beta, moving_mean, moving_var, 1, eps, True, not fix_gamma)[0]


def _option(value: Any) -> str:
    """Return which option of `resize` a value is."""
    if isinstance(value, bool):
        return "align_corners"
    return "out_dtype" if str(value)[-1:].isdigit() else "method"


def resize(data: Tensor, size: Any, layout: str = "NCHW", *options: Any, **named: Any) -> Tensor:
    """Resize images, as in v0.2 to v0.6.

    Parameters
    ----------
    data, size, layout
        As of `topi.image.resize2d`.
    *options, **named
        `align_corners` (True or False), `method` ("bilinear", "nearest_neighbor" or "bicubic", in either case) and
        `out_dtype`. Releases had them in different orders: each is known by its kind.

    Raises
    ------
    UserError
        If `align_corners` is missing, which had different defaults in different releases, and for an unknown method.
    """
    given = {_option(value): value for value in options} | named
    if not isinstance(given.get("align_corners"), bool) or given.keys() - {"align_corners", "method", "out_dtype"}:
        raise UserError(
            f"the options are {given}",
            primitive="resize",
            fix="give align_corners=False (the default of v0.5) or True (that of v0.6), method and out_dtype by name; "
            "or use topi.image.resize2d",
        )
    method = str(given.get("method", "BILINEAR")).upper()
    if method not in _METHODS:
        raise UserError(f"method={method!r} is not known", primitive="resize", fix=f"use one of {', '.join(_METHODS)}")
    how = "align_corners" if given["align_corners"] else "asymmetric"
    return image.resize2d(data, None, size, layout, _METHODS[method], how, out_dtype=given.get("out_dtype"))


def conv2d_nchw_int8(
    data: Tensor, kernel: Tensor, strides: Any, padding: Any, dilation: Any, out_dtype: str = "int32"
) -> Tensor:
    """Convolve 8-bit integers of layout NCHW: `topi.cuda.conv2d_nchw`, accumulated in int32 by default."""
    return cuda.conv2d_nchw(data, kernel, strides, padding, dilation, out_dtype)


def conv2d_hwnc_tensorcore(
    data: Tensor,
    kernel: Tensor,
    strides: Any,
    padding: Any,
    dilation: Any,
    in_dtype: str,
    out_dtype: str = "int32",
) -> Tensor:
    """Convolve `data` (H, W, N, CI) with `kernel` (KH, KW, CO, CI), as (OH, OW, N, CO)."""
    if in_dtype != str(data.dtype):
        raise UserError(
            f"in_dtype={in_dtype!r}, but data is {data.dtype}",
            primitive="conv2d_hwnc_tensorcore",
            fix=f"give in_dtype={str(data.dtype)!r}",
        )
    window = strides, padding, dilation
    return convolution(data, kernel, window, ("HWNC", "HWOI"), 1, out_dtype, "conv2d_hwnc_tensorcore")
