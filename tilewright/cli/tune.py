"""`tilewright tune`: a workload from the options, a search that people can follow, and what came of it."""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from math import prod
from pathlib import Path
from typing import Any

import typer

from .. import autotvm
from ..autotvm.templates import Packaged
from ..autotvm.tuner import Tuner
from ..core.errors import UserError
from ..core.log import is_terminal, logger
from ..core.padding import TEMPLATE_WORDS
from ..core.target import Target
from ..core.text import printable
from ..fleet.addresses import checked, joined
from ..fleet.security import check_installed
from ..measure.outcome import MeasureResult
from ..runtime.device import Device
from ..topi.templates.workload import Convolution
from ..tune.records.curve import curves
from ..tune.records.format import MeasureInput
from ..tune.records.history import applies
from ..tune.records.log import RecordLog, load_from_file
from ..tune.session.budget import duration
from ..tune.session.show import short_line
from ..tune.space.config import Config
from ..tune.task import Task
from .console import heading, print_lines
from .devices import choose_device
from .log import check_figure, draw
from .verdict import verdict

FINE, FAILED, INTERRUPTED = 0, 1, 130
"""Exit statuses: all is well; nothing could be measured, or the best is wrong; Ctrl-C."""
OPERATORS: Mapping[str, Packaged[Any]] = {
    "conv1d": autotvm.templates.conv1d,
    "conv2d": autotvm.templates.conv2d,
    "depthwise": autotvm.templates.depthwise,
    "dense": autotvm.templates.dense,
    "batch_matmul": autotvm.templates.batch_matmul,
}
_GREETING = "Get devices for measurement successfully!"
"""The tuner's, for scripts that wait for it; the command has named the device already."""
_MOST_ELEMENTS = 1 << 40
_TUNERS = ("auto", "xgb", "ga", "random", "gridsearch")
UNLIMITED = 1_000_000
"""Trials where only the budget of seconds ends a search."""


@dataclass(frozen=True)
class TuneOptions:
    """The command's options, other than sizes."""

    target: str | None
    trials: int
    tuner: str
    seed: int | None
    early_stopping: int | None
    timeout: float
    number: int
    repeat: int
    min_repeat_ms: float
    check: bool
    log: Path
    resume: bool
    plot: Path | None
    budget: float | None = None
    """Seconds."""
    workers: str | None = None
    """The address of a fleet's scheduler."""
    key: str = ""
    insecure: bool = False
    least_gain: float = 0.0

    def examined(self) -> None:
        """UserError where an option makes no sense: now rather than in the middle of the work."""
        least = {"trials": 1, "early_stopping": 1, "number": 1, "repeat": 1, "min_repeat_ms": 0, "seed": 0}
        for name, smallest in least.items():
            value = getattr(self, name)
            if value is not None and not value >= smallest:  # NaN is not, either
                fix = f"give {smallest} or more"
                raise UserError(f"{_flag(name)} {value} is less than {smallest}", fix=fix, where="")
        if not self.timeout > 0:
            raise UserError(
                f"--timeout {self.timeout:g} is not a positive time", fix="give seconds, such as 10", where=""
            )
        if self.tuner not in _TUNERS:
            raise UserError(f"--tuner {self.tuner} is unknown", fix=f"use {', '.join(_TUNERS)}", where="")
        if not 0 <= self.least_gain < 1:
            raise UserError(
                f"--least-gain {self.least_gain:g} is not a fraction",
                fix="give a fraction from 0 to 1, such as 0.01",
                where="",
            )
        if self.least_gain and self.tuner != "auto":
            raise UserError(
                f"--least-gain: the tuner {self.tuner} expects nothing of its candidates",
                fix="use --tuner auto, or --early-stopping N",
                where="",
            )
        if self.plot is not None:
            check_figure(self.plot)
        try:
            RecordLog(self.log).close()
        except (UserError, OSError) as error:
            reason = error.message if isinstance(error, UserError) else str(error)
            raise UserError(f"--log {self.log}: {reason}", fix="name a file that can be written", where="") from error


def tune(operator: str, sizes: Mapping[str, str | None], options: TuneOptions, strategy: str | None = None) -> int:
    """Run the command, for one strategy if wanted; returns its exit status."""
    packaged = OPERATORS[operator] if strategy is None else OPERATORS[operator].by(strategy)
    workload = workload_of(packaged, sizes)
    options.examined()
    target, on, line = place(options)
    packaged = able(packaged, workload, target)
    task = packaged.task(target, **workload.shortest)
    known = _known(task, options.log, on)
    print_lines([heading(workload.title), line, _search(task, options), *_about_log(known, options), ""])
    try:
        tuner = search(task, packaged.template.first(task.args, target), options)
        return _conclude(packaged, workload, target, on, tuner, options)
    except KeyboardInterrupt:
        print_lines(["", f"interrupted; what was measured is in {options.log}"])
        return INTERRUPTED


def place(options: TuneOptions) -> tuple[Target, Device | None, str]:
    """What to tune for, the device of this host that measures (None: a fleet does), and a line that says so."""
    if options.workers is None:
        on, line = choose_device(options.target, ("cuda", "opencl", "llvm"))
        return Target({"cpu": "llvm"}.get(on.kind, on.kind)), on, line
    address = checked(joined(options.workers), options.insecure)
    check_installed()
    kind = options.target or "cuda"
    if kind not in ("cuda", "opencl", "llvm"):
        raise UserError(f"there is no target {kind!r}", fix="use cuda, opencl or llvm", where="")
    those = f" that have {options.key}" if options.key else ""
    return Target(kind), None, f"target {kind}, on the workers of {address}{those}"


def workload_of(packaged: Packaged[Any], sizes: Mapping[str, str | None]) -> Convolution:
    """The workload that options in words mean; UserError, which names the option, where they mean none."""
    if not sizes["shape"]:
        examples = {"conv1d": "16384", "dense": "64x1024", "batch_matmul": "12x197x64"}
        example = examples.get(packaged.template.kind.name, "1x64x56x56")
        raise UserError("--shape is missing", fix=f"give the input's: --shape {example}", where="")
    given = {name: _parsed(name, text) for name, text in sizes.items() if text is not None}
    try:
        made: Convolution = packaged.template.kind.of(**given)
    except UserError as error:  # its message begins with the option
        raise UserError(f"--{error.message}", fix=error.fix, where="") from None
    if prod(made.shape) > _MOST_ELEMENTS or any(_elements(t) > _MOST_ELEMENTS for t in made.declare()):
        raise UserError(
            f"--shape {sizes['shape']} makes more than {_MOST_ELEMENTS:,} elements, which no device here holds",
            fix="give the sizes of one layer: --shape 1x64x56x56",
            where="",
        )
    return made


def able(packaged: Packaged[Any], workload: Convolution, target: Target) -> Packaged[Any]:
    """The template to tune: the one given; where the usual one does not cover the workload, the one expected fastest.

    UserError where a strategy was asked for that does not cover it.
    """
    template = packaged.template
    if template.covers(workload, target):
        return packaged
    if any(other.covers(workload, target) for other in template.strategies):
        return Packaged(template.choose(workload, target)[0])
    whole = OPERATORS[workload.name].template
    names = [t.name.partition(".")[2] for t in whole.strategies if t.covers(workload, target)]
    others = " or ".join(f"--strategy {name}" for name in names if name)
    raise UserError(
        f"--strategy {template.name.partition('.')[2]} {template.refusal(workload, target)}",
        fix=f"give {others}, or leave it out" if others else "leave it out",
        where="",
    )


def _elements(tensor: Any) -> int:
    return prod(getattr(extent, "value", 1) for extent in tensor.shape)


def _parsed(name: str, text: str) -> Any:
    """An option's value: a word where words stand, else a number or several, joined by x."""
    if name in ("dtype", "layout") or (name == "padding" and text in TEMPLATE_WORDS):
        return text
    if re.fullmatch(r"\d{1,18}(x\d{1,18})*", text) is None:
        joined = "x".join(re.findall(r"\d+", text))
        words = f", or one of {', '.join(TEMPLATE_WORDS)}" if name == "padding" else ""
        raise UserError(
            f"--{name} {text!r} is not a list of numbers joined by x",
            fix=f"write --{name} {joined or '3x3'}{words}",
            where="",
        )
    parts = tuple(map(int, text.split("x")))
    return parts if len(parts) > 1 else parts[0]


def seconds_of(text: str | None) -> float | None:
    """Seconds of a budget such as 15s, 2m or 1h; UserError where it is none."""
    if text is None:
        return None
    found = duration(text)
    if found is None:
        raise UserError(
            f"--budget {text!r} is not a duration", fix="give seconds, minutes or hours: 15s, 2m, 1h", where=""
        )
    return found


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


# The search


def search(task: Task, first: Config, options: TuneOptions) -> Tuner:
    """Tune until the trials are used up or Ctrl-C; returns the tuner, which knows the best. `first` is tried first."""
    measure = autotvm.measure_option(builder=autotvm.LocalBuilder(timeout=options.timeout), runner=runner_of(options))
    tuner = _tuner(task, options)
    # First what needs no tuning, so that no search ends below where it began.
    begin = task.config_space.find(first) if first.index is not None else None
    tuner.strategy.suggest([begin] if begin is not None else [])
    live = is_terminal(sys.stderr)
    with shown():
        tuner.tune(
            options.trials,
            measure,
            early_stopping=options.early_stopping,
            callbacks=[autotvm.callback.log_to_file(options.log), *([] if live else [_TrialLines()])],
            resume=options.resume,
            seconds=options.budget,
        )
    return tuner


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


def _tuner(task: Task, options: TuneOptions) -> Tuner:
    if options.tuner == "gridsearch":
        return autotvm.tuner.GridSearchTuner(task)
    if options.tuner == "auto":
        return autotvm.tuner.AutoTuner(task, seed=options.seed, least_gain=options.least_gain)
    kinds = {"xgb": autotvm.tuner.XGBTuner, "ga": autotvm.tuner.GATuner, "random": autotvm.tuner.RandomTuner}
    made: Tuner = kinds[options.tuner](task, seed=options.seed)
    return made


class _Lines(logging.Handler):
    """Progress on stdout, warnings on stderr: looked up each time, as a live line takes their place meanwhile."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.msg == _GREETING:
            return
        typer.echo(printable(self.format(record)), err=record.levelno >= logging.WARNING)


class _TrialLines:
    """A short line for each trial, where nobody watches a line that moves."""

    def __init__(self) -> None:
        self._count = 0

    def __call__(self, tuner: Tuner, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        for inp, result in zip(inputs, results, strict=True):
            self._count += 1
            best = tuner.best_measure_pair is not None and tuner.best_measure_pair[1] is result
            typer.echo(printable(short_line(self._count, inp, result, "best" if best else "")))


@contextmanager
def shown() -> Iterator[None]:
    """Let the tuner say what it says beside its trials: summaries and warnings."""
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


def _search(task: Task, options: TuneOptions) -> str:
    early = f", fewer after {options.early_stopping} without a better one" if options.early_stopping else ""
    poorer = options.tuner == "xgb" and find_spec("xgboost") is None
    model = " with the small model, as xgboost is not installed (pip install 'tilewright[tune]')" if poorer else ""
    extent = f"{options.trials} trials" if options.trials < UNLIMITED else ""
    within = f"{options.budget:g} s" if options.budget is not None else ""
    much = " within ".join(filter(None, (extent, within)))
    return f"{task.config_space.size:,} configurations; {much} by {options.tuner}{model}{early}"


def _known(task: Task, log: Path, on: Device | None) -> int:
    """How many trials of the task a log holds that this device and compiler made; without a device, any."""
    if not log.is_file():  # a pipe or a terminal tells nothing of earlier runs, and reading it would wait
        return 0
    kind = task.target.kind if task.target is not None else None
    own = (
        inp.config
        for inp, _ in load_from_file(log, [])
        if inp.task.workload == task.workload and not inp.notes.refused and inp.target.kind == kind
        if applies(inp.notes, on.kind if on is not None else "", lambda _: on.name if on is not None else "")
    )
    return len(set(own))


def _about_log(known: int, options: TuneOptions) -> list[str]:
    """What the log means for this run."""
    if not known:
        return [f"log: {options.log}"]
    if not options.resume:
        return [f"log: {options.log}, which holds {known} trials of this workload; they may be measured again"]
    line = f"log: {options.log}, which holds {known} trials of this workload: they count, and are not measured again"
    if known < options.trials:
        return [line]
    return [line, f"nothing is left to measure: for more, give --trials above {known}, or --no-resume"]


# What came of it


def _conclude(
    packaged: Packaged[Any],
    workload: Convolution,
    target: Target,
    on: Device | None,
    tuner: Tuner,
    options: TuneOptions,
) -> int:
    """Check and time the best, where this host measured it, and say how to use it; returns the exit status."""
    if options.plot is not None:
        pairs = [pair for pair in load_from_file(options.log, []) if pair[0].task.workload == tuner.task.workload]
        if any(curve.best[-1:] != [None] for curve in curves(pairs)):
            print_lines(["", *draw(options.plot, [(options.log, pairs)])])
    if tuner.best_config is None:
        if tuner.interrupted:
            print_lines(["", "interrupted before a configuration was measured"])
            return INTERRUPTED
        print_lines(["", f"log: {options.log}; what went wrong: tilewright log show {options.log}"])
        return FAILED
    right = True
    if not tuner.interrupted and on is not None:
        lines, right = verdict(packaged, workload, target, on, tuner.best_config)
        print_lines(["", *lines])
    print_lines(["", f"log: {options.log}. To use the best:", *_usage(packaged, workload, target, options.log)])
    if tuner.interrupted:
        print_lines(["", "interrupted; the same command goes on from here"])
        return INTERRUPTED
    return FINE if right else FAILED


def _usage(packaged: Packaged[Any], workload: Convolution, target: Target, log: Path) -> list[str]:
    """A program that builds the best."""
    strategy = packaged.template.name.partition(".")[2]
    by = f".by({json.dumps(strategy)})" if strategy else ""
    options = ", ".join(f"{name}={value!r}" for name, value in workload.shortest.items())
    return [
        "  import tilewright as tw",
        "  from tilewright import autotvm",
        f'  with autotvm.apply_history_best({json.dumps(str(log))}), tw.target.Target("{target.kind}"):',
        f"      s, args = autotvm.templates.{workload.name}{by}({options})",
        "      func = tw.build(s, args)",
    ]
