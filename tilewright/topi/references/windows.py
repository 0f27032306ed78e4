"""Transposed convolutions and pooling in NumPy, summed in float64, written from their definitions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def conv_transpose_python(
    a_np: np.ndarray,
    w_np: np.ndarray,
    stride: Sequence[int],
    padding: Sequence[int],
    output_padding: Sequence[int],
    dilation: Sequence[int],
    groups: int = 1,
) -> np.ndarray:
    """Input (N, C, H, W) spread through weights (C, filters / groups, KH, KW); `padding` (top, left, bottom, right) is
    cut off. Returned in the type of the input."""
    n, c, h, w = a_np.shape
    _, per_group, kh, kw = w_np.shape
    (sy, sx), (dy, dx), (top, left, bottom, right) = stride, dilation, padding
    height, width = ((s - 1) * t + (k - 1) * d + 1 for s, t, k, d in ((h, sy, kh, dy), (w, sx, kw, dx)))
    whole = np.zeros((n, per_group * groups, height + output_padding[0], width + output_padding[1]))
    per_in = c // groups
    for g in range(groups):
        inputs = a_np[:, g * per_in : (g + 1) * per_in].astype(np.float64)
        weights = w_np[g * per_in : (g + 1) * per_in].astype(np.float64)
        filters = slice(g * per_group, (g + 1) * per_group)
        for ky in range(kh):
            for kx in range(kw):
                product = np.einsum("nchw,cf->nfhw", inputs, weights[:, :, ky, kx])
                rows = slice(ky * dy, ky * dy + (h - 1) * sy + 1, sy)
                columns = slice(kx * dx, kx * dx + (w - 1) * sx + 1, sx)
                whole[:, filters, rows, columns] += product
    ends = whole.shape[2] - bottom, whole.shape[3] - right
    return np.ascontiguousarray(whole[:, :, top : ends[0], left : ends[1]].astype(a_np.dtype))


def pool_python(
    a_np: np.ndarray,
    how: str,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    beyond: Sequence[int] = (0, 0),
    divisor: int = 0,
) -> np.ndarray:
    """The windows of an input (N, C, H, W): their "max", "average", or "average inside" the input.

    `padding` is (top, left, bottom, right). An "average" does not count the last `beyond` rows and columns of it. An
    average divides by `divisor`, unless that is 0. Returned in the type of the input.
    """
    top, left, bottom, right = padding
    around = ((0, 0), (0, 0), (top, bottom), (left, right))
    values = np.pad(a_np.astype(np.float64), around, constant_values=-np.inf if how == "max" else 0.0)
    there = np.pad(np.ones(a_np.shape[2:]), around[2:], constant_values=0.0 if how == "average inside" else 1.0)
    there[there.shape[0] - beyond[0] :] = there[:, there.shape[1] - beyond[1] :] = 0.0
    covered = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    places = [(size - c) // s + 1 for size, c, s in zip(values.shape[2:], covered, stride, strict=True)]
    out = np.empty((*a_np.shape[:2], *places))
    for y in range(places[0]):
        for x in range(places[1]):
            rows = slice(y * stride[0], y * stride[0] + covered[0], dilation[0])
            columns = slice(x * stride[1], x * stride[1] + covered[1], dilation[1])
            window = values[:, :, rows, columns]
            if how == "max":
                out[:, :, y, x] = window.max(axis=(2, 3))
            else:
                out[:, :, y, x] = window.sum(axis=(2, 3)) / (divisor or there[rows, columns].sum())
    return out.astype(a_np.dtype)
