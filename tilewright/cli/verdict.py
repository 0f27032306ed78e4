"""What tuning was worth: the best configuration beside the untuned one and NumPy, each checked and timed anew."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..autotvm.templates import Packaged
from ..core.errors import TVMError, UserError
from ..core.target import Target
from ..driver import build
from ..ladder.climb import plan
from ..report.table import Column, table
from ..report.units import NONE, duration, error, factor
from ..runtime.array import array
from ..runtime.device import Device
from ..tensor.tensor import Tensor
from ..topi.templates.workload import Convolution
from ..tune.space.config import Config
from .console import progress

_REPEAT, _MILLISECONDS = 11, 10
_COLUMNS = (Column("", right=False), Column("time"), Column("GFLOPS"), Column("× untuned"), Column("max error"))


def verdict(
    packaged: Packaged[Any], workload: Convolution, target: Target, on: Device, best: Config
) -> tuple[list[str], bool]:
    """A table of times, and whether the best computes what NumPy does, in float64 and on poisoned output."""
    rng = np.random.default_rng(0)
    inputs = [_random(rng, t) for t in workload.declare()[:2]]
    first = packaged.template.first(workload.args, target)
    with progress(4) as (say, step):
        say("computing the reference")
        judge = _Judge(workload, inputs)
        step()
        rows = []
        for name, config in (("tuned", best), *([("untuned", first)] if first != best else [])):
            say(f"{name}: building and checking")
            rows.append(_try(name, packaged, workload.args, config, target, on, inputs, judge))
            step()
        say("timing")
        _time_in_turns(rows)
        rows.append(_Row("NumPy, in float64", seconds=_median(lambda: workload.reference(*inputs))))
    notes = ["the configuration that needs no tuning is the best that was found"] if first == best else []
    return [*_table(workload, rows), *notes], not rows[0].wrong


@dataclass
class _Row:
    """A line of the table; `once` runs the program so many times and gives the seconds of one run."""

    name: str
    seconds: float | None = None
    off: float | None = None
    wrong: str = ""
    once: Callable[[int], float] | None = None


def _time_in_turns(rows: Sequence[_Row]) -> None:
    """Time the programs in turns, so that whatever else the machine does is in all of them."""
    able = [(row, row.once, plan(row.once(1), _REPEAT)) for row in rows if row.once is not None]
    seconds: dict[str, list[float]] = {row.name: [] for row in rows}
    for turn in range(_REPEAT):
        for row, once, (runs, repeats) in able:
            if turn < repeats:
                seconds[row.name].append(once(runs))
    for row, _, _ in able:
        row.seconds = statistics.median(seconds[row.name])


def _random(rng: np.random.Generator, tensor: Tensor) -> np.ndarray:
    """Values of both signs, so that a wrong sign or a lost term cannot hide."""
    shape = tuple(int(str(extent)) for extent in tensor.shape)
    return rng.uniform(-1, 1, shape).astype(tensor.dtype)


class _Judge:
    """The right answer in float64, and how far from it another order of summation may lie."""

    def __init__(self, workload: Convolution, inputs: Sequence[np.ndarray]) -> None:
        exact = [x.astype("float64") for x in inputs]
        self.answer = workload.reference(*exact)
        epsilon = np.finfo(inputs[0].dtype).eps
        self.allowed = (workload.terms + 2) * epsilon * workload.reference(*map(np.abs, exact))

    def judge(self, out: np.ndarray) -> tuple[float, str]:
        """The largest error, and what is wrong; "" where nothing is."""
        off = np.abs(out - self.answer)
        wrong = int(np.count_nonzero(~(off <= self.allowed)))
        return float(off.max()), f"{wrong:,} of {out.size:,} results are wrong" if wrong else ""


def _try(
    name: str, packaged: Packaged[Any], args: tuple[Any, ...], config: Config, target: Target, on: Device,
    inputs: Sequence[np.ndarray], judge: _Judge,
) -> _Row:  # fmt: skip
    """Build and check one configuration."""
    try:
        module = build(*packaged.template.instantiate(config, args, target), target)
        out = np.full(judge.answer.shape, np.nan, inputs[0].dtype)
        arrays = [array(values, device=on) for values in (*inputs, out)]
        module(*arrays)
        off, wrong = judge.judge(arrays[-1].numpy())
    except TVMError as failure:
        return _Row(name, wrong=failure.message if isinstance(failure, UserError) else str(failure))

    def once(runs: int) -> float:
        timer = module.time_evaluator(module.entry_name, on, number=runs, min_repeat_ms=_MILLISECONDS)
        return float(timer(*arrays).mean)

    return _Row(name, off=off, wrong=wrong, once=None if wrong else once)


def _median(run: Callable[[], Any]) -> float:
    """Seconds of one run on the CPU."""
    seconds: list[float] = []
    while len(seconds) < _REPEAT and sum(seconds) < 1:
        began = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds)


def _table(workload: Convolution, rows: Sequence[_Row]) -> list[str]:
    base = next((row.seconds for row in rows if row.name == "untuned"), rows[0].seconds)
    cells = []
    for row in rows:
        rate = f"{workload.flop / row.seconds / 1e9:,.1f}" if row.seconds else NONE
        times = base / row.seconds if base and row.seconds and row.name in ("tuned", "untuned") else None
        cells.append([row.name, duration(row.seconds), rate, factor(times), error(row.off)])
    return [*table(_COLUMNS, cells), *(f"{row.name}: {row.wrong}" for row in rows if row.wrong)]
