"""References of the other operators, under the names and with the arguments that the legacy library's have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....topi.references import (
    adaptive_pool_python,
    matrix_set_diag_python,
    nll_loss_python,
    one_hot_python,
    resize_python,
    sequence_mask_python,
)

_METHODS = {"bilinear": "linear", "trilinear": "linear", "bicubic": "cubic"}


def gather_python(data: np.ndarray, axis: int, indices: np.ndarray) -> np.ndarray:
    """Return the elements of `data` at the given indices along an axis, as `take_along_axis` does."""
    return np.take_along_axis(data, indices.astype(np.int64), axis)


def strided_slice_python(
    data: np.ndarray,
    begin: Sequence[int],
    end: Sequence[int],
    strides: Any = None,
    slice_mode: str = "end",
    axes: Sequence[int] | None = None,
) -> np.ndarray:
    """Return the part of an array from `begin` to `end` in steps; with `slice_mode="size"`, `end` has sizes."""
    cut = [slice(None)] * data.ndim
    for i, axis in enumerate(range(len(begin)) if axes is None else axes):
        step = 1 if strides is None or slice_mode == "size" else each_step(strides, i)
        stop: int | None = end[i] if i < len(end) else data.shape[axis]
        if slice_mode == "size":
            stop = None if end[i] < 0 else begin[i] + end[i]
        elif step < 0 and stop is not None and stop < -data.shape[axis]:
            stop = None
        cut[axis] = slice(begin[i], stop, step)
    return np.ascontiguousarray(data[tuple(cut)])


def each_step(strides: Any, at: int) -> int:
    """Return the step of a dimension: a list of one stands for all, as an int does."""
    if not isinstance(strides, (tuple, list)):
        return int(strides)
    return int(strides[at if at < len(strides) else 0])


def strided_set_python(
    data: np.ndarray, v: np.ndarray, begin: Sequence[int], end: Sequence[int], strides: Any = None
) -> np.ndarray:
    """Return an array with `v` as its part from `begin` to `end`."""
    out, cut = data.copy(), [slice(None)] * data.ndim
    for axis, (first, last) in enumerate(zip(begin, end, strict=False)):
        given = strides is not None and (not isinstance(strides, (tuple, list)) or axis < len(strides))
        step = each_step(strides, axis) if given else 1
        cut[axis] = slice(first, None if step < 0 and last < -data.shape[axis] else last, step)
    out[tuple(cut)] = v
    return out


def slice_axis_python(data: np.ndarray, axis: int, begin: int, end: int | None = None) -> np.ndarray:
    """Return the part of an array from `begin` to `end` along one axis."""
    cut = [slice(None)] * data.ndim
    cut[axis] = slice(begin, end)
    return np.ascontiguousarray(data[tuple(cut)])


def batch_matmul(
    x: np.ndarray, y: np.ndarray, out_dtype: Any = None, trans_x: bool = False, trans_y: bool = True
) -> np.ndarray:
    """Multiply matrices (B, M, K) by (B, N, K), or as `trans_x` and `trans_y` say; a batch of one stands for all."""
    one = np.swapaxes(x, 1, 2) if trans_x else x
    other = np.swapaxes(y, 1, 2) if trans_y else y
    wide = np.int64 if x.dtype.kind in "iu" else np.float64
    return np.asarray(one.astype(wide) @ other.astype(wide)).astype(out_dtype or x.dtype)


def dense(
    x: np.ndarray, y: np.ndarray, bias: np.ndarray | None, use_bias: bool = False, use_relu: bool = False,
    out_dtype: Any = None,
) -> np.ndarray:  # fmt: skip
    """Multiply (M, K) by the transpose of (N, K), optionally with a bias and without negative values."""
    wide = np.int64 if x.dtype.kind in "iu" else np.float64
    out = x.astype(wide) @ y.astype(wide).T
    if use_bias and bias is not None:
        out = out + bias
    return np.asarray(np.maximum(out, 0) if use_relu else out).astype(out_dtype or x.dtype)


def batch_norm(
    x: np.ndarray,
    gamma: np.ndarray,
    beta: np.ndarray,
    moving_mean: np.ndarray,
    moving_var: np.ndarray,
    axis: int = 1,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
    training: bool = False,
    momentum: float = 0.1,
) -> list[np.ndarray]:
    """Return the normalised array, the mean and the variance; with `training`, moved towards those of `x`."""
    others = tuple(d for d in range(x.ndim) if d != axis)
    shape = [x.shape[d] if d == axis else 1 for d in range(x.ndim)]
    mean, var = moving_mean, moving_var
    if training:
        mean, var = x.mean(others), x.var(others)
    out = (x - mean.reshape(shape)) / np.sqrt(var.reshape(shape) + epsilon)
    out = out * gamma.reshape(shape) if scale else out
    out = out + beta.reshape(shape) if center else out
    if training:
        mean, var = (momentum * new + (1 - momentum) * old for new, old in ((mean, moving_mean), (var, moving_var)))
    return [np.asarray(out, x.dtype), np.asarray(mean, x.dtype), np.asarray(var, x.dtype)]


def adaptive_pool(np_data: np.ndarray, out_size: Any, pool_type: str, layout: str) -> np.ndarray:
    """Pool to a size; the dimensions of `layout` other than N and C are pooled."""
    order = [layout.index("N"), layout.index("C"), *(i for i, c in enumerate(layout) if c not in "NC")]
    size = tuple(out_size) if isinstance(out_size, (tuple, list)) else (out_size,) * (np_data.ndim - 2)
    out = adaptive_pool_python(np_data.transpose(order), size, pool_type)
    return np.ascontiguousarray(out.transpose(np.argsort(order)))


def one_hot(indices: np.ndarray, on_value: float, off_value: float, depth: int, axis: int, dtype: str) -> np.ndarray:
    """Return `on_value` at the index along a new dimension, `off_value` elsewhere."""
    return one_hot_python(indices, on_value, off_value, depth, axis, dtype)


def sequence_mask(data: np.ndarray, valid_length: np.ndarray, mask_value: float, axis: int) -> np.ndarray:
    """Return sequences with `mask_value` behind their ends."""
    return sequence_mask_python(data, valid_length.astype(np.int64), mask_value, axis)


def matrix_set_diag(input_np: np.ndarray, diagonal: np.ndarray, k: Any = 0, align: str = "RIGHT_LEFT") -> np.ndarray:
    """Return matrices with diagonals `k` (one, or the first and the last) replaced."""
    first, last = k if isinstance(k, (tuple, list)) else (k, k)
    parts = diagonal if first != last else diagonal[..., None, :]
    return matrix_set_diag_python(input_np, parts, (first, last), align)


def nll_loss(
    predictions: np.ndarray, targets: np.ndarray, weights: np.ndarray, reduction: str = "mean", ignore_index: int = -100
) -> np.ndarray:
    """Return the negative log likelihood of the right classes, weighted."""
    return nll_loss_python(predictions, targets, weights, reduction, ignore_index)


def searchsorted_ref(sorted_sequence: np.ndarray, values: np.ndarray, right: bool, out_dtype: str) -> np.ndarray:
    """Return the places of values in sorted lines; a single line is searched for all."""
    lines = np.broadcast_to(sorted_sequence, (*values.shape[:-1], sorted_sequence.shape[-1]))
    found = np.zeros(values.shape, out_dtype)
    for at in np.ndindex(*values.shape):
        line = lines[at[:-1]]
        found[at] = np.sum(line <= values[at] if right else line < values[at])
    return found


def _resized(data: np.ndarray, scale: Any, layout: str, method: str, mode: str, usual: str) -> np.ndarray:
    order = [layout.index("N"), layout.index("C"), *(layout.index(c) for c in usual if c in layout)]
    images = data.transpose(order)
    size = [round(n * s) for n, s in zip(images.shape[2:], scale, strict=True)]
    out = resize_python(images, size, _METHODS.get(method, method), mode)
    return np.ascontiguousarray(out.transpose(np.argsort(order)))


def resize1d_python(
    data: np.ndarray,
    scale: Any,
    layout: str = "NCW",
    method: str = "nearest_neighbor",
    coordinate_transformation_mode: str = "align_corners",
) -> np.ndarray:
    """Resize lines by a factor."""
    return _resized(data, scale, layout, method, coordinate_transformation_mode, "W")


def resize2d_python(
    data: np.ndarray,
    scale: Any,
    layout: str = "NCHW",
    method: str = "nearest_neighbor",
    coordinate_transformation_mode: str = "align_corners",
) -> np.ndarray:
    """Resize images by a factor for each side."""
    return _resized(data, scale, layout, method, coordinate_transformation_mode, "HW")


def resize3d_python(
    data: np.ndarray,
    scale: Any,
    layout: str = "NCDHW",
    method: str = "nearest_neighbor",
    coordinate_transformation_mode: str = "align_corners",
) -> np.ndarray:
    """Resize volumes by a factor for each side."""
    return _resized(data, scale, layout, method, coordinate_transformation_mode, "DHW")


def upsampling_python(data: np.ndarray, scale: Any, layout: str = "NCHW") -> np.ndarray:
    """Enlarge images by whole factors, each element repeated."""
    return _resized(data, scale, layout, "nearest_neighbor", "asymmetric", "HW")


def upsampling3d_python(data: np.ndarray, scale: Any, layout: str = "NCDHW") -> np.ndarray:
    """Enlarge volumes by whole factors, each element repeated."""
    return _resized(data, scale, layout, "nearest_neighbor", "asymmetric", "DHW")


def bilinear_resize_python(
    image: np.ndarray, out_size: Sequence[int], layout: str, coordinate_transformation_mode: str = "align_corners"
) -> np.ndarray:
    """Resize images to a size, linearly between neighbours."""
    height, width = (image.shape[layout.index(c)] for c in "HW")
    scale = (out_size[0] / height, out_size[1] / width)
    return _resized(image, scale, layout, "linear", coordinate_transformation_mode, "HW")
