"""Climbing: build a rung, check its answer, time it. The outcome of a rung is a value, failures included."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from ..codegen.abi import Resources
from ..core.errors import InternalError, TVMError, UserError
from ..driver import build, lower
from ..runtime.array import array
from ..runtime.device import Device
from ..runtime.module import Module
from .rung import Rung
from .trial import CheckedProblem

RUNS = 20
"""The most runs per measurement."""
SECONDS_EACH = 1.0
"""About how long all measurements of one row may take; slow programs run fewer times, but at least once."""


@dataclass(frozen=True)
class RungOutcome:
    """The outcome of one row of the table: times in seconds of one run, or the reason for their absence."""

    name: str
    does: str
    kind: Literal["rung", "rival"] = "rung"
    seconds: tuple[float, ...] = ()
    runs: int = 0
    """How many runs each of `seconds` is the mean of."""
    max_error: float | None = None
    failure: str = ""
    resources: Resources | None = None
    program: str = ""
    source: str = ""

    @property
    def time(self) -> float | None:
        """The median of `seconds`."""
        return statistics.median(self.seconds) if self.seconds else None

    @property
    def spread(self) -> float | None:
        """Half the distance between the quartiles of `seconds`, as a part of their median."""
        if len(self.seconds) < 4 or not self.time:
            return None
        low, _, high = statistics.quantiles(self.seconds, n=4)
        return (high - low) / 2 / self.time


def plan(seconds: float, repeat: int) -> tuple[int, int]:
    """(runs per measurement, measurements) of work that takes `seconds`, if `repeat` measurements are wanted."""
    affordable = SECONDS_EACH / max(seconds, 1e-9)
    runs = int(min(RUNS, max(1, affordable / repeat)))
    return runs, int(min(repeat, max(1, affordable / runs)))


def climb(trial: CheckedProblem, rung: Rung, on: Device, repeat: int, say: Callable[[str], None]) -> RungOutcome:
    """Build a rung for a device, check it on poisoned output, and time it; `say` receives progress messages."""
    say(f"{rung.name}: building")
    done = RungOutcome(rung.name, rung.does)
    try:
        program = rung.make(trial.problem)
        lowered = lower(program.schedule, program.args, simple_mode=True)
        done = replace(done, program=str(lowered))
        module = build(lowered, target=on.kind)
        done = replace(done, source=module.imported_modules[0].get_source(), resources=_only(module))
        return _measure(done, module, trial, on, repeat, say)
    except InternalError:
        raise
    except TVMError as error:
        return replace(done, failure=error.message if isinstance(error, UserError) else str(error))


def _measure(
    done: RungOutcome, module: Module, trial: CheckedProblem, on: Device, repeat: int, say: Callable[[str], None]
) -> RungOutcome:
    """The outcome with the check's verdict and, if that is good, the times."""
    say(f"{done.name}: checking")
    arrays = [array(values, device=on) for values in (trial.data, trial.weight, trial.unwritten())]
    module(*arrays)
    error, wrong = trial.check(arrays[-1].numpy())
    if wrong:
        return replace(done, max_error=error, failure=wrong)
    say(f"{done.name}: timing")
    once = module.time_evaluator(module.entry_name, on, number=1)(*arrays).mean
    runs, repeats = plan(once, repeat)
    result = module.time_evaluator(module.entry_name, on, number=runs, repeat=repeats)(*arrays)
    return replace(done, seconds=result.results, runs=runs, max_error=error)


def _only(module: Module) -> Resources | None:
    """The resources of the module's only kernel, if the compiler reports them."""
    return next(iter(module.resources.values()), None)
