"""Timing a function as the legacy `time_evaluator` does: `repeat` measurements of `number` runs each."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.errors import UserError
from .array import empty
from .device import Device

_MARGIN = 1.03
_LARGEST_OPTION = 10**12
"""The largest option that means something: beyond that, a measurement would not end."""
_NOTHING = 1_000
"""If this many times `number` runs take no time, the function starts no kernel: the clock would show a kernel."""


@dataclass(frozen=True)
class BenchmarkResult:
    """Seconds of one run: `results` has each repetition's mean over its runs."""

    results: tuple[float, ...]

    @property
    def mean(self) -> float:
        """The mean of the repetitions."""
        return float(np.mean(self.results))

    @property
    def median(self) -> float:
        """The median of the repetitions."""
        return float(np.median(self.results))

    @property
    def min(self) -> float:
        """The shortest time of the repetitions."""
        return min(self.results)

    @property
    def max(self) -> float:
        """The longest time of the repetitions."""
        return max(self.results)

    @property
    def std(self) -> float:
        """The standard deviation of the repetitions."""
        return float(np.std(self.results))

    def __str__(self) -> str:
        names = ("mean", "median", "max", "min", "std")
        heads = "".join(f"{name} (ms)".center(14) for name in names)
        values = "".join(f"{getattr(self, name) * 1e3:.4f}".center(14) for name in names)
        return f"Execution time summary:\n{heads}\n{values}"


@dataclass(frozen=True)
class TimingOptions:
    """How to measure; the fields are the legacy arguments, and their defaults."""

    number: int = 10
    repeat: int = 1
    min_repeat_ms: float = 0
    limit_zero_time_iterations: int = 100
    cooldown_interval: float = 0
    repeats_to_cooldown: int = 1
    cache_flush_bytes: int = 0

    def __post_init__(self) -> None:
        counts = ("number", "repeat", "repeats_to_cooldown")
        for name, value in vars(self).items():
            least, kinds = (1, (int, np.integer)) if name in counts else (0, (int, float, np.integer, np.floating))
            if isinstance(value, bool) or not isinstance(value, kinds) or not least <= value <= _LARGEST_OPTION:
                what = "whole number" if name in counts else "number"
                allowed = f"of at least {least} is needed, and of at most {_LARGEST_OPTION:.0e}"
                raise UserError(
                    f"{name}={repr(value)[:60]}: a {what} {allowed}",
                    primitive="time_evaluator",
                    fix="leave it out, or give e.g. number=10, repeat=3, min_repeat_ms=100",
                )


def measure(run: Callable[[], None], on: Device, options: TimingOptions) -> BenchmarkResult:
    """Time `run` on a device. `run` is called once before, so that loading and first touches do not count."""
    run()
    on.sync()
    before = _flush(on, options.cache_flush_bytes) if options.cache_flush_bytes else None
    seconds_of = on.driver.timer(on.index, run, before)
    results = []
    number = options.number
    for repetition in range(options.repeat):
        zeros = 0
        while True:
            seconds = seconds_of(number)
            if seconds * 1e3 >= options.min_repeat_ms or zeros >= options.limit_zero_time_iterations:
                break
            if seconds == 0 and number >= _NOTHING * options.number:
                break
            zeros += seconds == 0
            number = _more(number, seconds, options.min_repeat_ms * 1e-3)
        results.append(seconds / number)
        if options.cooldown_interval > 0 and (repetition + 1) % options.repeats_to_cooldown == 0:
            time.sleep(options.cooldown_interval * 1e-3)
    return BenchmarkResult(tuple(results))


def _more(number: int, seconds: float, wanted: float) -> int:
    """Return the number of runs to try next, if `number` runs took `seconds` instead of `wanted`.

    The margin allows for a processor that warms up, so that runs get faster. A time below half of `wanted` is a poor
    estimate. After such a time, 0 included, the number grows at least by the legacy system's factor.
    """
    enough = int(number * wanted / seconds * _MARGIN) + 1 if seconds else 0
    return enough if 2 * seconds > wanted else max(enough, int(number * 1.618 + 1))


def _flush(on: Device, size: int) -> Callable[[], None]:
    """Return a function that writes `size` bytes of other memory, so that no cache is warm."""
    source, target = empty(size, "uint8", on), empty(size, "uint8", on)

    def flush() -> None:
        source.copyto(target)

    return flush


Evaluator = Callable[..., BenchmarkResult]


def evaluator(function: Any, on: Device, options: TimingOptions, before: str = "") -> Evaluator:
    """A function of the arguments of `function` that returns its timing.

    `before` (legacy `f_preproc`) names a function to run first; none is needed here, as a cold cache is
    asked for by `cache_flush_bytes`.
    """
    if not isinstance(before, str) or before not in ("", "cache_flush_cpu_non_first_arg"):
        raise UserError(
            f"f_preproc={before!r} is unknown",
            primitive="time_evaluator",
            fix="leave it out, or give cache_flush_bytes",
        )

    if not isinstance(on, Device):
        raise UserError(f"dev={on!r} is not a device", primitive="time_evaluator", fix="give tw.cpu(), tw.cuda() ...")

    return _Evaluator(function, on, options)


@dataclass(frozen=True)
class _Evaluator:
    """Times `function`, with the arguments of each call."""

    function: Any
    on: Device
    options: TimingOptions

    def __call__(self, *args: Any) -> BenchmarkResult:
        return measure(lambda: self.function(*args), self.on.require(), self.options)
