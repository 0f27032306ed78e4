"""The ranking of a space by the model's predictions.

Small spaces are scored completely. For a larger space, a random sample is scored, and a local search varies the best
configurations while the scores improve. A template with a model of its own selects the configurations to score. If the
template has a default configuration with a lead, the search begins there. The default ranks first unless another
configuration should be faster by more than the lead. Nothing is measured.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from ..space.moves import Moves
from ..space.space import Space
from ..task import Task
from .machine import Machine
from .scoring import Scorer

MOST_SCORED_COMPLETELY = 12_000
"""The largest number of configurations of a space that is scored completely."""
LATER = 0.03
_RANDOM_CANDIDATES = 2048
"""Random configurations that a search of the space starts from."""
_PARENTS = 96
"""The best configurations that each round varies."""
_ROUNDS = 8
_CHILDREN = 1024
"""Configurations that each round scores."""
_NEIGHBOURS = 96
"""Configurations near the default one that each round scores."""
_NEIGHBOUR_PARENTS = 8
"""The best configurations that each of these rounds varies."""
_NEIGHBOUR_ROUNDS = 4
_SMALL_SPACE_SHARE = 0.05
"""The part of `MOST_SCORED_COMPLETELY` up to which a space is scored completely at any effort."""


@dataclass(frozen=True)
class Ranked:
    """Indices of configurations, the fastest by prediction first, and their predicted seconds.

    Configurations of one kind (with the same threads and blocks) are spaced a little apart.
    """

    indices: tuple[int, ...]
    seconds: tuple[float, ...]


def rank(task: Task, count: int = 1, machine: Machine | None = None, seed: int = 0) -> Ranked:
    """Rank the space of a task.

    Parameters
    ----------
    task : Task
        A task with the target of its configurations.
    count : int
        The number of configurations to return.
    machine : Machine, optional
        The machine to predict for; by default the machine of the task's target.
    seed : int
        The seed of the sample, if the space is too large to be scored completely.

    Returns
    -------
    Ranked
        The fastest configurations: fewer than `count` if fewer can run; none if the model does not cover the template.
    """
    return Ranking(Scorer(task, machine), seed).best(count)


def rank_quickly(task: Task) -> int | None:
    """Return the index of the configuration for calls without measurements; None if the model has none.

    It is the result of a shorter `rank`, cached in this process.
    """
    key = (task.name, task.args, str(task.target))
    if key not in _remembered:
        effort = 0.4 if task.declared.ranked_default is None else 0.0  # with 0, only near the default configuration
        found = Ranking(Scorer(task), seed=0, effort=effort).best(1).indices
        _remembered[key] = found[0] if found else None
    return _remembered[key]


_remembered: dict[tuple[object, ...], int | None] = {}


class Ranking:
    """Ranks a space by a scorer; `effort` scales the number of scored configurations in large spaces.

    With an effort of 0, only configurations near the template's default one are scored.
    """

    def __init__(self, scorer: Scorer, seed: int = 0, effort: float = 1.0) -> None:
        self.effort = effort
        self.scorer = scorer
        self.space: Space = scorer.task.config_space
        self.rng = np.random.default_rng(seed)
        self.moves = Moves(self.space, self.rng)
        self.known: dict[int, float] = {}
        """Predicted seconds of the scored configurations."""
        self._kinds: dict[int, tuple[float, ...]] = {}

    def best(self, count: int) -> Ranked:
        """Return the `count` fastest configurations."""
        expected = self.scorer.task.declared.expected
        ranked = expected.rank(2 * count) if expected is not None else []
        if ranked:
            self._score(np.array([self.space.point(index) for index in ranked], dtype=np.int64))
        elif self.space.range_length <= MOST_SCORED_COMPLETELY * (self.effort or _SMALL_SPACE_SHARE):
            self._score(np.array([self.space.point(i) for i in self.space], dtype=np.int64))
        else:
            self._begin_at_default()
            if self.effort:
                self._score(self.space.draw(self.rng, int(_RANDOM_CANDIDATES * self.effort)))
                self._walk(max(count, int(_PARENTS * self.effort)))
        order = self._default_first(self._of_different_kinds())[:count]
        return Ranked(tuple(index for _, index in order), tuple(seconds for seconds, _ in order))

    def _begin_at_default(self) -> None:
        """Score the template's default configuration, and variants of it with one or two other choices."""
        default = self.scorer.task.declared.ranked_default
        if default is None:
            return
        start = np.array([self.space.point(default.find())], dtype=np.int64)
        self._score(start)
        for _ in range(_NEIGHBOUR_ROUNDS):
            best = [index for _, index in self._in_order()[:_NEIGHBOUR_PARENTS]]
            if best:
                start = np.array([self.space.point(i) for i in best], dtype=np.int64)
            self._score(self.moves.mutated(np.repeat(start, -(-_NEIGHBOURS // len(start)), axis=0)))

    def _default_first(self, order: list[tuple[float, int]]) -> list[tuple[float, int]]:
        """Return the order with the default configuration first, unless another one is faster by more than the lead."""
        default = self.scorer.task.declared.ranked_default
        if default is None or not order:
            return order
        index = default.find()
        if index not in self.known:
            self._score(np.array([self.space.point(index)], dtype=np.int64))
        seconds = self.known[index]
        if not seconds <= order[0][0] * (1 + default.lead):
            return order
        return [(seconds, index), *(each for each in order if each[1] != index)]

    def _score(self, points: np.ndarray) -> None:
        indices = self.space.indices(points)
        new = [i for i, index in enumerate(indices) if index not in self.known]
        if new:
            scores = self.scorer.score(points[new])
            self.known.update((indices[i], s) for i, s in zip(new, scores.seconds.tolist(), strict=True))
            shapes = map(tuple, scores.counts[:, :2].tolist())  # threads and blocks
            self._kinds.update((indices[i], shape) for i, shape in zip(new, shapes, strict=True))

    def _walk(self, kept: int) -> None:
        """Score neighbours and crossovers of the best configurations until these stay the same."""
        before: list[int] = []
        for _ in range(_ROUNDS):
            best = [index for _, index in self._in_order()[:kept]]
            if not best or best[: kept // 4] == before:
                return
            before = best[: kept // 4]
            elite = np.array([self.space.point(i) for i in best], dtype=np.int64)
            children = int(_CHILDREN * self.effort)
            parents = elite[self.rng.integers(len(elite), size=children)]
            self._score(self.moves.mutated(parents))
            self._score(self.moves.mutated(self.moves.crossed(elite, children // 3)))

    def _of_different_kinds(self) -> list[tuple[float, int]]:
        """Return the configurations that can run, the fastest first; further configurations of a kind rank a little
        lower.

        The model distinguishes kernels better by threads and blocks than by inner loops. The ten fastest should not be
        ten variants of one kernel.
        """
        seen = Counter[tuple[float, ...]]()
        later: list[tuple[float, float, int]] = []
        for seconds, index in self._in_order():
            kind = self._kinds[index]
            later.append((seconds * (1 + LATER * seen[kind]), seconds, index))
            seen[kind] += 1
        return [(seconds, index) for _, seconds, index in sorted(later)]

    def _in_order(self) -> list[tuple[float, int]]:
        """Return the scored configurations that can run, the fastest first."""
        return sorted((seconds, index) for index, seconds in self.known.items() if np.isfinite(seconds))
