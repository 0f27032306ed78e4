"""The 1-D convolution in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np


def convolve_python(a_np: np.ndarray, w_np: np.ndarray, stride: int = 1, padding: Any = (0, 0)) -> np.ndarray:
    """`np.convolve` of `a_np` between `padding` = (before, after) zeros, for full overlaps with `w_np`.

    Every `stride`-th of the results; summed in float64 and returned in the type of the input.
    """
    before, after = padding
    whole = np.convolve(a_np.astype(np.float64), w_np.astype(np.float64), "full")
    # Place i of the full result has len(w) - 1 - i zeros before; elements beyond it are zero.
    whole = np.pad(whole, (max(0, before - len(w_np) + 1), max(0, after - len(w_np) + 1)))
    first = max(0, len(w_np) - 1 - before)
    count = len(a_np) + before + after - len(w_np) + 1
    return np.ascontiguousarray(whole[first : first + count : stride].astype(a_np.dtype))
