"""The search of `tilewright tune`: all strategies of a layer, or those that are named, in one log."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import typer

from .. import autotvm
from ..autotvm.tuner.tuner import session_of, unrecorded
from ..core.log import is_terminal, logger
from ..core.text import printable
from ..report.table import Column, table
from ..report.units import NONE, duration
from ..topi.templates import named
from ..tune.records.format import mean_cost
from ..tune.session.layer import Entrant, LayerSearch
from ..tune.session.run import Run, SearchOptions
from ..tune.session.show import short_line
from ..tune.session.trials import Trial
from ..tune.task import Task
from .tune_options import TuneOptions

_GREETING = "Get devices for measurement successfully!"
"""The tuner's, for scripts that wait for it; the command has named the device already."""
_CONFIRMED = 3
"""The best configurations that are measured again at the end."""


def search(tasks: Sequence[Task], options: TuneOptions) -> LayerSearch:
    """Search strategies of one layer until the trials are used up or Ctrl-C; the first task is the default strategy."""
    builder = autotvm.LocalBuilder(timeout=options.timeout)
    log = autotvm.callback.log_to_file(options.log)
    found = [Entrant(task, _search_of(task, options)) for task in tasks]
    limits = SearchOptions(
        options.trials, options.early_stopping, confirm=_CONFIRMED, processes=builder.processes, seconds=options.budget
    )
    with shown(), session_of(tasks[0].target, builder, runner_of(options), [log]) as session:
        layer = LayerSearch(found, session, limits, [lambda trial: log(None, [trial.input], [trial.result])])
        if not is_terminal(sys.stderr):
            layer.listeners.append(_TrialLines(layer))
        if options.resume:
            layer.resume(log.known())
            for run in layer.runs:
                run.ask_again(unrecorded(session, run.task, run.strategy))
        layer.go()
    return layer


def runner_of(options: TuneOptions) -> autotvm.LocalRunner:
    """What runs candidates: this host, or a fleet."""
    how: dict[str, Any] = {
        "timeout": options.timeout,
        "number": options.number,
        "repeat": options.repeat,
        "min_repeat_ms": options.min_repeat_ms,
        "cooldown_interval": 0,
        "check_correctness": options.check,
    }
    if options.workers is None:
        return autotvm.LocalRunner(**how)
    return autotvm.RPCRunner(options.key, options.workers, insecure=options.insecure, **how)


def _search_of(task: Task, options: TuneOptions) -> Any:
    """Return the search strategy of the option `--tuner` for a task."""
    if options.tuner == "gridsearch":
        return autotvm.tuner.GridSearchTuner(task).strategy
    if options.tuner == "auto":
        return autotvm.tuner.AutoTuner(task, seed=options.seed, least_gain=options.least_gain).strategy
    kinds = {"xgb": autotvm.tuner.XGBTuner, "ga": autotvm.tuner.GATuner, "random": autotvm.tuner.RandomTuner}
    return kinds[options.tuner](task, seed=options.seed).strategy


class _Lines(logging.Handler):
    """Progress on stdout, warnings on stderr: looked up each time, as a live line takes their place meanwhile."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.msg == _GREETING:
            return
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
    """Show what the tuner says beside its trials: summaries and warnings."""
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
