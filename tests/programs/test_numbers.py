"""What programs compute where C and the hardware leave it open: the same on every target, and as NumPy has it."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
import pytest

import tilewright
from tests.programs.harness import FLOATS, INTEGERS, every_target, pointwise, result, spread
from tilewright import te
from tilewright.core.dtype import DType
from tilewright.expr.numerics import convert

ODD = (np.nan, 1, np.nan, np.inf, -np.inf, 0, 3, -2), (1, np.nan, np.nan, np.nan, 2, -np.inf, np.inf, 5)
BEYOND = (
    *(np.nan, np.inf, -np.inf, 0, -0.0, 1.9, -1.9, 127.5, 128, 255.9, 256, -128.9, -129, 32767, 65535, 65536),
    *(2**31 - 1, 2**31, -(2**31), -(2**31) - 300, 2**32, 2**63, -(2**63), 2**64, 1e38, -1e38),
)


@every_target
@pytest.mark.parametrize("dtype", FLOATS)
def test_min_and_max_give_nan_where_an_operand_is_one(target: str, dtype: str) -> None:
    kind = DType(dtype).numpy
    a, b = (np.asarray(values * 2, "float64").astype(kind) for values in ODD)
    for ours, numpys in ((te.max, np.maximum), (te.min, np.minimum)):
        got = result(pointwise(ours, (dtype, dtype), target), (a, b), a.shape, dtype)
        with np.errstate(invalid="ignore"):
            wanted = numpys(a, b)
        np.testing.assert_array_equal(got.astype("float64"), wanted.astype("float64"))


@every_target
@pytest.mark.parametrize("dtype", FLOATS)
def test_relu_shows_a_nan(target: str, dtype: str) -> None:
    x = np.asarray(ODD[0], "float64").astype(DType(dtype).numpy)
    for relu in (lambda v: te.max(v, te.const(0, dtype)), lambda v: te.max(te.const(0, dtype), v)):
        got = result(pointwise(relu, (dtype,), target, len(x)), (x,), x.shape, dtype)
        np.testing.assert_array_equal(got.astype("float64"), np.maximum(x, x.dtype.type(0)).astype("float64"))


@every_target
def test_reductions_to_the_extreme_give_nan_where_there_is_one(target: str) -> None:
    A, k = te.placeholder((4, 5), name="A"), te.reduce_axis((0, 5), "k")
    B = te.compute((4,), lambda i: te.max(A[i, k], axis=k), name="B")
    s = te.create_schedule(B.op)
    spread(s, B, target)
    x = np.arange(20, dtype="float32").reshape(4, 5) - 30
    x[1, 2], x[2, 4], x[3, 0] = np.nan, np.inf, -np.inf
    np.testing.assert_array_equal(result(tilewright.build(s, [A, B], target), (x,), (4,), "float32"), x.max(axis=1))


@functools.cache
def cast_to(dtype: str) -> Callable[..., object]:
    """The cast to a type, one function each, so that it is built once."""
    return lambda value: value.astype(dtype)


@every_target
@pytest.mark.parametrize("source", FLOATS)
def test_floats_beyond_an_integer_type_become_its_end_and_nan_becomes_0(target: str, source: str) -> None:
    with np.errstate(all="ignore"):
        x = np.asarray(BEYOND, "float64").astype(DType(source).numpy)
    for to in INTEGERS:
        got = result(pointwise(cast_to(to), (source,), target), (x,), x.shape, to)
        for value, found, wanted in zip(x, got, convert(x, DType(to)), strict=True):
            exact = float(value)
            limits = np.iinfo(to)
            by_hand = 0 if np.isnan(exact) else limits.max if exact > limits.max else max(exact, limits.min)
            assert found == wanted == int(by_hand), f"{exact} as {to}"


DIVISIONS = {
    te.floordiv: lambda a, b: a // b,
    te.floormod: lambda a, b: a % b,
    te.truncdiv: lambda a, b: np.where(b == 0, 0, (a - np.fmod(a, b)) // np.where(b == 0, 1, b)).astype(a.dtype),
    te.truncmod: np.fmod,
}


@every_target
@pytest.mark.parametrize("dtype", INTEGERS)
def test_divisions_of_every_sign_by_zero_and_of_the_least_integer(target: str, dtype: str) -> None:
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    signs = (-7, -3, -1) if low < 0 else ()
    values = np.array([low, high, 0, 1, 2, 3, 7, 8, *signs], dtype)
    a, b = (grid.ravel() for grid in np.meshgrid(values, values))
    with np.errstate(all="ignore"):
        for ours, numpys in DIVISIONS.items():
            got = result(pointwise(ours, (dtype, dtype), target), (a, b), a.shape, dtype)
            np.testing.assert_array_equal(got, numpys(a, b), err_msg=ours.__name__)
