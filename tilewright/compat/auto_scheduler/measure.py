"""Measurements of schedules: options, inputs and results."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ... import nd
from ...core.errors import UserError
from ...driver import build
from ...fleet.option import RPCRunner as FleetRunner
from ...measure import option
from ...measure.outcome import MeasureErrorNo as MeasureErrorNo
from ...measure.outcome import MeasureResult as TunedResult
from ...tensor.tensor import PlaceholderOp, Tensor
from ...topi.utils import get_const_tuple
from ...tune.records.format import MeasureInput as TunedInput
from ...tune.records.format import Notes, Pair, decode
from ...tune.space.config import Config
from ...tune.task import Task
from .compute_dag import Workload
from .loop_state import State

_FLUSH = 64 << 20
"""Bytes that are written before each run if a measurement starts with cold caches."""


@dataclass(frozen=True)
class MeasureInput:
    """A schedule of a task.

    `record` is the line of `tw.auto_schedule`'s log for it, from which a search resumes, or the notes of such a line.
    """

    task: Workload
    state: State
    record: str = field(default="", compare=False)

    @property
    def is_confirmed(self) -> bool:
        """Whether a search measured the schedule again at its end."""
        return bool(self.record and json.loads(self.record).get("confirmed"))

    def as_tuned(self, result: MeasureResult) -> Pair:
        """Return the measurement as a record of tuning; raises UserError or ValueError if the record is damaged."""
        known = json.loads(self.record) if self.record else {}
        if "input" in known:
            return decode(self.record)
        steps = json.dumps(self.state.transform_steps)
        task = Task.of_frozen("state", (self.task.workload_key, steps), self.task.target)
        tuned = TunedInput(self.task.target, task, Config({}, 0)).noted(Notes(**known))
        return tuned, TunedResult(tuple(result.costs), int(result.error_no), result.all_cost, result.timestamp)

    def serialize(self) -> Any:
        """Return the input as data: the workload, the steps and the record."""
        task = self.task
        target, host = task.target, task.target.host
        # In the order of the legacy records: key, target, hardware, host, layout option, inputs.
        workload = [task.workload_key, str(target), [], str(host or ""), int(task.layout_rewrite_option)]
        return [[*workload, task.task_input_names], [[], self.state.transform_steps], self.record]


class Seconds(float):
    """A measured time; `value` is the number, as of a constant of the legacy API."""

    @property
    def value(self) -> float:
        """The number."""
        return float(self)


@dataclass(frozen=True)
class MeasureResult:
    """The seconds of each run, or an error; `all_cost` is the time of building and running."""

    costs: Sequence[float]
    error_no: int = MeasureErrorNo.NO_ERROR
    error_msg: str = ""
    all_cost: float = 0.0
    timestamp: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "costs", tuple(Seconds(getattr(cost, "value", cost)) for cost in self.costs))

    @property
    def mean(self) -> float:
        """The mean of the costs, infinite after an error."""
        return float(np.mean(self.costs)) if self.costs and not self.error_no else float("inf")


@dataclass(frozen=True)
class BuildResult:
    """A module, or the error of its build; `args` are the tensors of its arguments."""

    module: Any
    args: Sequence[Tensor]
    error_no: int = MeasureErrorNo.NO_ERROR
    error_msg: str = ""
    time_cost: float = 0.0


@dataclass
class LocalBuilder:
    """Build on this machine, one program at a time. The arguments of the legacy API are accepted."""

    timeout: float = 15
    n_parallel: int | None = None
    build_func: str = "default"

    def build(self, measure_inputs: Sequence[MeasureInput], verbose: int = 1) -> list[BuildResult]:
        """Build schedules; returns a module, or an error, for each."""
        return [self._one(given) for given in measure_inputs]

    @staticmethod
    def _one(given: MeasureInput) -> BuildResult:
        began = time.time()
        try:
            s, args = given.task.compute_dag.apply_steps_from_state(given.state)
            return BuildResult(build(s, args, target=given.task.target), args, time_cost=time.time() - began)
        except UserError as error:
            return BuildResult(None, (), MeasureErrorNo.COMPILE_HOST, str(error), time.time() - began)


@dataclass
class LocalRunner:
    """Run on this machine: `repeat` measurements of `number` runs each, more within `min_repeat_ms`.

    Inputs are the `task_inputs` of the task, random values of floats, and zeros.
    """

    timeout: float = 10
    number: int = 3
    repeat: int = 1
    min_repeat_ms: int = 100
    cooldown_interval: float = 0.0
    enable_cpu_cache_flush: bool = False
    device: int = 0

    def run(
        self, measure_inputs: Sequence[MeasureInput], build_results: Sequence[BuildResult], verbose: int = 1
    ) -> list[MeasureResult]:
        """Time modules that a builder has built."""
        return [self._one(given, built) for given, built in zip(measure_inputs, build_results, strict=True)]

    def options(self, args: Sequence[Tensor], inputs: Mapping[str, Any]) -> option.LocalRunner:
        """Return the runner of a search with these options, for a program with some arguments."""
        found = option.LocalRunner(
            self.timeout, self.number, self.repeat, self.min_repeat_ms, self.cooldown_interval,
            self.enable_cpu_cache_flush,
        )  # fmt: skip
        if inputs:
            found.ref_input = values_of([t for t in args if isinstance(t.op, PlaceholderOp)], inputs)
        return found

    def _one(self, given: MeasureInput, built: BuildResult) -> MeasureResult:
        if built.error_no:
            return MeasureResult((), built.error_no, built.error_msg, built.time_cost, time.time())
        began = time.time() - built.time_cost
        try:
            costs = self._costs(given.task, built)
        except UserError as error:
            return MeasureResult((), MeasureErrorNo.RUNTIME_DEVICE, str(error), time.time() - began, time.time())
        time.sleep(self.cooldown_interval)
        return MeasureResult(costs, all_cost=time.time() - began, timestamp=time.time())

    def _costs(self, task: Workload, built: BuildResult) -> tuple[float, ...]:
        device = nd.device(task.target.kind if task.target.is_gpu else "cpu", self.device)
        arrays = [nd.array(array, device) for array in values_of(built.args, task.task_inputs)]
        evaluate = built.module.time_evaluator(
            built.module.entry_name, device, number=self.number, repeat=self.repeat, min_repeat_ms=self.min_repeat_ms,
            cache_flush_bytes=_FLUSH if self.enable_cpu_cache_flush and not task.target.is_gpu else 0,
        )  # fmt: skip
        return tuple(evaluate(*arrays).results)


class RPCRunner(LocalRunner):
    """Run on the workers of a Dask scheduler: `key` names the devices, as for `autotvm.RPCRunner`.

    `priority` and `device` have no effect. States that a script makes itself run on this machine only.
    """

    def __init__(
        self,
        key: str,
        host: str,
        port: int | None = None,
        priority: int = 1,
        n_parallel: int = 1,
        timeout: float = 10,
        number: int = 3,
        repeat: int = 1,
        min_repeat_ms: int = 100,
        cooldown_interval: float = 0.0,
        enable_cpu_cache_flush: bool = False,
        device: int = 0,
    ) -> None:
        super().__init__(timeout, number, repeat, min_repeat_ms, cooldown_interval, enable_cpu_cache_flush, device)
        self.fleet = FleetRunner(
            key, host, port, priority, timeout, n_parallel, number, repeat, min_repeat_ms, cooldown_interval,
            enable_cpu_cache_flush,
        )  # fmt: skip

    def options(self, args: Sequence[Tensor], inputs: Mapping[str, Any]) -> option.LocalRunner:
        if inputs:
            raise UserError(
                f"the values of {', '.join(inputs)} are given, and runs are on other hosts",
                primitive="RPCRunner",
                fix="measure tasks with task_inputs by auto_scheduler.LocalRunner()",
            )
        return self.fleet

    def run(
        self, measure_inputs: Sequence[MeasureInput], build_results: Sequence[BuildResult], verbose: int = 1
    ) -> list[MeasureResult]:
        raise UserError(
            "a state that a script has made or a rule of its own cannot run on other hosts",
            primitive="RPCRunner",
            fix="use auto_scheduler.LocalRunner(), or tune a task without rules",
        )


def recover_measure_input(given: MeasureInput, rebuild_state: bool = False) -> MeasureInput:
    """Return an input of a file, which already has its complete task and state."""
    return (
        MeasureInput(given.task, State(given.state, given.task.compute_dag), given.record) if rebuild_state else given
    )


def values_of(args: Sequence[Tensor], inputs: Mapping[str, Any]) -> list[np.ndarray]:
    """Return an array for each argument: of the inputs by name, or else random values of floats, or zeros."""
    rng = np.random.default_rng(0)
    found = []
    for tensor in args:
        if tensor.op.name in inputs:
            found.append(inputs[tensor.op.name].numpy())
            continue
        shape: Any = get_const_tuple(tensor.shape)
        kind = str(tensor.dtype)
        random = isinstance(tensor.op, PlaceholderOp) and tensor.dtype.is_float
        found.append(rng.random(shape, np.float32).astype(kind) if random else np.zeros(shape, kind))
    return found


class LocalRPCMeasureContext:
    """A context with a runner on this machine, as `LocalRunner` describes it."""

    def __init__(
        self,
        priority: int = 1,
        n_parallel: int = 1,
        timeout: float = 10,
        number: int = 3,
        repeat: int = 1,
        min_repeat_ms: int = 0,
        cooldown_interval: float = 0.0,
        enable_cpu_cache_flush: bool = False,
        device: int = 0,
    ) -> None:
        self.runner = LocalRunner(
            timeout, number, repeat, min_repeat_ms, cooldown_interval, enable_cpu_cache_flush, device
        )


class PythonBasedMeasureCallback:
    """Is called after measurements; a subclass overrides `callback`."""

    def callback(self, policy: Any, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        """Take the inputs and results of some measurements."""
        raise NotImplementedError
