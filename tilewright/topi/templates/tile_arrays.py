"""Arrays of tiles, so that one cost model serves a single tile and thousands.

A tile is a frozen dataclass of numbers, or of pairs and triples of numbers. If the fields are arrays with one element
per tile, the methods return arrays. Their elements equal the results for single tiles bit by bit, so that both rank
alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from functools import partial
from typing import Any, TypeVar, overload

import numpy as np

from ...core.vectorized import is_array

T = TypeVar("T")


def select_tiles(tiles: T, places: np.ndarray | tuple[np.ndarray, ...]) -> T:
    """Return the tiles at the given indices, in that order."""
    return _mapped(tiles, lambda each: each[places] if is_array(each) else each)


def broadcast_tiles(tiles: T, shape: tuple[int, ...]) -> T:
    """Return the tiles with all fields broadcast to one shape."""
    return _mapped(tiles, lambda each: np.broadcast_to(each, shape))


def concatenate_tiles(parts: Sequence[T]) -> T:
    """Concatenate several arrays of tiles; all fields must be arrays."""
    made: dict[str, Any] = {}
    for field in fields(parts[0]):  # type: ignore[arg-type]
        values = [getattr(part, field.name) for part in parts]
        whole = not isinstance(values[0], tuple)
        made[field.name] = np.concatenate(values) if whole else tuple(map(np.concatenate, zip(*values, strict=True)))
    return replace(parts[0], **made)  # type: ignore[type-var]


def _mapped(tiles: T, function: Callable[[Any], Any]) -> T:
    values = {field.name: getattr(tiles, field.name) for field in fields(tiles)}  # type: ignore[arg-type]
    made = {
        name: tuple(map(function, value)) if isinstance(value, tuple) else function(value)
        for name, value in values.items()
    }
    return replace(tiles, **made)  # type: ignore[type-var]


class LazyResults(Sequence[T]):
    """The results of a function on the elements of a sequence, computed on demand."""

    def __init__(self, source: Sequence[Any], make: Callable[[Any], T]) -> None:
        self._source = source
        self._make = make

    def __len__(self) -> int:
        return len(self._source)

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...
    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return LazyResults(self._source[index], self._make)
        return self._make(self._source[index])


def sort_by_cycles(tiles: T, costs: np.ndarray) -> Sequence[T]:
    """Return single tiles sorted by their cycles; the sort is stable."""
    return LazyResults(np.argsort(costs, kind="stable").tolist(), partial(_single, tiles))


def _single(tiles: T, place: int) -> T:
    return _mapped(tiles, lambda each: each[place].item() if is_array(each) else each)
