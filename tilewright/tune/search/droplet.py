"""Coordinate descent: measure the neighbours of the best point, move to a faster neighbour, else enlarge the step.

The algorithm is Droplet search (Canesche et al., "The Droplet Search Algorithm for Kernel Scheduling", 2024).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, product

import numpy as np

from ...core.errors import UserError
from ..space.space import Space
from .search import Search, Seen

AROUND = 16
"""The least number of neighbours: if fewer neighbours differ in one knob, neighbours that differ in two are added."""


class DropletSearch(Search):
    """Descends from `start`; ends if no neighbour of the best point is faster with any step."""

    def __init__(self, space: Space, start: Sequence[int] | None = None, seed: int | None = None) -> None:
        super().__init__(space, seed)
        self.start = self._checked(start)
        self.step = 1
        self._at = self.start
        self._begun = False
        self._scores: dict[int, float] = {}

    @property
    def best(self) -> tuple[tuple[int, ...], float]:
        """Return the current point of the search, and its score."""
        return self._at, self._scores.get(self.space.index(self._at), 0.0)

    @property
    def around(self) -> list[int]:
        """Return the next configurations to measure; an empty list if the search has ended."""
        if not self._begun:
            return [self.space.index(self.start), *self._neighbours()]
        while self.step < max(self.space.dims, default=0):
            if found := list(self._neighbours()):
                return found
            self.step *= 2
        return []

    def propose(self, count: int) -> list[int]:
        advised = self._new(self._advised, count)
        found = self._new(self.around, count - len(advised))
        self._begun = True
        return advised + found

    def has_next(self) -> bool:
        return bool(self.around)

    def learn(self, results: Sequence[Seen]) -> None:
        self._scores.update((seen.index, seen.score) for seen in results)
        best = max(self._scores, key=lambda index: (self._scores[index], -index), default=None)
        if best is not None and self._scores[best] > self.best[1]:
            self._at, self.step = self.space.point(best), 1

    def _neighbours(self) -> Iterator[int]:
        """Yield the untried configurations a step away: with one other choice, then with two if these are few."""
        dims = [k for k, size in enumerate(self.space.dims) if size > 1]
        moves: list[tuple[tuple[int, int], ...]] = [((k, by),) for k in dims for by in (self.step, -self.step)]
        if len(moves) < AROUND:
            signs = list(product((self.step, -self.step), repeat=2))
            moves += [((k, a), (m, b)) for k, m in combinations(dims, 2) for a, b in signs]
        for move in moves:
            point = list(self._at)
            for k, by in move:
                point[k] += by
            inside = all(0 <= place < size for place, size in zip(point, self.space.dims, strict=True))
            if inside and self.space.admits(point) and (index := self.space.index(point)) not in self.tried:
                yield index

    def _checked(self, start: Sequence[int] | None) -> tuple[int, ...]:
        """Return the start point: the given one, else the first one that no predicate rules out."""
        if start is None:
            return self.space.point(next(iter(self.space), 0))
        dims = self.space.dims
        whole = isinstance(start, (list, tuple)) and all(isinstance(place, (int, np.integer)) for place in start)
        fits = whole and len(start) == len(dims)
        if not fits or not all(0 <= place < size for place, size in zip(start, dims, strict=True)):
            raise UserError(
                f"start_position={start!r} is not a point of the space",
                primitive="DropletTuner",
                fix=f"give the index of each knob's choice, below {dims}",
            )
        point = tuple(int(place) for place in start)
        if not self.space.admits(point):
            raise UserError(
                f"start_position={start!r} is ruled out by a predicate of the space",
                primitive="DropletTuner",
                fix="leave it out, or take one of the configurations that the space iterates over",
            )
        return point
