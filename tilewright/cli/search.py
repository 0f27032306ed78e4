"""The search of `tilewright tune`: all strategies of a layer, or the named ones, in one log."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import typer

from ..core.log import is_terminal, logger
from ..core.text import printable
from ..fleet.option import RPCRunner
from ..measure.option import LocalBuilder, LocalRunner
from ..report.table import Column, table
from ..report.units import NONE, duration
from ..topi.templates import named
from ..tune.records.format import mean_cost
from ..tune.records.log import RecordLog
from ..tune.search.by_name import SEARCHES
from ..tune.search.search import Search
from ..tune.session.layer import Entrant, LayerSearch
from ..tune.session.measurers import open_session
from ..tune.session.options import SearchOptions
from ..tune.session.run import Run
from ..tune.session.show import short_line
from ..tune.session.trials import Trial
from ..tune.task import Task
from .tune_options import TuneOptions

CONFIRMED = 3
"""The best configurations that are measured again at the end."""


def search(tasks: Sequence[Task], options: TuneOptions) -> LayerSearch:
    """Search strategies of one layer until the trials are used up or Ctrl-C; the first task is the default strategy."""
    builder = LocalBuilder(timeout=options.timeout)
    log = RecordLog(options.log)
    found = [Entrant(task, search_of(task, options)) for task in tasks]
    limits = SearchOptions(
        options.trials, options.early_stopping, confirm=CONFIRMED, processes=builder.processes, seconds=options.budget
    )
    with shown(), open_session(tasks[0].target, builder, runner_of(options), log.regular_file) as session:
        layer = LayerSearch(found, session, limits, [lambda trial: log.record(trial.input, trial.result)])
        if not is_terminal(sys.stderr):
            layer.listeners.append(_TrialLines(layer))
        if options.resume:
            layer.resume(log.known())
        layer.go()
    return layer


def runner_of(options: TuneOptions) -> LocalRunner:
    """The runner of candidates: this host, or a fleet."""
    how: dict[str, Any] = {
        "timeout": options.timeout,
        "number": options.number,
        "repeat": options.repeat,
        "min_repeat_ms": options.min_repeat_ms,
        "cooldown_interval": 0,
        "check_correctness": options.check,
    }
    if options.workers is None:
        return LocalRunner(**how)
    return RPCRunner(options.key, options.workers, insecure=options.insecure, **how)


def search_of(task: Task, options: TuneOptions) -> Search:
    """Return the search that the option `--tuner` names, for a task."""
    return SEARCHES[options.tuner](task, options.seed, options.least_gain)


class _Lines(logging.Handler):
    """Progress on stdout, warnings on stderr: looked up each time, as a live line takes their place meanwhile."""

    def emit(self, record: logging.LogRecord) -> None:
        typer.echo(printable(self.format(record)), err=record.levelno >= logging.WARNING)


class _TrialLines:
    """A short line for each trial, for output that is not a terminal."""

    def __init__(self, layer: LayerSearch) -> None:
        self._layer = layer
        self._several = len(layer.runs) > 1
        self._count = 0

    def __call__(self, trial: Trial) -> None:
        if not trial.number:
            return
        self._count += 1
        best = self._layer.tally.best
        words = ["best"] if best is not None and best.result is trial.result else []
        words += [f"by {strategy_name(trial.input.task)}"] if self._several else []
        typer.echo(printable(short_line(self._count, trial.input, trial.result, ", ".join(words))))


@contextmanager
def shown() -> Iterator[None]:
    """Show the tuner's summaries and warnings."""
    handler = _Lines()
    before, passing = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.propagate = False
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)
        logger.propagate = passing


def strategy_name(task: Task) -> str:
    """Return the name of the strategy of a task, as `--strategy` takes it."""
    return str(named(task.name).strategy_name)


_COLUMNS = (Column("strategy", right=False), *(Column(head) for head in ("trials", "default", "best", "GFLOPS")))


def strategy_table(layer: LayerSearch) -> list[str]:
    """Return the table of several strategies, the fastest first: their trials, default and best times."""
    if len(layer.runs) == 1:
        return []
    order = sorted(layer.runs, key=lambda run: -run.tally.best_flops)
    return table(_COLUMNS, [_row(run) for run in order])


def _row(run: Run) -> list[str]:
    default = run.good.get(run.default) if run.default is not None else None
    best = run.tally.best
    return [
        strategy_name(run.task),
        str(run.tally.done),
        duration(mean_cost(default.result)) if default is not None else NONE,
        duration(mean_cost(best.result)) if best is not None else NONE,
        f"{best.flops / 1e9:,.1f}" if best is not None else NONE,
    ]
