"""`tilewright tune many`: the workloads of a file, in one session."""

from __future__ import annotations

import math
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from .. import autotvm
from ..core.errors import UserError
from ..core.log import is_terminal
from ..core.target import Target
from ..core.text import printable
from ..measure.outcome import MeasureResult
from ..topi.templates.template import PackagedTemplate
from ..topi.templates.workload import Convolution
from ..tune.records.format import MeasureInput
from ..tune.session.show import short_line
from ..tune.task import Task
from .console import heading, print_lines
from .search import runner_of, shown
from .tune import (
    FAILED,
    FINE,
    INTERRUPTED,
    OPERATORS,
    named_strategies,
    place,
    searched_strategies,
    workload_of,
)
from .tune_options import UNLIMITED, TuneOptions

_SIZES = {
    "conv1d": ("shape", "kernel", "stride", "padding", "dtype"),
    "conv2d": ("shape", "filters", "kernel", "stride", "padding", "dilation", "groups", "dtype", "layout"),
    "depthwise": ("shape", "kernel", "stride", "padding", "dilation", "multiplier", "dtype"),
    "dense": ("shape", "units", "dtype"),
    "batch_matmul": ("shape", "columns", "dtype"),
}
"""The options of each operator that say what to compute."""
_DEFAULTS = {
    "kernel": "3", "stride": "1", "dilation": "1", "groups": "1", "multiplier": "1",
    "dtype": "float32", "layout": "NCHW",
}  # fmt: skip


@dataclass(frozen=True)
class Line:
    """A line of the file: the strategies that it names, the workload, and how often it is run."""

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
    if options.budget is None and options.trials == UNLIMITED:
        raise UserError("neither --budget nor --trials is given", fix="give --budget 10m", where="")
    rows = read(file)
    target, _, line = place(options)
    layers = [row.tasks(target) for row in rows]
    tasks = [task for layer in layers for task in layer]
    numbers = [number for number, layer in enumerate(layers) for _ in layer]
    print_lines([heading(f"{len(rows)} workloads of {file}"), line, f"log: {options.log}", ""])
    measure = autotvm.measure_option(
        builder=autotvm.LocalBuilder(timeout=options.timeout), runner=runner_of(options)
    )  # fmt: skip
    with shown():
        tuners = autotvm.tune_tasks(
            tasks,
            options.budget,
            trials=options.trials if options.trials < UNLIMITED else None,
            measure_option=measure,
            log=options.log,
            weights=[rows[number].times for number in numbers],
            layers=numbers,
            tuner=options.tuner,
            seed=options.seed,
            callbacks=[] if is_terminal(sys.stderr) else [_TrialLines(tasks, numbers)],
            resume=options.resume,
            early_stopping=options.early_stopping,
            least_gain=options.least_gain,
        )
    if any(tuner.interrupted for tuner in tuners):
        print_lines(["", "interrupted; the same command goes on from here"])
        return INTERRUPTED
    print_lines(["", f"log: {options.log}. The best of each: tilewright log best {options.log}"])
    found = {number for number, tuner in zip(numbers, tuners, strict=True) if tuner.best_config is not None}
    return FINE if found == set(numbers) else FAILED


def read(file: Path) -> list[Line]:
    """Return the workloads of a file; raise UserError, which names the line, where it has others or none."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read {file}: {error}", fix="write one workload per line", where="") from error
    found: list[Line] = []
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


def _line(words: list[str]) -> Line:
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
    return Line(tuple(strategies), workload_of(OPERATORS[operator], sizes), float(times))


class _TrialLines:
    """A short line for each trial, with the number of its workload in the file."""

    def __init__(self, tasks: Sequence[Task], numbers: Sequence[int]) -> None:
        self._numbers = {(task.name, task.args): number + 1 for task, number in zip(tasks, numbers, strict=True)}
        self._count = 0

    def __call__(self, tuner: Any, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        for inp, result in zip(inputs, results, strict=True):
            self._count += 1
            number = self._numbers.get((inp.task.name, inp.task.args), 0)
            best = tuner.best_measure_pair is not None and tuner.best_measure_pair[1] is result
            line = short_line(self._count, inp, result, "best" if best else "")
            typer.echo(printable(f"{line}  workload {number}"))
