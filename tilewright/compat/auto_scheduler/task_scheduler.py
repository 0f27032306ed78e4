"""Tuning of several tasks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ...core.errors import UserError
from ...report.table import Column, table
from .measure_record import load_records
from .search_policy import PreloadMeasuredStates, SketchPolicy
from .search_task import SearchTask, TuningOptions


class TaskSchedulerCallback:
    """Is called before and after each round of a task; a subclass overrides the methods."""

    def pre_tune(self, task_scheduler: TaskScheduler, task_id: int) -> None:
        """Take the scheduler and the number of the task before a round."""

    def post_tune(self, task_scheduler: TaskScheduler, task_id: int) -> None:
        """Take the scheduler and the number of the task after a round."""


class PrintTableInfo(TaskSchedulerCallback):
    """Prints a table of the tasks after each of them."""

    def post_tune(self, task_scheduler: TaskScheduler, task_id: int) -> None:
        """Print the table."""
        rows = [
            [str(i), task.desc or task.workload_key[:40], f"{cost * 1e3:.3f}" if cost < float("inf") else "-"]
            for i, (task, cost) in enumerate(zip(task_scheduler.tasks, task_scheduler.best_costs, strict=True))
        ]
        heads = [Column("ID"), Column("task", right=False), Column("latency (ms)")]
        print("\n".join(table(heads, rows)))


class LogEstimatedLatency(TaskSchedulerCallback):
    """Appends the weighted sum of the tasks' latencies to a file after each of them."""

    def __init__(self, log_file: str) -> None:
        self.log_file = log_file

    def post_tune(self, task_scheduler: TaskScheduler, task_id: int) -> None:
        """Append a line."""
        with open(self.log_file, "a", encoding="utf-8") as file:
            file.write(f"EstimatedLatency(ms)\t{task_scheduler.cur_score * 1e3:.4f}\n")


class TaskScheduler:
    """Tunes tasks in rounds of `num_measures_per_round` trials, each task first once.

    The strategy "round-robin" then takes them in turn. "gradient" takes the task that improves the objective most. It
    expects that round n + 1 makes a program (n + 1) / n times as fast. A task without new candidates drops out.
    """

    def __init__(
        self,
        tasks: Sequence[SearchTask],
        task_weights: Sequence[float] | None = None,
        objective_func: Callable[[Sequence[float]], float] | None = None,
        strategy: str = "gradient",
        load_model_file: str | None = None,
        load_log_file: str | None = None,
        callbacks: Sequence[Any] | None = None,
        **options: Any,
    ) -> None:
        if strategy not in ("gradient", "round-robin"):
            raise UserError(
                f"strategy is {strategy!r}, which is unknown",
                primitive="TaskScheduler",
                fix='use "gradient" or "round-robin"',
            )
        self.tasks, self.strategy = list(tasks), strategy
        self.task_weights = list(task_weights or [1.0] * len(self.tasks))
        self.objective_func = objective_func or self._weighted
        self.callbacks = [PrintTableInfo()] if callbacks is None else list(callbacks)
        self.best_costs: Any = [float("inf")] * len(self.tasks)
        self.task_cts = [0] * len(self.tasks)
        """The rounds of each task."""
        self._load = [] if load_log_file is None else [PreloadMeasuredStates(load_log_file)]
        if load_log_file is not None:
            for given, result in load_records(load_log_file):
                for i, task in enumerate(self.tasks):
                    if task.workload_key == given.task.workload_key:
                        self.best_costs[i] = min(self.best_costs[i], result.mean)

    def _weighted(self, costs: Sequence[float]) -> float:
        return sum(cost * weight for cost, weight in zip(costs, self.task_weights, strict=True))

    @property
    def cur_score(self) -> float:
        """The objective of the best latencies."""
        return self.objective_func(self.best_costs)

    def tune(self, tune_option: TuningOptions, search_policy: Any = "default", **options: Any) -> None:
        """Tune the tasks."""
        policies = [SketchPolicy(task, init_search_callbacks=self._load) for task in self.tasks]
        left, waiting = tune_option.num_measure_trials, list(range(len(self.tasks)))
        round_ = max(1, min(tune_option.num_measures_per_round, left // len(self.tasks)))
        while left > 0 and waiting:
            i = self._next(waiting)
            share = min(left, round_)
            policy, known = policies[i], len(policies[i].measured)
            for callback in (each for each in self.callbacks if hasattr(each, "pre_tune")):
                callback.pre_tune(self, i)
            self.tasks[i].tune(replace(tune_option, num_measure_trials=share), policy)
            self.task_cts[i] += 1
            left -= share
            if len(policy.measured) == known:
                waiting.remove(i)
            self.best_costs[i] = min(self.best_costs[i], policy.measured[policy.best].mean)
            for callback in self.callbacks:
                callback.post_tune(self, i)

    def _next(self, waiting: Sequence[int]) -> int:
        """The task of the next round."""
        rounds = self.task_cts
        if self.strategy == "round-robin" or min(rounds[i] for i in waiting) == 0:
            return min(waiting, key=lambda i: rounds[i])

        def objective(i: int) -> float:
            costs = list(self.best_costs)
            costs[i] *= rounds[i] / (rounds[i] + 1)
            return self.objective_func(costs)

        return min(waiting, key=objective)
