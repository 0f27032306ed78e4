"""Resizing, dilation and running sums in NumPy, one element at a time, in float64."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np


def _place(i: int, n: int, m: int, mode: str) -> float:
    if mode == "align_corners":
        return i * (n - 1) / (m - 1) if m > 1 else 0.0
    if mode == "asymmetric":
        return i * n / m
    if mode == "tf_half_pixel_for_nn":
        return (i + 0.5) * n / m
    if mode == "pytorch_half_pixel" and m == 1:
        return 0.0
    return (i + 0.5) * n / m - 0.5


def _taps(at: float, n: int, method: str, rounding: str, alpha: float, exclude: bool) -> list[tuple[int, float]]:
    if method == "nearest_neighbor":
        rounds: dict[str, Callable[[float], float]] = {
            "round": lambda x: math.copysign(math.floor(abs(x) + 0.5), x),
            "round_prefer_floor": lambda x: math.ceil(x - 0.5 - 1e-5),
            "round_prefer_ceil": lambda x: math.floor(x + 0.5 + 1e-5),
            "floor": lambda x: math.floor(x + 1e-5),
            "ceil": lambda x: math.ceil(x - 1e-5),
        }
        return [(min(max(int(rounds[rounding](at)), 0), n - 1), 1.0)]
    low = math.floor(at)
    t = at - low
    if method == "linear":
        taps = [(low, 1 - t), (low + 1, t)]
    else:

        def kernel(x: float) -> float:
            x = abs(x)
            if x <= 1:
                return (alpha + 2) * x**3 - (alpha + 3) * x**2 + 1
            return alpha * (x**3 - 5 * x**2 + 8 * x - 4)

        taps = [(low + step, kernel(t - step)) for step in (-1, 0, 1, 2)]
        if exclude:
            taps = [(p, w) for p, w in taps if 0 <= p < n]
            total = sum(w for _, w in taps)
            taps = [(p, w / total) for p, w in taps]
    return [(min(max(p, 0), n - 1), w) for p, w in taps]


def resize_python(
    a_np: np.ndarray,
    size: Sequence[int],
    method: str,
    mode: str,
    rounding: str = "",
    alpha: float = -0.5,
    exclude: bool = False,
) -> np.ndarray:
    """Input (N, C, ...) with the dimensions behind the channels resized"""
    rounding = rounding or ("round" if mode == "align_corners" else "floor")
    sizes = a_np.shape[2:]
    each = [
        [_taps(_place(i, n, m, mode), n, method, rounding, alpha, exclude) for i in range(m)]
        for n, m in zip(sizes, size, strict=True)
    ]
    out = np.zeros((*a_np.shape[:2], *size))
    for at in np.ndindex(*size):
        for corner in itertools.product(*(taps[i] for taps, i in zip(each, at, strict=True))):
            here = (slice(None), slice(None), *(p for p, _ in corner))
            out[(slice(None), slice(None), *at)] += math.prod(w for _, w in corner) * a_np[here].astype(np.float64)
    return out.astype(a_np.dtype)


def dilation2d_nchw_python(
    a_np: np.ndarray, w_np: np.ndarray, stride: int, padding: Sequence[int], dilation: int
) -> np.ndarray:
    """The largest of input (N, C, H, W) plus filter (C, KH, KW) over each window; padding is (top, left)"""
    top, left = padding
    _, rows, columns = w_np.shape
    height = (a_np.shape[2] + 2 * top - (rows - 1) * dilation - 1) // stride + 1
    width = (a_np.shape[3] + 2 * left - (columns - 1) * dilation - 1) // stride + 1
    out = np.full((*a_np.shape[:2], height, width), -np.inf)
    for y, x, i, j in itertools.product(range(height), range(width), range(rows), range(columns)):
        row, column = y * stride + i * dilation - top, x * stride + j * dilation - left
        if 0 <= row < a_np.shape[2] and 0 <= column < a_np.shape[3]:
            out[:, :, y, x] = np.maximum(out[:, :, y, x], a_np[:, :, row, column] + w_np[:, i, j])
    return out.astype(a_np.dtype)


def running_python(a_np: np.ndarray, how: str, axis: int | None, exclusive: bool, dtype: str) -> np.ndarray:
    """np.cumsum or np.cumprod; `exclusive` leaves each element itself out"""
    wide = a_np.astype(np.float64 if a_np.dtype.kind == "f" else np.int64)
    if axis is None:
        wide, axis = wide.ravel(), 0
    out = (np.cumsum if how == "cumsum" else np.cumprod)(wide, axis)
    if exclusive:
        out = np.roll(out, 1, axis)
        first: list[slice | int] = [slice(None)] * out.ndim
        first[axis] = 0
        out[tuple(first)] = how == "cumprod"
    return out.astype(dtype)


def crop_and_resize_python(
    image: np.ndarray,
    boxes: np.ndarray,
    box_indices: np.ndarray,
    crop_size: Sequence[int],
    layout: str = "NCHW",
    method: str = "bilinear",
    extrapolation_value: float = 0.0,
) -> np.ndarray:
    """Boxes of images, each resized to one size: element by element, in float64."""
    images = image.transpose(0, 3, 1, 2) if layout == "NHWC" else image
    _, channels, rows, columns = images.shape
    out = np.full((len(boxes), channels, *crop_size), extrapolation_value, np.float64)
    for b, (y1, x1, y2, x2) in enumerate(boxes.astype(np.float64)):
        for i, j in np.ndindex(*crop_size):
            tall = i / (crop_size[0] - 1) if crop_size[0] > 1 else 0.5
            wide = j / (crop_size[1] - 1) if crop_size[1] > 1 else 0.5
            y, x = (y1 + (y2 - y1) * tall) * (rows - 1), (x1 + (x2 - x1) * wide) * (columns - 1)
            if not (0 <= y <= rows - 1 and 0 <= x <= columns - 1):
                continue
            seen = images[box_indices[b]].astype(np.float64)
            if method == "nearest_neighbor":
                out[b, :, i, j] = seen[:, int(np.floor(y + 0.5)), int(np.floor(x + 0.5))]
                continue
            top, left = int(y), int(x)
            below, right = min(top + 1, rows - 1), min(left + 1, columns - 1)
            upper = seen[:, top, left] * (left + 1 - x) + seen[:, top, right] * (x - left)
            lower = seen[:, below, left] * (left + 1 - x) + seen[:, below, right] * (x - left)
            out[b, :, i, j] = upper * (top + 1 - y) + lower * (y - top)
    return (out.transpose(0, 2, 3, 1) if layout == "NHWC" else out).astype(image.dtype)
