"""The model that learns which configurations are faster, for scripts with their own search."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import index
from typing import TYPE_CHECKING, Any

import numpy as np

from ....core.errors import UserError
from ....core.log import logger
from ....core.refusals import old_name as _old_name
from ....tune.analysis.candidate import inspect_candidate
from ....tune.analysis.features import FeatureColumns, Features, check_kind, of_knobs
from ....tune.records.format import Pair, pairs_of
from ....tune.search.trees import TreeModel
from ....tune.session.durations import check_counts
from ....tune.session.trials import flops_of
from ....tune.task import Task
from .tuner import space_of


class XGBoostCostModel:
    """Learns from measured configurations of a task, and predicts which others are faster.

    Parameters
    ----------
    task : Task
        The task to tune.
    feature_type : str
        The features of the model: "itervar" or "curve" of the loop nest, or "knob".
    loss_type : str
        "reg", "rank" or "rank-binary". The model learns the order with each of them.
    num_threads, log_interval, upper_model, model
        Accepted for old scripts, without effect.
    """

    def __init__(
        self,
        task: Task,
        feature_type: str = "itervar",
        loss_type: str = "reg",
        num_threads: int | None = None,
        log_interval: int = 25,
        upper_model: Any = None,
        *,
        model: str = "auto",
    ) -> None:
        self.task, self.space = task, space_of(task)
        self.fea_type = check_kind(feature_type)
        self.loss_type = loss_type
        self.num_threads = num_threads
        _check_names(model, loss_type)
        self._name = model
        self._tables = of_knobs(self.space)
        self._columns = FeatureColumns()
        self._nests: dict[int, Features] = {}
        self._base: XGBoostCostModel | None = None
        self._model: TreeModel | None = None

    def fit(self, xs: Iterable[int], ys: Iterable[float], plan_size: int = 64) -> None:
        """Learn from the indices `xs` of configurations and their speeds `ys`, larger for faster, 0 for failures.

        `plan_size` is accepted for old scripts, without effect.
        """
        indices = self._indices(xs, "fit")
        try:
            speeds = np.array(list(ys), dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise UserError(f"the speeds are {ys!r}", primitive="fit", fix="give a number for each index") from error
        if speeds.ndim != 1 or len(indices) != len(speeds) or not indices:
            raise UserError(
                f"{len(indices)} configurations and {len(speeds)} speeds", primitive="fit", fix="give as many of each"
            )
        self._columns.learn([self._nest(i) for i in indices])
        model = TreeModel()
        model.fit(self._rows(indices), speeds / max(float(speeds.max()), 1e-30))
        self._model = model

    @property
    def base_model(self) -> XGBoostCostModel | None:
        """The model that `load_basemodel` set."""
        return self._base

    def fit_log(self, records: Iterable[Pair], plan_size: int = 64, min_seed_records: int = 0) -> bool:
        """Learn from the records of this workload; return False, unchanged, if fewer than requested fit."""
        check_counts("fit_log", least=0, min_seed_records=min_seed_records)
        seen: dict[int, float] = {}
        for inp, result in pairs_of(records, "fit_log"):
            place = self.space.find(inp.config) if inp.task.workload == self.task.workload else None
            if place is not None:
                seen[place] = flops_of(self.task.flop, result)
        if len(seen) < max(min_seed_records, 1):
            logger.warning("fit_log: %d records are of the workload %s", len(seen), self.task.workload)
            return False
        self.fit(sorted(seen), [seen[i] for i in sorted(seen)], plan_size)
        return True

    def load_basemodel(self, base_model: XGBoostCostModel) -> None:
        """Learn the difference from another model's predictions from now on."""
        if not isinstance(base_model, XGBoostCostModel) or base_model._model is None:
            raise UserError(
                f"base_model is {base_model!r}, which is not a fitted model",
                primitive="load_basemodel",
                fix="give an XGBoostCostModel after fit or fit_log",
            )
        self._base = base_model

    def spawn_base_model(self) -> XGBoostCostModel:
        """Return a fresh model of the same kind."""
        return XGBoostCostModel(self.task, self.fea_type, self.loss_type, self.num_threads, model=self._name)

    clone_new = spawn_base_model

    def predict(self, xs: Iterable[int], output_margin: bool = False) -> np.ndarray:
        """Return a number for each index, larger for candidates that should be faster; `output_margin` has no
        effect."""
        if self._model is None:
            raise UserError("the model has learned nothing", primitive="predict", fix="call fit or fit_log first")
        indices = self._indices(xs, "predict")
        return self._model.predict(self._rows(indices)) if indices else np.zeros(0)

    def _indices(self, xs: Iterable[int], primitive: str) -> list[int]:
        try:
            found = [index(x) for x in xs]
        except TypeError as error:
            raise UserError(
                f"the configurations are {xs!r}", primitive=primitive, fix="give a list of indices: [0, 1, 2]"
            ) from error
        wrong = next((x for x in found if not self.space.is_index_valid(x)), None)
        if wrong is not None:
            raise UserError(
                f"{wrong} is not the index of a configuration",
                primitive=primitive,
                fix=f"give indices below {self.space.range_length} that no predicate rules out",
            )
        return found

    def _nest(self, number: int) -> Features:
        """The features of a configuration's loop nest: none if it cannot run, or if none are wanted."""
        if self.fea_type == "knob" or self.task.target is None:
            return {}
        if number not in self._nests:
            found = inspect_candidate(self.task, self.space.get(number), self.task.target, self.fea_type)
            self._nests[number] = found.features
        return self._nests[number]

    def _rows(self, indices: Sequence[int]) -> np.ndarray:
        points = np.array([self.space.point(i) for i in indices])
        parts = [table[points[:, k]] for k, table in enumerate(self._tables)]
        parts.append(self._columns.matrix([self._nest(i) for i in indices]))
        if self._base is not None:
            parts.append(self._base.predict(indices)[:, None])
        return np.concatenate(parts, axis=1)


def _check_names(model: object, loss: object) -> None:
    """Raise UserError for a model or a loss that the legacy tuner lacks. All known ones stand for `TreeModel`."""
    if model not in ("auto", "xgboost", "numpy"):
        raise UserError(f"model {model!r} is unknown", primitive="tuner", fix='use "auto", "xgboost" or "numpy"')
    if str(loss) not in ("rank", "rank-binary", "reg"):
        raise UserError(f"loss_type {loss!r} is unknown", primitive="tuner", fix='use "rank" or "reg"')


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        return _old_name(__name__, name, globals())
