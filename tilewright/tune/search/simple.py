"""Searches that do not learn: all configurations in order, and at random."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from random import Random

from ..space.space import Space
from .search import Search


class GridSearch(Search):
    """Proposes all configurations in the order of their indices, from `start` to `stop`, exclusive."""

    def __init__(self, space: Space, start: int = 0, stop: int | None = None, seed: int | None = None) -> None:
        super().__init__(space, seed)
        self._next = start
        self._stop = space.range_length if stop is None else min(stop, space.range_length)

    def propose(self, count: int) -> list[int]:
        found: list[int] = []
        while len(found) < count and self._next < self._stop:
            if self.space.is_index_valid(self._next):
                found += self._new([self._next], 1)
            self._next += 1
        return found

    def has_next(self) -> bool:
        while self._next < self._stop and (self._next in self.tried or not self.space.is_index_valid(self._next)):
            self._next += 1
        return self._next < self._stop


class RandomSearch(Search):
    """Proposes distinct random configurations, with indices from `start` to `stop`, exclusive, if given."""

    def __init__(self, space: Space, seed: int | None = None, start: int = 0, stop: int | None = None) -> None:
        super().__init__(space, seed)
        self._random = Random(None if seed is None else int(seed))  # NumPy's generators draw no numbers beyond 64 bits
        self._range = (
            None if start == 0 and stop is None else (start, min(stop or space.range_length, space.range_length))
        )

    def propose(self, count: int) -> list[int]:
        if self._range is None:
            return self.fresh(count)
        found: list[int] = []
        for _ in range(64):
            if len(found) < count:
                drawn = [self._random.randrange(*self._range) for _ in range(2 * count + 8)]
                found += self._new([i for i in drawn if self.space.is_index_valid(i)], count - len(found))
        if len(found) < count:  # few are left, and random draws seldom hit them
            found += self._new(list(islice(self._left(), count - len(found))), count - len(found))
        return found

    def has_next(self) -> bool:
        return super().has_next() if self._range is None else next(self._left(), None) is not None

    def _left(self) -> Iterator[int]:
        """Yield the untried indices of the range, ascending."""
        valid = self.space.is_index_valid
        return (i for i in range(*(self._range or (0, 0))) if i not in self.tried and valid(i))
