"""Wrong uses of expressions and tensors: one test a message."""

from __future__ import annotations

import pytest

from tests.errors.refused import refused
from tilewright import te, tir

A = te.placeholder((16, 24), name="A")
I = te.placeholder((16,), "int32", "I")
i, j = te.var("i"), te.var("j")
k = te.reduce_axis((0, 24), "k")

# Expressions.


def test_and_of_two_conditions() -> None:
    with refused("", "the value of `i < 4` is not known", "`and`", fix="te.all(...)"):
        i < 4 and j < 4


def test_if_on_a_condition() -> None:
    with refused(
        "", "the value of `A[i, j] > T.float32(0)` is not known", "`if`", fix="te.if_then_else(condition, a, b)"
    ):
        if A[i, j] > 0.0:
            pass


def test_a_chained_comparison() -> None:
    with refused("", "the value of `i >= 0` is not known", "chained comparisons", fix="te.all(...)"):
        0 <= i < 4


def test_not_of_a_condition() -> None:
    with refused("", "the value of `i < 4` is not known", "`not`", fix="tir.Not(...)"):
        not i < 4


def test_a_condition_that_is_a_number() -> None:
    with refused("if_then_else", "`i` has type int32, but a condition has type bool", fix="i != 0"):
        tir.if_then_else(i, 1, 2)


def test_a_value_that_is_no_number() -> None:
    with refused("", "cannot use (1, 2) of type tuple in an expression", fix="A[i, j]"):
        i * (1, 2)


def test_a_whole_tensor_in_an_expression() -> None:
    with refused("", "cannot use Tensor(shape=[16, 24], dtype=float32, name=A)", fix="A[i, j]"):
        i // A


def test_an_unknown_dtype() -> None:
    with refused("", "unknown data type 'float33'", fix="float16, bfloat16, float32"):
        te.placeholder((4,), "float33", "A")


def test_a_constant_out_of_range() -> None:
    with refused("const", "300 does not fit int8 (-128 to 127)", fix="wider dtype"):
        tir.const(300, "int8")


def test_a_constant_that_is_not_whole() -> None:
    with refused("const", "2.5 is not a whole number", "int32", fix="give a whole number"):
        tir.const(2.5, "int32")


@pytest.mark.parametrize("name", ["floordiv", "floormod", "truncdiv", "truncmod"])
def test_division_by_zero(name: str) -> None:
    with refused(name, f"division by zero in `i {name} 0`", fix="te.if_then_else"):
        getattr(tir, name)(i, 0)


def test_division_of_constants_by_zero() -> None:
    with refused("floordiv", "division by zero in `7 floordiv 0`", fix="te.if_then_else"):
        tir.const(7) // 0


def test_an_integer_function_of_a_float() -> None:
    with refused("popcount", "needs an integer, but `A[i, j]` has type float32", fix='.astype("int32")'):
        tir.popcount(A[i, j])


def test_bits_of_a_float() -> None:
    with refused("bitwise_and", "needs integers, but `A[i, j]` has type float32", fix='.astype("int32")'):
        A[i, j] & 1


def test_all_of_nothing() -> None:
    with refused("all", "needs at least one condition", fix="te.all(i < n, j < m)"):
        te.all()


# Tensors.


def test_a_tensor_as_a_list() -> None:
    with refused("", "tensor 'A' is used as a list of its elements", fix="A[i, j]"):
        list(A)


def test_the_wrong_number_of_indices() -> None:
    with refused("", "tensor 'A' has 2 dimensions [16, 24], but is indexed with 3: A[i, j, 0]", fix="A[i, j]"):
        A[i, j, 0]


def test_too_few_indices_in_an_expression() -> None:
    with refused("", "tensor 'A' has 2 dimensions [16, 24], but is indexed with 1: A[i]", fix="A[i, j]"):
        A[i] + 1.0


def test_a_slice() -> None:
    with refused("", "tensor 'A' is indexed with the slice slice(0, 4, None)", fix="an index for every dimension"):
        A[i, 0:4] + 1.0
    with refused("", "tensor 'A' is indexed with the slice slice(0, 4, None)", fix="an index for every dimension"):
        A[i, 0:4][0]


def test_an_index_that_is_no_integer() -> None:
    with refused("", "tensor 'A' is indexed with `A[i, j]` of type float32", fix='.astype("int32")'):
        A[i, A[i, j]]


def test_a_shape_that_is_no_number() -> None:
    with refused("placeholder", "2.5 is not an extent for a dimension of 'P' (shape (4, 2.5))", fix="whole numbers"):
        te.placeholder((4, 2.5), name="P")


def test_a_missing_extent() -> None:
    with refused(
        "placeholder", "None is not an extent for a dimension of 'P' (shape (4, None))", fix="integer variables"
    ):
        te.placeholder((4, None), name="P")


def test_a_reduction_axis_without_a_range() -> None:
    with refused("reduce_axis", "None is not a range for 'r'", fix="(begin, end)"):
        te.reduce_axis(None, "r")


def test_a_range_that_ends_before_it_begins() -> None:
    with refused("reduce_axis", "the range (7, 2) of 'r' ends before it begins", fix="begin <= end"):
        te.reduce_axis((7, 2), "r")


def test_a_range_of_three() -> None:
    with refused("reduce_axis", "(0, 7, 2) is not a range for 'r'", fix="(begin, end)"):
        te.reduce_axis((0, 7, 2), "r")


def test_a_range_that_is_not_whole() -> None:
    with refused("reduce_axis", "(0, 2.5) is not a range for 'r'", fix="whole numbers"):
        te.reduce_axis((0, 2.5), "r")


def test_a_function_of_too_few_axes() -> None:
    with refused("compute", "shape of 'B' has 2 dimensions, but the function takes 1 axes ['x']", fix="one parameter"):
        te.compute((16, 24), lambda x: A[x, 0], name="B")


def test_a_function_that_returns_nothing() -> None:
    with refused("compute", "the function of 'B' returns None", fix="return an expression"):
        te.compute((16,), lambda x: None, name="B")


def test_a_function_that_returns_text() -> None:
    with refused("compute", "the function of 'B' returns 'x'", fix="return an expression"):
        te.compute((16,), lambda x: "x", name="B")


def test_no_function_at_all() -> None:
    with refused("compute", "the value of 'B' is given as A[i, j], which is not a function", fix="lambda i"):
        te.compute((16,), A[i, j], name="B")  # type: ignore[arg-type]


def test_reducing_over_a_data_axis() -> None:
    with refused("sum", "axis 'x' is not a reduction axis", fix="te.reduce_axis((0, n)"):
        te.compute((16,), lambda x: te.sum(A[x, 0], axis=x), name="B")


def test_reducing_over_one_axis_twice() -> None:
    with refused("max", "needs different reduction axes, but got ['k', 'k']", fix="axis=k"):
        te.max(A[i, k], axis=[k, k])


def test_a_reduction_inside_a_larger_expression() -> None:
    with refused(
        "compute", "'B' uses the reduction over ['k'] inside a larger expression", fix="te.compute of its own"
    ):
        te.compute((16,), lambda x: te.sum(A[x, k], axis=k) + 1.0, name="B")


def test_a_reduction_of_a_reduction() -> None:
    r = te.reduce_axis((0, 4), "r")
    with refused(
        "compute", "'B' uses the reduction over ['k'] inside a larger expression", fix="te.compute of its own"
    ):
        te.compute((16,), lambda x: te.sum(te.sum(A[x, k], axis=k), axis=r), name="B")


def test_a_reduction_beside_a_plain_value() -> None:
    with refused("compute", "the outputs of 'B' mix reductions and plain values", fix="a compute of its own"):
        te.compute((16,), lambda x: (te.sum(A[x, k], axis=k), A[x, 0]), name="B")


def test_a_reducer_whose_parts_do_not_match() -> None:
    odd = te.comm_reducer(lambda x, y: (x[0] + y[0],), lambda a, b: (0, 0), name="odd")
    with refused(
        "comm_reducer", "odd combines 2 values, but its combiner returns 1 and its identity 2", fix="2 values"
    ):
        te.compute((16,), lambda x: odd((A[x, k], A[x, k]), axis=k), name="B")


# Functions of bits.


def test_bits_of_another_size() -> None:
    with refused("reinterpret", "`A[i, j]`, of type float32, has no bits of type int16", fix="number type of 32 bits"):
        tir.reinterpret("int16", A[i, j])


def test_bits_of_a_condition() -> None:
    with refused("reinterpret", "`i < 4`, of type bool, has no bits of type int8", fix="convert it to a number first"):
        tir.reinterpret("int8", i < 4)


def test_bits_of_other_lanes() -> None:
    with refused("reinterpret", "`i` has 1 lane, but int32x4 has 4", fix='"int32"'):
        tir.reinterpret("int32x4", i)


def test_a_quotient_of_floats_rounded_up() -> None:
    with refused("ceildiv", "needs integers, but `A[i, j]` has type float32", fix="te.ceil(a / b)"):
        tir.ceildiv(A[i, j], 2.0)


def test_the_infinity_of_an_integer_type() -> None:
    with refused("infinity", "int32 has no infinity", fix="te.max_value"):
        tir.infinity("int32")
