"""Auto-tuning under the legacy API's names: templates, tasks, tuners, records.

@autotvm.template("matmul")
def matmul(n): ...                                   # cfg = autotvm.get_config(); cfg.define_split(...)
task = autotvm.task.create("matmul", args=(512,), target="cuda")
autotvm.tuner.XGBTuner(task).tune(n_trial=100, measure_option=autotvm.measure_option(...),
                                  callbacks=[autotvm.callback.log_to_file("matmul.log")])
with autotvm.apply_history_best("matmul.log"), tvm.target.Target("cuda"):
    s, args = matmul(512)
"""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from ...core.refusals import old_name as _old_name
from . import callback, database, env, feature, measure, record, task, templates, tophub, tuner, utils
from .env import GLOBAL_SCOPE
from .many import tune_tasks
from .measure import LocalBuilder, LocalRunner, MeasureErrorNo, MeasureInput, MeasureResult, RPCRunner, measure_option
from .model import explain, rank
from .task import (
    ApplyHistoryBest,
    ConfigEntity,
    ConfigSpace,
    DispatchContext,
    FallbackContext,
    create,
    get_config,
    register_topi_compute,
    register_topi_schedule,
    template,
)
from .task import ApplyHistoryBest as apply_history_best

__all__ = [
    "GLOBAL_SCOPE", "ApplyHistoryBest", "ConfigEntity", "ConfigSpace", "DispatchContext", "FallbackContext",
    "LocalBuilder", "LocalRunner", "MeasureErrorNo", "MeasureInput", "MeasureResult", "RPCRunner",
    "apply_history_best", "callback", "create", "database", "env", "explain", "feature", "get_config", "many",
    "measure", "measure_option", "model", "rank", "record", "register_topi_compute", "register_topi_schedule",
    "task", "template", "templates", "tophub", "tune_tasks", "tuner", "utils",
]  # fmt: skip

if not _TYPE_CHECKING:  # type checkers see the names

    def __getattr__(name: str) -> object:
        return _old_name(__name__, name, __all__)
