"""Products with numbers in fixed point, against integers of Python."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tests.errors.refused import refused
from tilewright import te, tir
from tilewright.expr.nodes import Expr

VALUES = [0, 1, -1, 7, -7, 1000, -1001, 123_456_789, -123_456_789, 2**30 - 1, -(2**30)]
CASES = [(2**30, 31, 3), (2**30, 31, 1), (2**30, 31, -2), (1_395_864_371, 31, -3), (1_288_490_189, 31, 1), (77, 4, 0)]


def rounded(x: int, y: int, q: int, s: int) -> int:
    left, total = max(s, 0), max(-s, 0) + q
    value = ((x << left) * y + (1 << (total - 1))) >> total
    return (value + 2**31) % 2**32 - 2**31


def run(value: object) -> np.ndarray:
    """What a function of x makes of each of the values, on the processor."""
    A = te.placeholder((len(VALUES),), "int32", name="A")
    B = te.compute(A.shape, lambda i: value(A[i]), name="B")  # type: ignore[operator]
    out = tw.nd.array(np.zeros(len(VALUES), "int32"))
    tw.build(te.create_schedule(B.op), [A, B], "llvm")(tw.nd.array(np.array(VALUES, "int32")), out)
    return out.numpy()


@pytest.mark.parametrize(("y", "q", "s"), CASES)
def test_products_are_rounded_to_the_nearest(y: int, q: int, s: int) -> None:
    found = run(lambda x: tir.q_multiply_shift(x, tir.const(y, "int32"), q, s))
    assert found.tolist() == [rounded(x, y, q, s) for x in VALUES]


@pytest.mark.parametrize(("left", "right"), [(0, 0), (3, 0), (0, 5), (2, 4)])
def test_shifts_of_an_axis(left: int, right: int) -> None:
    def value(x: Expr) -> Expr:
        return tir.q_multiply_shift_per_axis(x, 1_395_864_371, left, right, 31, left > 0, right > 0)

    def exact(x: int) -> int:
        wide = ((x << left) * 1_395_864_371 + (1 << (30 + right))) >> (31 + right)
        return (wide + 2**31) % 2**32 - 2**31

    assert run(value).tolist() == [exact(x) for x in VALUES]


def test_other_types_are_refused() -> None:
    with refused("q_multiply_shift", "y = ", "of type float32", fix="int32"):
        tir.q_multiply_shift(te.var("x"), te.var("y", "float32"), 31, 1)
