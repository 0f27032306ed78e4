"""The machine model: predictions for configurations, without a device or measurements."""

from __future__ import annotations

from typing import Any

from ...core.errors import UserError
from ...measure.option import check_count
from ...tune.model import explanation, ranking
from ...tune.space.config import Config
from ...tune.task import Task


def rank(task: Any, count: int = 10) -> list[Config]:
    """Return the configurations of a task that the model expects to be fastest, the fastest first.

    Parameters
    ----------
    task : Task
        For a GPU; if the model does not cover its template, the list is empty.
    count : int
        How many to return.
    """
    _check(task, "rank")
    check_count("rank", "count", count)
    found = ranking.rank(task, count) if task.target.is_gpu and task.target.has_warps else None
    return [task.config_space.get(index) for index in found.indices] if found is not None else []


def explain(task: Any, config: Any, compiled: bool = False) -> str:
    """Return a table of the model's prediction for a configuration: its time, and the time of each part alone.

    Parameters
    ----------
    task : Task
        For a GPU.
    config : Config
        One of `task.config_space`.
    compiled : bool
        Whether to compile it, which needs no GPU. Its registers, spills and shared memory then replace the predicted
        ones. CUDA only.

    Raises
    ------
    UserError
        If the model does not cover the target or the schedule, or if the configuration does not compile.
    """
    _check(task, "explain")
    if not isinstance(config, Config):
        raise UserError(
            f"the configuration is {config!r}, which is not a configuration",
            primitive="explain",
            fix="give one: task.config_space.get(0)",
        )
    return explanation.explain(task, config, compiled=bool(compiled))


def _check(task: Any, primitive: str) -> None:
    if not isinstance(task, Task) or task.target is None:
        raise UserError(
            f"the task is {task!r}, which is not a task",
            primitive=primitive,
            fix='make one: autotvm.task.create("conv2d", args, target)',
        )
