"""Pooling in NumPy, window by window, in float64."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np


def poolnd_python(
    a_np: np.ndarray,
    kernel: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    before: Sequence[int],
    after: Sequence[int],
    how: str,
    count_include_pad: bool = True,
    ceil_mode: bool = False,
    dtype: str = "",
    layout: str = "",
) -> np.ndarray:
    """Windows over all dimensions behind the first two, or all of `layout` but N and C: their "max", or their "avg"."""
    if layout:
        order = [layout.index("N"), layout.index("C"), *(i for i, c in enumerate(layout) if c not in "NC")]
        pooled = poolnd_python(
            a_np.transpose(order), kernel, stride, dilation, before, after, how, count_include_pad, ceil_mode, dtype
        )
        return np.ascontiguousarray(pooled.transpose(np.argsort(order)))
    rank = len(kernel)
    sizes = a_np.shape[2:]
    places = []
    for n, k, s, d, b, e in zip(sizes, kernel, stride, dilation, before, after, strict=True):
        room = n + b + e - (k - 1) * d - 1
        places.append((math.ceil(room / s) if ceil_mode else room // s) + 1)
    out = np.zeros((*a_np.shape[:2], *places))
    for at in np.ndindex(*places):
        seen, counted = [], 0
        for tap in np.ndindex(*kernel):
            where = [at[i] * stride[i] + tap[i] * dilation[i] - before[i] for i in range(rank)]
            counted += all(-b <= w < n + e for w, n, b, e in zip(where, sizes, before, after, strict=True))
            if all(0 <= w < n for w, n in zip(where, sizes, strict=True)):
                seen.append(a_np[(slice(None), slice(None), *where)].astype(np.float64))
        here = (slice(None), slice(None), *at)
        if how == "max":
            out[here] = np.max(seen, axis=0)
        else:
            out[here] = np.sum(seen, axis=0) / (counted if count_include_pad else len(seen))
    return out.astype(dtype or a_np.dtype)


def adaptive_pool_python(a_np: np.ndarray, size: Sequence[int], how: str) -> np.ndarray:
    """Window i of m over n elements, from `floor(i * n / m)` to `ceil((i + 1) * n / m)`, after the first two
    dimensions"""
    out = np.zeros((*a_np.shape[:2], *size))
    for at in np.ndindex(*size):
        cut = tuple(
            slice(math.floor(i * n / m), math.ceil((i + 1) * n / m))
            for i, n, m in zip(at, a_np.shape[2:], size, strict=True)
        )
        window = a_np[(slice(None), slice(None), *cut)].astype(np.float64)
        axes = tuple(range(2, a_np.ndim))
        out[(slice(None), slice(None), *at)] = window.max(axes) if how == "max" else window.mean(axes)
    return out.astype(a_np.dtype)


def pool_grad_nchw(
    a_np: np.ndarray,
    grads: np.ndarray,
    kernel: tuple[int, int],
    stride: tuple[int, int],
    padding: tuple[int, int, int, int],
    how: str,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> np.ndarray:
    """The contribution of each element of images (N, C, H, W) to the pooled result, times `grads`"""
    out = np.zeros(a_np.shape)
    top, left, bottom, right = padding
    height, width = a_np.shape[2:]
    for n, c, y, x in itertools.product(*map(range, grads.shape)):
        rows = [y * stride[0] + i - top for i in range(kernel[0])]
        columns = [x * stride[1] + j - left for j in range(kernel[1])]
        seen = [(i, j) for i in rows for j in columns if 0 <= i < height and 0 <= j < width]
        if how == "max":
            best = max(seen, key=lambda p: (a_np[n, c, p[0], p[1]], -p[0], -p[1]))
            out[n, c, best[0], best[1]] += grads[n, c, y, x]
        else:
            padded = sum(i < height + bottom for i in rows) * sum(j < width + right for j in columns)
            count = padded if count_include_pad else len(seen)
            for i, j in seen:
                out[n, c, i, j] += grads[n, c, y, x] / count
    return out.astype(a_np.dtype)
