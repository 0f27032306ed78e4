"""The search of a program: it measures candidates in small batches, which correct the machine model."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from ..core.errors import UserError
from ..core.log import logger
from ..measure.option import LocalBuilder, LocalRunner
from ..measure.own_runner_api import Runner
from ..schedule.handle import ScheduleHandle
from ..tensor.tensor import Tensor
from ..tune.records.best import best_of
from ..tune.records.format import Pair
from ..tune.records.history import applies
from ..tune.records.log import RecordLog, load_from_file, path_of
from ..tune.search.guided import automatic
from ..tune.session.campaign import Entrant
from ..tune.session.durations import seconds_of
from ..tune.session.layer import LayerSearch
from ..tune.session.measurers import open_session
from ..tune.session.options import SearchOptions
from ..tune.session.results import Listener
from .program import AutomaticProgram, AutomaticTemplate

RECORDS = Path(__file__).parent / "records"
"""Logs in the package; their file names name the device of the measurements."""
_MOST_WAYS = 4
"""The number of ways, the most promising ones, that share the trials."""
_SEED = 0
"""The seed of every search: the same program, version and log give the same candidates."""


def searched(
    program: AutomaticProgram,
    args: Sequence[Tensor],
    trials: int,
    budget: float | str | None,
    log: Any,
    runner: LocalRunner | Runner | None = None,
) -> ScheduleHandle:
    """Return the fastest measured schedule, or the default schedule if no other is confirmed to be faster."""
    if not any(way.space.knobs for ways in program.ways for way in ways):
        return program.by_rules()
    found = fastest(*search_of(program, args, trials, budget, log, runner, shipped()))
    if found is None:
        logger.warning("no candidate could be measured: the schedule is ranked, not tuned")
        return unmeasured(program, args, log)
    return found


def fastest(layer: LayerSearch, templates: Sequence[AutomaticTemplate]) -> ScheduleHandle | None:
    """Return the schedule of the fastest candidate of a search; None if nothing was measured."""
    winner = layer.winner
    if winner is None or winner.tally.best is None:
        return None
    template = templates[layer.runs.index(winner)]
    return template.program.schedule(template.ways, winner.tally.best.input.config)


def unmeasured(program: AutomaticProgram, args: Sequence[Tensor], log: Any = None) -> ScheduleHandle:
    """Return the schedule of the best record in a log, else in the package; the default schedule if there is none."""
    known = _recorded(program, args, _lines(log)) or _recorded(program, args, shipped())
    return known or program.by_rules()


def _recorded(program: AutomaticProgram, args: Sequence[Tensor], known: Sequence[Pair]) -> ScheduleHandle | None:
    if not known:
        return None
    templates = {t.task().workload: t for t in _templates(program, args)}
    kind = program.target.kind
    best = best_of(
        [pair for pair in known
         if pair[0].target.kind == kind and pair[0].task.workload in templates and applies(pair[0].notes, kind)]
    )  # fmt: skip
    if best is None:
        return None
    template = templates[best[0].task.workload]
    index = template.task().config_space.find(best[0].config)
    return program.schedule(template.ways, best[0].config) if index is not None else None


def _lines(log: Any) -> list[Pair]:
    if log is None:
        return []
    path = path_of(log, "auto_schedule")
    if path.is_dir():
        raise UserError(f"log is {str(path)!r}, which is a folder", primitive="auto_schedule", fix="name a file in it")
    return list(load_from_file(log, [])) if path.is_file() else []


@cache
def shipped() -> list[Pair]:
    """Return the records of automatic schedules in the package."""
    return [pair for path in sorted(RECORDS.glob("*.log")) for pair in load_from_file(path, [])]


def _templates(program: AutomaticProgram, args: Sequence[Tensor]) -> list[AutomaticTemplate]:
    """Return the templates of the default ways, even if they have no knobs, and of other ways with knobs."""
    first = program.ways_by_rules
    tuned = [ways for ways in program.alternatives() if any(way.space.knobs for way in ways)]
    others = [ways for ways in tuned if not all(map(operator.is_, ways, first))]
    return [AutomaticTemplate(program, ways, args) for ways in [first, *others][:_MOST_WAYS]]


def search_of(
    program: AutomaticProgram,
    args: Sequence[Tensor],
    trials: int,
    budget: float | str | None,
    log: Any,
    runner: LocalRunner | Runner | None = None,
    known: Sequence[Pair] = (),
    listeners: Sequence[Listener] = (),
    early_stopping: int | None = None,
) -> tuple[LayerSearch, list[AutomaticTemplate]]:
    """Search the ways of a program; the default schedule is measured first. Without a runner, this machine measures.

    Records in `known` or in the log count as trials. `listeners` are called for each trial. The search ends after
    `early_stopping` trials without a better result.
    """
    seconds = seconds_of(budget, "auto_schedule")
    templates = _templates(program, args)
    tasks = [template.task() for template in templates]
    records = RecordLog(log) if log is not None else None
    runner = LocalRunner(cooldown_interval=0) if runner is None else runner
    limits = SearchOptions(trials, early_stopping, seconds=seconds)
    path = Path(log) if log is not None else None
    with open_session(program.target, LocalBuilder(), runner, path) as session:
        logged = [] if records is None else [lambda trial: records.record(trial.input, trial.result)]
        layer = LayerSearch([Entrant(t, automatic(t, _SEED)) for t in tasks], session, limits, [*logged, *listeners])
        if records is not None or known:
            layer.resume([*known, *(records.known() if records is not None else ())])
        layer.go()
    return layer, templates
