"""Gradient-boosted trees in NumPy, which learn to rank configurations from their features."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class _Trees:
    """Trees with splits at all nodes of each level.

    `feature[level]` and `cut[level]` have a row per tree and a column per node; `value` has a column per leaf.
    """

    feature: tuple[np.ndarray, ...]
    cut: tuple[np.ndarray, ...]
    value: np.ndarray

    @staticmethod
    def together(parts: Sequence[_Trees]) -> _Trees:
        """Return all trees of `parts`."""
        features, cuts = (
            zip(*(part.feature for part in parts), strict=True),
            zip(*(part.cut for part in parts), strict=True),
        )
        return _Trees(
            tuple(map(np.concatenate, features)),
            tuple(map(np.concatenate, cuts)),
            np.concatenate([part.value for part in parts]),
        )

    def values(self, bins: np.ndarray) -> np.ndarray:
        """Return the predictions, a row per tree, for each column of `bins`, which has a row per feature."""
        trees, count = len(self.value), bins.shape[1]
        flat, place = bins.reshape(-1), np.arange(count)
        node = np.zeros((trees, count), dtype=np.int64)
        for feature, cut in zip(self.feature, self.cut, strict=True):
            at = node + (np.arange(trees) * feature.shape[1])[:, None]
            node = 2 * node + (flat.take(feature.take(at) * count + place) > cut.take(at))
        found: np.ndarray = np.take_along_axis(self.value, node, axis=1)
        return found


class TreeModel:
    """Gradient-boosted trees: features in quantile bins, squared error on the rank of the scores.

    The model ranks recorded configurations as well as xgboost does: docs/notes/search-model.md has the figures.
    """

    def __init__(self, seed: int = 0, rounds: int = 80, depth: int = 4, rate: float = 0.15, bins: int = 16) -> None:
        self._rng = np.random.default_rng(seed)
        self._seed = seed
        self._rounds = rounds
        self._depth = depth
        self._rate = rate
        self._bins = bins
        self._edges: list[np.ndarray] = []
        self._trees: _Trees | None = None

    def fit(self, rows: np.ndarray, scores: np.ndarray) -> None:
        """Fit to rows of features and scores: 0 for failures, 1 for the fastest. Earlier fits are discarded."""
        self._rng = np.random.default_rng(self._seed)
        quantiles = np.linspace(0, 1, self._bins + 1)[1:-1]
        self._edges = [np.unique(np.quantile(column, quantiles)) for column in rows.T]
        bins = self._binned(rows)
        # Only the order matters: a score far above the others must not dominate.
        order = scores.argsort(kind="stable").argsort(kind="stable") / max(len(scores) - 1, 1)
        wanted = np.where(scores > 0, 0.25 + 0.5 * order + 0.25 * scores / max(scores.max(), 1e-30), 0.0)
        wanted = wanted - wanted.mean()
        trees = []
        predicted = np.zeros(len(rows))
        for _ in range(self._rounds):
            used = self._rng.random(len(rows)) < 0.9
            trees.append(self._tree(bins[:, used], (wanted - predicted)[used]))
            predicted += self._rate * trees[-1].values(bins)[0]
        self._trees = _Trees.together(trees)

    def predict(self, rows: np.ndarray) -> np.ndarray:
        """Return a number per row, larger for candidates that should be faster; only the order is meaningful."""
        bins = self._binned(rows[:, : len(self._edges)])
        if self._trees is None:
            return np.zeros(len(rows))
        total: np.ndarray = (self._rate * self._trees.values(bins)).sum(axis=0)
        return total

    def _binned(self, rows: np.ndarray) -> np.ndarray:
        """Return the bins of the features, a row per feature."""
        columns = [np.searchsorted(edges, column) for edges, column in zip(self._edges, rows.T, strict=True)]
        return np.stack(columns) if columns else np.zeros((1, len(rows)), dtype=np.int64)

    def _tree(self, bins: np.ndarray, gradient: np.ndarray) -> _Trees:
        features = self._rng.permutation(len(bins))[: max(8, len(bins) * 3 // 5)]
        chosen, cuts = [], []
        node = np.zeros(bins.shape[1], dtype=np.int64)
        for level in range(self._depth):
            feature, cut = self._split(bins[features], gradient, node, 1 << level)
            feature = np.where(cut < self._bins, features[feature], 0)
            chosen.append(feature[None])
            cuts.append(cut[None])
            node = 2 * node + (bins[feature[node], np.arange(len(node))] > cut[node])
        count = np.bincount(node, minlength=1 << self._depth)
        value = np.bincount(node, gradient, minlength=1 << self._depth) / (count + 1.0)
        return _Trees(tuple(chosen), tuple(cuts), value[None])

    def _split(
        self, bins: np.ndarray, gradient: np.ndarray, node: np.ndarray, nodes: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the best feature and cut of each node, by the difference of both sides' means."""
        shape = (len(bins), nodes, self._bins)
        cells = (((np.arange(len(bins)) * nodes)[:, None] + node) * self._bins + bins).reshape(-1)
        count = np.bincount(cells, minlength=math.prod(shape)).reshape(shape).cumsum(axis=2)
        weights = np.tile(gradient, len(bins))
        total = np.bincount(cells, weights, minlength=math.prod(shape)).reshape(shape).cumsum(axis=2)
        n, t = count[..., -1:], total[..., -1:]
        gain = total**2 / (count + 1.0) + (t - total) ** 2 / (n - count + 1.0) - t**2 / (n + 1.0)
        tops = gain.max(axis=2)
        feature = tops.argmax(axis=0)
        here = np.arange(nodes)
        cut = np.where(tops[feature, here] > 0, gain[feature, here].argmax(axis=1), self._bins)
        return feature, cut
