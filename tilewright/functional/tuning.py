"""Measure configurations for one call: a search within a time budget, and a comparison with the rival."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

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


def tuned(
    problem: Problem, on: Device, target: Target, epilogue: Epilogue, rival: str, budget: float
) -> tuple[Decision, Executable | None]:
    """Search for `budget` seconds, all strategies of the template in turn; then compare with the rival's kernel.

    The search leaves out the epilogue, which hardly changes the order of the configurations.
    """
    start = candidate(problem, target)
    strategies, workload = strategies_of(problem, target)
    best, seconds, trials = start, float("inf"), 0
    for template in strategies:
        task = template.task(workload, target)
        first = start.config if template is start.template else template.first(task.args, target)
        found, took, tried = _searched(task, first, budget / len(strategies))
        trials += tried
        if found is not None and took < seconds:
            best, seconds = Selection(template, workload, found, f"measured, the best of {tried} configurations"), took
    program = compiled(best, target, epilogue)
    choice = described(best)._replace(tuned=trials, seconds=0.0 if seconds == float("inf") else seconds)
    if not rival or problem.activation.startswith("custom:"):
        return choice, program
    return compared(problem, on, choice, program)


def compared(problem: Problem, on: Device, choice: Decision, program: Executable) -> tuple[Decision, Executable]:
    """Choose between our kernel and the rival's, both timed here."""
    timing = import_module(f"{__package__}.torch_timing")  # the rival is PyTorch, so it is there
    ours, theirs = timing.both(problem, on, program)
    how = OURS if ours <= theirs else THEIRS
    why = choice.why if how == OURS else f"measured {ours / theirs:.2f} times as fast as ours here"
    return choice._replace(how=how, why=why, seconds=ours, rival_seconds=theirs), program


def _searched(task: Task, first: Config, budget: float) -> tuple[Config | None, float, int]:
    """The best configuration within a budget of seconds, its time, and how many were measured."""
    strategy = automatic(task)
    strategy.suggest([first.index] if first.index is not None else [])
    tuner: Any = autotvm.tuner.Tuner(task, strategy)
    runner = LocalRunner(timeout=TIMEOUT, number=4, repeat=3, min_repeat_ms=5, cooldown_interval=0)
    option = autotvm.measure_option(builder=LocalBuilder(timeout=TIMEOUT), runner=runner)
    tuner.tune(_MOST_TRIALS, option, confirm=2, seconds=budget)
    if tuner.best_measure_pair is None:
        return None, float("inf"), len(strategy.tried)
    costs = tuner.best_measure_pair[1].costs
    return tuner.best_config, sum(costs) / len(costs), len(strategy.tried)
