"""Convolutions in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view


def _both(value: Any) -> tuple[int, int]:
    return (value[0], value[1]) if isinstance(value, (tuple, list)) else (value, value)


def _border(padding: Any, kernel: tuple[int, int]) -> tuple[tuple[int, int], tuple[int, int]]:
    """((top, bottom), (left, right))"""
    if padding == "VALID":
        return (0, 0), (0, 0)
    if padding == "SAME":
        return (kernel[0] // 2, (kernel[0] - 1) // 2), (kernel[1] // 2, (kernel[1] - 1) // 2)
    if isinstance(padding, (tuple, list)) and len(padding) == 4:
        return (padding[0], padding[2]), (padding[1], padding[3])
    vertical, horizontal = _both(padding)
    return (vertical, vertical), (horizontal, horizontal)


def _windows(a_np: np.ndarray, kernel: tuple[int, int], stride: Any, padding: Any, dilation: Any) -> np.ndarray:
    """All windows, shape (N, C, OH, OW, KH, KW), in float64."""
    dilate_h, dilate_w = _both(dilation)
    covered = (kernel[0] - 1) * dilate_h + 1, (kernel[1] - 1) * dilate_w + 1
    padded = np.pad(a_np.astype(np.float64), ((0, 0), (0, 0), *_border(padding, covered)))
    stride_h, stride_w = _both(stride)
    windows = sliding_window_view(padded, covered, axis=(2, 3))
    return windows[:, :, ::stride_h, ::stride_w, ::dilate_h, ::dilate_w]


def conv2d_nchw_python(
    a_np: np.ndarray, w_np: np.ndarray, stride: Any, padding: Any, groups: int = 1, dilation: Any = 1
) -> np.ndarray:
    """Input (N, CI, H, W) with filters (CO, CI / groups, KH, KW), as (N, CO, OH, OW).

    Summed in float64 and returned in the type of the input.
    """
    kernel = (w_np.shape[2], w_np.shape[3])
    windows = _windows(a_np, kernel, stride, padding, dilation)
    per_in, per_out = a_np.shape[1] // groups, w_np.shape[0] // groups
    parts = [
        np.tensordot(
            windows[:, g * per_in : (g + 1) * per_in],
            w_np[g * per_out : (g + 1) * per_out].astype(np.float64),
            axes=([1, 4, 5], [1, 2, 3]),
        )
        for g in range(groups)
    ]
    return np.ascontiguousarray(np.concatenate(parts, axis=3).transpose(0, 3, 1, 2).astype(a_np.dtype))


def conv2d_nhwc_python(a_np: np.ndarray, w_np: np.ndarray, stride: Any, padding: Any, groups: int = 1) -> np.ndarray:
    """Input (N, H, W, CI) with filters (KH, KW, CI / groups, CO), as (N, OH, OW, CO); summed in float64."""
    out = conv2d_nchw_python(a_np.transpose(0, 3, 1, 2), w_np.transpose(3, 2, 0, 1), stride, padding, groups)
    return np.ascontiguousarray(out.transpose(0, 2, 3, 1))


def conv2d_hwcn_python(a_np: np.ndarray, w_np: np.ndarray, stride: Any, padding: Any) -> np.ndarray:
    """Input (H, W, CI, N) with filters (KH, KW, CI, CO), as (OH, OW, CO, N); summed in float64."""
    out = conv2d_nchw_python(a_np.transpose(3, 2, 0, 1), w_np.transpose(3, 2, 0, 1), stride, padding)
    return np.ascontiguousarray(out.transpose(2, 3, 1, 0))


def depthwise_conv2d_python_nchw(
    input_np: np.ndarray, filter_np: np.ndarray, stride: Any, padding: Any, dilation: Any = 1
) -> np.ndarray:
    """Input (N, C, H, W) with filters (C, M, KH, KW), as (N, C * M, OH, OW); summed in float64."""
    kernel = (filter_np.shape[2], filter_np.shape[3])
    windows = _windows(input_np, kernel, stride, padding, dilation)
    filters = filter_np.astype(np.float64)
    n, c, h, w = windows.shape[:4]
    m = filters.shape[1]
    out, product = np.zeros((2, n, c, m, h, w))
    for i, j in np.ndindex(*kernel):  # ten times as quick as einsum, which gathers every window
        np.multiply(windows[:, :, None, :, :, i, j], filters[:, :, i, j, None, None], out=product)
        out += product
    return np.ascontiguousarray(out.reshape(n, c * m, h, w).astype(input_np.dtype))


def depthwise_conv2d_python_nhwc(
    input_np: np.ndarray, filter_np: np.ndarray, stride: Any, padding: Any, dilation: Any = 1
) -> np.ndarray:
    """Input (N, H, W, C) with filters (KH, KW, C, M), as (N, OH, OW, C * M); summed in float64."""
    images, filters = input_np.transpose(0, 3, 1, 2), filter_np.transpose(2, 3, 0, 1)
    out = depthwise_conv2d_python_nchw(images, filters, stride, padding, dilation)
    return np.ascontiguousarray(out.transpose(0, 2, 3, 1))
