"""Guided search: measure the candidates that a machine model predicts to be fastest, with credit for its uncertainty.

The search begins with the ranking of the space by the machine model, so that the first batch is already good. Results
correct the model (`model/learned.py`). Candidates are mutations and crossovers of the best configurations of different
kinds, the best of the ranking, and random ones. The search proposes the candidates with the shortest expected time less
a share of the uncertainty. After a few batches without gain, one batch explores elsewhere, away from the best
configurations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from ...core.errors import UserError
from ..analysis.features import of_knobs
from ..model.learned import Corrections
from ..model.machine import Machine
from ..model.ranking import MOST_SCORED_COMPLETELY, Ranking
from ..model.scoring import Scorer
from ..space.moves import Moves
from ..task import Task
from .annealing import AnnealingSearch
from .search import Search, Seen

_ELITE_SIZE = 32
"""The number of the best configurations that new ones are made of."""
_ELITE_PER_KIND = 4
"""The most of these configurations with the same tiles of threads."""
_MUTATED_CANDIDATES = 640
_CROSSED_CANDIDATES = 256
_RANDOM_CANDIDATES = 192
_RANKED_CANDIDATES = 256
"""Candidates of a batch by their origin."""
_LEAST_DISTANCE = 0.15
"""The least distance of features between candidates of a batch, in standard deviations of the pool."""
_BATCHES_WITHOUT_GAIN = 3
"""The number of batches without gain after which the search explores elsewhere."""
_LEAST_GAIN_FACTOR = 1.005
_SAMPLE_SIZES = (32, 160)
"""The sizes of the samples that show whether the model covers a space."""
_MOST_STRUCTURES_SHARE = 0.94
"""The model covers a space unless a sample has more structures than this share of its configurations."""
_MOST_RESULTS_LEARNED = 600
"""The most results to learn from, the fastest first."""
_FAILURE_SLOWDOWN = 8.0
"""The factor on the predicted time that a failure counts as."""


def automatic(task: Task, seed: int | None = None, least_gain: float = 0.0) -> Search:
    """Return the default search: `GuidedSearch` if the model covers the task, else annealing."""
    if task.target is not None and task.target.is_gpu and task.target.has_warps and task.config_space.knobs:
        try:
            guided = GuidedSearch(task, seed, least_gain=least_gain)
            if guided.is_covered:
                return guided
        except UserError:  # knobs of too many choices
            pass
    return AnnealingSearch(task.config_space, "itervar", seed)


class GuidedSearch(Search):
    """Proposes the candidates that the machine model, corrected by measurements, expects to be fastest.

    The logarithm of a predicted time is lowered by `caution` standard deviations. Unless `least_gain` is 0, the search
    ends when no lowered time beats the best time by this fraction. `effort` is the effort of the initial ranking.
    """

    def __init__(
        self,
        task: Task,
        seed: int | None = None,
        machine: Machine | None = None,
        caution: float = 1.0,
        least_gain: float = 0.0,
        effort: float = 1.0,
    ) -> None:
        super().__init__(task.config_space, seed)
        self.task = task
        self.caution = caution
        self.least_gain = least_gain
        self._given = machine
        self.scorer = Scorer(task, machine)
        self._ranking = Ranking(self.scorer, int(self.rng.integers(1 << 30)), effort)
        self._moves = Moves(self.space, self.rng)
        self._tables = of_knobs(self.space)
        self._rows: dict[int, np.ndarray] = {}
        self._predicted: dict[int, float] = {}
        self._seconds: dict[int, float] = {}
        self._failed: set[int] = set()
        self._corrections = Corrections()
        self._unlearned = False
        self._ranked: list[int] = []
        self._stale = 0
        self._best_at_last = np.inf

    @property
    def is_covered(self) -> bool:
        """Whether the model predicts configurations of the task, and many of them share a structure.

        If almost every configuration has its own structure, scoring is as slow as building.
        """
        if self.task.declared.expected is not None:
            return True
        rng, seen = np.random.default_rng(0), 0
        for count in _SAMPLE_SIZES:
            some = self.space.draw(rng, count)
            seen += len(some)
            if not np.isfinite(self.scorer.score(some).seconds).any():
                return False
            if 2 * self.scorer.structures.count <= seen or self.scorer.structures.count > _MOST_STRUCTURES_SHARE * seen:
                return 2 * self.scorer.structures.count <= seen
        return False

    def meet(self, device: str) -> None:
        if self._given is None and self.task.target is not None:
            self.scorer.machine = Machine.of(self.task.target, device)

    def predicted(self, index: int) -> float:
        found = self._predicted.get(index, 0.0)
        return found if np.isfinite(found) else 0.0

    # Results

    def learn(self, results: Sequence[Seen]) -> None:
        for seen in results:
            if seen.score > 0:
                self._seconds[seen.index] = self.task.flop / seen.score
            else:
                self._failed.add(seen.index)
        self._unlearned |= bool(results)

    def _refit(self) -> None:
        if not self._unlearned:
            return
        self._unlearned = False
        # Sorted by time and index, because the order in which results arrive is not reproducible.
        known = self._features(sorted(self._seconds, key=lambda i: (self._seconds[i], i))[:_MOST_RESULTS_LEARNED])
        failed = self._features(sorted(self._failed))[: _MOST_RESULTS_LEARNED // 4]
        if len(known) < 2:
            return
        slower = _FAILURE_SLOWDOWN * float(np.median([self._seconds[i] / self._predicted[i] for i in known]))
        measured = [*(self._seconds[i] for i in known), *(slower * self._predicted[i] for i in failed)]
        both = (*known, *failed)
        rows, predicted = np.array([self._rows[i] for i in both]), np.array([self._predicted[i] for i in both])
        self._corrections.fit(rows, predicted, np.array(measured))

    # Candidates

    def propose(self, count: int) -> list[int]:
        self._refit()
        found = self._new(self._advised, count)
        self._advised = [i for i in self._advised if i not in self.tried]
        if not self._ranked:
            self._ranked = list(self._ranking.best(4 * _RANKED_CANDIDATES).indices)
        best = min(self._seconds.values(), default=np.inf)
        if self._seconds:
            self._stale = 0 if best * _LEAST_GAIN_FACTOR < self._best_at_last else self._stale + 1
            self._best_at_last = min(best, self._best_at_last)
        elsewhere = self._stale >= _BATCHES_WITHOUT_GAIN
        if elsewhere:
            self._stale = 0
        pool = self._features([i for i in self._pool(elsewhere) if i not in self.tried])
        if pool and len(found) < count:
            found += self._new(self._chosen(pool, count - len(found), best), count - len(found))
        if len(found) < count and not (self._seconds and self.least_gain and pool):
            found += self.fresh(count - len(found))
        return found

    def _pool(self, elsewhere: bool) -> list[int]:
        """Return candidates: around the elite (or, with `elsewhere`, away from it), from the ranking, and at random.

        A small space is returned as a whole.
        """
        if self.space.range_length <= MOST_SCORED_COMPLETELY:
            return [i for i in self._all if i not in self.tried]
        elite = [] if elsewhere else self._elite()
        start = elite or [i for i in self._ranked if i not in self.tried][:_ELITE_SIZE]
        made = [self.space.draw(self.rng, _RANDOM_CANDIDATES * (4 if elsewhere else 1))]
        if start:
            points = np.array([self.space.point(i) for i in start], dtype=np.int64)
            weights = 1.0 / (np.arange(len(points)) + 4)
            parents = points[self.rng.choice(len(points), size=_MUTATED_CANDIDATES, p=weights / weights.sum())]
            made.append(self._moves.mutated(parents))
            made.append(self._moves.mutated(self._moves.crossed(points, _CROSSED_CANDIDATES)))
        ranked = [i for i in self._ranked if i not in self.tried][:_RANKED_CANDIDATES]
        return list(dict.fromkeys([*ranked, *self.space.indices(np.concatenate(made))]))

    @cached_property
    def _all(self) -> list[int]:
        """The indices of a small space."""
        return list(self.space)

    def _elite(self) -> list[int]:
        """Return the best measured configurations, with a limit per kind."""
        kinds = Counter[tuple[float, ...]]()
        found: list[int] = []
        for index in sorted(self._seconds, key=lambda i: (self._seconds[i], i)):
            row = self._rows.get(index)
            kind = () if row is None else _kind(row)
            kinds[kind] += 1
            if kinds[kind] <= _ELITE_PER_KIND and len(found) < _ELITE_SIZE:
                found.append(index)
        return found

    def _chosen(self, pool: list[int], count: int, best: float) -> list[int]:
        """Return the most promising candidates of a pool that differ from each other."""
        rows = np.array([self._rows[i] for i in pool])
        estimate = self._corrections.estimate(rows, np.array([self._predicted[i] for i in pool]))
        hope = estimate.mean - self.caution * estimate.deviation
        if self.least_gain and len(self._seconds) > _ELITE_SIZE and hope.min() > np.log(best * (1 - self.least_gain)):
            return []
        # Half of a batch are the most promising candidates; the other half is drawn with the probability of being the
        # fastest.
        drawn = estimate.mean + estimate.deviation * self.rng.normal(size=len(pool))
        orders = [np.argsort(by, kind="stable").tolist() for by in (hope, drawn)]
        order = [place for pair in zip(*orders, strict=True) for place in pair]
        scaled = rows / np.maximum(rows.std(axis=0), 0.05)
        near = np.zeros(len(pool), bool)
        most, kinds = max(2, count // 4), Counter[tuple[float, ...]]()
        taken: list[int] = []
        for place in order:
            if len(taken) == count:
                break
            kind = () if near[place] else _kind(rows[place])
            if kind and kinds[kind] < most:
                taken.append(place)
                kinds[kind] += 1
                near |= np.abs(scaled - scaled[place]).mean(axis=1) < _LEAST_DISTANCE
        return [pool[place] for place in dict.fromkeys((*taken, *order))]

    def _features(self, indices: Sequence[int]) -> list[int]:
        """Compute missing rows of features; return the indices that can run and are modelled."""
        new = [i for i in indices if i not in self._predicted]
        if new:
            points = np.array([self.space.point(i) for i in new], dtype=np.int64)
            scores = self.scorer.score(points)
            knobs = np.concatenate([table[points[:, k]] for k, table in enumerate(self._tables)], axis=1)
            rows = np.concatenate([np.log2(1 + scores.counts), 0.5 * knobs], axis=1)
            self._predicted.update(zip(new, scores.seconds.tolist(), strict=True))
            self._rows.update(zip(new, rows, strict=True))
        return [i for i in indices if np.isfinite(self._predicted[i])]


def _kind(row: np.ndarray) -> tuple[float, ...]:
    """Return the kind of a configuration: its threads and blocks."""
    return tuple(row[:2].round(2).tolist())
