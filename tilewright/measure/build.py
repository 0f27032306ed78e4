"""Building one candidate: its schedule, its loops, its machine code, or why there are none.

Runs in a forked child. Nothing here touches a device.
"""

from __future__ import annotations

import pickle
import time
import traceback
import warnings
from contextlib import suppress
from typing import Any

from ..codegen import nvrtc
from ..codegen.abi import CompiledProgram
from ..core.errors import InternalError, UserError
from ..core.target import Target
from ..driver import build as compile_lowered
from ..driver import lower_for
from ..schedule.handle import ScheduleHandle
from .job import Built, Job
from .option import BuildFunc
from .outcome import BuildFailed, Outcome, Refused, shorten
from .reference import describe

_PACKAGE = __name__.partition(".")[0]


def preload(target: Target) -> None:
    """Load the common modules before builders are forked, so that not each of them has to."""
    if target.kind == "cuda":
        with suppress(UserError):  # each build will report the missing part
            nvrtc.architectures()


def build(job: Job, build_func: str | BuildFunc) -> Built | Outcome:
    """Instantiate and compile a job for its target."""
    began = time.perf_counter()
    stage, handle = "instantiate", None
    try:
        with job.target:
            handle, tensors = job.instantiate()
            spec = describe(tensors, handle.value.rounding if isinstance(handle, ScheduleHandle) else 0.0)
            stage = "lower" if build_func == "default" else "compile"
            if callable(build_func):
                program = build_func(handle, tensors, job.target)
            else:
                with warnings.catch_warnings():  # how a schedule could be better is no news in a search
                    warnings.simplefilter("ignore", UserWarning)
                    lowered = lower_for(job.target, handle, tensors)
                stage = "compile"
                program = _compile(lowered, job.target)
        if not isinstance(program, CompiledProgram):
            raise TypeError(f"build_func gives {type(program).__name__}, not a CompiledProgram")
        data = pickle.dumps(program, pickle.HIGHEST_PROTOCOL)
    except (Exception, SystemExit) as error:
        return _explain(error, stage, handle, time.perf_counter() - began)
    return Built(data, spec, time.perf_counter() - began)


def _compile(lowered: Any, target: Target) -> CompiledProgram:
    return compile_lowered(lowered, target=target).program


def _explain(error: BaseException, stage: str, handle: Any, seconds: float) -> Outcome:
    """The reason why a candidate was not built, and the schedule step at fault."""
    if isinstance(error, UserError):
        text = f"{error.primitive}: {error.message}" if error.primitive else error.message
        step = _step(error, stage, handle)
        if stage == "compile":  # the only mistake a caller can still have made by now
            return Refused(reason=shorten(text), step=step, build_seconds=seconds)
        if stage == "lower":  # a schedule that makes no kernel, as one that cannot be written down
            stage = "instantiate"
    else:
        text = f"{type(error).__name__}: {error}" if not isinstance(error, InternalError) else str(error)
        step = _line(error) if stage == "instantiate" else ""
    return BuildFailed(reason=shorten(text), step=step, stage=stage, build_seconds=seconds)


def _step(error: UserError, stage: str, handle: Any) -> str:
    """The schedule step at fault. Errors found after the schedule was made name only the primitive."""
    if not error.primitive:
        return ""
    if stage == "instantiate":
        return f"{error.primitive} at {error.where}" if error.where else error.primitive
    steps = handle.steps if isinstance(handle, ScheduleHandle) else []
    lines = [step.where for step in steps if step.primitive == error.primitive and step.where]
    return f"{error.primitive} at {lines[-1]}" if lines else error.primitive


def _line(error: BaseException) -> str:
    """The innermost line of the caller's own code."""
    for frame, line in reversed(list(traceback.walk_tb(error.__traceback__))):
        if str(frame.f_globals.get("__name__", "")).partition(".")[0] != _PACKAGE:
            return f"{frame.f_code.co_filename}:{line}"
    return ""
