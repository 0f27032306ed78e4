"""An error of a schedule names one step at every door: in `tw.build`, in the builder and in the prefilter."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from tilewright import te
from tilewright.core.errors import UserError
from tilewright.core.target import Target
from tilewright.driver import build
from tilewright.measure.build import build as build_candidate
from tilewright.measure.job import Job
from tilewright.measure.outcome import BuildFailed
from tilewright.schedule.culprits import step_at_fault
from tilewright.tune.analysis.candidate import inspect_candidate
from tilewright.tune.space.config import Config
from tilewright.tune.task import PureTemplate, Task

Program = tuple[Any, list[Any]]
OPENCL = Target("opencl")


def _here() -> str:
    """The line of the caller, as errors name it."""
    frame = sys._getframe(1)
    return f"{__file__}:{frame.f_lineno}"


def _of_another_extent(lines: list[str]) -> Program:
    A = te.placeholder((64, 8192), name="A")
    B = te.compute((64, 8192), lambda i, j: A[i, j] + 1.0, name="B")
    s = te.create_schedule(B.op)
    i, j = B.op.axis
    outer, inner = s[B].split(i, factor=2)
    s[B].bind(j, te.thread_axis((0, 16), "threadIdx.x")), lines.append(_here())
    s[B].bind(inner, te.thread_axis("threadIdx.y"))
    s[B].bind(outer, te.thread_axis("blockIdx.x"))
    return s, [A, B]


def _too_long_a_vector(lines: list[str]) -> Program:
    A = te.placeholder((64, 8192), name="A")
    B = te.compute((64, 8192), lambda i, j: A[i, j] + 1.0, name="B")
    C = te.compute((64, 8192), lambda i, j: B[i, j] * 2.0, name="C")
    s = te.create_schedule(C.op)
    for stage in (B, C):
        s[stage].bind(stage.op.axis[0], te.thread_axis("blockIdx.x"))
    s[B].vectorize(B.op.axis[1]), lines.append(_here())
    s[C].vectorize(s[C].split(C.op.axis[1], factor=4)[1])
    return s, [A, B, C]


CASES = {
    "found with the bounds": (_of_another_extent, "s[B].bind(j, threadIdx.x)"),
    "found by a pass": (_too_long_a_vector, "s[B].vectorize(j)"),
}


@pytest.mark.parametrize("name", CASES)
def test_the_step_is_the_same_at_every_door(name: str) -> None:
    make: Callable[[list[str]], Program]
    make, text = CASES[name]
    lines: list[str] = []
    with pytest.raises(UserError) as caught:
        build(*make(lines), target="opencl")
    step = f"{text} at {lines[0]}"
    assert caught.value.steps == (step,)

    task = Task("tests/one", (), None, PureTemplate("tests/one", lambda: None, lambda config: make([])))
    found = inspect_candidate(task, Config({}), OPENCL, keep_lowered=True)
    if found.refusal is not None:
        assert found.refusal.step == step
    jobs = [Job(lambda: make([]), 0, OPENCL)]
    if found.lowered:
        jobs.append(Job(_never, 0, OPENCL, lowered=found.lowered))
    assert found.refusal or len(jobs) == 2
    for job in jobs:
        outcome = build_candidate(job, "default")
        assert isinstance(outcome, BuildFailed)
        assert outcome.step == step


def test_a_script_that_builds_names_it_too() -> None:
    lines: list[str] = []
    job = Job(lambda: _of_another_extent(lines), 0, OPENCL)
    outcome = build_candidate(job, lambda s, args, target: build(s, args, target))  # type: ignore[arg-type, return-value]
    assert getattr(outcome, "step", "") == f"s[B].bind(j, threadIdx.x) at {lines[0]}"


def test_an_error_without_steps_names_its_primitive() -> None:
    error = UserError("wrong", primitive="split", where="t.py:7")
    assert step_at_fault(error, scheduled=False) == "split at t.py:7"
    assert step_at_fault(error, scheduled=True) == "split"
    assert step_at_fault(UserError("wrong", where="t.py:7"), scheduled=False) == ""


def _never() -> Program:
    raise AssertionError("it is lowered already")
