"""Tasks: a computation and a target, tuned and scheduled."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from ...auto import auto_schedule as _auto_schedule
from ...core.errors import UserError, warn_caller
from ...core.target import Target
from ...driver import build
from ...nd import NDArray
from ...schedule.handle import ScheduleHandle
from ...tensor.tensor import Tensor
from .compute_dag import ComputeDAG, Workload
from .measure import LocalRunner
from .measure_record import load_best_record
from .search_policy import SearchPolicy, SketchPolicy
from .workload_registry import (
    TASK_INPUT_BUFFER_TABLE,
    WORKLOAD_FUNC_REGISTRY,
    make_workload_key,
    register_workload_tensors,
)


@dataclass
class HardwareParams:
    """Limits of the hardware under the legacy names: by default, the limits of `target`.

    They describe the hardware to a script. A search reads the limits of the task's target: "cuda -max_num_threads=512".
    """

    num_cores: int | None = None
    vector_unit_bytes: int | None = None
    cache_line_bytes: int | None = None
    max_shared_memory_per_block: int | None = None
    max_local_memory_per_block: int | None = None
    max_threads_per_block: int | None = None
    max_vthread_extent: int | None = None
    warp_size: int | None = None
    target: Any = None
    target_host: Any = None

    def __post_init__(self) -> None:
        if self.target is None:
            return
        target = Target.parse(self.target)
        limits = (os.cpu_count(), 64, target.hardware.cache_line, 0, 0, 0, 0, 0)
        if target.is_gpu:
            limits = (
                -1, target.hardware.vector_bytes, target.hardware.cache_line, target.shared_bytes, 2**31 - 1,
                target.max_threads_per_block, max(1, target.warp_size // 4), target.warp_size,
            )  # fmt: skip
        for each, limit in zip(fields(self), limits, strict=False):
            if getattr(self, each.name) is None:
                setattr(self, each.name, limit)


@dataclass
class TuningOptions:
    """Options of a search; `builder` is accepted and has no effect.

    A search ends after `early_stopping` trials without a better one.
    """

    num_measure_trials: int = 0
    early_stopping: int | None = None
    num_measures_per_round: int = 64
    verbose: int = 1
    builder: Any = "local"
    runner: Any = "local"
    measure_callbacks: Sequence[Any] | None = field(default=None)


class SearchTask(Workload):
    """A computation on a target: a registered function with arguments, a workload key, or a graph.

    `task_inputs` maps names of inputs to the arrays that measurements use. The options that save them have no effect.
    """

    def __init__(
        self,
        func: Any = None,
        args: Any = None,
        compute_dag: ComputeDAG | None = None,
        workload_key: str | None = None,
        target: Any = None,
        target_host: Any = None,
        hardware_params: HardwareParams | None = None,
        layout_rewrite_option: Any = None,
        task_inputs: Any = None,
        task_inputs_overwrite: bool = False,
        task_inputs_save_to_file: bool = False,
        desc: str = "",
    ) -> None:
        if func is None and workload_key is None and compute_dag is None:
            raise UserError(
                "no computation is given",
                primitive="SearchTask",
                fix="pass func= and args=, or workload_key=, or compute_dag=",
            )
        if target is None:
            raise UserError("no target is given", primitive="SearchTask", fix='pass target="cuda" or "llvm"')
        key = make_workload_key(func, args or ()) if func is not None else workload_key
        dag = compute_dag if compute_dag is not None else ComputeDAG(key)
        key = key or f'["{dag.hash_key()}"]'
        if compute_dag is not None and key not in WORKLOAD_FUNC_REGISTRY:
            register_workload_tensors(key, dag.tensors)
        given = _inputs(task_inputs)
        TASK_INPUT_BUFFER_TABLE.setdefault(key, {}).update(given)
        plain = Target.parse(target)
        super().__init__(
            dag, key, plain.with_host(target_host) if target_host else plain, layout_rewrite_option, list(given)
        )
        self.target_host, self.desc = target_host, desc
        self.hardware_params = hardware_params or HardwareParams(target=self.target)

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        vars(self).update(state)
        WORKLOAD_FUNC_REGISTRY.setdefault(self.workload_key, self.compute_dag.tensors)

    def tune(self, tuning_options: TuningOptions, search_policy: SearchPolicy | None = None) -> None:
        """Measure schedules of the task; `measure_callbacks` take the results."""
        if tuning_options.num_measure_trials < 1:
            raise UserError(
                "no trial is asked for", primitive="tune", fix="TuningOptions(num_measure_trials=64), or apply_best"
            )
        runner = LocalRunner() if tuning_options.runner == "local" else tuning_options.runner
        if not isinstance(runner, LocalRunner):
            raise UserError(
                f"runner is {runner!r}, which is not a runner",
                primitive="TuningOptions",
                fix='use "local", auto_scheduler.LocalRunner(...) or auto_scheduler.RPCRunner(key, host, port)',
            )
        policy = search_policy or SketchPolicy(self)
        callbacks = tuning_options.measure_callbacks or ()
        stop = tuning_options.early_stopping
        policy.search(tuning_options.num_measure_trials, runner, callbacks, tuning_options.verbose, stop)

    def apply_best(
        self, log_file: Any, include_compatible: bool = False, layout_rewrite_option: Any = None
    ) -> tuple[ScheduleHandle, list[Tensor]]:
        """Return the fastest schedule in a file, and the tensors. Without one, the ranked schedule, with a warning."""
        best = None
        if Path(log_file).exists():
            best, _ = load_best_record(log_file, self.workload_key, self.target, include_compatible)
        if best is not None:
            option = self.layout_rewrite_option if layout_rewrite_option is None else layout_rewrite_option
            return self.compute_dag.apply_steps_from_state(best.state, option)
        warn_caller(
            f"{log_file} has no record of {self.workload_key} for {self.target.kind}; "
            "the schedule is ranked, not tuned",
            UserWarning,
        )
        return _auto_schedule(self.compute_dag.tensors, self.target), self.compute_dag.tensors

    def print_best(self, log_file: Any, print_mode: str = "schedule") -> str:
        """Return the fastest schedule in a file as a Python program, or its "cuda" source."""
        s, args = self.apply_best(log_file)
        if print_mode == "schedule":
            return s.as_python()
        if print_mode != "cuda":
            raise UserError(
                f"print_mode={print_mode!r} is unknown", primitive="print_best", fix='use "schedule" or "cuda"'
            )
        kernels = build(s, args, target=self.target).imported_modules
        if not kernels:
            raise UserError(f"{self.target} has no kernels", primitive="print_best", fix='use print_mode="schedule"')
        source: str = kernels[0].get_source()
        return source


def _inputs(given: Any) -> Mapping[str, Any]:
    """Check the arrays of inputs by name."""
    if given is None:
        return {}
    if not isinstance(given, Mapping) or not all(isinstance(array, NDArray) for array in given.values()):
        raise UserError(
            f"task_inputs are {given!r}",
            primitive="SearchTask",
            fix='map names of inputs to arrays: {"index": tw.nd.array(index)}',
        )
    return dict(given)


def create_task(func: Any, args: Any, target: Any, target_host: Any = None, hardware_params: Any = None) -> SearchTask:
    """Return the task of a registered function; an early name of `SearchTask`."""
    return SearchTask(func, args, target=target, target_host=target_host, hardware_params=hardware_params)


def auto_schedule(
    task: SearchTask, search_policy: SearchPolicy | None = None, tuning_options: TuningOptions | None = None
) -> tuple[ScheduleHandle, list[Tensor]]:
    """Tune a task and return the fastest schedule, and the tensors; an early form of `tune` and `apply_best`."""
    policy = search_policy or SketchPolicy(task)
    options = tuning_options or TuningOptions()
    if not options.num_measure_trials:
        return _auto_schedule(task.compute_dag.tensors, task.target), task.compute_dag.tensors
    task.tune(options, policy)
    return task.compute_dag.apply_steps_from_state(policy.best)
