"""Templates, their tasks, and the contexts that give them configurations, under the legacy API's names."""

from ...tune.task import Task, create
from ...tune.task import freeze as serialize_args
from . import dispatcher, space
from .dispatcher import ApplyConfig, DispatchContext, FallbackContext, clear_fallback_cache
from .history import ApplyHistoryBest
from .space import ConfigEntity, ConfigSpace, FallbackConfigEntity, InstantiationError
from .templates import args_to_workload, get_config, template

__all__ = [name for name in dir() if not name.startswith("_")]
