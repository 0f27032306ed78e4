"""Intermediate results that the caller keeps, by giving them among the arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright
from tilewright import te
from tilewright.core.errors import UserError
from tilewright.loops.interpret import interpret


def padded_sums() -> tuple[Any, ...]:
    """Row sums T (and V, their doubles), padded to 9 elements: the last element reads none of them."""
    A, k = te.placeholder((3, 8), name="A"), te.reduce_axis((0, 3), "k")
    both = te.comm_reducer(lambda x, y: (x[0] + y[0], x[1] + y[1]), lambda a, b: (0.0, 0.0))
    T, V = te.compute((8,), lambda i: both((A[k, i], A[k, i] * 2.0), axis=k), "T")
    B = te.compute((9,), lambda i: te.if_then_else(i < 8, V[i], 0.0), "B")
    s = te.create_schedule(B.op)
    s[T].compute_at(s[B], B.op.axis[0])
    return s, A, T, V, B


@pytest.mark.parametrize(("kept", "scope"), [((), ""), ((0,), "local"), ((1,), ""), ((0, 1), "local")])
def test_a_kept_result_is_stored_within_its_bounds(kept: tuple[int, ...], scope: str) -> None:
    """The loop of the padding goes beyond them; what is not kept lies in storage of the loop's own."""
    s, A, T, V, B = padded_sums()
    if scope:
        s[T].set_scope(scope)  # on a CPU, the same memory
    results = [(T, V)[k] for k in kept]
    (function,) = tilewright.lower(s, [A, *results, B]).functions
    a = np.random.default_rng(1).integers(-3, 4, (3, 8)).astype("float32")
    values = [a, *(np.full(8, np.nan, "float32") for _ in kept), np.full(9, np.nan, "float32")]
    interpret(function, values, races=False, outputs=function.buffers[1:])
    for k, value in zip(kept, values[1:], strict=False):
        np.testing.assert_array_equal(value, a.sum(axis=0) * (k + 1))
    np.testing.assert_array_equal(values[-1], [*(a.sum(axis=0) * 2), 0])


def test_memory_of_a_thread_is_no_argument() -> None:
    s, A, T, V, B = padded_sums()
    s[B].bind(B.op.axis[0], te.thread_axis("threadIdx.x"))
    with pytest.raises(UserError, match="is an argument, which is global memory, but its stage is kept in local"):
        tilewright.lower(s, [A, T, V, B])
