"""Building one candidate: its schedule, its loops, its machine code, or why there are none.

Runs in a forked child. Nothing here touches a device.
"""

from __future__ import annotations

import pickle
import time
import traceback
import warnings
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..codegen import nvrtc
from ..codegen.abi import CompiledProgram
from ..core.errors import InternalError, UserError
from ..core.target import Target
from ..driver import compile_lowered, lower_nest
from ..schedule.culprits import naming_steps, step_at_fault
from .job import Built, CheckSpec, Job
from .lowered import LoweredCandidate, nest_for, spec_of, steps_of, unpacked
from .option import BuildFunc
from .outcome import BuildFailed, Outcome, Refused, TimedOut, shorten

if TYPE_CHECKING:
    from .pool import Died  # `pool` needs forks; systems without forks also build

_PACKAGE = __name__.partition(".")[0]


def preload(target: Target) -> None:
    """Load the common modules before builders are forked, so that the builders need not load them."""
    if target.kind == "cuda":
        with suppress(UserError):  # each build will report the missing part
            nvrtc.architectures()


def died_building(died: Died, timeout: float) -> Outcome:
    """The outcome of a job if its builder ended too early, by itself or after `timeout` seconds."""
    if died.overdue:
        return TimedOut(reason=f"still building after {timeout:g} s", phase="build", build_seconds=died.seconds)
    reason = f"the process that built it {died.how}"
    return BuildFailed(reason=reason, stage="crash", killed=died.killed, build_seconds=died.seconds)


@dataclass
class _Progress:
    """The stage that a build has reached, for errors."""

    stage: str = "instantiate"


def build(job: Job, build_func: str | BuildFunc) -> Built | Outcome:
    """Compile a job for its target: its loop nest if it has one, else the schedule of its configuration."""
    began = time.perf_counter()
    progress = _Progress()
    try:
        with job.target:
            if callable(build_func):
                program, spec = _by_script(job, build_func, progress)
            else:
                program, spec = _by_compiler(job, progress)
        data = pickle.dumps(program, pickle.HIGHEST_PROTOCOL)
    except (Exception, SystemExit) as error:
        return _explain(error, progress, time.perf_counter() - began)
    return Built(data, spec, time.perf_counter() - began)


def _by_compiler(job: Job, progress: _Progress) -> tuple[CompiledProgram, CheckSpec]:
    made = unpacked(job)
    if made is None:
        handle, tensors = job.instantiate()
        spec = spec_of(handle, tensors)
    with warnings.catch_warnings(), naming_steps(steps_of(handle) if made is None else made.steps):
        warnings.simplefilter("ignore", UserWarning)  # advice about a schedule helps nobody in a search
        progress.stage = "lower"
        if made is None:
            made = LoweredCandidate(nest_for(handle, tensors, job.target), job.target, spec, ())
        lowered = lower_nest(made.nest, job.target)
        progress.stage = "compile"
        return compile_lowered(lowered, job.target).program, made.spec


def _by_script(job: Job, build_func: BuildFunc, progress: _Progress) -> tuple[CompiledProgram, CheckSpec]:
    handle, tensors = job.instantiate()
    spec = spec_of(handle, tensors)
    progress.stage = "compile"
    with naming_steps(steps_of(handle)):
        program = build_func(handle, tensors, job.target)
    if not isinstance(program, CompiledProgram):
        raise TypeError(f"build_func gives {type(program).__name__}, not a CompiledProgram")
    return program, spec


def _explain(error: BaseException, progress: _Progress, seconds: float) -> Outcome:
    """The reason why a candidate was not built, and the schedule step at fault."""
    stage = progress.stage
    if isinstance(error, UserError):
        text = f"{error.primitive}: {error.message}" if error.primitive else error.message
        step = step_at_fault(error, scheduled=stage != "instantiate")
        if stage == "compile":  # the only mistake a caller can still have made by now
            return Refused(reason=shorten(text), step=step, build_seconds=seconds)
        if stage == "lower":  # a schedule that makes no kernel, as one that cannot be written down
            stage = "instantiate"
    else:
        text = f"{type(error).__name__}: {error}" if not isinstance(error, InternalError) else str(error)
        step = _line(error) if stage == "instantiate" else ""
    return BuildFailed(reason=shorten(text), step=step, stage=stage, build_seconds=seconds)


def _line(error: BaseException) -> str:
    """The innermost line of the caller's own code."""
    for frame, line in reversed(list(traceback.walk_tb(error.__traceback__))):
        if str(frame.f_globals.get("__name__", "")).partition(".")[0] != _PACKAGE:
            return f"{frame.f_code.co_filename}:{line}"
    return ""
