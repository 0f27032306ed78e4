"""Climbing: what is wrong with a rung is found and said, and how often something is timed follows its speed."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tilewright import te
from tilewright.core.dtype import DType
from tilewright.core.errors import UserError
from tilewright.ladder.climb import RUNS, SECONDS_EACH, RungOutcome, climb, plan
from tilewright.ladder.conv1d import Conv1dLadder
from tilewright.ladder.conv1d import v1 as right
from tilewright.ladder.depthwise import DepthwiseLadder
from tilewright.ladder.results import lines, speedups
from tilewright.ladder.rivals import numpy_row
from tilewright.ladder.rung import Rung, RungProgram
from tilewright.ladder.trial import CheckedProblem
from tilewright.runtime.device import opencl
from tilewright.topi.templates.convolutions import Conv2dLayer

SMALL = Conv1dLadder(M=40, N=5)


def elsewhere(size: Conv1dLadder) -> RungProgram:
    """Adds what nobody asked for."""
    A, W = te.placeholder((size.M,), name="A"), te.placeholder((size.N,), name="W")
    B = te.compute((size.M + size.N - 1,), lambda i: te.if_then_else(i < 3, A[i] * W[0] + 1.0, A[0] * W[0]), "B")
    s = te.create_schedule(B.op)
    s[B].bind(B.op.axis[0], te.thread_axis("blockIdx.x"))
    return RungProgram(s, (A, W, B))


def refused(size: Conv1dLadder) -> RungProgram:
    """Splits by nothing."""
    program = right(size)
    program.schedule[program.args[-1]].split(program.args[-1].op.axis[0], factor=0)
    return program


def outcome(make: object) -> RungOutcome:
    """What becomes of a rung made by `make`."""
    rung = Rung("it", "something", make)  # type: ignore[arg-type]
    return climb(CheckedProblem.of(SMALL), rung, opencl(), 2, lambda what: None)


@pytest.mark.opencl
def test_a_right_program_is_timed() -> None:
    done = outcome(right)
    assert done.failure == ""
    assert len(done.seconds) == 2
    assert done.time is not None
    assert done.max_error is not None
    assert done.max_error < 1e-6
    assert "T.launch_thread" in done.program
    assert "__kernel" in done.source


@pytest.mark.opencl
def test_a_wrong_program_is_not_timed() -> None:
    done = outcome(elsewhere)
    assert done.failure.startswith("wrong: ")
    assert done.seconds == ()
    text = lines(SMALL, [done])
    assert "failed" in text[2]
    assert text[-1] == f"it: {done.failure}"


@pytest.mark.opencl
def test_a_program_that_cannot_be_built_says_why() -> None:
    done = outcome(refused)
    assert "factor" in done.failure
    assert done.program == done.source == ""


def test_the_check_finds_what_was_never_written() -> None:
    trial = CheckedProblem.of(SMALL)
    out = trial.answer.astype("float32")
    assert trial.check(out)[1] == ""
    out[[7, 9]] = np.nan
    assert trial.check(out) == (float("inf"), "2 of 44 results hold no number, the first at (7,)")


@pytest.mark.parametrize("ladder", [SMALL, DepthwiseLadder(), Conv1dLadder(M=9, N=4, dtype="float64")])
def test_the_check_finds_one_wrong_result_and_lets_rounding_pass(ladder: Conv1dLadder | DepthwiseLadder) -> None:
    trial = CheckedProblem.of(ladder)
    out = trial.answer.astype(ladder.dtype)
    assert trial.check(out)[1] == ""
    place = tuple(extent // 2 for extent in out.shape)
    # One product lost, or its sign: the smallest mistake that an index can make.
    out[place] += np.abs(trial.data).min() * np.abs(trial.weight).min() + 1e-4
    assert "wrong: " in trial.check(out)[1]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int8"])
def test_sums_in_another_type_than_the_results_are_judged_in_their_own(dtype: str) -> None:
    trial = CheckedProblem.of(Conv2dLayer.of((1, 64, 5, 5), filters=4, dtype=dtype))
    kind = DType(trial.problem.result).numpy
    assert trial.check(trial.answer.astype(kind))[1] == ""
    assert trial.check(trial.unwritten())[1] != ""
    wrong = trial.answer.copy()
    wrong[0, 1, 2, 3] *= 1 + 2**-6  # two steps of bfloat16
    assert "wrong: " in trial.check(wrong.astype(kind))[1]
    rounded = CheckedProblem.of(Conv2dLayer.of((1, 64, 5, 5), filters=4), rounding=2**-10)
    operands = [values + values * 2.0**-12 for values in (rounded.data, rounded.weight)]
    assert rounded.check(rounded.problem.numpy(*operands))[1] == ""


@pytest.mark.parametrize("seconds", [1e-9, 1e-6, 3e-4, 0.01, 0.3, 5.0])
def test_slow_programs_run_fewer_times(seconds: float) -> None:
    runs, repeats = plan(seconds, 21)
    assert 1 <= runs <= RUNS
    assert 1 <= repeats <= 21
    assert runs * repeats * seconds <= max(SECONDS_EACH, seconds)
    assert seconds > 1e-3 or (runs, repeats) == (RUNS, 21)


def test_ratios_need_both_rows() -> None:
    def row(name: str, *seconds: float) -> RungOutcome:
        return RungOutcome(name, "", seconds=seconds)

    got = speedups(SMALL, [row("naive", 8.0, 8.0), row("v1", 4.0), row("v3", 1.0), row("v4"), row("NumPy", 16.0)])
    assert got == {
        "naive": (1.0, None),
        "v1": (2.0, 2.0),
        "v3": (8.0, None),
        "v4": (None, None),
        "NumPy": (0.5, None),
    }


def test_the_spread_is_half_the_middle_half() -> None:
    assert RungOutcome("x", "", seconds=(1.0, 2.0)).spread is None
    assert dataclasses.replace(RungOutcome("x", ""), seconds=(9.0, 10.0, 10.0, 10.0, 11.0)).spread == pytest.approx(
        0.05
    )


def test_numpy_is_timed_and_compared() -> None:
    row = numpy_row(CheckedProblem.of(SMALL), 3)
    assert row.kind == "rival"
    assert len(row.seconds) == 3
    assert row.max_error is not None
    assert row.max_error < 1e-5


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Conv1dLadder(M=0), "M=0: sizes are at least 1"),
        (lambda: Conv1dLadder(dtype="int8"), "dtype 'int8' is not covered"),
        (lambda: DepthwiseLadder(kernel=2), "kernel=2 is even"),
        (lambda: Conv1dLadder().choose(["v7"]), "there is no variant 'v7' of conv1d"),
    ],
)
def test_wrong_sizes_and_names(make: object, message: str) -> None:
    with pytest.raises(UserError, match=message):
        make()  # type: ignore[operator]
