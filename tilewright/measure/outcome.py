"""The outcome of a candidate, as values; and the same under the legacy API's names."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..codegen.abi import Resources
from ..core.errors import UserError

_LONGEST_REASON = 2000
_CUT = "\n...\n"
SWITCHED_OFF = "check_correctness=False"
"""The reason why outputs were not compared if nobody asked for it."""


WAITS = ("wait to build", "wait for the device")
"""The waiting stages of a candidate's outcome."""


class MeasureErrorNo:
    """The legacy error numbers."""

    NO_ERROR = 0
    INSTANTIATION_ERROR = 1
    COMPILE_HOST = 2
    COMPILE_DEVICE = 3
    RUNTIME_DEVICE = 4
    WRONG_ANSWER = 5
    BUILD_TIMEOUT = 6
    RUN_TIMEOUT = 7
    UNKNOWN_ERROR = 8


class MeasureResult(NamedTuple):
    """Return the legacy result: seconds of one run per repetition (or the error), the error's number, total seconds,
    and the end time (seconds since 1970)."""

    costs: tuple[Any, ...]
    error_no: int
    all_cost: float
    timestamp: float


class InstantiationError(UserError):
    """The legacy name of the error for a configuration without a legal kernel, or that its template refuses."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The outcome of one candidate.

    `build_seconds` and `run_seconds` are wall-clock time spent on it; `timestamp` is when it was done, in seconds since
    1970. `stages` has seconds per stage: waiting (`WAITS`), the parts of its turn on the device, and the way to a
          fleet's worker and back.
    """

    build_seconds: float = 0.0
    run_seconds: float = 0.0
    timestamp: float = field(default_factory=time.time)
    stages: Mapping[str, float] = field(default_factory=dict, compare=False)

    @property
    def error_no(self) -> int:
        """The legacy number, one of `MeasureErrorNo`."""
        return MeasureErrorNo.UNKNOWN_ERROR

    @property
    def ok(self) -> bool:
        """Whether the candidate was measured."""
        return False


@dataclass(frozen=True, kw_only=True)
class Measured(Outcome):
    """The candidate ran and was timed. `costs` has the seconds of one run, by repetition."""

    costs: tuple[float, ...]
    checked: bool = True
    """Whether its output was compared with the reference (and agreed)."""
    sampled: int = 0
    """The elements of its output that were compared, if the reference is a sample."""
    unchecked: str = ""
    """The reason why the output was not compared."""
    resources: Mapping[str, Resources] = field(default_factory=dict)
    """The resources of each kernel, if the compiler reports them."""

    @property
    def error_no(self) -> int:
        return MeasureErrorNo.NO_ERROR

    @property
    def ok(self) -> bool:
        return True

    @property
    def mean(self) -> float:
        """The mean of the repetitions, in seconds."""
        return sum(self.costs) / len(self.costs)


@dataclass(frozen=True, kw_only=True)
class Failure(Outcome):
    """A candidate that was not measured, and why. `step` is the schedule step at fault and its place in the caller's
    code, if known."""

    reason: str
    step: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "reason", shorten(self.reason))
        object.__setattr__(self, "step", shorten(self.step))


@dataclass(frozen=True, kw_only=True)
class BuildFailed(Failure):
    """A failed build; `stage` is "instantiate", "lower", "compile", or "crash" if the process died."""

    stage: str = "instantiate"
    killed: bool = False
    """Whether another process ended the builder of the candidate."""

    @property
    def error_no(self) -> int:
        if self.killed:
            return MeasureErrorNo.UNKNOWN_ERROR
        return _BUILD_STAGES.get(self.stage, MeasureErrorNo.UNKNOWN_ERROR)


_BUILD_STAGES = {
    "instantiate": MeasureErrorNo.INSTANTIATION_ERROR,
    "lower": MeasureErrorNo.COMPILE_HOST,
    "crash": MeasureErrorNo.COMPILE_HOST,
    "compile": MeasureErrorNo.COMPILE_DEVICE,
}


@dataclass(frozen=True, kw_only=True)
class RunFailed(Failure):
    """The candidate failed on the device, or ended the process that ran it."""

    killed: bool = False
    """Whether another process ended the runner of the candidate."""

    @property
    def error_no(self) -> int:
        return MeasureErrorNo.UNKNOWN_ERROR if self.killed else MeasureErrorNo.RUNTIME_DEVICE


@dataclass(frozen=True, kw_only=True)
class ReferenceLost(Failure):
    """The file `path` of its reference cannot be read, so the candidate did not run.

    `Batch` computes the reference again: no caller of `measure` gets this outcome.
    """

    path: str


@dataclass(frozen=True, kw_only=True)
class ReferenceDisputed(Failure):
    """The candidate agrees with the sample in the file `path`, but not with an earlier candidate at `points`.

    These are positions in each output. `Batch` adds their expected values to the sample, and runs the candidate again:
    no caller of `measure` gets this outcome.
    """

    path: str
    points: tuple[np.ndarray, ...] = field(compare=False)


@dataclass(frozen=True, kw_only=True)
class WrongAnswer(Failure):
    """The candidate ran, and its results differ from the reference."""

    @property
    def error_no(self) -> int:
        return MeasureErrorNo.WRONG_ANSWER


@dataclass(frozen=True, kw_only=True)
class TimedOut(Failure):
    """Building or running the candidate took longer than allowed, and was ended. `phase` is "build" or "run"."""

    phase: str

    @property
    def error_no(self) -> int:
        return MeasureErrorNo.BUILD_TIMEOUT if self.phase == "build" else MeasureErrorNo.RUN_TIMEOUT


@dataclass(frozen=True, kw_only=True)
class Refused(Failure):
    """The candidate breaks a limit of the target, and was not compiled."""

    @property
    def error_no(self) -> int:
        return MeasureErrorNo.INSTANTIATION_ERROR


_ERRORS: dict[int, Callable[[str], Exception]] = {
    MeasureErrorNo.INSTANTIATION_ERROR: partial(InstantiationError, where=""),
    MeasureErrorNo.BUILD_TIMEOUT: TimeoutError,
    MeasureErrorNo.RUN_TIMEOUT: TimeoutError,
}


def to_result(outcome: Outcome) -> MeasureResult:
    """Return the outcome in the legacy form: the cost of a failure is an exception with the reason."""
    spent = outcome.build_seconds + outcome.run_seconds
    if isinstance(outcome, Measured):
        costs: tuple[Any, ...] = outcome.costs
    else:
        reason = outcome.reason if isinstance(outcome, Failure) else "unknown"
        costs = (_ERRORS.get(outcome.error_no, RuntimeError)(reason),)
    return MeasureResult(costs, outcome.error_no, spent, outcome.timestamp)


def shorten(text: str, longest: int = _LONGEST_REASON) -> str:
    """Shorten a reason for a record: the middle of a long one is cut, and text that UTF-8 cannot hold is escaped."""
    if len(text) > longest + len(_CUT):
        half = longest // 2
        text = f"{text[:half]}{_CUT}{text[-half:]}"
    return text.encode("utf-8", "backslashreplace").decode()
