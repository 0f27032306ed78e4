"""Scattering, searching and sampling in NumPy, element by element."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

_COMBINE: dict[str, Callable[[Any, Any], Any]] = {
    "update": lambda old, new: new,
    "add": lambda old, new: old + new,
    "mul": lambda old, new: old * new,
    "min": min,
    "max": max,
}


def scatter_elements_python(
    data: np.ndarray, indices: np.ndarray, updates: np.ndarray, axis: int = 0, reduction: str = "update"
) -> np.ndarray:
    """out[..., indices[i], ...] combined with updates[i], for each i in order"""
    out, axis = data.copy(), axis % data.ndim
    for i in np.ndindex(*indices.shape):
        k = int(indices[i])
        if -data.shape[axis] <= k < data.shape[axis]:
            place = (*i[:axis], k, *i[axis + 1 :])
            out[place] = _COMBINE[reduction](out[place], updates[i])
    return out


def scatter_nd_python(data: np.ndarray, indices: np.ndarray, updates: np.ndarray, mode: str = "update") -> np.ndarray:
    """out[indices[:, i]] combined with updates[i], for each i in order"""
    out, depth = data.copy(), indices.shape[0]
    for i in np.ndindex(*indices.shape[1:]):
        at = tuple(int(indices[(d, *i)]) for d in range(depth))
        if all(-n <= k < n for k, n in zip(at, data.shape, strict=False)):
            for j in np.ndindex(*data.shape[depth:]):
                out[(*at, *j)] = _COMBINE[mode](out[(*at, *j)], updates[(*i, *j)])
    return out


def unique_python(data: np.ndarray, is_sorted: bool = True) -> list[np.ndarray]:
    """Values, the place of the first of each, the value of each element, their number, and how often each occurs"""
    values: list[Any] = []
    for x in data.tolist():
        if x not in values:
            values.append(x)
    values = sorted(values) if is_sorted else values
    first = [data.tolist().index(x) for x in values]
    counts = [data.tolist().count(x) for x in values]

    def padded(given: list[Any], kind: Any) -> np.ndarray:
        return np.array(given + [0] * (len(data) - len(given)), kind)

    inverse = np.array([values.index(x) for x in data.tolist()], "int32")
    number = np.array([len(values)], "int32")
    return [padded(values, data.dtype), padded(first, "int32"), inverse, number, padded(counts, "int32")]


def affine_grid_python(data: np.ndarray, target_shape: Sequence[int]) -> np.ndarray:
    """The map of (x, y, 1), or (x, y, z, 1), for places from -1 to 1"""
    lines = [np.linspace(-1, 1, n) if n > 1 else np.zeros(1) for n in target_shape]
    places = np.stack([*reversed(np.meshgrid(*lines, indexing="ij")), np.ones(tuple(target_shape))])
    return np.asarray(np.einsum("nkd,d...->nk...", data.astype(np.float64), places), data.dtype)


def grid_sample_python(
    data: np.ndarray,
    grid: np.ndarray,
    method: str = "bilinear",
    layout: str = "NCHW",
    padding_mode: str = "zeros",
    align_corners: bool = True,
) -> np.ndarray:
    """Each sample by the weights of its neighbours"""
    rank = data.ndim - 2
    out = np.zeros((*data.shape[:2], *grid.shape[2:]))
    for n, *at in np.ndindex(grid.shape[0], *grid.shape[2:]):
        taps = []
        for d, size in enumerate(data.shape[2:]):
            x = float(grid[(n, rank - 1 - d, *at)])
            place = (x + 1) * (size - 1) / 2 if align_corners else ((x + 1) * size - 1) / 2
            taps.append(_taps(place, size, method, padding_mode, align_corners))
        for corner in itertools.product(*taps):
            index = tuple(k for k, _ in corner)
            if all(0 <= k < size for k, size in zip(index, data.shape[2:], strict=True)):
                weight = np.prod([w for _, w in corner])
                out[(n, slice(None), *at)] += weight * data[(n, slice(None), *index)].astype(np.float64)
    return np.asarray(out, data.dtype)


def _taps(place: float, size: int, method: str, mode: str, corners: bool) -> list[tuple[int, float]]:
    if method == "bicubic":
        low = int(np.floor(place))
        return [(int(_moved(k, size, mode, corners)), _cubic(abs(place - k))) for k in range(low - 1, low + 3)]
    place = _moved(place, size, mode, corners)
    if method == "nearest":
        return [(int(np.rint(place)), 1.0)]
    low = int(np.floor(place))
    return [(low, 1 - (place - low)), (low + 1, place - low)]


def _cubic(x: float, a: float = -0.75) -> float:
    if x <= 1:
        return (a + 2) * x**3 - (a + 3) * x**2 + 1
    return a * x**3 - 5 * a * x**2 + 8 * a * x - 4 * a if x < 2 else 0.0


def _moved(place: float, size: int, mode: str, corners: bool) -> float:
    """The element to read for a place outside of the image, after repeated reflections"""
    if mode == "zeros":
        return place
    low, high = (0.0, size - 1.0) if corners else (-0.5, size - 0.5)
    while mode == "reflection" and high > low and not low <= place <= high:
        place = 2 * low - place if place < low else 2 * high - place
    return min(max(place, 0.0), size - 1.0)


def nll_loss_python(
    predictions: np.ndarray, targets: np.ndarray, weights: np.ndarray, reduction: str, ignore_index: int = -100
) -> np.ndarray:
    """-log likelihood of the right class times its weight"""
    losses, used = np.zeros(targets.shape), np.zeros(targets.shape)
    for i in np.ndindex(*targets.shape):
        c = int(targets[i])
        if c != ignore_index:
            at = (i[0], c, *i[1:]) if i else (c,)
            losses[i], used[i] = -float(predictions[at]) * float(weights[c]), weights[c]
    found = {"none": losses, "sum": losses.sum(), "mean": losses.sum() / used.sum()}[reduction]
    return np.asarray(found, predictions.dtype)
