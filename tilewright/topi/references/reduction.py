"""Reductions in NumPy: float64 inside, the type of the input outside."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Axis = int | Sequence[int] | None


def _axes(axis: Axis, rank: int) -> tuple[int, ...]:
    each = list(range(rank)) if axis is None else [axis] if isinstance(axis, int) else list(axis)
    return tuple(sorted(a % rank for a in each))


def _of_numbers(function: Callable[..., Any]) -> Callable[..., np.ndarray]:
    def reference(a_np: np.ndarray, axis: Axis = None, keepdims: bool = False) -> Any:
        wide = a_np.astype(np.float64) if a_np.dtype.kind == "f" else a_np
        return np.asarray(function(wide, axis=_axes(axis, a_np.ndim), keepdims=keepdims)).astype(a_np.dtype)

    return reference


def _place(function: Callable[..., Any]) -> Callable[..., np.ndarray]:
    def reference(
        a_np: np.ndarray, axis: Axis = None, keepdims: bool = False, select_last_index: bool = False
    ) -> np.ndarray:
        axes = _axes(axis, a_np.ndim)
        kept = [d for d in range(a_np.ndim) if d not in axes]
        rows = a_np.transpose(*kept, *axes).reshape(*(a_np.shape[d] for d in kept), -1)
        if select_last_index:
            found = rows.shape[-1] - 1 - function(rows[..., ::-1], axis=-1)
        else:
            found = function(rows, axis=-1)
        shape = [1 if d in axes else n for d, n in enumerate(a_np.shape)]
        return np.asarray(found.reshape(shape) if keepdims else found).astype("int32")

    return reference


REDUCTIONS: dict[str, Callable[..., np.ndarray]] = {
    "sum": _of_numbers(np.sum),
    "prod": _of_numbers(np.prod),
    "max": _of_numbers(np.max),
    "min": _of_numbers(np.min),
    "all": _of_numbers(np.all),
    "any": _of_numbers(np.any),
    "argmax": _place(np.argmax),
    "argmin": _place(np.argmin),
}
"""The reductions by name: called as (array, axis, keepdims), `argmax` with select_last_index."""
