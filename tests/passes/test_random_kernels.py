"""Passes that drop stores and share storage keep what random hand-written kernels compute."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.loops.programs import load, loop, store
from tests.loops.random_kernels import SIZE, kernels
from tests.passes.running import run_pass
from tilewright.expr.nodes import Var
from tilewright.loops.interpret import InterpretError, interpret
from tilewright.loops.nodes import Allocate, Function, Launch, Stmt, seq
from tilewright.passes.drop_unread_stores import drop_unread_stores
from tilewright.passes.share_storage import share_storage


def filled(kernel: Function) -> Function:
    """The kernel behind loops that fill all of its shared memory."""
    A, launch = kernel.params[0], kernel.body
    assert isinstance(launch, Launch)
    held, body = [], launch.body
    while isinstance(body, Allocate):
        held.append(body.buffer)
        body = body.body
    first: list[Stmt] = []
    for buffer in held:
        at = Var("at")
        first.append(loop(at, SIZE, store(buffer, at, load(A, at))))  # type: ignore[arg-type]
    body = seq(*first, body)
    for buffer in reversed(held):
        body = Allocate(buffer, body)
    return kernel.with_body(launch.with_body(body))


def result(kernel: Function) -> np.ndarray:
    a, b = np.random.default_rng(3).standard_normal(SIZE).astype("float32"), np.zeros(SIZE, "float32")
    interpret(kernel, [a, b], races=False)
    return b


@pytest.mark.parametrize("step", [drop_unread_stores, share_storage])
@settings(max_examples=60, deadline=None)
@given(kernels(), st.booleans())
def test_results_stay(step: Any, kernel: Function, whole: bool) -> None:
    before = filled(kernel) if whole else kernel
    try:
        expected = result(before)
    except InterpretError:  # it reads what it never wrote
        return
    np.testing.assert_array_equal(result(run_pass(step, before)), expected)
