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

__all__ = [
    "ApplyConfig", "ApplyHistoryBest", "ConfigEntity", "ConfigSpace", "DispatchContext", "FallbackConfigEntity",
    "FallbackContext", "InstantiationError", "Task", "args_to_workload", "clear_fallback_cache", "compute_flop",
    "contexts", "create", "deserialize_args", "dispatcher", "get_config", "get_workload", "history", "legacy_tasks",
    "lines", "register_topi_compute", "register_topi_schedule", "serialize_args", "space", "task", "template",
    "templates", "topi_integration",
]  # fmt: skip

if not _TYPE_CHECKING:  # type checkers see the names

    def __getattr__(name: str) -> object:
        return _old_name(__name__, name, __all__)
