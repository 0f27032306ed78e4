"""What tuning was worth: the best configuration beside the untuned one, PyTorch and NumPy, checked and timed anew."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..autotvm.templates import Packaged
from ..core.errors import TVMError, UserError
from ..core.target import Target
from ..driver import build
from ..ladder.climb import Outcome, plan
from ..ladder.rivals import has_torch, numpy_row, torch_row
from ..ladder.trial import Trial
from ..report.progress import progress
from ..report.table import Column, table
from ..report.units import NONE, duration, error, factor
from ..runtime.array import array
from ..runtime.device import Device
from ..topi.templates.workload import Convolution
from ..tune.space.config import Config
from ..tune.task import Program

_REPEAT, _MILLISECONDS = 11, 10
_COLUMNS = (Column("", right=False), Column("time"), Column("GFLOPS"), Column("× untuned"), Column("max error"))


def verdict(
    packaged: Packaged[Any], workload: Convolution, target: Target, on: Device, best: Config
) -> tuple[list[str], bool]:
    """A table of times, and whether the best computes what NumPy does, in float64 and on poisoned output."""
    first = packaged.template.first(workload.args, target)
    rows = compare(packaged, workload, target, on, {"tuned": best, **({"untuned": first} if first != best else {})})
    notes = ["the configuration that needs no tuning is the best that was found"] if first == best else []
    return [*_table(workload, rows), *notes], not rows[0].failure


def compare(
    packaged: Packaged[Any], workload: Convolution, target: Target, on: Device, configs: dict[str, Config]
) -> list[Outcome]:
    """A row for each configuration, for PyTorch where it is installed, and for NumPy."""
    with progress(len(configs) + has_torch() + 2) as (say, step):
        say("computing the reference")
        programs = {
            name: packaged.template.instantiate(config, workload.args, target) for name, config in configs.items()
        }
        trial = Trial.of(workload, rounding=max(handle.value.rounding for handle, _ in programs.values()))
        step()
        ours = []
        for name, program in programs.items():
            say(f"{name}: building and checking")
            ours.append(_candidate(name, program, target, on, trial))
            step()
        say("timing")
        rows = _time_in_turns(ours)
        if has_torch():
            say("PyTorch: timing")
            rows.append(torch_row(trial, on, _REPEAT))
            step()
        say("NumPy: timing")
        rows.append(numpy_row(trial, _REPEAT))
        step()
    return rows


@dataclass
class _Candidate:
    """A row in the making; `once` runs the program so many times and returns the seconds of one run."""

    row: Outcome
    once: Callable[[int], float] | None = None


def _candidate(name: str, program: Program, target: Target, on: Device, trial: Trial) -> _Candidate:
    """Build and check one configuration."""
    row = Outcome(name, "")
    try:
        module = build(*program, target)
        arrays = [array(values, device=on) for values in (trial.data, trial.weight, trial.unwritten())]
        module(*arrays)
        off, wrong = trial.check(arrays[-1].numpy())
    except TVMError as failure:
        return _Candidate(replace(row, failure=failure.message if isinstance(failure, UserError) else str(failure)))

    def once(runs: int) -> float:
        timer = module.time_evaluator(module.entry_name, on, number=runs, min_repeat_ms=_MILLISECONDS)
        return float(timer(*arrays).mean)

    return _Candidate(replace(row, max_error=off, failure=wrong), None if wrong else once)


def _time_in_turns(candidates: Sequence[_Candidate]) -> list[Outcome]:
    """Time the programs in turns, so that whatever else the machine does is in all of them."""
    able = [(c.row.name, c.once, *plan(c.once(1), _REPEAT)) for c in candidates if c.once is not None]
    seconds: dict[str, list[float]] = {name: [] for name, *_ in able}
    for turn in range(_REPEAT):
        for name, once, runs, repeats in able:
            if turn < repeats:
                seconds[name].append(once(runs))
    return [replace(c.row, seconds=tuple(seconds.get(c.row.name, ()))) for c in candidates]


def _table(workload: Convolution, rows: Sequence[Outcome]) -> list[str]:
    base = next((row.time for row in rows if row.name == "untuned"), rows[0].time)
    cells = []
    for row in rows:
        rate = f"{workload.flop / row.time / 1e9:,.1f}" if row.time else NONE
        times = base / row.time if base and row.time else None
        name = f"{row.name}, {row.does}" if row.kind == "rival" else row.name
        cells.append([name, duration(row.time), rate, factor(times), error(row.max_error)])
    return [*table(_COLUMNS, cells), *(f"{row.name}: {row.failure}" for row in rows if row.failure)]
