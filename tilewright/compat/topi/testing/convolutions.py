"""References of convolutions, with the arguments that the legacy library's have."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....topi.references import (
    conv_transposend_python,
    convnd_python,
    depthwise_conv2d_python_nchw,
)

Sides = tuple[tuple[int, ...], tuple[int, ...]]
"""Zeros before each dimension, and after it."""


def each(value: Any, rank: int) -> tuple[int, ...]:
    """Return one number per dimension: an int stands for all."""
    given = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    return given * rank if len(given) == 1 else given


def sides(padding: Any, covered: tuple[int, ...]) -> Sides:
    """Return the zeros around each dimension for a window's extent."""
    rank = len(covered)
    if padding == "VALID":
        return (0,) * rank, (0,) * rank
    if padding == "SAME":
        return tuple(c // 2 for c in covered), tuple((c - 1) // 2 for c in covered)
    given = each(padding, rank)
    return given[:rank], given[-rank:]


def _convolved(a_np: np.ndarray, w_np: np.ndarray, stride: Any, padding: Any, dilation: Any, groups: int) -> np.ndarray:
    rank = a_np.ndim - 2
    spread = each(dilation, rank)
    covered = tuple((k - 1) * d + 1 for k, d in zip(w_np.shape[2:], spread, strict=True))
    return convnd_python(a_np, w_np, each(stride, rank), *sides(padding, covered), spread, groups)


def conv1d_ncw_python(a_np: np.ndarray, w_np: np.ndarray, stride: Any, padding: Any, dilation: Any = 1) -> np.ndarray:
    """Convolve lines (N, CI, W) with filters (CO, CI, K)."""
    return _convolved(a_np, w_np, stride, padding, dilation, 1)


def group_conv1d_ncw_python(
    a_np: np.ndarray, w_np: np.ndarray, stride: Any, padding: Any, dilation: Any, groups: int
) -> np.ndarray:
    """Convolve lines (N, CI, W) with filters (CO, CI / groups, K) in groups."""
    return _convolved(a_np, w_np, stride, padding, dilation, groups)


def conv3d_ncdhw_python(
    a_np: np.ndarray, w_np: np.ndarray, stride: Any, padding: Any, groups: int = 1, dilation: Any = 1
) -> np.ndarray:
    """Convolve volumes (N, CI, D, H, W) with filters (CO, CI / groups, KD, KH, KW)."""
    return _convolved(a_np, w_np, stride, padding, dilation, groups)


def conv3d_ndhwc_python(
    a_np: np.ndarray, w_np: np.ndarray, stride: Any, padding: Any, groups: int = 1, dilation: Any = 1
) -> np.ndarray:
    """Convolve volumes (N, D, H, W, CI) with filters (KD, KH, KW, CI / groups, CO)."""
    volumes, filters = a_np.transpose(0, 4, 1, 2, 3), w_np.transpose(4, 3, 0, 1, 2)
    out = _convolved(volumes, filters, stride, padding, dilation, groups)
    return np.ascontiguousarray(out.transpose(0, 2, 3, 4, 1))


def _spread(a_np: np.ndarray, w_np: np.ndarray, stride: Any, padding: Any, more: Any, groups: int = 1) -> np.ndarray:
    rank = a_np.ndim - 2
    before, after = sides(padding, w_np.shape[2:])
    return conv_transposend_python(a_np, w_np, each(stride, rank), before, after, each(more, rank), groups)


def conv1d_transpose_ncw_python(
    a_np: np.ndarray, w_np: np.ndarray, stride: Any, padding: Any, output_padding: Any = (0,)
) -> np.ndarray:
    """Spread lines (N, CI, W) through filters (CI, CO, K)."""
    return _spread(a_np, w_np, stride, padding, output_padding)


def group_conv1d_transpose_ncw_python(
    a_np: np.ndarray, w_np: np.ndarray, stride: Any, padding: Any, output_padding: Any = (0,), groups: int = 1
) -> np.ndarray:
    """Spread lines (N, CI, W) through filters (CI, CO / groups, K) in groups."""
    return _spread(a_np, w_np, stride, padding, output_padding, groups)


def conv2d_transpose_nchw_python(
    a_np: np.ndarray, w_np: np.ndarray, stride: Any, padding: Any, output_padding: Any = (0, 0), groups: int = 1
) -> np.ndarray:
    """Spread images (N, CI, H, W) through filters (CI, CO / groups, KH, KW)."""
    return _spread(a_np, w_np, stride, padding, output_padding, groups)


def conv2d_transpose_nhwc_python(
    a_nhwc: np.ndarray, weight: np.ndarray, weight_format: str, stride: Any, padding: Any, output_padding: Any = (0, 0)
) -> np.ndarray:
    """Spread images (N, H, W, CI) through filters with dimensions in the order `weight_format`: "HWIO", "OIHW"."""
    filters = weight.transpose([weight_format.index(letter) for letter in "IOHW"])
    out = _spread(a_nhwc.transpose(0, 3, 1, 2), filters, stride, padding, output_padding)
    return np.ascontiguousarray(out.transpose(0, 2, 3, 1))


def conv3d_transpose_ncdhw_python(
    a_np: np.ndarray, w_np: np.ndarray, stride: Any, padding: Any, output_padding: Any = (0, 0, 0)
) -> np.ndarray:
    """Spread volumes (N, CI, D, H, W) through filters (CI, CO, KD, KH, KW)."""
    return _spread(a_np, w_np, stride, padding, output_padding)


def depthwise_conv2d_python_nchwc(
    input_np: np.ndarray, filter_np: np.ndarray, stride: Any, padding: Any, dilation: Any = 1
) -> np.ndarray:
    """Convolve images (N, C / c, H, W, c) with filters (C / c, 1, KH, KW, 1, c), channel by channel."""
    n, chunks, height, width, block = input_np.shape
    images = input_np.transpose(0, 1, 4, 2, 3).reshape(n, chunks * block, height, width)
    kernel = filter_np.shape[2:4]
    filters = filter_np[:, 0, :, :, 0].transpose(0, 3, 1, 2).reshape(-1, 1, *kernel)
    out = depthwise_conv2d_python_nchw(images, filters, stride, padding, dilation)
    parts = out.reshape(n, -1, filter_np.shape[5], *out.shape[2:])
    return np.ascontiguousarray(parts.transpose(0, 1, 3, 4, 2))


def conv2d_backward_weight_python(
    dy_np: np.ndarray,
    x_np: np.ndarray,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    groups: int = 1,
    channels: int | None = None,
) -> np.ndarray:
    """Return the gradient of filters (CO, CI / groups, KH, KW): of images `x_np`."""
    kernel, steps = each(kernel_size, 2), each(stride, 2)
    before, after = sides(padding, kernel)
    padded = np.pad(x_np.astype(np.float64), [(0, 0), (0, 0), *zip(before, after, strict=True)])
    per_in, per_out = x_np.shape[1] // groups, (channels or dy_np.shape[1]) // groups
    out = np.zeros((per_out * groups, per_in, *kernel))
    height, width = dy_np.shape[2:]
    for i, j in np.ndindex(*kernel):
        seen = padded[
            :, :, i : i + (height - 1) * steps[0] + 1 : steps[0], j : j + (width - 1) * steps[1] + 1 : steps[1]
        ]
        for g in range(groups):
            inputs = seen[:, g * per_in : (g + 1) * per_in]
            grads = dy_np[:, g * per_out : (g + 1) * per_out].astype(np.float64)
            out[g * per_out : (g + 1) * per_out, :, i, j] = np.einsum("nfhw,nchw->fc", grads, inputs)
    return out.astype(x_np.dtype)
