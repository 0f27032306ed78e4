"""Correlation and deformable convolution in NumPy, one place at a time, in float64."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def _sides(padding: Any) -> tuple[int, int, int, int]:
    given = tuple(padding) if isinstance(padding, (tuple, list)) else (padding,)
    top, left, bottom, right = given * 4 if len(given) == 1 else given * 2 if len(given) == 2 else given
    return top, left, bottom, right


def correlation_nchw_python(
    data1: np.ndarray,
    data2: np.ndarray,
    kernel_size: int,
    max_displacement: int,
    stride1: int,
    stride2: int,
    padding: Any,
    is_multiply: bool,
) -> np.ndarray:
    """How alike the patches of one image are to displaced patches of another"""
    top, left, bottom, right = _sides(padding)
    around = ((0, 0), (0, 0), (top, bottom), (left, right))
    one, other = (np.pad(a.astype(np.float64), around) for a in (data1, data2))
    reach = max_displacement // stride2 * stride2
    moves = [(y, x) for y in range(-reach, reach + 1, stride2) for x in range(-reach, reach + 1, stride2)]
    border = max_displacement + (kernel_size - 1) // 2
    height, width = (math.ceil((n - 2 * border) / stride1) for n in one.shape[2:])
    out = np.zeros((data1.shape[0], len(moves), height, width))
    for q, i, j in np.ndindex(*out.shape[1:]):
        y, x = i * stride1 + max_displacement, j * stride1 + max_displacement
        down, right_by = moves[q]
        patch = one[:, :, y : y + kernel_size, x : x + kernel_size]
        moved = other[:, :, y + down : y + down + kernel_size, x + right_by : x + right_by + kernel_size]
        out[:, q, i, j] = (patch * moved if is_multiply else np.abs(patch - moved)).mean((1, 2, 3))
    return out.astype("float32")


def deformable_conv2d_nchw_python(
    a_np: np.ndarray,
    offset_np: np.ndarray,
    w_np: np.ndarray,
    stride: Any,
    padding: Any,
    dilation: Any,
    deformable_groups: int = 1,
    groups: int = 1,
) -> np.ndarray:
    """A convolution with displaced taps, which read between the elements; outside is zero"""
    steps, spread = (v if isinstance(v, (tuple, list)) else (v, v) for v in (stride, dilation))
    top, left, _, _ = _sides(padding)
    n, channels, height, width = a_np.shape
    filters, per_in, rows, columns = w_np.shape
    out = np.zeros((n, filters, *offset_np.shape[2:]))
    for b, c, i, j, y, x in np.ndindex(n, channels, rows, columns, *offset_np.shape[2:]):
        first = (c // (channels // deformable_groups) * rows * columns + i * columns + j) * 2
        at_y = y * steps[0] - top + i * spread[0] + float(offset_np[b, first, y, x])
        at_x = x * steps[1] - left + j * spread[1] + float(offset_np[b, first + 1, y, x])
        if not (0 <= at_y < height and 0 <= at_x < width):
            continue
        low_y, low_x = math.floor(at_y), math.floor(at_x)
        lines = np.array([1 - (at_y - low_y), at_y - low_y])
        pixels = np.array([1 - (at_x - low_x), at_x - low_x])
        image = np.pad(a_np[b, c].astype(np.float64), (0, 1))  # zeros below and on the right
        value = lines @ image[low_y : low_y + 2, low_x : low_x + 2] @ pixels
        group = c // per_in
        part = slice(group * filters // groups, (group + 1) * filters // groups)
        out[b, part, y, x] += value * w_np[part, c % per_in, i, j]
    return out.astype(a_np.dtype)


def deformable_conv2d_nhwc_python(
    a_np: np.ndarray,
    offset_np: np.ndarray,
    w_np: np.ndarray,
    stride: Any,
    padding: Any,
    dilation: Any,
    deformable_groups: int = 1,
    groups: int = 1,
) -> np.ndarray:
    """The same with the channels last, and filters (KH, KW, CI / groups, CO)"""
    images, moves = (v.transpose(0, 3, 1, 2) for v in (a_np, offset_np))
    out = deformable_conv2d_nchw_python(
        images, moves, w_np.transpose(3, 2, 0, 1), stride, padding, dilation, deformable_groups, groups
    )
    return np.ascontiguousarray(out.transpose(0, 2, 3, 1))
