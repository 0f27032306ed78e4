"""The search of `tilewright tune`: all strategies of a layer, or the named ones, in one log."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import typer

from ..core.log import is_terminal, logger
from ..core.target import Target
from ..core.text import printable
from ..fleet.option import RPCRunner
from ..measure.base_session import BaseSession
from ..measure.option import LocalBuilder, LocalRunner
from ..report.table import Column, table
from ..report.units import NONE, duration
from ..topi.templates import named
from ..tune.records.format import mean_cost
from ..tune.records.log import RecordLog
from ..tune.search.by_name import SEARCHES
from ..tune.search.search import Search
from ..tune.session.campaign import Entrant
from ..tune.session.layer import LayerSearch
from ..tune.session.measurers import open_session
from ..tune.session.options import SearchOptions
from ..tune.session.results import Listener
from ..tune.session.run import Run
from ..tune.session.show import short_line
from ..tune.session.trials import Tally, Trial
from ..tune.task import Task
from .tune_options import TuneOptions


def search(tasks: Sequence[Task], options: TuneOptions) -> LayerSearch:
    """Search strategies of one layer until the trials are used up or Ctrl-C; the first task is the default strategy."""
    log = RecordLog(options.log)
    lines, several = None if is_terminal(sys.stderr) else TrialLines(), len(tasks) > 1

    def listeners_of(run: Run) -> list[Listener]:
        origin = f"by {strategy_name(run.task)}" * several
        show = [] if lines is None else [partial(lines.show, run.total, origin)]
        return [lambda trial: log.record(trial.input, trial.result), *show]

    found = [Entrant(task, search_of(task, options), listeners_of=listeners_of) for task in tasks]
    limits = SearchOptions(options.trials, options.early_stopping, seconds=options.budget)
    with shown(), session_of(tasks[0].target, options, log) as session:
        layer = LayerSearch(found, session, limits)
        if options.resume:
            layer.resume(log.known())
        layer.go()
    return layer


def session_of(target: Target | None, options: TuneOptions, log: RecordLog) -> BaseSession:
    """Open the session that measures candidates: on this host, or on a fleet."""
    how: dict[str, Any] = {
        "timeout": options.timeout,
        "number": options.number,
        "repeat": options.repeat,
        "min_repeat_ms": options.min_repeat_ms,
        "cooldown_interval": 0,
        "check_correctness": options.check,
    }
    runner = (
        LocalRunner(**how)
        if options.workers is None
        else RPCRunner(options.key, options.workers, insecure=options.insecure, **how)
    )
    return open_session(target, LocalBuilder(timeout=options.timeout), runner, log.regular_file)


def search_of(task: Task, options: TuneOptions) -> Search:
    """Return the search of a task that the option `--tuner` names."""
    return SEARCHES[options.tuner](task, options.seed, options.least_gain)


class _Lines(logging.Handler):
    """Prints progress on stdout and warnings on stderr.

    It looks up both streams for each message, because a live line replaces them for a time.
    """

    def emit(self, record: logging.LogRecord) -> None:
        typer.echo(printable(self.format(record)), err=record.levelno >= logging.WARNING)


class TrialLines:
    """A short line for each trial, for output that is not a terminal."""

    def __init__(self) -> None:
        self._count = 0

    def show(self, tally: Tally, origin: str, trial: Trial) -> None:
        """Print the line of a trial that `tally` counts, with its origin, unless it is refused or repeated."""
        if trial.number:
            self._count += 1
            is_best = tally.best is not None and tally.best.result is trial.result
            line = short_line(self._count, trial.input, trial.result, "best" * is_best)
            typer.echo(printable(f"{line}  {origin}".rstrip()))


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


def run_table(layer: LayerSearch, kind: str, default: str, name: Callable[[Task], str]) -> list[str]:
    """Return the table of the runs of a layer, the fastest first: their trials, default and best times.

    `kind` and `default` are the heads of the names of tasks, and of the times of default configurations.
    """
    columns = (Column(kind, right=False), *(Column(head) for head in ("trials", default, "best", "GFLOPS")))
    order = sorted(layer.runs, key=lambda run: -run.tally.best_flops)
    return table(columns, [_row(run, name(run.task)) for run in order])


def _row(run: Run, name: str) -> list[str]:
    default = run.good.get(run.default) if run.default is not None else None
    best = run.tally.best
    return [
        name,
        str(run.tally.done),
        duration(mean_cost(default.result)) if default is not None else NONE,
        duration(mean_cost(best.result)) if best is not None else NONE,
        f"{best.flops / 1e9:,.1f}" if best is not None else NONE,
    ]
