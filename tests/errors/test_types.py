"""Wrong types: one test a message."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright
from tests.errors.refused import refused
from tilewright import te, tir
from tilewright.runtime.array import array, empty

TYPES = "float16, bfloat16, float32"


class Example:
    """A tensor of each kind."""

    def __init__(self) -> None:
        self.F = te.placeholder((8,), "float32", "F")
        self.I = te.placeholder((8,), "int32", "I")
        self.C = te.placeholder((8,), "bool", "C")


@pytest.fixture
def e() -> Example:
    return Example()


# Names of types.


@pytest.mark.parametrize("name", ["float8", "int7", "complex64", "float32x", ""])
def test_a_tensor_of_a_type_that_is_none(name: str) -> None:
    with refused("", f"unknown data type {name!r}", fix=TYPES):
        te.placeholder((8,), name)


def test_an_array_of_complex_numbers() -> None:
    with refused("array", "the values are complex numbers (complex64)", fix="x.real, x.imag"):
        array(np.zeros(3, "complex64"))


def test_an_array_of_strings() -> None:
    with refused("array", "the values are of type <U3, which are not numbers", fix="give numbers"):
        array(np.array(["one", "two"]))


def test_an_array_of_objects() -> None:
    with refused("array", "the values are of type object, which are not numbers", fix="give numbers"):
        array(np.array([None, 1]))


def test_an_empty_array_of_a_type_that_is_none() -> None:
    with refused("", "unknown data type 'double'", fix=TYPES):
        empty((3,), "double")


def test_a_cast_to_a_type_that_is_none(e: Example) -> None:
    with refused("", "unknown data type 'half'", fix=TYPES):
        e.F[0].astype("half")


def test_the_largest_value_of_a_type_that_is_none() -> None:
    with refused("", "unknown data type 'big'", fix=TYPES):
        te.max_value("big")


# Arithmetic.


def test_adding_conditions(e: Example) -> None:
    with refused("", "`C[0]` is a condition: it has no arithmetic (`+`)", fix=".astype"):
        e.C[0] + e.C[1]


def test_negating_a_condition(e: Example) -> None:
    with refused("", "`C[0]` is a condition: it has no arithmetic (`-`)", fix="te.if_then_else"):
        -e.C[0]


def test_summing_conditions(e: Example) -> None:
    k = te.reduce_axis((0, 8), "k")
    with refused("sum", "`C[k]` of type bool is not a number", fix=".astype"):
        te.sum(e.C[k], axis=k)


def test_adding_a_string(e: Example) -> None:
    with refused("", "cannot combine float32 and handle", fix="strings and pointers"):
        e.F[0] + "x"


def test_comparing_with_a_string(e: Example) -> None:
    with refused("", "cannot combine int32 and handle", fix="strings and pointers"):
        e.I[0] < "x"


def test_adding_nothing(e: Example) -> None:
    with refused("", "cannot use None of type NoneType in an expression", fix="give a number"):
        e.F[0] + None


def test_vectors_of_different_lengths() -> None:
    with refused("", "cannot combine vectors of 4 and 8 lanes (int32x4 and int32x8)", fix="the same number of lanes"):
        tir.const(1, "int32x4") + tir.const(1, "int32x8")


def test_dividing_by_nothing(e: Example) -> None:
    with refused("floordiv", "division by zero in `I[0] floordiv 0`", fix="te.if_then_else(d != 0"):
        e.I[0] // 0


def test_bits_of_a_float(e: Example) -> None:
    with refused("shift_left", "needs integers, but `F[0]` has type float32", fix='.astype("int32")'):
        e.F[0] << 1


def test_the_complement_of_a_float(e: Example) -> None:
    with refused("bitwise_not", "needs an integer, but `F[0]` has type float32", fix='.astype("int32")'):
        ~e.F[0]


def test_leading_zeros_of_a_condition(e: Example) -> None:
    with refused("clz", "needs an integer, but `C[0]` has type bool", fix='.astype("int32")'):
        tir.clz(e.C[0])


# Constants.


def test_a_fraction_as_an_integer() -> None:
    with refused("const", "1.5 is not a whole number, so it cannot be a constant of type int32", fix="float type"):
        tir.const(1.5, "int32")


@pytest.mark.parametrize(
    ("value", "dtype", "span"),
    [(300, "int8", "-128 to 127"), (-1, "uint8", "0 to 255"), (2**31, "int32", "-2147483648 to 2147483647")],
)
def test_a_constant_that_does_not_fit(value: int, dtype: str, span: str) -> None:
    with refused("const", f"{value} does not fit {dtype} ({span})", fix="give a wider dtype"):
        tir.const(value, dtype)


# Conditions and indices.


def test_a_number_where_a_condition_belongs(e: Example) -> None:
    with refused("if_then_else", "`F[0]` has type float32, but a condition has type bool", fix="compare it: F[0] != 0"):
        te.if_then_else(e.F[0], 1, 2)


def test_a_number_among_conditions(e: Example) -> None:
    with refused("all", "`F[0]` has type float32, but a condition has type bool", fix="compare it"):
        te.all(e.C[0], e.F[0])


def test_the_opposite_of_a_number(e: Example) -> None:
    with refused("Not", "`F[0]` has type float32, but a condition has type bool", fix="compare it"):
        tir.Not(e.F[0])


def test_a_value_asked_for_while_the_program_is_written(e: Example) -> None:
    with refused("", "the value of `F[0] > T.float32(0)` is not known", fix="te.if_then_else"):
        1 if e.F[0] > 0 else 2


def test_a_float_as_an_index(e: Example) -> None:
    with refused("", "tensor 'F' is indexed with `F[0]` of type float32", fix='.astype("int32")'):
        e.F[e.F[0]]


def test_a_condition_as_an_index(e: Example) -> None:
    with refused("", "tensor 'F' is indexed with `C[0]` of type bool", fix='.astype("int32")'):
        e.F[e.C[0]]


# Extents and facts.


@pytest.mark.parametrize("extent", [2.5, -2, "n", None], ids=str)
def test_an_extent_that_is_none(extent: Any) -> None:
    with refused("placeholder", f"{extent!r} is not an extent for a dimension of 'placeholder'", fix="whole numbers"):
        te.placeholder((extent,))


def test_an_extent_that_is_a_float_variable() -> None:
    with refused("placeholder", "x is not an extent for a dimension of 'A'", fix="integer variables"):
        te.placeholder((te.var("x", "float32"),), name="A")


def test_facts_of_a_float_variable() -> None:
    with refused(
        "var", "'x' has type float32; only integers have a minimum, a maximum or a multiple_of", fix='dtype="int32"'
    ):
        te.var("x", "float32", minimum=1)


def test_facts_that_are_no_numbers() -> None:
    with refused("size_var", "multiple_of='8' of 'n' is not a whole number", fix="give an int"):
        te.size_var("n", multiple_of="8")


# Buffers.


def test_a_buffer_of_another_type_than_its_tensor(e: Example) -> None:
    B = te.compute((8,), lambda i: e.F[i] + 1.0, name="B")
    buffer = tir.decl_buffer((8,), "float64", "F")
    with refused("lower", "binds maps 'F', float32[8], to a buffer of float64[8]", fix="tir.decl_buffer(A.shape"):
        tilewright.lower(te.create_schedule(B.op), [e.F, B], binds={e.F: buffer})


# Nodes by their own names.


def test_nodes_by_their_names_are_checked_and_converted(e: Example) -> None:
    assert tir.Add(e.I[0], 1) is e.I[0] + 1
    assert tir.IntImm("int8", 3) is tir.const(3, "int8")
    assert tir.LT(e.I[0], 4) is (e.I[0] < 4)
    assert isinstance(e.I[0] + 1, tir.Add)
    assert not isinstance(e.I[0] * 2, tir.Add)
    assert str(tir.Ramp(0, 1, 4)) == "T.Ramp(0, 1, 4)"
    assert str(tir.Broadcast(1, 4)) == "T.Broadcast(1, 4)"


def test_a_constant_whose_type_comes_last() -> None:
    with refused("IntImm", "dtype is 3 and the value 'int32'", fix='IntImm("int32", 3)'):
        tir.IntImm(3, "int32")


def test_a_vector_of_no_lanes() -> None:
    with refused("Ramp", "lanes=0", fix="at least 2"):
        tir.Ramp(0, 1, 0)


def test_a_call_by_hand(e: Example) -> None:
    assert tir.Call("float32", "tir.exp", [e.F[0]]) is te.exp(e.F[0])
    with refused("Call", "the arguments are F[0]", fix='tir.Call("float32", "tir.exp", [x])'):
        tir.Call("float32", "tir.exp", e.F[0])
    with refused("FloatImm", "int32 is not a floating-point type", fix="IntImm('int32', 1.0)"):
        tir.FloatImm("int32", 1.0)


def test_an_output_that_is_not_there(e: Example) -> None:
    with refused("output", "'F' has no output 1", fix="from 0 to 0"):
        e.F.op.output(1)


def test_a_tag_that_is_no_text(e: Example) -> None:
    with refused("compute", "tag=3 of 'compute' is not text", fix="injective"):
        te.compute((8,), lambda i: e.F[i], tag=3)  # type: ignore[arg-type]
