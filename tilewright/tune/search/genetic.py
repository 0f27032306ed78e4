"""A genetic search: better candidates are crossed, knob by knob, and mutated."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from heapq import nsmallest

import numpy as np

from ...core.errors import UserError
from ..space.space import Space
from .search import ENUMERABLE, Search, Seen

_MOST_DRAWS = 50


class GeneticSearch(Search):
    """Keeps the best `pop_size` configurations as parents; the first generation is random.

    Parents are drawn in proportion to their scores, and the `elite_num` best are always among them. A knob of a
    child comes from either parent, and is chosen anew with probability `mutation_prob`.
    """

    def __init__(
        self,
        space: Space,
        pop_size: int = 100,
        elite_num: int = 3,
        mutation_prob: float = 0.1,
        seed: int | None = None,
    ) -> None:
        super().__init__(space, seed)
        for name, value in (("pop_size", pop_size), ("elite_num", elite_num)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise UserError(
                    f"{name}={value!r} is not a whole number of 1 or more", primitive="GATuner", fix="give an int"
                )
        if not isinstance(mutation_prob, (int, float)) or not 0 <= mutation_prob <= 1:
            raise UserError(
                f"mutation_prob={mutation_prob!r} is not a probability",
                primitive="GATuner",
                fix="give a number from 0 to 1",
            )
        self.pop_size = min(pop_size, max(space.size, 1))
        self.elite_num = min(elite_num, self.pop_size)
        self.mutation_prob = mutation_prob
        self._scores: dict[int, float] = {}
        self._fittest: list[int] = []
        """The best candidates seen so far, one per parent slot."""

    def propose(self, count: int) -> list[int]:
        found: list[int] = []
        if self._parents():
            for _ in range(_MOST_DRAWS):
                if len(found) < count:
                    found += self._new(self.space.indices(self._children(count - len(found))), count - len(found))
        found += self._new(self._advised, count - len(found))
        found += self._new(self.first_generation, count - len(found))
        return found + self.fresh(count - len(found))

    @cached_property
    def first_generation(self) -> list[int]:
        """Return distinct random configurations, which are proposed first."""
        if self.space.range_length <= ENUMERABLE:
            valid = np.array([i for i in range(self.space.range_length) if self.space.is_index_valid(i)])
            drawn: list[int] = self.rng.permutation(valid)[: self.pop_size].tolist()
            return drawn
        found: dict[int, None] = {}
        for _ in range(_MOST_DRAWS):
            if len(found) < self.pop_size:
                found.update(dict.fromkeys(self.space.indices(self.space.draw(self.rng, 2 * self.pop_size))))
        return list(found)[: self.pop_size]

    def learn(self, results: Sequence[Seen]) -> None:
        fell = any(seen.score < self._scores.get(seen.index, seen.score) for seen in results)
        self._scores.update({seen.index: seen.score for seen in results})
        # A configuration that is slower when measured again may be replaced by any other one.
        among = self._scores if fell else {*self._fittest, *(seen.index for seen in results)}
        good = (i for i in among if self._scores[i] > 0)
        self._fittest = nsmallest(self.pop_size, good, key=lambda i: (-self._scores[i], i))

    def _parents(self) -> list[int]:
        """Return the fittest; none until the random generation has been measured."""
        return self._fittest if len(self._scores) >= self.pop_size and len(self._fittest) >= 2 else []

    def _children(self, count: int) -> np.ndarray:
        """Return `count` children as points, without points that predicates rule out."""
        parents = self._parents()
        points = np.array([self.space.point(i) for i in parents])
        scores = np.array([self._scores[i] for i in parents])
        scores[: self.elite_num] = np.maximum(scores[: self.elite_num], scores.mean())
        pairs = self.rng.choice(len(parents), size=(count, 2), p=scores / scores.sum())
        pick = self.rng.random((count, points.shape[1])) < 0.5
        children = np.where(pick, points[pairs[:, 0]], points[pairs[:, 1]])
        anew = self.rng.random(children.shape) < self.mutation_prob
        children = np.where(anew, self.rng.integers(self.space.dims, size=children.shape), children)
        kept: np.ndarray = children[self.space.admitted(children)]
        return kept
