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
from ..autotvm.templates import Packaged
from ..core.errors import UserError
from ..core.log import is_terminal
from ..core.text import printable
from ..measure.outcome import MeasureResult
from ..topi.templates.workload import Convolution
from ..tune.records.format import MeasureInput
from ..tune.session.show import short_line
from ..tune.task import Task
from .console import heading, print_lines
from .tune import (
    FAILED,
    FINE,
    INTERRUPTED,
    OPERATORS,
    UNLIMITED,
    TuneOptions,
    able,
    place,
    runner_of,
    shown,
    workload_of,
)

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
    """A line of the file: the template, its workload, and how often it is run."""

    packaged: Packaged[Any]
    workload: Convolution
    times: float


def tune_file(file: Path, options: TuneOptions) -> int:
    """Run the command; returns its exit status."""
    options.examined()
    if options.budget is None and options.trials == UNLIMITED:
        raise UserError("neither --budget nor --trials is given", fix="give --budget 10m", where="")
    rows = read(file)
    target, _, line = place(options)
    tasks = [able(row.packaged, row.workload, target).task(target, **row.workload.shortest) for row in rows]
    print_lines([heading(f"{len(tasks)} workloads of {file}"), line, f"log: {options.log}", ""])
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
            weights=[row.times for row in rows],
            tuner=options.tuner,
            seed=options.seed,
            callbacks=[] if is_terminal(sys.stderr) else [_TrialLines(tasks)],
            resume=options.resume,
            early_stopping=options.early_stopping,
            least_gain=options.least_gain,
        )
    if any(tuner.interrupted for tuner in tuners):
        print_lines(["", "interrupted; the same command goes on from here"])
        return INTERRUPTED
    print_lines(["", f"log: {options.log}. The best of each: tilewright log best {options.log}"])
    return FINE if all(tuner.best_config is not None for tuner in tuners) else FAILED


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
    strategy = given.pop("strategy", None)
    packaged = OPERATORS[operator] if strategy is None else OPERATORS[operator].by(strategy)
    defaults = {**_DEFAULTS, **({"padding": "full"} if operator == "conv1d" else {})}
    sizes = {name: given.get(name, defaults.get(name)) for name in _SIZES[operator]}
    return Line(packaged, workload_of(packaged, sizes), float(times))


class _TrialLines:
    """A short line for each trial, with the number of its workload in the file."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self._numbers = {(task.name, task.args): number for number, task in enumerate(tasks, 1)}
        self._count = 0

    def __call__(self, tuner: Any, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        for inp, result in zip(inputs, results, strict=True):
            self._count += 1
            number = self._numbers.get((inp.task.name, inp.task.args), 0)
            best = tuner.best_measure_pair is not None and tuner.best_measure_pair[1] is result
            line = short_line(self._count, inp, result, "best" if best else "")
            typer.echo(printable(f"{line}  workload {number}"))
