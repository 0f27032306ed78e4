"""What works on numbers and NumPy arrays, tried on expressions and tensors: one row a message."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.errors.refused import refused
from tilewright import te, tir

A = te.placeholder((16, 24), name="A")
Z = te.placeholder((), name="Z")
i, j = te.var("i"), te.var("j")
k = te.reduce_axis((0, 24), "k")
x = A[i, j]

Row = tuple[Callable[[], Any], str, str]


def check(attempt: Callable[[], Any], says: str, fix: str, primitive: str = "") -> None:
    with refused(primitive, says, fix=fix):
        attempt()


UNKNOWN: list[Row] = [
    (lambda: x**2, "`A[i, j] ** 2`: expressions have no **", "te.power(x, 2)"),
    (lambda: 2**i, "`2 ** i`: expressions have no **", "1 << i"),
    (lambda: x @ x, "`A[i, j] @ A[i, j]`: expressions have no @", "te.sum("),
    (lambda: np.ones(3) @ x, "the value of `A[i, j]` is not known", "te.sum("),
    (lambda: divmod(i, 2), "`divmod(i, 2)`", "a // b and a % b"),
    (lambda: divmod(2, i), "`divmod(2, i)`", "a // b and a % b"),
    (lambda: abs(x), "so abs() cannot use it", "te.abs(x)"),
    (lambda: round(x), "so round() cannot use it", "te.round(x)"),
    (lambda: math.floor(x), "so math.floor() cannot use it", "te.floor(x)"),
    (lambda: math.ceil(i), "so math.ceil() cannot use it", "te.ceil(x)"),
    (lambda: math.trunc(x), "so math.trunc() cannot use it", "te.trunc(x)"),
    (lambda: math.sqrt(x), "math.sqrt() and its kin, cannot use it", "te.sqrt(x)"),
    (lambda: float(x), "the value of `A[i, j]` is not known", "te.sqrt(x)"),
    (lambda: int(i), "so int() cannot use it", '.astype("int32")'),
    (lambda: range(i), "the value of `i` is not known", "te.reduce_axis"),
    (lambda: [1, 2][k], "the value of `k` is not known", "te.placeholder"),  # type: ignore[call-overload]
    (lambda: list(x), "`A[i, j]` is one value, which cannot be iterated", "te.sum("),
    (lambda: sum(A[i, k]), "`A[i, k]` is one value, which cannot be iterated", "te.sum("),
    (lambda: len(x), "`A[i, j]` is one value, so it has no len()", "A.ndim"),
    (lambda: A[i][j][0], "`A[i, j]` is one value, so it cannot be indexed with [0]", "A.ndim"),
    (lambda: max(x, 0.0), "the value of `A[i, j] < T.float32(0)` is not known", "te.max(a, b)"),
    (lambda: bool(x), "the value of `A[i, j]` is not known", "te.if_then_else"),
    (lambda: np.exp(x), "so np.exp() cannot use it", "te.exp(...)"),
    (lambda: np.arctan2(x, x), "so np.arctan2() cannot use it", "te.atan2(...)"),
    (lambda: np.maximum(x, 0), "so np.maximum() cannot use it", "te.max(a, b)"),
    (lambda: np.logical_and(i < 3, j < 3), "so np.logical_and() cannot use it", "te.all(a, b)"),
    (lambda: np.add.reduce(x), "so np.add() cannot use it", "functions of te"),
    (lambda: np.where(x > 0, 1, 0), "so np.where() cannot use it", "te.if_then_else"),
    (lambda: np.dot(x, x), "so np.dot() cannot use it", "te.sum("),
    (lambda: np.asarray(x, "float32"), "so a NumPy array of float32 cannot use it", "te.placeholder"),
]


@pytest.mark.parametrize("row", UNKNOWN, ids=lambda row: row[1][:40])
def test_a_question_for_a_value_that_is_not_known(row: Row) -> None:
    check(*row)


WHOLE: list[Row] = [
    (lambda: A % A, "tensor 'A' of shape [16, 24] is used whole, with %", "te.compute(A.shape, lambda i, j: A[i, j]"),
    (lambda: A + "x", "with +", "A[i, j]"),
    (lambda: 1.0 // A, "with //", "A[i, j]"),
    (lambda: A**2, "with **", "A[i, j]"),
    (lambda: A < 1, "with <", "A[i, j]"),
    (lambda: -A, "with -", "A[i, j]"),
    (lambda: abs(A), "with abs()", "A[i, j]"),
    (lambda: float(A), "with float()", "A[i, j]"),
    (lambda: 1 if A else 0, "with `if`, `and`, `or` or `not`", "A[i, j]"),
    (lambda: A @ A, "with @", "te.sum(A[i, k] * B[k, j], axis=k)"),
    (lambda: np.ones((2, 2)) @ A, "with np.matmul()", "A[i, j]"),
    (lambda: np.exp(A), "with np.exp()", "A[i, j]"),
    (lambda: np.concatenate([A, A]), "with np.concatenate()", "A[i, j]"),
    (lambda: np.asarray(A), "as a NumPy array", "build the program"),
    (lambda: Z**2, "tensor 'Z' of shape [] is used whole, with **", "Z()"),
    (lambda: te.exp(A + 1), "cannot use Tensor(shape=[16, 24], dtype=float32, name=T_add)", "A[i, j]"),
    (lambda: len(A), "len() of tensor 'A', of shape [16, 24]", "A.ndim"),
    (lambda: A.__setitem__((0, 0), 1), "elements of tensor 'A' are assigned to", "te.if_then_else(i == 0"),
    (lambda: A[0].__setitem__(0, 1), "elements of tensor 'A' are assigned to", "te.compute"),
    (lambda: A.__delitem__(0), "elements of tensor 'A' are assigned to or deleted", "te.compute"),
    (lambda: A.numpy(), "a tensor has no 'numpy': it is a declaration", "b.numpy()"),
    (lambda: A.T, "a tensor has no 'T'", "A[j, i]"),
    (lambda: A.reshape(3), "a tensor has no 'reshape'", "A[i // m, i % m]"),
    (lambda: A.split, "a tensor has no 'split'", "te.create_schedule"),
]


@pytest.mark.parametrize("row", WHOLE, ids=lambda row: row[1][:40])
def test_a_whole_tensor_where_an_element_belongs(row: Row) -> None:
    check(*row)


def test_a_tensor_has_only_what_it_has() -> None:
    assert not hasattr(A, "numpy")
    with pytest.raises(AttributeError, match="'Tensor' object has no attribute 'nmae'"):
        A.nmae


BRANCHES: list[Callable[..., Any]] = [
    lambda x, y: 1.0 if x == y else 0.0,
    lambda x, y: 1.0 if x == 3 else 0.0,
    lambda x, y: 1.0 if x + y != 3 else 0.0,
    lambda x, y: 1.0 if x in (1, 2) else 0.0,
    lambda x, y: 1.0 if x else 0.0,
]


@pytest.mark.parametrize("function", BRANCHES)
def test_python_branches_on_an_axis(function: Callable[..., Any]) -> None:
    with refused("", "is not known while the program is built", fix="te.if_then_else"):
        te.compute((4, 4), function)


def test_axes_compare_by_value_in_expressions() -> None:
    B = te.compute((4, 4), lambda x, y: te.if_then_else(x == y, 1.0, 0.0))
    assert str(B.op.body[0]) == "T.if_then_else(x == y, T.float32(1), T.float32(0))"
    r = te.reduce_axis((0, 24), "r")
    D = te.compute((4,), lambda x: te.sum(te.if_then_else(k != r, 1, 0), axis=[k, r]))
    assert str(D.op.body[0].source[0]) == "T.if_then_else(k != r, 1, 0)"
    assert k in (r, k)
    assert (k == r) is False


def test_numbers_of_numpy_beside_expressions() -> None:
    assert str(np.float32(2) * x) == "T.float32(2) * A[i, j]"
    assert str(np.int64(2) + i) == "2 + i"
    assert str(np.float64(2) < x) == "T.float32(2) < A[i, j]"
    assert [str(e) for e in np.array([1.0, 2.0]) * x] == ["A[i, j]", "T.float32(2) * A[i, j]"]
    assert str(np.sum([x, x])) == "A[i, j] + A[i, j]"


VALUES: list[tuple[Callable[[], Any], str, str, str]] = [
    (lambda: tir.const(None), "None, of type NoneType, cannot be a constant", "Python or NumPy number", "const"),
    (lambda: tir.const("x", "int32"), "'x', of type str, cannot be a constant", "number", "const"),
    (lambda: tir.const([1], "int32"), "[1], of type list, cannot be a constant", "number", "const"),
    (lambda: tir.const(float("nan"), "int32"), "nan is not a whole number", "whole number", "const"),
    (lambda: te.exp("x"), "of type handle cannot be converted to float32", "give a number", "cast"),
    (lambda: te.floor("x"), "which is not a number", "give a number", "floor"),
    (lambda: te.isnan("x"), "which is not a number", "give a number", "isnan"),
    (lambda: te.abs("x"), "which is not a number", "give a number", "abs"),
    (lambda: te.if_then_else(i < 3, "a", "b"), "which are not numbers", "two numbers", "if_then_else"),
    (lambda: te.any(), "needs at least one condition", "te.any(i < n, j < m)", "any"),
    (lambda: te.all([i < 3, j < 3]), "the list [i < 3, j < 3]", "te.all(*conditions)", "all"),
    (lambda: te.sum((A[i, k], A[k, j]), axis=k), "several values are given", "te.comm_reducer", "sum"),
    (lambda: x.astype(3), "unknown data type 3", "float16", ""),
    (lambda: x.astype(None), "unknown data type None", "float16", ""),
    (lambda: te.placeholder((4,), [1]), "unknown data type [1]", "float16", ""),
    (lambda: te.placeholder((4,), "handle"), "would be of type handle", "numeric dtype", "placeholder"),
    (lambda: te.placeholder((4,), name=3), "the name of the tensor is 3", 'name="A"', "placeholder"),
    (lambda: te.compute((4,), lambda i: 1, name=None), "the name of the tensor is None", 'name="A"', "compute"),
    (lambda: te.compute((4,), lambda i: 1, attrs=3), "attrs=3 of 'compute' is not a mapping", "key", "compute"),
    (lambda: te.compute((4,), lambda *i: 1, varargs_names=3), "varargs_names=3", '["i", "j"]', "compute"),
    (lambda: te.var(3), "the name of a variable is 3", 'te.var("n")', "var"),
    (lambda: te.size_var("n", minimum="x"), "minimum='x' of 'n' is not a whole number", "an int", "size_var"),
    (lambda: te.var("n", multiple_of=0), "multiple_of=0 of 'n' is less than 1", ">= 1", "var"),
    (lambda: te.reduce_axis((0, 5), 3), "the name of the axis is 3", 'name="k"', "reduce_axis"),
    (lambda: te.thread_axis((4, 0), "threadIdx.x"), "(4, 0)", "begin <= end", "thread_axis"),
    (lambda: te.thread_axis((2, 18), "threadIdx.x"), "does not begin at 0", "(0, n)", "thread_axis"),
    (lambda: te.max(x), "neither an axis nor a second value", "axis=k", "max"),
    (lambda: te.sum(A[i, k], axis=k, init=[1, 2]), "init=[1, 2] holds 2 values, but 1", "give 1 value", "sum"),
    (lambda: tir.decl_buffer((2.5,), name="b"), "2.5 is not an extent of buffer 'b'", "whole numbers", "decl_buffer"),
    (lambda: tir.decl_buffer((-3,)), "-3 is not an extent", "at least 0", "decl_buffer"),
    (lambda: tir.decl_buffer((3,), offset_factor="x"), "offset_factor='x'", "an int", "decl_buffer"),
]


@pytest.mark.parametrize("row", VALUES, ids=lambda row: row[1][:40])
def test_a_value_of_the_wrong_kind(row: tuple[Callable[[], Any], str, str, str]) -> None:
    check(*row)


REDUCERS: list[tuple[Any, Any, str]] = [
    (3, lambda t: 0, "fcombine of the reducer 'r' is 3, which cannot be called with 2"),
    (lambda x: x, lambda t: 0, "fcombine of the reducer 'r' is <function"),
    (lambda x, y: x, lambda: 0, "fidentity of the reducer 'r' is <function"),
    (lambda x, y: x > y, lambda t: 0, "returns `x > y` of type bool for values of type float32"),
]


@pytest.mark.parametrize("row", REDUCERS, ids=lambda row: row[2][:30])
def test_a_reducer_that_cannot_be(row: tuple[Any, Any, str]) -> None:
    with refused("comm_reducer", row[2]):
        te.comm_reducer(row[0], row[1], name="r")(A[i, k], axis=k)
