"""Wrong uses of te.sum, te.min, te.max and one's own reducers: one test a message."""

from __future__ import annotations

from typing import Any

import pytest

from tests.errors.refused import refused
from tilewright import te

A = te.placeholder((8,), name="A")
B = te.compute((8,), lambda i: A[i], name="B")
k = te.reduce_axis((0, 8), name="k")
own = te.comm_reducer(lambda x, y: x + y, lambda t: te.const(0, t), name="own")
every = pytest.mark.parametrize("reducer", [te.sum, te.min, te.max, own])


@every
@pytest.mark.parametrize("options", [{"where": A[0] > 0}, {"init": 0.0}])
def test_a_condition_for_values(reducer: Any, options: dict[str, Any]) -> None:
    with refused(reducer.__name__, "are for reductions, but 2 values are to be combined: (A[0], A[1])", fix="axis=k"):
        reducer(A[0], A[1], **options)


@every
def test_neither_axes_nor_values(reducer: Any) -> None:
    with refused(reducer.__name__, "neither an axis nor a second value", fix=f"{reducer.__name__}(a, b)"):
        reducer(A[k])
    with refused(reducer.__name__, "neither an axis nor a second value", fix="axis=k"):
        reducer(A[k], where=k < 3)


@every
def test_axes_and_values(reducer: Any) -> None:
    with refused(reducer.__name__, "both values and axis=", fix="axis=k"):
        reducer(A[k], A[0], axis=k)


@every
@pytest.mark.parametrize("axis", [3, "k", A[1], B.op.axis[0], te.thread_axis("threadIdx.x"), {k}, [A[1]]])
def test_what_is_no_axis(reducer: Any, axis: Any) -> None:
    with refused(reducer.__name__, "is not a reduction axis", fix="te.reduce_axis"):
        reducer(A[k], axis=axis)


def test_too_much_for_a_reduction() -> None:
    with refused("max", "is given [5] as well", fix="axis=k, where=..., init=..."):
        te.max(A[k], k, k < 3, 0.0, 5)
    with refused("max", "where is given twice", fix="once"):
        te.max(A[k], k, k < 3, where=k < 4)


@pytest.mark.parametrize("given", [[A[0], A[1]], (A[k], A[k]), (A[i] for i in range(3))])
def test_several_values_as_one(given: Any) -> None:
    with refused("sum", "but it reduces one", fix="te.sum(*values)"):
        te.sum(given, axis=k)


@pytest.mark.parametrize("given", [A[k] > 0, "x"])
def test_what_is_no_number(given: Any) -> None:
    with refused("max", "is not a number", fix='.astype("int32")'):
        te.max(given, axis=k)


def test_a_start_of_another_type() -> None:
    with refused("sum", "init, `T.float32(0.5)`, has type float32, but values of type int32", fix='.astype("int32")'):
        te.sum(A[k].astype("int32"), axis=k, init=0.5)


def test_a_start_that_changes_on_the_way() -> None:
    with refused("sum", "init, `A[k]`, uses the reduction axis 'k'", fix="a number"):
        te.sum(A[k], axis=k, init=A[k])


def test_a_reducer_without_a_name() -> None:
    with refused("comm_reducer", "the name of the reducer is 3", fix='name="both"'):
        te.comm_reducer(lambda x, y: x + y, lambda t: te.const(0, t), name=3)  # type: ignore[arg-type]
