"""What te.sum, te.min, te.max and one's own reducers make of the ways in which they are called."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewright import te
from tilewright.tensor.reference import reference
from tilewright.tensor.tensor import Tensor

A = te.placeholder((3, 8), name="A")
VALUES = np.random.default_rng(0).integers(-9, 9, (3, 8)).astype("float32")
k = te.reduce_axis((0, 8), name="k")
own = te.comm_reducer(lambda x, y: x + y, lambda t: te.const(0, t), name="own")
BOTH = pytest.mark.parametrize(
    ("reducer", "theirs"), [(te.sum, np.add), (te.min, np.minimum), (te.max, np.maximum), (own, np.add)]
)


def computed(made: Tensor) -> np.ndarray:
    (found,) = reference([made], {A: VALUES})
    return found


@BOTH
def test_values_are_combined(reducer: Any, theirs: Any) -> None:
    two = te.compute((3,), lambda i: reducer(A[i, 0], A[i, 1]))
    np.testing.assert_array_equal(computed(two), theirs(VALUES[:, 0], VALUES[:, 1]))
    five = te.compute((3,), lambda i: reducer(*(A[i, j] for j in range(5))))
    np.testing.assert_array_equal(computed(five), theirs.reduce(VALUES[:, :5], axis=1))


@BOTH
@pytest.mark.parametrize("axis", [k, [k], (k,)])
def test_axes_are_given_by_name_or_in_their_place(reducer: Any, theirs: Any, axis: Any) -> None:
    expected = theirs.reduce(VALUES, axis=1)
    np.testing.assert_array_equal(computed(te.compute((3,), lambda i: reducer(A[i, k], axis=axis))), expected)
    np.testing.assert_array_equal(computed(te.compute((3,), lambda i: reducer(A[i, k], axis))), expected)


@BOTH
def test_a_condition_and_a_start(reducer: Any, theirs: Any) -> None:
    expected = theirs(theirs.reduce(VALUES[:, :3], axis=1), np.float32(2))
    by_name = te.compute((3,), lambda i: reducer(A[i, k], axis=k, where=k < 3, init=2))
    in_place = te.compute((3,), lambda i: reducer(A[i, k], k, k < 3, 2))
    np.testing.assert_array_equal(computed(by_name), expected)
    np.testing.assert_array_equal(computed(in_place), expected)


def test_a_list_of_one_value_is_that_value() -> None:
    made = te.compute((3,), lambda i: te.sum([A[i, k]], axis=k))
    np.testing.assert_array_equal(computed(made), VALUES.sum(axis=1))


def test_an_axis_as_a_value() -> None:
    made = te.compute((3,), lambda i: te.max(A[i, 0], i))
    np.testing.assert_array_equal(computed(made), np.maximum(VALUES[:, 0], np.arange(3)))
