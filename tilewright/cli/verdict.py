"""What tuning was worth: the best configuration beside the untuned one and NumPy, each checked and timed anew."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
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
    template, args = packaged.template, workload.args
    with progress(4) as (say, step):
        say("computing the reference")
        judge = _Judge(workload, inputs)
        step()
        rows = []
        first = template.first(args, target)
        for name, config in (("tuned", best), *([("untuned", first)] if first != best else [])):
            say(f"{name}: checking and timing")
            rows.append((name, *_try(packaged, args, config, target, on, inputs, judge)))
            step()
        say("NumPy: timing")
        rows.append(("NumPy", _median(lambda: workload.reference(*inputs)), None, ""))
    notes = ["the configuration that needs no tuning is the best that was found"] if first == best else []
    return [*_table(workload, rows), *notes], not rows[0][3]


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


Tried = tuple[float | None, float | None, str]
"""Seconds of one run, the largest error, and what went wrong."""


def _try(
    packaged: Packaged[Any], args: tuple[Any, ...], config: Config, target: Target, on: Device,
    inputs: Sequence[np.ndarray], judge: _Judge,
) -> Tried:  # fmt: skip
    """Build, check and time one configuration."""
    try:
        schedule, tensors = packaged.template.instantiate(config, args, target)
        module = build(schedule, tensors, target)
        out = np.full(judge.answer.shape, np.nan, inputs[0].dtype)
        arrays = [array(values, device=on) for values in (*inputs, out)]
        module(*arrays)
        off, wrong = judge.judge(arrays[-1].numpy())
        if wrong:
            return None, off, wrong
        once = module.time_evaluator(module.entry_name, on, number=1)(*arrays).mean
        runs, repeats = plan(once, _REPEAT)
        timer = module.time_evaluator(module.entry_name, on, number=runs, repeat=repeats, min_repeat_ms=_MILLISECONDS)
        return timer(*arrays).median, off, ""
    except TVMError as failure:
        return None, None, failure.message if isinstance(failure, UserError) else str(failure)


def _median(run: Callable[[], Any]) -> float:
    """Seconds of one run on the CPU."""
    seconds: list[float] = []
    while len(seconds) < _REPEAT and sum(seconds) < 1:
        began = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds)


def _table(workload: Convolution, rows: Sequence[tuple[str, float | None, float | None, str]]) -> list[str]:
    base = next((seconds for name, seconds, *_ in rows if name == "untuned"), rows[0][1])
    cells = []
    for name, seconds, off, _ in rows:
        rate = f"{workload.flop / seconds / 1e9:,.1f}" if seconds else NONE
        cells.append([name, duration(seconds), rate, factor(base / seconds if base and seconds else None), error(off)])
    return [*table(_COLUMNS, cells), *(f"{name}: {wrong}" for name, _, _, wrong in rows if wrong)]
