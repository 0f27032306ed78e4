"""A candidate lowered once: its loop nest goes from the process that inspects it to the one that compiles it.

Packed, it takes a few kilobytes, and reading it far less time than making the schedule and its loops again.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..bounds.infer import Bounds
from ..core.options import DEFAULT_OPTIONS
from ..core.recursion import ROOM, deep
from ..core.target import Target
from ..driver import refined_bounds
from ..loops.build import build_function
from ..loops.nodes import Function
from ..passes.context import PassContext
from ..schedule.culprits import StepMark, marks_of
from ..schedule.handle import ScheduleHandle
from .job import CheckSpec, Job
from .reference import describe


@dataclass(frozen=True)
class LoweredCandidate:
    """The loop nest of a candidate, as it is built for one target, before any pass.

    `spec` says how its output is checked. Errors name the `steps` of its schedule.
    """

    nest: Function
    target: Target
    spec: CheckSpec
    steps: tuple[StepMark, ...]


@deep
def spec_of(handle: Any, tensors: Sequence[Any]) -> CheckSpec:
    """Return how the output of a schedule is checked."""
    return describe(tensors, handle.value.rounding if isinstance(handle, ScheduleHandle) else 0.0)


def steps_of(handle: Any) -> tuple[StepMark, ...]:
    """Return the steps of a schedule, for errors."""
    return marks_of(handle.steps if isinstance(handle, ScheduleHandle) else ())


@deep
def nest_for(handle: Any, tensors: Sequence[Any], target: Target) -> Function:
    """Return the loop nest of a schedule as it is built for a target."""
    schedule = handle.value if isinstance(handle, ScheduleHandle) else handle
    return build_function(schedule, refined_bounds(schedule, target), tensors)


def packed(handle: Any, tensors: Sequence[Any], target: Target, bounds: Bounds, nest: Function | None = None) -> bytes:
    """Return a candidate for `Job.lowered`; empty if the builder has to lower it, or to report the error.

    `driver.py::refined_bounds` returned the `bounds`, and `nest` is the loop nest under them, if it is known.
    """
    if PassContext.current().options != DEFAULT_OPTIONS:  # passes of the caller may have no form that can be sent
        return b""
    try:
        with ROOM:
            nest = nest or build_function(handle.value, bounds, tensors)
        made = LoweredCandidate(nest, target, spec_of(handle, tensors), steps_of(handle))
        return pickle.dumps(made, pickle.HIGHEST_PROTOCOL)
    except Exception:  # the builder makes the candidate again, and records the error with its steps
        return b""


def unpacked(job: Job) -> LoweredCandidate | None:
    """Return the lowered candidate of a job; None if it has none for its target and the options that hold here."""
    if not job.lowered or PassContext.current().options != DEFAULT_OPTIONS:
        return None
    found: LoweredCandidate = pickle.loads(job.lowered)
    return found if found.target == job.target else None
