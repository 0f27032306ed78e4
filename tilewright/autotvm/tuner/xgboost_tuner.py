"""Simulated annealing on a learned model."""

from __future__ import annotations

from typing import Any

from ...core.errors import UserError
from ...tune.analysis.features import check_kind
from ...tune.search.annealing import AnnealingSearch
from ...tune.task import Task
from .tuner import Tuner, check_counts, space_of


class XGBTuner(Tuner):
    """Simulated annealing on a model that learns from the trials which configurations are faster.

    `feature_type`: what the model sees, "itervar" or "curve" of the loop nest, or "knob"; `loss_type`: "rank" or
    "reg"; `plan_size`: configurations planned at a time. The same `seed` gives the same proposals for the same
    results. `model` is "xgboost", "numpy" or, by default, the first where it is installed.
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
        strategy = AnnealingSearch(
            space_of(task),
            check_kind(feature_type),
            seed,
            model,
            "rank" if str(loss_type) == "rank-binary" else loss_type,
            num_threads,
            plan_size,
        )
        super().__init__(task, strategy)
