"""Sorting by NumPy on the host, under the legacy API's names of packed functions.

`tir.call_packed("tvm.contrib.sort.argsort", ins[0], outs[0], axis, is_ascend)` in a `te.extern` calls them;
`topi.sort`, `topi.argsort` and `topi.topk` sort on every target.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.dtype import DType
from ...runtime.packed import register_func


def argsort(data: Any, out: Any, axis: int = -1, is_ascend: bool = True) -> None:
    """Store the indices that sort the elements along an axis; equal elements keep their order."""
    values = data.numpy()
    _store(out, _order(values, axis, is_ascend))


def argsort_nms(data: Any, counts: Any, out: Any, axis: int = -1, is_ascend: bool = True) -> None:
    """Store the indices of the first `counts` elements of each row in sorted order, then the indices of the others."""
    values = np.moveaxis(data.numpy(), axis, -1)
    places = np.broadcast_to(np.arange(values.shape[-1]), values.shape).copy()
    for row, count in np.ndenumerate(counts.numpy()):
        places[row][:count] = _order(values[row][:count], -1, is_ascend)
    _store(out, np.moveaxis(places, -1, axis))


def sort(data: Any, out: Any, axis: int = -1, is_ascend: bool = True) -> None:
    """Store the elements in sorted order along an axis."""
    values = data.numpy()
    _store(out, np.take_along_axis(values, _order(values, axis, is_ascend), axis))


def _order(values: np.ndarray, axis: int, is_ascend: bool) -> np.ndarray:
    if is_ascend:
        return np.argsort(values, axis=axis, kind="stable")
    flipped = np.flip(values, axis)  # equal elements keep their order, seen from the other end
    found: np.ndarray = values.shape[axis] - 1 - np.flip(np.argsort(flipped, axis=axis, kind="stable"), axis)
    return found


def _store(out: Any, values: np.ndarray) -> None:
    out.copyfrom(values.astype(DType(out.dtype).numpy))


for _function in (argsort, argsort_nms, sort):
    register_func(f"tvm.contrib.sort.{_function.__name__}", _function, override=True)
