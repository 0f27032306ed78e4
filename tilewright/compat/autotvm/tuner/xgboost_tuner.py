"""Simulated annealing on a learned model."""

from __future__ import annotations

from typing import Any

from ....core.errors import UserError
from ....tune.search.annealing import AnnealingSearch
from ....tune.session.durations import check_counts
from ....tune.task import Task
from .tuner import Tuner, space_of
from .xgboost_cost_model import XGBoostCostModel


class XGBTuner(Tuner):
    """Simulated annealing on a model that learns from the trials which configurations are faster.

    `feature_type`: the features of the model, "itervar" or "curve" of the loop nest, or "knob"; `plan_size`:
    configurations planned at a time. The same `seed` gives the same proposals for the same results. The model is
    Tilewright's own: `loss_type`, `num_threads` and `model` are accepted for old scripts, without effect.
    """

    def __init__(
        self,
        task: Task,
        plan_size: int = 64,
        feature_type: str = "itervar",
        loss_type: str = "rank",
        num_threads: int | None = None,
        optimizer: Any = "sa",
        diversity_filter_ratio: float | None = None,
        log_interval: int = 50,
        *,
        seed: int | None = None,
        model: str = "auto",
    ) -> None:
        if not isinstance(optimizer, str) or optimizer != "sa":  # an array's comparison is no truth value
            raise UserError(f"optimizer={optimizer!r} is unknown", primitive="XGBTuner", fix='use "sa"')
        check_counts("XGBTuner", plan_size=plan_size, **({} if num_threads is None else {"num_threads": num_threads}))
        self._unfitted = XGBoostCostModel(task, feature_type, loss_type, num_threads, model=model)
        self._search = AnnealingSearch(space_of(task), feature_type, seed, plan_size)
        super().__init__(task, self._search)

    @property
    def xs(self) -> list[int]:
        """The indices of the configurations that were measured, in the order of their results."""
        return [seen.index for seen in self._search.results]

    @property
    def ys(self) -> list[float]:
        """The operations per second of the configurations `xs`; 0 for a failure."""
        return [seen.score for seen in self._search.results]

    @property
    def cost_model(self) -> XGBoostCostModel:
        """A cost model fitted to the results so far; its `base_model` is fitted to `load_history`'s records."""
        made = self._unfitted.spawn_base_model()
        if advice := self._search.advice:
            base = made.spawn_base_model()
            base.fit([seen.index for seen in advice], [seen.score for seen in advice])
            made.load_basemodel(base)
        if self.xs:
            made.fit(self.xs, self.ys)
        return made
