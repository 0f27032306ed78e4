"""tir.trace: functions that see the values of expressions, and change them."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tests.errors.refused import refused
from tilewright import te, tir
from tilewright.core.errors import UserError


@pytest.fixture
def seen() -> list[tuple[float, ...]]:
    found: list[tuple[float, ...]] = []
    tw.register_func("tests.doubled", lambda *values: (found.append(values), values[-1] * 2)[1], override=True)
    return found


@pytest.mark.parametrize("dtype", ["int32", "float32", "float64"])
def test_what_a_function_returns_is_computed_with(seen: list[tuple[float, ...]], dtype: str) -> None:
    A, B = te.placeholder((3,), dtype, name="A"), te.placeholder((3,), dtype, name="B")
    C = te.compute((3,), lambda i: tir.trace([i, A[i]], "tests.doubled") + te.trace([B[i]], "tests.doubled"), name="C")
    assert C.dtype == dtype
    a, b, c = np.array([1, 2, 3], dtype), np.array([10, 20, 30], dtype), tw.nd.empty((3,), dtype)
    tw.build(te.create_schedule(C.op), [A, B, C], "llvm")(tw.nd.array(a), tw.nd.array(b), c)
    assert list(c.numpy()) == [22, 44, 66]
    assert sorted(seen, key=len) == [(10,), (20,), (30,), (0, 1), (1, 2), (2, 3)]


def test_a_function_that_returns_nothing_changes_nothing() -> None:
    tw.register_func("tests.silent", lambda *values: None, override=True)
    A = te.placeholder((2,), "int64", name="A")
    B = te.compute((2,), lambda i: tir.trace([i, A[i]], "tests.silent") + 1, name="B")
    b = tw.nd.empty((2,), "int64")
    tw.build(te.create_schedule(B.op), [A, B], "llvm")(tw.nd.array(np.array([5, 6])), b)
    assert list(b.numpy()) == [6, 7]
    C = te.compute((2,), lambda i: tir.trace([A[i]], "tests.nobody"), name="C")
    with pytest.raises(UserError, match="is not registered"):
        tw.build(te.create_schedule(C.op), [A, C], "llvm")(tw.nd.array(np.array([5, 6])), b)


def test_values_are_printed_by_default(capsys: pytest.CaptureFixture[str]) -> None:
    A = te.placeholder((2,), "int32", name="A")
    B = te.compute((2,), lambda i: tir.trace([i, A[i]]), name="B")
    b = tw.nd.empty((2,), "int32")
    tw.build(te.create_schedule(B.op), [A, B], "llvm")(tw.nd.array(np.array([5, 6], "int32")), b)
    assert capsys.readouterr().out == "0 5\n1 6\n"
    assert list(b.numpy()) == [5, 6]


def test_what_is_not_traced() -> None:
    with refused("trace", "the values are 3", fix='tir.trace([A[i]], "my.function")'):
        tir.trace(3)
    with refused("trace", "the function is given as 3", fix="register_func"):
        tir.trace([1], 3)  # type: ignore[arg-type]
