"""Element-wise operators in NumPy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def relu_python(a_np: np.ndarray) -> np.ndarray:
    """max(a, 0)"""
    out: np.ndarray = np.maximum(a_np, 0)
    return out


def scale_shift_nchw_python(a_np: np.ndarray, scale: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """a[n, c, h, w] * scale[c] + shift[c]"""
    out: np.ndarray = a_np * scale[:, None, None] + shift[:, None, None]
    return out


def dilate_python(a_np: np.ndarray, strides: Sequence[int], dilation_value: float = 0.0) -> np.ndarray:
    """The elements of `a_np` at every strides[i]-th position, `dilation_value` elsewhere."""
    shape = [(n - 1) * s + 1 for n, s in zip(a_np.shape, strides, strict=True)]
    out = np.full(shape, dilation_value, a_np.dtype)
    out[tuple(slice(None, None, s) for s in strides)] = a_np
    return out
