"""`tilewright tune many`: the workloads of a file, in one session."""

from __future__ import annotations

import math
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ..core.errors import UserError
from ..core.log import is_terminal
from ..core.target import Target
from ..topi.templates.template import PackagedTemplate
from ..topi.templates.workload import Convolution
from ..tune.records.log import RecordLog
from ..tune.session.campaign import Campaign, Entrant
from ..tune.session.options import UNLIMITED_TRIALS, SearchOptions
from ..tune.session.results import Listener
from ..tune.session.run import Run
from ..tune.task import Task
from .commands import FAILED, FINE, INTERRUPTED
from .console import heading, print_lines
from .search import TrialLines, search_of, session_of, shown
from .tune import (
    OPERATORS,
    named_strategies,
    place,
    searched_strategies,
    workload_of,
)
from .tune_options import TuneOptions

_SIZES = {
    "conv1d": ("shape", "kernel", "stride", "padding", "dtype"),
    "conv2d": ("shape", "filters", "kernel", "stride", "padding", "dilation", "groups", "dtype", "layout"),
    "depthwise": ("shape", "kernel", "stride", "padding", "dilation", "multiplier", "dtype"),
    "dense": ("shape", "units", "dtype"),
    "batch_matmul": ("shape", "columns", "dtype"),
}
"""The options of each operator that describe its workload."""
_DEFAULTS = {
    "kernel": "3", "stride": "1", "dilation": "1", "groups": "1", "multiplier": "1",
    "dtype": "float32", "layout": "NCHW",
}  # fmt: skip


@dataclass(frozen=True)
class WorkloadLine:
    """A line of the file: the named strategies, the workload, and its number of runs."""

    strategies: tuple[PackagedTemplate[Any], ...]
    workload: Convolution
    times: float

    def tasks(self, target: Target) -> list[Task]:
        """The tasks of the strategies to search, the default one first."""
        found = searched_strategies(self.strategies, self.workload, target)
        return [template.task(self.workload, target) for template in found]


def tune_file(file: Path, options: TuneOptions) -> int:
    """Run the command; returns its exit status."""
    options.examined()
    if options.budget is None and options.trials == UNLIMITED_TRIALS:
        raise UserError("neither --budget nor --trials is given", fix="give --budget 10m", where="")
    rows = read(file)
    target, _, line = place(options)
    layers = [row.tasks(target) for row in rows]
    tasks = [task for layer in layers for task in layer]
    numbers = [number for number, layer in enumerate(layers) for _ in layer]
    print_lines([heading(f"{len(rows)} workloads of {file}"), line, f"log: {options.log}", ""])
    campaign = _searched(tasks, numbers, [rows[number].times for number in numbers], options)
    if campaign.interrupted:
        print_lines(["", "interrupted; the same command goes on from here"])
        return INTERRUPTED
    print_lines(["", f"log: {options.log}. The best of each: tilewright log best {options.log}"])
    found = {number for number, run in zip(numbers, campaign.runs, strict=True) if run.tally.best is not None}
    return FINE if found == set(numbers) else FAILED


def _searched(
    tasks: Sequence[Task], numbers: Sequence[int], weights: Sequence[float], options: TuneOptions
) -> Campaign:
    """Search the tasks, each of the layer that its number names, and return the finished campaign."""
    log = RecordLog(options.log)
    lines = None if is_terminal(sys.stderr) else TrialLines()

    def listeners_of(number: int, run: Run) -> list[Listener]:
        show = [] if lines is None else [partial(lines.show, run.tally, f"workload {number + 1}")]
        return [*show, lambda trial: log.record(trial.input, trial.result)]

    entrants = [
        Entrant(task, search_of(task, options), None, number, weight, partial(listeners_of, number))
        for task, number, weight in zip(tasks, numbers, weights, strict=True)
    ]
    limits = SearchOptions(UNLIMITED_TRIALS, options.early_stopping, seconds=options.budget)
    trials = options.trials if options.trials < UNLIMITED_TRIALS else None
    with shown(), session_of(tasks[0].target, options, log) as session:
        campaign = Campaign(entrants, session, limits, trials=trials)
        if options.resume:
            campaign.resume(log.known())
        campaign.go()
        campaign.conclude()
    return campaign


def read(file: Path) -> list[WorkloadLine]:
    """Return the workloads of a file; raise UserError, which names the line, for other lines or an empty file."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read {file}: {error}", fix="write one workload per line", where="") from error
    found: list[WorkloadLine] = []
    for number, row in enumerate(text.splitlines(), 1):
        try:
            words = shlex.split(row, comments=True)
            if words:
                found.append(_line(words))
        except (UserError, ValueError) as error:
            message = error.message if isinstance(error, UserError) else str(error)
            fix = error.fix if isinstance(error, UserError) else "close the quotation"
            raise UserError(f"{file}:{number}: {message}", fix=fix, where="") from None
    if not found:
        raise UserError(f"{file} holds no workload", fix="write lines such as: conv1d --shape 16384", where="")
    return found


def _line(words: list[str]) -> WorkloadLine:
    operator, *rest = words
    if operator not in OPERATORS:
        raise UserError(f"{operator!r} is not an operator", fix=f"begin with one of {', '.join(OPERATORS)}")
    given: dict[str, str] = {}
    for word, value in zip(rest[::2], [*rest[1::2], ""], strict=False):
        name = word.removeprefix("--")
        if name not in (*_SIZES[operator], "times", "strategy") or not word.startswith("--") or not value:
            options = ", ".join(f"--{name}" for name in (*_SIZES[operator], "times"))
            raise UserError(f"{word!r} is not an option of {operator} with a value", fix=f"use {options}")
        given[name] = value
    times = given.pop("times", "1")
    if not times.replace(".", "", 1).isdecimal() or not 0 < float(times) < math.inf:
        raise UserError(f"--times {times!r} is not a positive number", fix="--times 3")
    strategies = named_strategies(operator, given.pop("strategy", None))
    defaults = {**_DEFAULTS, **({"padding": "full"} if operator == "conv1d" else {})}
    sizes = {name: given.get(name, defaults.get(name)) for name in _SIZES[operator]}
    return WorkloadLine(tuple(strategies), workload_of(OPERATORS[operator], sizes), float(times))
