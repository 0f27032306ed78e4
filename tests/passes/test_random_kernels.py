"""Optional passes keep what random hand-written kernels compute, once these have their barriers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from tests.loops.programs import load, loop, store
from tests.loops.random_kernels import SIZE, kernels
from tests.passes.running import finish, run_pass
from tilewright.core.errors import UserError
from tilewright.expr.nodes import Var
from tilewright.loops.interpret import InterpretError, interpret
from tilewright.loops.nodes import Allocate, Function, Launch, Stmt, seq
from tilewright.passes.drop_unread_stores import drop_unread_stores
from tilewright.passes.pass_list import OPTIONAL, Pass
from tilewright.passes.place_barriers import place_barriers
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
    interpret(kernel, [a, b])
    return b


def with_barriers(*steps: Pass) -> Callable[[Function], Function]:
    """What makes a kernel that can run of another one: some steps, then barriers."""

    def made(kernel: Function) -> Function:
        for step in (*steps, place_barriers):
            kernel = run_pass(step, kernel)
        return kernel

    return made


def plainly_finished(kernel: Function) -> Function:
    return finish(kernel, without=[step.__name__ for step in OPTIONAL])


@pytest.mark.parametrize(
    ("made", "plain"),
    [
        pytest.param(with_barriers(drop_unread_stores), with_barriers(), id="drop_unread_stores"),
        pytest.param(with_barriers(share_storage), with_barriers(), id="share_storage"),
        pytest.param(finish, plainly_finished, id="all"),
    ],
)
@settings(max_examples=60, deadline=None)
@given(kernels(), st.sampled_from([True, True, True, False]))
def test_results_stay(
    made: Callable[[Function], Function], plain: Callable[[Function], Function], kernel: Function, whole: bool
) -> None:
    """What passes may reorder has no results to keep: kernels that race are left out."""
    before = filled(kernel) if whole else kernel
    try:
        expected = result(plain(before))
    except (InterpretError, UserError) as why:  # it races, reads what it never wrote, or has no place for a barrier
        event(type(why).__name__)
        return
    event("judged")
    np.testing.assert_array_equal(result(made(before)), expected)
