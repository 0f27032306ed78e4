"""Convolutions of any rank in NumPy, in float64, one tap of the kernel at a time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def convnd_python(
    a_np: np.ndarray,
    w_np: np.ndarray,
    stride: Sequence[int],
    before: Sequence[int],
    after: Sequence[int],
    dilation: Sequence[int],
    groups: int = 1,
) -> np.ndarray:
    """Input (N, CI, ...) with kernels (CO, CI / groups, ...), as (N, CO, ...)"""
    padded = np.pad(a_np.astype(np.float64), [(0, 0), (0, 0), *zip(before, after, strict=True)])
    kernel = w_np.shape[2:]
    places = [
        (n - (k - 1) * d - 1) // s + 1 for n, k, s, d in zip(padded.shape[2:], kernel, stride, dilation, strict=True)
    ]
    out = np.zeros((a_np.shape[0], w_np.shape[0], *places))
    per_in, per_out = w_np.shape[1], w_np.shape[0] // groups
    for tap in np.ndindex(*kernel):
        cut = tuple(
            slice(t * d, t * d + (p - 1) * s + 1, s) for t, d, p, s in zip(tap, dilation, places, stride, strict=True)
        )
        seen = padded[(slice(None), slice(None), *cut)]
        for g in range(groups):
            inputs = seen[:, g * per_in : (g + 1) * per_in]
            weights = w_np[(slice(g * per_out, (g + 1) * per_out), slice(None), *tap)].astype(np.float64)
            out[:, g * per_out : (g + 1) * per_out] += np.einsum("nc...,fc->nf...", inputs, weights)
    return out.astype(a_np.dtype)


def conv_transposend_python(
    a_np: np.ndarray,
    w_np: np.ndarray,
    stride: Sequence[int],
    before: Sequence[int],
    after: Sequence[int],
    more: Sequence[int],
    groups: int = 1,
) -> np.ndarray:
    """Input (N, CI, ...) spread through kernels (CI, CO / groups, ...); the border is cut off, the end is longer"""
    kernel, sizes = w_np.shape[2:], a_np.shape[2:]
    whole = [(n - 1) * s + k + m for n, s, k, m in zip(sizes, stride, kernel, more, strict=True)]
    per_in, per_out = a_np.shape[1] // groups, w_np.shape[1]
    out = np.zeros((a_np.shape[0], per_out * groups, *whole))
    for tap in np.ndindex(*kernel):
        cut = tuple(slice(t, t + (n - 1) * s + 1, s) for t, n, s in zip(tap, sizes, stride, strict=True))
        for g in range(groups):
            inputs = a_np[:, g * per_in : (g + 1) * per_in].astype(np.float64)
            weights = w_np[(slice(g * per_in, (g + 1) * per_in), slice(None), *tap)].astype(np.float64)
            here = (slice(None), slice(g * per_out, (g + 1) * per_out), *cut)
            out[here] += np.einsum("nc...,cf->nf...", inputs, weights)
    keep = tuple(slice(b, n - a) for b, a, n in zip(before, after, whole, strict=True))
    return np.ascontiguousarray(out[(slice(None), slice(None), *keep)]).astype(a_np.dtype)


def depthwise_gradients_python(
    a_np: np.ndarray, w_np: np.ndarray, grads: np.ndarray, stride: int, padding: int
) -> tuple[np.ndarray, np.ndarray]:
    """Gradients by input (N, H, W, C) and filter (KH, KW, C, M) of a depthwise convolution, from the result's"""
    by_input, by_filter = np.zeros(a_np.shape), np.zeros(w_np.shape)
    height, width, multiplier = a_np.shape[1], a_np.shape[2], w_np.shape[3]
    for n, y, x, f in np.ndindex(*grads.shape):
        c, m = divmod(f, multiplier)
        for i, j in np.ndindex(*w_np.shape[:2]):
            row, column = y * stride + i - padding, x * stride + j - padding
            if 0 <= row < height and 0 <= column < width:
                by_input[n, row, column, c] += grads[n, y, x, f] * w_np[i, j, c, m]
                by_filter[i, j, c, m] += grads[n, y, x, f] * a_np[n, row, column, c]
    return by_input.astype(a_np.dtype), by_filter.astype(w_np.dtype)
