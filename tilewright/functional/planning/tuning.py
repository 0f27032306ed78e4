"""Measure configurations for one call: a search within a time budget, and a comparison with the rival."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from ...core.views import view
from ...measure.local import local_session
from ...measure.option import LocalBuilder, LocalRunner
from ...tune.records.format import mean_cost
from ...tune.search.guided import automatic
from ...tune.session.campaign import Entrant
from ...tune.session.layer import LayerSearch
from ...tune.session.options import UNLIMITED_TRIALS, SearchOptions
from .compiler import (
    KernelNotes,
    Selection,
    compiled,
    decision_of,
    default_selection,
    selection_of,
    strategies_of,
    weight_orders,
)
from .decision import Decision, Side

if TYPE_CHECKING:
    from ...core.target import Target
    from ...runtime.device import Device
    from ...topi.templates import Epilogue
    from ...tune.space.config import Config
    from ..arguments.problem import Problem
    from ..programs.executable import Executable

_CONFIRMED = 2
"""The number of best configurations to measure again at the end, in addition to the default."""
TIMEOUT = 10.0
"""The most seconds to build a configuration, and to run it."""


class SearchResult(NamedTuple):
    """The best configuration of a search, or None; its time, and the number of measured configurations."""

    best: Selection | None
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
    """Search all strategies of the layer for `budget` seconds; then compare with the rival's kernel.

    The search omits the epilogue, which hardly changes the order of configurations. It begins with the choice of an
    `earlier` search. After Ctrl-C, the decision has the best configuration so far and is marked as interrupted; if
    there is none, `KeyboardInterrupt` is raised.
    """
    start = default_selection(problem, target)
    found = _searched(_begun(problem, start, target, earlier), target, budget)
    if found.best is None and found.interrupted:
        raise KeyboardInterrupt
    best, seconds, interrupted = found.best or start, found.seconds, found.interrupted
    notes = KernelNotes()
    program = compiled(best, target, epilogue, notes)
    choice = decision_of(best)._replace(
        remark=notes.text, tuned=found.trials, seconds=0.0 if seconds == float("inf") else seconds
    )
    if rival and not problem.activation.startswith("custom:"):
        try:
            choice, program = compared(problem, on, choice, program)
        except KeyboardInterrupt:  # the choice is ours then, because the rival was not timed
            interrupted = True
    if interrupted:
        choice = choice._replace(interrupted=True, why=f"{choice.why}; Ctrl-C ended the search")
    return choice, program


def compared(problem: Problem, on: Device, choice: Decision, program: Executable) -> tuple[Decision, Executable]:
    """Choose between our kernel and the rival's by timing both."""
    ours, theirs = view("time_both", problem, on, program)  # the rival is PyTorch
    side = Side.OURS if ours <= theirs else Side.THEIRS
    why = choice.why if side == Side.OURS else f"measured {ours / theirs:.2f} times as fast as ours here"
    return choice._replace(side=side, why=why, seconds=ours, rival_seconds=theirs), program


def _begun(problem: Problem, start: Selection, target: Target, earlier: Decision | None) -> list[list[Selection]]:
    """Return the initial configurations of each strategy: its default, and the choice of an earlier search.

    The first strategy is that of `start`, the default selection.
    """
    begun = [[start]]
    for each in weight_orders(problem, target):
        strategies, workload = strategies_of(each, target)
        for template in strategies:
            if template is not start.template or workload != start.workload:
                begun.append([Selection(template, workload, template.default_config(workload, target), "")])
    before = None if earlier is None else selection_of(problem, target, earlier)
    if before is not None:
        for selections in begun:
            if selections[0].template is before.template and selections[0].workload == before.workload:
                selections.append(before)
    return begun


def _searched(begun: Sequence[Sequence[Selection]], target: Target, budget: float) -> SearchResult:
    """Search strategies within a budget of seconds; `begun` has the first configurations of each.

    If one of them is the best, the same object is returned: it may have a knob for the bias, which the search omits.
    """
    entrants: list[Entrant] = []
    given: dict[tuple[int, int | None], Config] = {}
    for number, selections in enumerate(begun):
        task = selections[0].template.task(selections[0].workload, target)
        indices = {task.config_space.find(one.config): one.config for one in reversed(selections)}
        given.update({(number, index): config for index, config in indices.items()})
        entrants.append(Entrant(task, automatic(task), [index for index in reversed(indices) if index is not None]))
    runner = LocalRunner(timeout=TIMEOUT, min_repeat_ms=5, cooldown_interval=0)
    limits = SearchOptions(UNLIMITED_TRIALS, confirm=_CONFIRMED, seconds=budget)
    with local_session(target, LocalBuilder(timeout=TIMEOUT), runner) as session:
        layer = LayerSearch(entrants, session, limits)
        try:
            layer.go()
        except KeyboardInterrupt:  # a second Ctrl-C: the first one ends the search in good order
            layer.interrupted = True
    winner, trials = layer.winner, layer.tally.done
    if winner is None or winner.tally.best is None:
        return SearchResult(None, float("inf"), trials + layer.tally.refused, layer.interrupted)
    number, trial = layer.runs.index(winner), winner.tally.best
    config = given.get((number, trial.input.config.index), trial.input.config)
    best = replace(begun[number][0], config=config, why=f"measured, the best of {trials} configurations")
    return SearchResult(best, mean_cost(trial.result), trials + layer.tally.refused, layer.interrupted)
