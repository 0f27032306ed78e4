"""The gain of tuning: the best configuration beside the untuned one, PyTorch and NumPy, checked and timed anew."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from ..core.errors import InternalError, TVMError, UserError
from ..core.target import Target
from ..driver import build
from ..ladder.climb import RungOutcome, plan
from ..ladder.rivals import has_torch, numpy_row, torch_row
from ..ladder.trial import CheckedProblem
from ..report.progress import progress
from ..report.table import Column, table
from ..report.units import NONE, duration, error, factor
from ..runtime.array import array
from ..runtime.device import Device
from ..topi.templates.template import PackagedTemplate
from ..topi.templates.workload import Convolution
from ..tune.records.format import mean_cost
from ..tune.session.layer import LayerSearch
from ..tune.space.config import Config
from ..tune.task import Program
from .search import strategy_name

UNTUNED = "untuned"
_REPETITIONS = 11
_LEAST_MILLISECONDS = 10
"""Repetitions of a measurement, and the least milliseconds of each."""
_COLUMNS = (Column("", right=False), Column("time"), Column("GFLOPS"), Column("× untuned"), Column("max error"))


_Row = tuple[PackagedTemplate[Any], Config, float | None]
"""A template, a configuration of it, and the seconds that a search has confirmed."""


def verdict(
    strategies: Sequence[PackagedTemplate[Any]], workload: Convolution, target: Target, on: Device, layer: LayerSearch
) -> tuple[list[str], bool]:
    """Return a table of times, and whether the best computes the same as NumPy, in float64 and on poisoned output.

    The table also has the default configuration and the libraries. Times that the search has just confirmed are reused;
    others are measured here.
    """
    best, first = layer.winner, layer.runs[0]
    if best is None or best.tally.best is None:
        raise InternalError("there is no best to compare")
    templates = {template.name: template for template in strategies}
    several = len(strategies) > 1
    names = {run: f", {strategy_name(run.task)}" if several else "" for run in (best, first)}
    trial, default = best.tally.best, strategies[0].default_config(workload, target)
    won = best is first and trial.input.notes.default
    tuned: _Row = (templates[best.task.name], trial.input.config, mean_cost(trial.result))
    rows = {f"tuned{names[best]}": tuned}
    if not won:
        rows[f"{UNTUNED}{names[first]}"] = (strategies[0], default, layer.default_seconds)
    programs = {name: template.program(config, workload, target) for name, (template, config, _) in rows.items()}
    known = {name: seconds for name, (_, _, seconds) in rows.items() if seconds is not None}
    found = compare(programs, workload, target, on, known if layer.is_confirmed else {})
    notes = ["no trial was faster than the default configuration: the best needs no tuning"] if won else []
    return [*_table(workload, found), *notes], not found[0].failure


def compare(
    programs: Mapping[str, Program],
    workload: Convolution,
    target: Target,
    on: Device,
    known: Mapping[str, float] = MappingProxyType({}),
) -> list[RungOutcome]:
    """Return a row for each program, for PyTorch if it is installed, and for NumPy.

    Programs without `known` seconds are timed in turns.
    """
    with progress(len(programs) + has_torch() + 2) as (say, step):
        say("computing the reference")
        trial = CheckedProblem.of(workload, rounding=max(handle.value.rounding for handle, _ in programs.values()))
        step()
        ours = []
        for name, program in programs.items():
            say(f"{name}: building and checking")
            ours.append(_candidate(name, program, target, on, trial))
            step()
        say("timing")
        if set(programs) <= set(known):
            rows = [replace(each.row, seconds=() if each.row.failure else (known[each.row.name],)) for each in ours]
        else:
            rows = _time_in_turns(ours)
        if has_torch():
            say("PyTorch: timing")
            rows.append(torch_row(trial, on, _REPETITIONS))
            step()
        say("NumPy: timing")
        rows.append(numpy_row(trial, _REPETITIONS))
        step()
    return rows


@dataclass
class _Candidate:
    """An untimed row; `once` runs the program a given number of times and returns the seconds of one run."""

    row: RungOutcome
    once: Callable[[int], float] | None = None


def _candidate(name: str, program: Program, target: Target, on: Device, trial: CheckedProblem) -> _Candidate:
    """Build and check one configuration."""
    row = RungOutcome(name, "")
    try:
        module = build(*program, target)
        arrays = [array(values, device=on) for values in (trial.data, trial.weight, trial.unwritten())]
        module(*arrays)
        off, wrong = trial.check(arrays[-1].numpy())
    except TVMError as failure:
        return _Candidate(replace(row, failure=failure.message if isinstance(failure, UserError) else str(failure)))

    def once(runs: int) -> float:
        timer = module.time_evaluator(module.entry_name, on, number=runs, min_repeat_ms=_LEAST_MILLISECONDS)
        return float(timer(*arrays).mean)

    return _Candidate(replace(row, max_error=off, failure=wrong), None if wrong else once)


def _time_in_turns(candidates: Sequence[_Candidate]) -> list[RungOutcome]:
    """Time the programs in turns, so that other load on the machine affects all of them."""
    able = [(c.row.name, c.once, *plan(c.once(1), _REPETITIONS)) for c in candidates if c.once is not None]
    seconds: dict[str, list[float]] = {name: [] for name, *_ in able}
    for turn in range(_REPETITIONS):
        for name, once, runs, repeats in able:
            if turn < repeats:
                seconds[name].append(once(runs))
    return [replace(c.row, seconds=tuple(seconds.get(c.row.name, ()))) for c in candidates]


def _table(workload: Convolution, rows: Sequence[RungOutcome]) -> list[str]:
    base = next((row.time for row in rows if row.name.startswith(UNTUNED)), rows[0].time)
    cells = []
    for row in rows:
        rate = f"{workload.flop / row.time / 1e9:,.1f}" if row.time else NONE
        times = base / row.time if base and row.time else None
        name = f"{row.name}, {row.does}" if row.kind == "rival" else row.name
        cells.append([name, duration(row.time), rate, factor(times), error(row.max_error)])
    return [*table(_COLUMNS, cells), *(f"{row.name}: {row.failure}" for row in rows if row.failure)]
