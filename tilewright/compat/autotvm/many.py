"""`tune_tasks`: many tasks in one session, with the time given to the tasks that gain most."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from ...core.errors import UserError
from ...measure.option import measure_option as default_option
from ...tune.search.by_name import SEARCHES
from ...tune.session.campaign import Campaign, Entrant
from ...tune.session.durations import check_counts, seconds_of
from ...tune.session.options import UNLIMITED_TRIALS, SearchOptions
from ...tune.session.results import Listener
from ...tune.session.run import Run
from ...tune.task import Task
from . import callback
from .tuner import AutoTuner, GATuner, GridSearchTuner, RandomTuner, Tuner, XGBTuner
from .tuner.tuner import Callback, checked_callbacks, known_to, open_session_of

_SEEDED: dict[str, Callable[..., Tuner]] = {"xgb": XGBTuner, "ga": GATuner, "random": RandomTuner}
_TUNERS = tuple(SEARCHES)


def tune_tasks(
    tasks: Sequence[Task],
    budget: float | str | None = None,
    *,
    trials: int | None = None,
    measure_option: Any = None,
    log: str | os.PathLike[str] | None = "tune.log",
    weights: Sequence[float] | None = None,
    tuner: str = "auto",
    seed: int | None = None,
    callbacks: Iterable[Callback] = (),
    resume: bool = True,
    confirm: int = 3,
    early_stopping: int | None = None,
    least_gain: float = 0.0,
    layers: Sequence[int] | None = None,
) -> list[Tuner]:
    """Tune many tasks in one session, on this host or on a fleet.

    Parameters
    ----------
    tasks : sequence of Task
        The tasks to tune, all for one target.
    budget : float or str, optional
        Seconds for all tasks together, or text such as "15m". Running measurements then finish, and winners are
        confirmed afterwards.
    trials : int, optional
        Configurations to measure, of all tasks together. One of `budget` and `trials` is required.
    measure_option : optional
        As for `Tuner.tune`. With an `RPCRunner`, a fleet measures.
    log : path, optional
        The log that results go to, and from which known ones are taken.
    weights : sequence of float, optional
        The weight of a second of each task, such as how often a network runs it. By default all are equal.
    tuner : str
        "auto", "xgb", "ga", "random" or "gridsearch".
    seed : int, optional
        Of the searches; "gridsearch" has none.
    callbacks : iterable of callable
        Called for each trial as (tuner, [input], [result]), with the tuner of its task.
    resume : bool
        Whether configurations in the log are not measured again.
    confirm : int
        How many of the best of each task are measured again at the end.
    early_stopping : int, optional
        A task gets no more after this many trials without a better one.
    least_gain : float
        A task gets no more if no candidate is expected to be faster than the best by this part, such as 0.01. For the
        tuner "auto".
    layers : sequence of int, optional
        The layer of each task. Tasks of one layer are strategies for the same computation; a network uses the fastest;
        the first one is the default strategy. By default, each task is a layer.

    Returns
    -------
    list of Tuner
        One for each task; `best_config`, `best_flops` and `best_measure_pair` have the results.

    Raises
    ------
    UserError
        For wrong arguments, or if nothing can measure.

    Notes
    -----
    The next slice of trials goes to the task with the largest expected gain per second of tuning. The rule is that of
    Ansor's task scheduler (Zheng et al., OSDI 2020, section 6), which `tilewright/tune/session/allotment.py` states in
    full.
    """
    check_counts("tune_tasks", least=0, confirm=confirm)
    if early_stopping is not None:
        check_counts("tune_tasks", early_stopping=early_stopping)
    chosen, seconds = _checked(tasks, weights, tuner, budget, trials, least_gain)
    _check_layers(layers, len(tasks))
    option = default_option() if measure_option is None else measure_option
    called = checked_callbacks(callbacks)
    called += [] if log is None else [callback.log_to_file(log)]
    tuners = [_tuner(tuner, task, seed, least_gain) for task in tasks]
    options = SearchOptions(UNLIMITED_TRIALS, early_stopping, confirm=confirm, seconds=seconds)
    numbers = range(len(tasks)) if layers is None else [layers.index(layer) for layer in layers]
    entrants = [
        Entrant(task, made.strategy, None, number, weight, partial(_listeners, made, called))
        for task, made, number, weight in zip(tasks, tuners, numbers, chosen, strict=True)
    ]
    with open_session_of(tasks[0].target, option, called) as session:
        campaign = Campaign(entrants, session, options, trials=trials)
        if resume:
            campaign.resume(known_to(called))
        _go(campaign, tuners)
    campaign.conclude()
    return tuners


def _listeners(tuner: Tuner, callbacks: Sequence[Callback], run: Run) -> list[Listener]:
    """Return the listener of a run: the tuner, which reports trials to the callbacks."""
    return [partial(tuner.report, run, callbacks=callbacks)]


def _go(campaign: Campaign, tuners: Sequence[Tuner]) -> None:
    """Run a campaign; the tuners then receive the results."""
    pairs = list(zip(campaign.runs, tuners, strict=True))
    for run, made in pairs:
        made.n_trial, made.early_stopping = run.options.trials, run.options.early_stopping or 1e9
        made.follow(run)
    campaign.go()
    for run, made in pairs:
        made.follow(run)
        made.interrupted = campaign.interrupted


def _tuner(name: str, task: Task, seed: int | None, least_gain: float) -> Tuner:
    if name == "auto":
        return AutoTuner(task, seed=seed, least_gain=least_gain)
    return GridSearchTuner(task) if name == "gridsearch" else _SEEDED[name](task, seed=seed)


def _check_layers(layers: Any, count: int) -> None:
    """Raise UserError for layers that do not number the tasks."""
    listed = layers is None or (isinstance(layers, (list, tuple)) and all(isinstance(one, int) for one in layers))
    if not listed or (layers is not None and len(layers) != count):
        raise UserError(
            f"layers={layers!r} are not the numbers of {count} tasks' layers",
            primitive="tune_tasks",
            fix="give one whole number for each task, the same for strategies of one layer",
        )


def _checked(
    tasks: Any, weights: Any, tuner: Any, budget: Any, trials: Any, least_gain: Any
) -> tuple[list[float], float | None]:
    """Return the weights of the tasks, and the budget in seconds; UserError for arguments that make no session."""
    if not isinstance(tasks, (list, tuple)) or not tasks or not all(isinstance(task, Task) for task in tasks):
        raise UserError(
            f"tasks={tasks!r} is not a list of tasks",
            primitive="tune_tasks",
            fix='give [autotvm.templates.conv2d.task("cuda", shape=(1, 64, 56, 56)), ...]',
        )
    targets = {str(task.target) if task.target is not None else "no target" for task in tasks}
    if len(targets) != 1 or tasks[0].target is None:
        raise UserError(
            f"the tasks are for {' and '.join(sorted(targets))}",
            primitive="tune_tasks",
            fix="tune the tasks of one target at a time",
        )
    if not isinstance(tuner, str) or tuner not in _TUNERS:
        raise UserError(f"tuner={tuner!r} is unknown", primitive="tune_tasks", fix=f"use one of {', '.join(_TUNERS)}")
    if least_gain and tuner != "auto":
        raise UserError(
            f"least_gain={least_gain!r}: the tuner {tuner!r} expects nothing of its candidates",
            primitive="tune_tasks",
            fix='use tuner="auto", or early_stopping',
        )
    if budget is None and trials is None:
        raise UserError("neither a budget nor trials are given", primitive="tune_tasks", fix='give budget="15m"')
    if trials is not None and (isinstance(trials, bool) or not isinstance(trials, int) or trials < 1):
        raise UserError(f"trials={trials!r} is not a number of trials", primitive="tune_tasks", fix="give trials=1000")
    made = [1.0] * len(tasks) if weights is None else list(weights)
    right = all(isinstance(one, (int, float)) and 0 < one < float("inf") for one in made)
    if len(made) != len(tasks) or not right:
        raise UserError(
            f"weights={weights!r} are not {len(tasks)} positive numbers",
            primitive="tune_tasks",
            fix="give one positive number for each task",
        )
    return made, seconds_of(budget, "tune_tasks")
