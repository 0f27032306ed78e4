"""Steps that the legacy API takes without an effect: they warn, and change nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.programs.harness import result
from tests.schedule.each_primitive import chain, matrix, plus_one, running, twice
from tilewright import te


def loops(s: te.Schedule, args: list[Any]) -> str:
    return str(tw.lower(s, args))


BOUND: dict[str, Callable[[Any, Any], Any]] = {
    "unroll": lambda stage, axis: stage.unroll(axis),
    "vectorize": lambda stage, axis: stage.vectorize(axis),
    "parallel": lambda stage, axis: stage.parallel(axis),
}


@pytest.mark.parametrize("name", BOUND)
def test_a_bound_axis_stays_bound(name: str) -> None:
    s, A, B = matrix()
    s[B].bind(B.op.axis[0], te.thread_axis("threadIdx.x"))
    before = loops(s, [A, B])
    with pytest.warns(UserWarning, match=f"{name} has no effect: axis 'i' of stage 'B' is bound to threadIdx.x"):
        BOUND[name](s[B], B.op.axis[0])
    assert loops(s, [A, B]) == before


OUTPUTS: dict[str, Callable[[Any, Any], Any]] = {
    "storage_align": lambda stage, axis: stage.storage_align(axis, 32, 1),
    "set_scope": lambda stage, axis: stage.set_scope("local"),
}


@pytest.mark.parametrize("name", OUTPUTS)
def test_an_output_is_the_callers(name: str) -> None:
    s, A, B = matrix()
    before = loops(s, [A, B])
    with pytest.warns(UserWarning, match=f"{name} has no effect: stage 'B' is an output"):
        OUTPUTS[name](s[B], B.op.axis[0])
    assert loops(s, [A, B]) == before


INLINED: dict[str, Callable[[Any, Any], Any]] = {
    "split": lambda stage, axis: stage.split(axis, factor=5),
    "fuse": lambda stage, axis: stage.fuse(),
    "reorder": lambda stage, axis: stage.reorder(axis),
    "unroll": lambda stage, axis: stage.unroll(axis),
    "vectorize": lambda stage, axis: stage.vectorize(axis),
    "parallel": lambda stage, axis: stage.parallel(axis),
    "pragma": lambda stage, axis: stage.pragma(axis, "auto_unroll_max_step", 2),
    "bind": lambda stage, axis: stage.bind(axis, te.thread_axis("threadIdx.x")),
    "storage_align": lambda stage, axis: stage.storage_align(axis, 4, 1),
}


@pytest.mark.parametrize("name", INLINED)
def test_steps_of_an_inlined_stage_wait_for_it(name: str) -> None:
    s, A, B, C = chain()
    s[B].compute_inline()
    before = loops(s, [A, C])
    with pytest.warns(UserWarning, match=f"{name} has no effect: stage 'B' is inlined"):
        INLINED[name](s[B], B.op.axis[0])
    assert loops(s, [A, C]) == before
    same = te.create_schedule(C.op)
    INLINED[name](same[B], B.op.axis[0])
    s[B].compute_root()
    assert loops(s, [A, C]) == loops(same, [A, C])


def test_an_inlined_stage_that_is_split_runs() -> None:
    s, A, B, C = chain()
    s[B].compute_inline()
    with pytest.warns(UserWarning, match="split has no effect"):
        s[B].split(B.op.axis[0], factor=5)
    given = np.arange(24, dtype="float32")
    np.testing.assert_array_equal(result(tw.build(s, [A, C], "llvm"), [given], (24,), "float32"), twice(given))


def test_pragmas_of_other_compilers() -> None:
    s, A, B = matrix()
    before = loops(s, [A, B])
    with pytest.warns(UserWarning, match="pragma has no effect: nothing reads 'unrol', of axis 'i'.* known are unroll"):
        s[B].pragma(B.op.axis[0], "unrol", 16)
    assert loops(s, [A, B]) == before


@pytest.mark.parametrize("name", ["unroll", "vectorize"])
def test_pragmas_that_are_primitives(name: str) -> None:
    (s, A, B), same = matrix(), matrix()
    s[B].pragma(B.op.axis[1], name)
    getattr(same[0][same[2]], name)(same[2].op.axis[1])
    assert loops(s, [A, B]) == loops(same[0], [same[1], same[2]])
    given = np.arange(96, dtype="float32").reshape(8, 12)
    np.testing.assert_array_equal(result(tw.build(s, [A, B], "llvm"), [given], (8, 12), "float32"), plus_one(given))


@pytest.mark.parametrize("target", ["llvm", pytest.param("opencl", marks=pytest.mark.opencl)])
def test_the_loop_of_a_scan_is_unrolled(target: str) -> None:
    s, X, (first, step, total) = running()
    tx = te.thread_axis((0, 16), "threadIdx.x")
    if target != "llvm":
        s[first].bind(first.op.axis[1], tx)
        s[step].bind(step.op.axis[1], tx)
        s[total].env_threads([tx])
    s[total].pragma(total.op.scan_axis, "auto_unroll_max_step", 2)
    s[total].unroll(total.op.scan_axis)
    assert "for total_idx" not in loops(s, [X, total])
    given = np.random.default_rng(0).integers(-4, 5, (5, 16)).astype("float32")
    found = result(tw.build(s, [X, total], target), [given], (5, 16), "float32")
    np.testing.assert_array_equal(found, given.cumsum(0))
