"""Templates, their tasks, and the contexts that give them configurations, under the legacy API's names."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from ....core.refusals import old_name as _old_name
from ....tune.task import Task, create
from . import dispatcher, space, task, topi_integration
from .contexts import ApplyConfig, DispatchContext, FallbackContext, clear_fallback_cache
from .history import ApplyHistoryBest
from .space import ConfigEntity, ConfigSpace, FallbackConfigEntity, InstantiationError
from .task import compute_flop
from .templates import args_to_workload, deserialize_args, get_config, serialize_args, template
from .topi_integration import get_workload, register_topi_compute, register_topi_schedule

__all__ = [name for name in dir() if not name.startswith("_")]

if not _TYPE_CHECKING:  # type checkers see the names

    def __getattr__(name: str) -> object:
        return _old_name(__name__, name, __all__)
