"""Simulated annealing on a learned model.

Points walk through the space, one knob per step, and a model of the knobs accepts or rejects steps. Such steps are
cheap, so walks are long. The best points on the way are proposed, thinned out so that they differ. If a model of the
loop nest is requested, it ranks the proposed candidates that can run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ..analysis.features import FeatureColumns, Features, of_knobs
from ..space.space import Space
from .search import Search, Seen
from .trees import TreeModel

_LEAST_RESULTS = 8
"""The least number of results to learn from."""
_RESULTS_WITHOUT_ADVICE = 64
"""The least number of results with which advice is ignored."""
_INSPECTED_PER_TRIAL = 4
"""The number of inspected loop nests per measured candidate."""


class AnnealingSearch(Search):
    """Proposes random candidates first, then the fastest by the model, with a random fraction `explore`.

    `feature_kind`: "knob", "itervar" or "curve"; `plan_size`: the number of points to plan at a time. `chains`,
    `steps`: the number of walking points, and of their steps.
    """

    def __init__(
        self,
        space: Space,
        feature_kind: str = "itervar",
        seed: int | None = None,
        plan_size: int = 64,
        chains: int = 128,
        steps: int = 240,
        explore: float = 0.1,
    ) -> None:
        super().__init__(space, seed)
        self.feature_kind = feature_kind
        self.plan_size = plan_size
        self.explore = explore
        self._chains = chains
        self._steps = steps
        self._tables = of_knobs(space)
        self._columns = FeatureColumns()
        self._seen: dict[int, Seen] = {}
        self._advice: dict[int, Seen] = {}
        self._knobs: TreeModel | None = None
        self._nest: TreeModel | None = None
        self._unlearned = {"knobs": False, "nest": False}

    @property
    def results(self) -> list[Seen]:
        """The results that the model has learned from, in order."""
        return list(self._seen.values())

    @property
    def advice(self) -> list[Seen]:
        """The results of other devices or compilers, scored relative to the best of them."""
        return list(self._advice.values())

    def overshoot(self, count: int) -> int:
        return count if self.feature_kind == "knob" else _INSPECTED_PER_TRIAL * count

    def learn(self, results: Sequence[Seen]) -> None:
        self._seen.update({seen.index: seen for seen in results})
        self._unlearned["knobs"] |= bool(results)
        self._unlearned["nest"] |= any(seen.features for seen in results)

    def propose(self, count: int) -> list[int]:
        self._refit_knobs()
        if self._knobs is None:
            return self.fresh(count)
        planned = count - int(self.rng.binomial(count, self.explore))
        found = self._new(self._anneal(self._knobs, max(planned, self.plan_size)), planned)
        return found + self.fresh(count - len(found))

    def rank(self, looks: Mapping[int, Features]) -> list[int]:
        self._refit_nest()
        if self._nest is None or not looks:
            return list(looks)
        indices = list(looks)
        scores = self._nest.predict(self._nest_rows(indices, looks))
        return [indices[i] for i in np.argsort(-scores, kind="stable")]

    def advise(self, results: Sequence[Seen]) -> None:
        super().advise(results)
        top = max((seen.score for seen in results), default=0.0)
        if top > 0:
            self._advice.update({seen.index: Seen(seen.index, seen.score / top) for seen in results})
            self._unlearned["knobs"] = True

    def _scores(self) -> dict[int, float]:
        """Return scores normalised to 0 .. 1; none if nothing could run."""
        top = max((seen.score for seen in self._seen.values()), default=0.0)
        return {i: seen.score / top for i, seen in self._seen.items()} if top > 0 else {}

    def _refit_knobs(self) -> None:
        """Fit the model of choices if there are enough new results."""
        if not self._unlearned["knobs"] or not self._tables:
            return
        self._unlearned["knobs"] = False
        scores = self._scores()
        if len(scores) < _RESULTS_WITHOUT_ADVICE:  # the results of others give the direction
            scores = {i: seen.score for i, seen in self._advice.items()} | scores
        self._knobs = self._fitted(scores, lambda order: self._rows(np.array([self.space.point(i) for i in order])))

    def _refit_nest(self) -> None:
        """Fit the model of loop nests, likewise."""
        if not self._unlearned["nest"] or self.feature_kind == "knob":
            return
        self._unlearned["nest"] = False
        looked = {i: self._seen[i].features for i in self._seen if self._seen[i].features}
        scores = self._scores()
        if scores:
            self._columns.learn([looked[i] for i in sorted(looked)])
            known = {i: scores[i] for i in looked}
            self._nest = self._fitted(known, lambda order: self._nest_rows(order, looked))

    def _fitted(self, scores: Mapping[int, float], rows: Callable[[list[int]], np.ndarray]) -> TreeModel | None:
        """Return a model of `scores`; None if there are too few."""
        if len(scores) < _LEAST_RESULTS:
            return None
        # Sorted by index, because the order in which results arrive is not reproducible.
        order = sorted(scores)
        model = TreeModel(int(self.rng.integers(1 << 30)))
        model.fit(rows(order), np.array([scores[i] for i in order]))
        return model

    def _rows(self, points: np.ndarray) -> np.ndarray:
        return np.concatenate([table[points[:, k]] for k, table in enumerate(self._tables)], axis=1)

    def _nest_rows(self, indices: Sequence[int], looks: Mapping[int, Features]) -> np.ndarray:
        nest = self._columns.matrix([looks[i] for i in indices])
        return np.concatenate([nest, self._rows(np.array([self.space.point(i) for i in indices]))], axis=1)

    def _anneal(self, model: TreeModel, wanted: int) -> list[int]:
        """Walk through the space; return the best untried points on the way, best first."""
        points = self._starts()
        scores = model.predict(self._rows(points))
        passed: dict[int, float] = {}
        self._note(passed, points, scores)
        scale = float(scores.std()) or 1.0
        for step in range(self._steps):
            heat = scale * (1.0 - step / self._steps)
            moved = self._step(points)
            new = model.predict(self._rows(moved))
            keep = self.rng.random(len(points)) < np.exp(np.minimum((new - scores) / max(heat, 1e-9), 0.0))
            points = np.where(keep[:, None], moved, points)
            scores = np.where(keep, new, scores)
            self._note(passed, moved[keep], new[keep])
        best = sorted(passed, key=lambda i: (-passed[i], i))
        return self._thinned(best[: 8 * wanted], wanted)

    def _starts(self) -> np.ndarray:
        """Return start points: a quarter from the best known points, the rest at random, because there are many local
        optima."""
        best = sorted(self._seen.values(), key=lambda seen: (-seen.score, seen.index))[: self._chains // 4]
        known = np.array([self.space.point(seen.index) for seen in best if seen.score > 0])
        drawn = self.space.draw(self.rng, self._chains - len(known))
        return np.concatenate([known.reshape(-1, len(self.space.dims)), drawn]).astype(np.int64)

    def _step(self, points: np.ndarray) -> np.ndarray:
        """Return each point with one other choice; a point is unchanged if predicates rule out its step."""
        knob = self.rng.integers(points.shape[1], size=len(points))
        place = self.rng.integers(np.array(self.space.dims)[knob])
        moved = points.copy()
        moved[np.arange(len(points)), knob] = place
        allowed = self.space.admitted(moved)
        return np.where(allowed[:, None], moved, points)

    def _note(self, passed: dict[int, float], points: np.ndarray, scores: np.ndarray) -> None:
        for index, score in zip(self.space.indices(points), scores.tolist(), strict=True):
            if index not in self.tried:
                passed[index] = score

    def _thinned(self, best: list[int], wanted: int) -> list[int]:
        """Return the candidates of a ranking that differ in two or more knobs from each other, then the rest."""
        taken: list[int] = []
        places = np.zeros((0, len(self.space.dims)), dtype=np.int64)
        rest = []
        for index in best:
            point = np.array(self.space.point(index))
            if len(taken) < wanted and (not len(taken) or ((places != point).sum(axis=1) >= 2).all()):
                taken.append(index)
                places = np.concatenate([places, point[None]])
            else:
                rest.append(index)
        return taken + rest
