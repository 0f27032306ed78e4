"""Measurements of schedules: options, inputs and results."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ... import nd
from ...core.errors import UserError
from ...driver import build
from ...measure.outcome import MeasureErrorNo as MeasureErrorNo
from ...tensor.tensor import PlaceholderOp
from ...topi.utils import get_const_tuple
from .compute_dag import State, Workload


@dataclass(frozen=True)
class MeasureInput:
    """A schedule of a task."""

    task: Workload
    state: State

    def serialize(self) -> Any:
        """Return the input as data: the key, the target and the steps."""
        return [[self.task.workload_key, str(self.task.target)], [[], self.state.transform_steps]]


@dataclass(frozen=True)
class MeasureResult:
    """The seconds of each run, or an error; `all_cost` is the time of building and running."""

    costs: tuple[float, ...]
    error_no: int = MeasureErrorNo.NO_ERROR
    error_msg: str = ""
    all_cost: float = 0.0
    timestamp: float = 0.0

    @property
    def mean(self) -> float:
        """The mean of the costs, infinite after an error."""
        return float(np.mean(self.costs)) if self.costs and not self.error_no else float("inf")


@dataclass
class LocalBuilder:
    """Build on this machine. The arguments of the legacy API are accepted; one program is built at a time."""

    timeout: float = 15
    n_parallel: int | None = None
    build_func: str = "default"


@dataclass
class LocalRunner:
    """Run on this machine: `repeat` measurements of `number` runs each, more within `min_repeat_ms`."""

    timeout: float = 10
    number: int = 3
    repeat: int = 1
    min_repeat_ms: int = 100
    cooldown_interval: float = 0.0
    enable_cpu_cache_flush: bool = False
    device: int = 0

    def run(self, given: MeasureInput) -> MeasureResult:
        """Build and time a schedule, on random values."""
        began = time.time()
        try:
            costs = self._costs(given)
        except UserError as error:
            return MeasureResult((), MeasureErrorNo.UNKNOWN_ERROR, str(error), time.time() - began, time.time())
        time.sleep(self.cooldown_interval)
        return MeasureResult(costs, all_cost=time.time() - began, timestamp=time.time())

    def _costs(self, given: MeasureInput) -> tuple[float, ...]:
        task = given.task
        s, args = task.compute_dag.apply_steps_from_state(given.state)
        module = build(s, args, target=task.target)
        device = nd.device(task.target.kind if task.target.is_gpu else "cpu", self.device)
        arrays = [nd.array(array, device) for array in _values(args)]
        evaluate = module.time_evaluator(
            module.entry_name, device, number=self.number, repeat=self.repeat, min_repeat_ms=self.min_repeat_ms
        )
        return tuple(evaluate(*arrays).results)


def _values(args: Sequence[Any]) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    found = []
    for tensor in args:
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
