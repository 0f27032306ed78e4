"""Cost models under the legacy names, in the modules of the legacy API."""

from .cost_model import CostModel, PythonBasedModel, RandomModel
from .xgb_model import XGBModel

__all__ = ["CostModel", "PythonBasedModel", "RandomModel", "XGBModel"]
