"""Automatic schedules under the legacy API's names: tasks, searches, records.

@auto_scheduler.register_workload
def matmul(n): ...                                   # returns the tensors: inputs, then outputs
task = auto_scheduler.SearchTask(func=matmul, args=(512,), target="cuda")
task.tune(auto_scheduler.TuningOptions(100, measure_callbacks=[auto_scheduler.RecordToFile("matmul.json")]))
s, args = task.apply_best("matmul.json")

`tw.auto_schedule` makes the schedules.
"""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from ...core.refusals import old_name as _old_name
from . import utils as utils
from .compute_dag import ComputeDAG, LayoutRewriteOption, get_shape_from_rewritten_layout
from .cost_model import CostModel, PythonBasedModel, RandomModel, XGBModel
from .loop_state import State
from .measure import (
    LocalBuilder,
    LocalRPCMeasureContext,
    LocalRunner,
    MeasureErrorNo,
    MeasureInput,
    MeasureResult,
    PythonBasedMeasureCallback,
    RPCRunner,
)
from .measure_record import RecordReader, RecordToFile, load_best, load_best_record, load_records, save_records
from .search_policy import (
    EmptyPolicy,
    PreloadCustomSketchRule,
    PreloadMeasuredStates,
    SearchCallback,
    SearchPolicy,
    SketchPolicy,
)
from .search_task import HardwareParams, SearchTask, TuningOptions, auto_schedule, create_task
from .task_scheduler import LogEstimatedLatency, PrintTableInfo, TaskScheduler
from .workload_registry import make_workload_key, register_workload, workload_key_to_tensors

__all__ = [
    "ComputeDAG", "CostModel", "EmptyPolicy", "HardwareParams", "LayoutRewriteOption", "LocalBuilder",
    "LocalRPCMeasureContext", "LocalRunner", "LogEstimatedLatency", "MeasureErrorNo", "MeasureInput",
    "MeasureResult", "PreloadCustomSketchRule", "PreloadMeasuredStates", "PrintTableInfo",
    "PythonBasedMeasureCallback", "PythonBasedModel", "RPCRunner", "RandomModel", "RecordReader", "RecordToFile",
    "SearchCallback", "SearchPolicy", "SearchTask", "SketchPolicy", "State", "TaskScheduler", "TuningOptions",
    "XGBModel", "auto_schedule", "compute_dag", "cost_model", "create_task", "get_shape_from_rewritten_layout",
    "layout_rewrite", "load_best", "load_best_record", "load_records", "loop_state", "make_workload_key", "measure",
    "measure_record", "register_workload", "save_records", "search_policy", "search_task", "sketch", "task_scheduler",
    "transform_step", "utils", "workload_key_to_tensors", "workload_registry",
]  # fmt: skip

if not _TYPE_CHECKING:  # type checkers see the names

    def __getattr__(name: str) -> object:
        return _old_name(__name__, name, __all__)
