"""Queries for the indices of a space, under the legacy API's names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from random import Random
from typing import Any

import numpy as np

from ...core.errors import UserError

_RANDOM = Random()
_MOST_DRAWS = 10_000
"""The most random draws of an index before a linear search."""


def _is_place(place: Any, choices: int) -> bool:
    """Return whether an index of a choice is in range."""
    return isinstance(place, (int, np.integer)) and 0 <= int(place) < choices


def whole(primitive: str, name: str, given: Any) -> None:
    """Raise UserError unless an argument is a whole number."""
    if isinstance(given, bool) or not isinstance(given, (int, np.integer)):
        raise UserError(f"{name}={given!r} is not a whole number", primitive=primitive, fix="give an index")


class Indices:
    """Mixed into spaces: `range_length` indices, valid unless a predicate rules them out."""

    dims: Any
    range_length: Any
    is_index_valid: Callable[[int], bool]
    point: Callable[[int], tuple[int, ...]]
    index: Callable[[Sequence[int]], int]

    def is_index_filtered(self, i: int) -> bool:
        """Whether a predicate rules out the configuration of an index."""
        whole("is_index_filtered", "i", i)
        return 0 <= i < self.range_length and not self.is_index_valid(i)

    def point2knob(self, point: int) -> list[int]:
        """Return the index of each knob's choice, for an index of the space."""
        self._check("point2knob", point)
        return list(self.point(point))

    def knob2point(self, knob: Sequence[int]) -> int:
        """Return the index of the space for the indices of all knobs' choices."""
        listed = isinstance(knob, (list, tuple)) or (isinstance(knob, np.ndarray) and knob.ndim == 1)
        if not (listed and len(knob) == len(self.dims) and all(map(_is_place, knob, self.dims))):
            raise UserError(
                f"{knob!r} is not the index of each knob's choice",
                primitive="knob2point",
                fix=f"give {len(self.dims)} numbers, below {list(self.dims)}",
            )
        return self.index(knob)

    def subrange_length(self, start: int, end: int) -> int:
        """Return the number of valid indices from `start` to `end`, exclusive."""
        return sum(1 for _ in self._valid(self._range("subrange_length", start, end)))

    def get_next_index(self, index: int, n: int = 1, start: int | None = None, end: int | None = None) -> int | None:
        """Return the `n`-th valid index after `index`, within `start` and `end`; None if there is none."""
        whole("get_next_index", "index", index)
        whole("get_next_index", "n", n)
        span = self._range("get_next_index", start, end)
        following = self._valid(range(max(index + 1, span.start), span.stop))
        return next(islice(following, max(n, 1) - 1, None), None)

    def get_rand_index(
        self, start: int | None = None, end: int | None = None, to_exclude: Iterable[int] | None = None
    ) -> int:
        """Return a random valid index from `start` to `end`, exclusive, and not in `to_exclude`."""
        span = self._range("get_rand_index", start, end)
        try:
            unwanted = set(() if to_exclude is None else to_exclude)
        except TypeError as error:
            raise UserError(
                f"to_exclude={to_exclude!r} is not a list of indices", primitive="get_rand_index", fix="give [3, 5]"
            ) from error
        for _ in range(_MOST_DRAWS):
            drawn = _RANDOM.randrange(span.start, span.stop)
            if drawn not in unwanted and self.is_index_valid(drawn):
                return drawn
        left = [i for i in self._valid(span) if i not in unwanted]
        if not left:
            raise UserError(
                f"no index from {span.start} to {span.stop - 1} is left",
                primitive="get_rand_index",
                fix="exclude fewer, or ask subrange_length first",
            )
        return _RANDOM.choice(left)

    def sample_ints(self, m: int) -> list[int]:
        """Return `m` distinct random valid indices."""
        whole("sample_ints", "m", m)
        found: dict[int, None] = {}
        for _ in range(_MOST_DRAWS):
            if len(found) >= m:
                return list(found)
            found[self.get_rand_index()] = None
        raise UserError(
            f"the space has too few configurations to draw {m} at random",
            primitive="sample_ints",
            fix="draw fewer, or iterate over the space",
        )

    def random_walk(self, point: int) -> int:
        """Return the index of a configuration that differs from that of `point` in one knob."""
        places = self.point2knob(point)
        movable = [k for k, size in enumerate(self.dims) if size > 1]
        for _ in range(_MOST_DRAWS if movable else 0):  # knobs may have too many choices to list them
            k = _RANDOM.choice(movable)
            moved = [*places[:k], _RANDOM.randrange(self.dims[k]), *places[k + 1 :]]
            if moved != places and self.is_index_valid(found := self.knob2point(moved)):
                return found
        return point

    def _valid(self, span: range) -> Iterable[int]:
        return filter(self.is_index_valid, span)

    def _range(self, primitive: str, start: int | None, end: int | None) -> range:
        first, stop = 0 if start is None else start, self.range_length if end is None else end
        whole(primitive, "start", first)
        whole(primitive, "end", stop)
        if not 0 <= first < stop <= self.range_length:
            raise UserError(
                f"start={start!r} and end={end!r} are not a range of the {self.range_length} indices",
                primitive=primitive,
                fix=f"give 0 <= start < end <= {self.range_length}",
            )
        return range(first, stop)

    def _check(self, primitive: str, index: Any) -> None:
        whole = isinstance(index, (int, np.integer)) and not isinstance(index, bool)
        if not whole or not 0 <= index < self.range_length:
            raise UserError(
                f"index {index!r} is outside the space of {self.range_length} indices",
                primitive=primitive,
                fix=f"give an index from 0 to {self.range_length - 1}",
            )
