"""Measure configurations for one call: a search within a time budget, and a comparison with the rival."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from .. import autotvm
from ..measure.option import LocalBuilder, LocalRunner
from ..tune.search.guided import automatic
from .compiler import Selection, candidate, compiled, described, strategies_of
from .plans import OURS, THEIRS, Decision

if TYPE_CHECKING:
    from ..core.target import Target
    from ..runtime.device import Device
    from ..topi.templates import Epilogue
    from ..tune.space.config import Config
    from ..tune.task import Task
    from .executable import Executable
    from .problem import Problem

_MOST_TRIALS = 100_000
"""More trials than fit any budget of time."""
TIMEOUT = 10.0
"""Seconds that building a configuration may take, and running it."""


class SearchResult(NamedTuple):
    """The best configuration of a search, None if nothing was measured; its time, and how many were tried."""

    config: Config | None
    seconds: float
    trials: int
    interrupted: bool


def tuned(
    problem: Problem,
    on: Device,
    target: Target,
    epilogue: Epilogue,
    rival: str,
    earlier: Decision | None,
    budget: float,
) -> tuple[Decision, Executable]:
    """Search for `budget` seconds, all strategies of the template in turn; then compare with the rival's kernel.

    The search leaves out the epilogue, which hardly changes the order of the configurations. It tries the choice of an
    `earlier` search first. Ctrl-C ends it with the best so far, in a decision that says so; `KeyboardInterrupt` is
    raised only if there is none.
    """
    start = candidate(problem, target)
    strategies, workload = strategies_of(problem, target)
    best, seconds, trials, interrupted = start, float("inf"), 0, False
    for template in strategies:
        task = template.task(workload, target)
        known = [start.config if template is start.template else template.first(task.args, target)]
        space = template.strategy(target).space(workload)
        index = earlier.config_index if earlier is not None and earlier.template == template.name else None
        if index is not None and space.is_index_valid(index):
            known.append(space.get(index))
        result = _searched(task, known, budget / len(strategies))
        trials, interrupted = trials + result.trials, result.interrupted
        if result.config is not None and result.seconds < seconds:
            why = f"measured, the best of {result.trials} configurations"
            best, seconds = Selection(template, workload, result.config, why), result.seconds
        if interrupted:
            break
    if interrupted and seconds == float("inf"):
        raise KeyboardInterrupt
    program = compiled(best, target, epilogue)
    choice = described(best)._replace(tuned=trials, seconds=0.0 if seconds == float("inf") else seconds)
    if rival and not problem.activation.startswith("custom:"):
        try:
            choice, program = compared(problem, on, choice, program)
        except KeyboardInterrupt:  # the choice is ours then, as no time says otherwise
            interrupted = True
    if interrupted:
        choice = choice._replace(interrupted=True, why=f"{choice.why}; Ctrl-C ended the search")
    return choice, program


def compared(problem: Problem, on: Device, choice: Decision, program: Executable) -> tuple[Decision, Executable]:
    """Choose between our kernel and the rival's, both timed here."""
    timing = import_module(f"{__package__}.torch_timing")  # the rival is PyTorch, so it is there
    ours, theirs = timing.both(problem, on, program)
    how = OURS if ours <= theirs else THEIRS
    why = choice.why if how == OURS else f"measured {ours / theirs:.2f} times as fast as ours here"
    return choice._replace(how=how, why=why, seconds=ours, rival_seconds=theirs), program


def _searched(task: Task, known: list[Config], budget: float) -> SearchResult:
    """Search within a budget of seconds, beginning with the configurations `known`.

    The best of these is returned as it was given: it may say what to do with a bias, which the search leaves out.
    """
    first: dict[int, Config] = {}
    for config in known:
        index = task.config_space.find(config)
        if index is not None:
            first.setdefault(index, config)
    strategy = automatic(task)
    strategy.suggest(list(first))
    tuner: Any = autotvm.tuner.Tuner(task, strategy)
    runner = LocalRunner(timeout=TIMEOUT, number=4, repeat=3, min_repeat_ms=5, cooldown_interval=0)
    option = autotvm.measure_option(builder=LocalBuilder(timeout=TIMEOUT), runner=runner)
    try:
        tuner.tune(_MOST_TRIALS, option, confirm=2, seconds=budget)
    except KeyboardInterrupt:  # a second one, or one between the trials; the first one ends the search in good order
        tuner.interrupted = True
    if tuner.best_measure_pair is None:
        return SearchResult(None, float("inf"), len(strategy.tried), tuner.interrupted)
    costs = tuner.best_measure_pair[1].costs
    best = first.get(tuner.best_config.index, tuner.best_config)
    return SearchResult(best, sum(costs) / len(costs), len(strategy.tried), tuner.interrupted)
