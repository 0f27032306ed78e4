"""Models that learn to rank configurations: gradient-boosted trees, XGBoost's where it is installed, else ours."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Protocol

import numpy as np

from ...core.errors import UserError


class Model(Protocol):
    """Learns scores (0 for failures, 1 for the best known) from rows of features."""

    def fit(self, rows: np.ndarray, scores: np.ndarray) -> None:
        """Learn anew from all that is known."""

    def predict(self, rows: np.ndarray) -> np.ndarray:
        """A number for each row, larger for what should be faster; only the order matters."""


def make_model(name: str = "auto", seed: int = 0, threads: int | None = None, loss: str = "rank") -> Model:
    """A model by name: "xgboost", "numpy", or "auto", the first where it is installed."""
    if name not in ("auto", "xgboost", "numpy"):
        raise UserError(f"model {name!r} is unknown", primitive="tuner", fix='use "auto", "xgboost" or "numpy"')
    if loss not in ("rank", "reg"):
        raise UserError(f"loss_type {loss!r} is unknown", primitive="tuner", fix='use "rank" or "reg"')
    if name == "xgboost" or (name == "auto" and find_spec("xgboost") is not None):
        return XGBoostModel(seed, threads, loss)
    return TreeModel(seed)


class XGBoostModel:
    """XGBoost; `loss` is "rank" (which of two is faster) or "reg" (how fast)."""

    def __init__(self, seed: int = 0, threads: int | None = None, loss: str = "rank", rounds: int = 120) -> None:
        try:
            import xgboost
        except ImportError as error:
            raise UserError(
                "xgboost is not installed", primitive="tuner", fix="pip install tilewright[tune]"
            ) from error
        self._xgboost: Any = xgboost
        self._rounds = rounds
        self._options = {
            "max_depth": 5,
            "eta": 0.15,
            "min_child_weight": 1,
            "gamma": 1e-4,
            "lambda": 1.0,
            "subsample": 0.9,
            "colsample_bytree": 0.6,
            "tree_method": "hist",
            "seed": seed,
            "verbosity": 0,
            "objective": "reg:squarederror",
        }
        # So little data is done before other threads wake; on busy cores, waiting for them took 20 times as long.
        self._options["nthread"] = threads or 1
        if loss == "rank":
            # Pairs are drawn over the whole list: the default, pairs with the top few, forgets the rest of it. Scaling
            # the gradients by the scores' differences made the order worse on measured configurations.
            self._options |= {
                "objective": "rank:pairwise",
                "lambdarank_pair_method": "mean",
                "lambdarank_num_pair_per_sample": 32,
                "lambdarank_score_normalization": False,
            }
        self._booster: Any = None

    def fit(self, rows: np.ndarray, scores: np.ndarray) -> None:
        data = self._xgboost.DMatrix(rows, label=scores, qid=np.zeros(len(rows), dtype=np.uint32))
        self._booster = self._xgboost.train(self._options, data, num_boost_round=self._rounds)

    def predict(self, rows: np.ndarray) -> np.ndarray:
        found: np.ndarray = self._booster.inplace_predict(rows)
        return found


@dataclass(frozen=True)
class _Tree:
    """A tree whose nodes of one level all split: `feature[level]`, `cut[level]` by node, and a value for each leaf."""

    feature: tuple[np.ndarray, ...]
    cut: tuple[np.ndarray, ...]
    value: np.ndarray

    def leaves(self, bins: np.ndarray) -> np.ndarray:
        """The leaf of each row."""
        node = np.zeros(len(bins), dtype=np.int64)
        rows = np.arange(len(bins))
        for feature, cut in zip(self.feature, self.cut, strict=True):
            node = 2 * node + (bins[rows, feature[node]] > cut[node])
        return node


class TreeModel:
    """Gradient-boosted trees in NumPy: features in quantile bins, squared error on the rank of the scores."""

    def __init__(self, seed: int = 0, rounds: int = 80, depth: int = 4, rate: float = 0.15, bins: int = 16) -> None:
        self._rng = np.random.default_rng(seed)
        self._seed = seed
        self._rounds = rounds
        self._depth = depth
        self._rate = rate
        self._bins = bins
        self._edges: list[np.ndarray] = []
        self._trees: list[_Tree] = []

    def fit(self, rows: np.ndarray, scores: np.ndarray) -> None:
        self._rng = np.random.default_rng(self._seed)
        quantiles = np.linspace(0, 1, self._bins + 1)[1:-1]
        self._edges = [np.unique(np.quantile(column, quantiles)) for column in rows.T]
        bins = self._binned(rows)
        # The order is what matters, and a score far above the others must not drown them.
        order = scores.argsort(kind="stable").argsort(kind="stable") / max(len(scores) - 1, 1)
        wanted = np.where(scores > 0, 0.25 + 0.5 * order + 0.25 * scores / max(scores.max(), 1e-30), 0.0)
        wanted = wanted - wanted.mean()
        self._trees = []
        predicted = np.zeros(len(rows))
        for _ in range(self._rounds):
            used = self._rng.random(len(rows)) < 0.9
            tree = self._tree(bins[used], (wanted - predicted)[used])
            self._trees.append(tree)
            predicted += self._rate * tree.value[tree.leaves(bins)]

    def predict(self, rows: np.ndarray) -> np.ndarray:
        bins = self._binned(rows[:, : len(self._edges)])
        total = np.zeros(len(rows))
        for tree in self._trees:
            total += self._rate * tree.value[tree.leaves(bins)]
        return total

    def _binned(self, rows: np.ndarray) -> np.ndarray:
        columns = [np.searchsorted(edges, column) for edges, column in zip(self._edges, rows.T, strict=True)]
        return np.stack(columns, axis=1) if columns else np.zeros((len(rows), 1), dtype=np.int64)

    def _tree(self, bins: np.ndarray, gradient: np.ndarray) -> _Tree:
        features = self._rng.permutation(bins.shape[1])[: max(8, bins.shape[1] * 3 // 5)]
        chosen, cuts = [], []
        node = np.zeros(len(bins), dtype=np.int64)
        for level in range(self._depth):
            feature, cut = self._split(bins, gradient, node, 1 << level, features)
            chosen.append(feature)
            cuts.append(cut)
            node = 2 * node + (bins[np.arange(len(bins)), feature[node]] > cut[node])
        count = np.bincount(node, minlength=1 << self._depth)
        value = np.bincount(node, gradient, minlength=1 << self._depth) / (count + 1.0)
        return _Tree(tuple(chosen), tuple(cuts), value)

    def _split(
        self, bins: np.ndarray, gradient: np.ndarray, node: np.ndarray, nodes: int, features: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The best feature and cut of each node: where both sides' means differ most."""
        best = np.zeros(nodes)
        feature = np.zeros(nodes, dtype=np.int64)
        cut = np.full(nodes, self._bins, dtype=np.int64)
        for f in features:
            cell = node * self._bins + bins[:, f]
            count = np.bincount(cell, minlength=nodes * self._bins).reshape(nodes, -1).cumsum(axis=1)
            total = np.bincount(cell, gradient, minlength=nodes * self._bins).reshape(nodes, -1).cumsum(axis=1)
            n, t = count[:, -1:], total[:, -1:]
            gain = total**2 / (count + 1.0) + (t - total) ** 2 / (n - count + 1.0) - t**2 / (n + 1.0)
            top = gain.argmax(axis=1)
            better = gain[np.arange(nodes), top] > best
            best = np.where(better, gain[np.arange(nodes), top], best)
            feature = np.where(better, f, feature)
            cut = np.where(better, top, cut)
        return feature, cut
