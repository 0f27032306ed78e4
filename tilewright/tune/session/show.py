"""The output of a run: a live line on a terminal, one line per trial in a log, and a summary at the end."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ...core.architectures import NVIDIA
from ...core.errors import UserError
from ...core.log import is_terminal, logger
from ...core.text import one_line, printable, quantity
from ...measure.outcome import MeasureErrorNo, MeasureResult
from ...runtime.driver import DeviceAttributes
from ..records.failure_kinds import kind_of
from ..records.format import MeasureInput, mean_cost
from ..space.config import Config
from ..space.knobs import SplitKnob
from ..space.space import Space
from .trials import Tally, Trial, flops_of

_PREFIXES = {"p": 1e-12, "n": 1e-9, "u": 1e-6, "m": 1e-3, "": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}


def scale_of(si_prefix: str) -> float:
    """Return the factor of an SI prefix; UserError for other text."""
    if not isinstance(si_prefix, str) or si_prefix not in _PREFIXES:
        raise UserError(
            f"si_prefix={si_prefix!r} is not a prefix",
            primitive="tune",
            fix=f"use one of {', '.join(filter(None, _PREFIXES))}",
        )
    return _PREFIXES[si_prefix]


def trial_line(trial: Trial, best: float, si_prefix: str) -> str:
    """Return the line of a trial in the legacy system's form."""
    scale = scale_of(si_prefix)
    rates = f"{trial.flops / scale:.2f}/{best / scale:.2f}"
    return f"No: {trial.number}\t{si_prefix}FLOPS: {rates}\tresult: {trial.result}\t{trial.input.config}"


def short_line(number: int, inp: MeasureInput, result: MeasureResult, remark: str = "", si_prefix: str = "G") -> str:
    """Return a short line for a trial: its rate and time, or the kind of its failure."""
    head = f"trial {number}"
    if result.error_no != MeasureErrorNo.NO_ERROR:
        return f"{head}  failed: {kind_of(result.error_no, inp.notes.refused)}"
    rate = flops_of(inp.notes.flop or inp.task.flop, result) / scale_of(si_prefix)
    return f"{head}  {rate:,.1f} {si_prefix}FLOPS  {mean_cost(result) * 1e6:,.2f} µs  {remark}".rstrip()


_BAR_COLUMNS = 100
"""The least columns of a terminal with a bar."""


class Display:
    """A live line on stderr while a run continues, and a line above it for each improvement.

    Nothing is shown if stderr is not a terminal or lines are logged. `seconds` is the budget of the run, if any; the
    bar then shows time.
    """

    def __init__(self, tally: Tally, si_prefix: str, name: str, seconds: float | None = None) -> None:
        self._tally = tally
        self._prefix = si_prefix
        self._seconds = seconds
        self._best: Trial | None = None
        self._name = one_line(name)
        self._bar: Any = None
        self._task: Any = None
        self._awaited = ""
        self._began = time.monotonic()

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Show the line inside the context."""
        if not is_terminal(sys.stderr) or logger.isEnabledFor(logging.DEBUG):
            yield
            return
        from rich import progress
        from rich.console import Console
        from rich.table import Column

        console = Console(stderr=True)
        rest = Column(ratio=1, no_wrap=True, overflow="ellipsis")
        columns = (
            progress.TextColumn("{task.fields[name]}", markup=False),
            *([progress.BarColumn(bar_width=20)] if console.width >= _BAR_COLUMNS else []),
            *([progress.MofNCompleteColumn()] if self._seconds is None else []),
            # This text is truncated to fit, rather than the counts or the time.
            progress.TextColumn("{task.description}", markup=False, table_column=rest),
            progress.TimeRemainingColumn(compact=True),
        )
        shown = progress.Progress(*columns, console=console, transient=True, redirect_stdout=False, expand=True)
        with shown as bar:
            self._bar, tally = bar, self._tally
            total = max(tally.wanted, tally.done) if self._seconds is None else self._seconds
            self._best = tally.best
            self._task = bar.add_task(self._text(), total=total, name=self._name)
            bar.update(self._task, completed=self._passed)
            yield

    @property
    def _passed(self) -> float:
        """Return the progress of the run: in trials, or in seconds of its budget."""
        return self._tally.done if self._seconds is None else min(time.monotonic() - self._began, self._seconds)

    def wait(self, what: str) -> None:
        """Show the reason of a wait."""
        self._awaited = what
        self.update()

    def update(self) -> None:
        """Show the state of the run."""
        if self._bar is None:
            return
        tally = self._tally
        if tally.best is not self._best and tally.best is not None and tally.best.number:
            best = tally.best
            name = one_line(best.input.task.name)
            remark = "best" if name == self._name else f"best, by {name}"
            line = short_line(best.number, best.input, best.result, remark, self._prefix)
            self._bar.console.print(line, markup=False, highlight=False)
        self._best = tally.best
        self._bar.update(self._task, completed=self._passed, description=self._text())

    def _text(self) -> str:
        tally, scale, unit = self._tally, scale_of(self._prefix), f"{self._prefix}FLOPS"
        if self._awaited or (tally.best is None and not tally.failures):
            return f"waiting for {self._awaited or 'the first result'}"
        text = f"best {tally.best_flops / scale:,.1f} now {tally.current / scale:,.1f} {unit}"
        rate = (tally.done - tally.resumed) / max(time.monotonic() - self._began, 1e-9)
        text += f"  {rate:.1f}/s" if rate else ""
        failed = [f"{kind} {count}" for kind, count in tally.failures.most_common()]
        return f"{text}  {', '.join(failed)}" if failed else text


def say(lines: list[str]) -> None:
    """Log lines; if logging would not show them on a terminal, print them on stderr."""
    lines = [printable(line) for line in lines]
    for line in lines:
        logger.info("%s", line)
    if is_terminal(sys.stderr) and not logger.isEnabledFor(logging.INFO):
        print("\n".join(lines), file=sys.stderr)


def warn_of_nothing_new(*tallies: Tally) -> None:
    """Warn that runs measured nothing because their log holds all of their trials."""
    known = sum(tally.resumed for tally in tallies)
    if known and sum(tally.done for tally in tallies) == known:
        logger.warning("0 new trials: the log holds %d; pass resume=False to measure them again", known)


def warn_of_nothing(tally: Tally, name: str) -> None:
    """Warn that a run measured nothing, if `say` did not show it."""
    if tally.best is not None or logger.isEnabledFor(logging.INFO) or is_terminal(sys.stderr):
        return
    failed = [f"{kind}: {count} ({tally.reasons.get(kind, '')})" for kind, count in tally.failures.most_common()]
    logger.warning("no configuration of %s could be measured; %s", name, "; ".join(failed) or "there was none to try")


def summary(
    tally: Tally, space: Space, device: DeviceAttributes | None, si_prefix: str, seconds: float, strategy: str = ""
) -> list[str]:
    """Return the result of a run: the best configuration in words, and the failures with the steps at fault.

    `space` is the space of the best configuration; `strategy` names its template, if there are several.
    """
    scale, unit = scale_of(si_prefix), f"{si_prefix}FLOPS"
    resumed = f", {quantity(tally.resumed, 'trial')} read from the log" if tally.resumed else ""
    measuring = f"{tally.measuring_seconds:.1f} s of it measuring{resumed}"
    refused = f"{quantity(tally.refused, 'configuration')} refused without measuring"
    lines = [f"{quantity(tally.done, 'trial')} in {seconds:.1f} s, {measuring}; {refused}"]
    if tally.best is None:
        lines.append("no configuration could be measured")
    else:
        config = tally.best.input.config
        cost = 1e6 * mean_cost(tally.best.result)
        share = _share(tally.best.flops, device)
        notes = tally.best.input.notes
        doubt = ("" if notes.checked else ", not checked") + (", the default configuration" if notes.default else "")
        by = f" of {strategy}" if strategy else ""
        lines.append(
            f"best: {tally.best.flops / scale:,.2f} {unit}, {cost:,.2f} µs{share}, index {config.index}{by}{doubt}"
        )
        lines += [f"  {line}" for line in readable(config, space)]
    if tally.sampled:
        lines.append(
            f"checked by a sample: {quantity(tally.sampled, 'element')} of each result were compared with NumPy's, and "
            "all elements with another candidate's"
        )
    if tally.unchecked:
        why = f" ({tally.why_unchecked.partition(chr(10))[0]})" if tally.why_unchecked else ""
        lines.append(f"not checked: {tally.unchecked} measured without comparing their output with a reference{why}")
    for kind, count in tally.failures.most_common():
        first = tally.reasons.get(kind, "").partition("\n")[0]
        others = ", and other reasons" if kind in tally.mixed else ""
        lines.append(f"{kind}: {count} ({first}{others})" if first else f"{kind}: {count}")
        steps = [(step, n) for (k, step), n in tally.steps.most_common() if k == kind and step]
        lines += [f"  {n} at {step}" for step, n in steps[:4]]
    return lines


def readable(config: Config, space: Space) -> list[str]:
    """Return the choices of a configuration, one per line, splits as products."""
    width = max((len(name) for name in config), default=0)
    return [f"{name:{width}}  {_choice(space, name, config)}" for name in config]


def _choice(space: Space, name: str, config: Config) -> str:
    knob = space.space_map.get(name)
    choice = config[name]
    if not isinstance(knob, SplitKnob) or not knob.product:
        return str(choice)
    rest = 1
    for size in choice.sizes:
        rest *= size if size > 0 else 1
    shown = [str(size if size > 0 else -(-knob.product // rest)) for size in choice.sizes]
    return f"{knob.product} = {' × '.join(shown)}"


def _share(flops: float, device: DeviceAttributes | None) -> str:
    peak = peak_flops(device)
    return f", {flops / peak:.1%} of the device's float32 peak" if peak else ""


def peak_flops(device: DeviceAttributes | None) -> float:
    """Return the peak rate of an NVIDIA device in float32 operations per second; 0 if unknown."""
    row = NVIDIA.get(device.architecture) if device is not None else None
    if device is None or row is None:
        return 0.0
    return 2e3 * device.multi_processor_count * device.max_clock_rate * row.multiprocessor.float_lanes
