"""Tuners: XGBTuner, GATuner, RandomTuner, GridSearchTuner, each a search strategy over a task's space."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from ....core.refusals import old_name as _old_name
from .. import callback as callback
from . import droplet_tuner, ga_tuner, index_based_tuner, tuner, xgboost_cost_model, xgboost_tuner
from .auto_tuner import AutoTuner
from .droplet_tuner import DropletTuner
from .ga_tuner import GATuner
from .index_based_tuner import GridSearchTuner, RandomTuner
from .tuner import Tuner
from .xgboost_cost_model import XGBoostCostModel
from .xgboost_tuner import XGBTuner

__all__ = [
    "AutoTuner", "DropletTuner", "GATuner", "GridSearchTuner", "RandomTuner", "Tuner", "XGBTuner",
    "XGBoostCostModel", "auto_tuner", "callback", "droplet_tuner", "ga_tuner", "index_based_tuner", "tuner",
    "xgboost_cost_model", "xgboost_tuner",
]  # fmt: skip

if not _TYPE_CHECKING:  # type checkers see the names

    def __getattr__(name: str) -> object:
        return _old_name(__name__, name, __all__)
