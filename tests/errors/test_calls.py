"""Wrong calls of built functions: one test a message."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright
from tests.errors.programs import floats, scaled, sized
from tests.errors.refused import refused
from tilewright import UserError, te, tir
from tilewright.runtime.array import NDArray, empty
from tilewright.runtime.device import device, opencl
from tilewright.runtime.module import Module


def call(**changed: Any) -> None:
    """Call `scaled()` with right arguments but for those given."""
    args = {"a": 2.0, "k": 1, "keep": True, "A": floats(4, 3), "B": floats(4, 3)} | changed
    scaled()(*args.values())


# The number and kind of arguments.


def test_too_few_arguments() -> None:
    with refused("", "f takes 5 arguments (a: float32, k: int8", "but 2 were given", fix="f(a, k, keep, A, B)"):
        scaled()(1.0, 2)


def test_too_many_arguments() -> None:
    with refused("", "g takes 2 arguments (A: float32[n], B: float32[n]), but 3 were given", fix="f(A, B)"):
        sized()(floats(3), floats(3), floats(3))


def test_a_numpy_array() -> None:
    with refused(
        "", "argument 3 of f (A: float32[4, 3]) is a NumPy array of float32[4, 3]", fix="nd.array(x, nd.cpu(0))"
    ):
        call(A=np.zeros((4, 3), "float32"))


def test_a_list() -> None:
    with refused("", "argument 3 of f (A: float32[4, 3]) is [1, 2, 3]", fix="put it on the device"):
        call(A=[1, 2, 3])


def test_nothing() -> None:
    with refused("", "argument 4 of f (B: float32[4, 3]) is None", fix="put it on the device"):
        call(B=None)


def test_a_tensor_of_torch() -> None:
    torch = pytest.importorskip("torch")
    with refused("", "argument 3 of f (A: float32[4, 3]) has shape (3, 4)", fix="pass an array of shape (4, 3)"):
        call(A=torch.zeros(3, 4))


def test_a_number_where_an_array_belongs() -> None:
    with refused("", "argument 0 of g (A: float32[n]) is 3.5", fix="put it on the device"):
        sized()(3.5, floats(3))


@pytest.mark.opencl
def test_an_array_on_another_kind_of_device() -> None:
    with refused("", "(A: float32[4, 3]) is on opencl(0), but this module runs on cpu", fix="nd.cpu(0)"):
        call(A=empty((4, 3), "float32", opencl(0)))


def test_an_array_on_another_device_of_the_kind() -> None:
    other = NDArray(device("cpu", 1), floats(3).dtype, (3,), floats(3).handle, floats(3))
    with refused("", "argument 1 of g", "is on cpu(1), but an earlier argument is on cpu(0)", fix="copyto"):
        sized()(floats(3), other)


# Type and shape.


def test_an_array_of_another_type() -> None:
    with refused("", "argument 3 of f (A: float32[4, 3]) has type float64", fix="x.numpy().astype('float32')"):
        call(A=empty((4, 3), "float64"))


def test_an_array_of_another_shape() -> None:
    with refused("", "argument 4 of f (B: float32[4, 3]) has shape (3, 4)", fix="pass an array of shape (4, 3)"):
        call(B=floats(3, 4))


def test_an_array_of_another_rank() -> None:
    with refused("", "argument 0 of g (A: float32[n]) has shape (3, 1)", fix="pass an array of shape (n,)"):
        sized()(floats(3, 1), floats(3))


def test_sizes_that_disagree() -> None:
    with refused("", "(B: float32[n]) has shape (4,): extent 0 is 4, but the other arguments make it 3", fix="agree"):
        sized()(floats(3), floats(4))


def test_a_result_of_negative_size() -> None:
    n = te.size_var("n")
    A = te.placeholder((n,), name="A")
    B = te.compute((n - 2,), lambda i: A[i] + A[i + 2], name="B")
    module = tilewright.build(te.create_schedule(B.op), [A, B], "llvm")
    with refused("", "extent 0 is 0, but the other arguments make it -1", fix="are too small for this program"):
        module(floats(1), floats(0))


def test_an_extent_that_no_size_makes() -> None:
    n = te.size_var("n")
    A = te.placeholder((n * 8,), name="A")
    B = te.compute((n * 8,), lambda i: A[i] + 1.0, name="B")
    module = tilewright.build(te.create_schedule(B.op), [A, B], "llvm")
    with refused("", "(A: float32[n * 8]) has shape (12,): extent 0 is 12, but", "make it 8", fix="agree"):
        module(floats(12), floats(12))


# Declared facts.


def test_a_size_below_the_declared_minimum() -> None:
    with refused("", "n is 3 (extent 0 of argument 0 of g (A)), but it is declared to be at least 4", fix="pad"):
        sized(minimum=4)(floats(3), floats(3))


def test_a_size_above_the_declared_maximum() -> None:
    with refused("", "n is 9", "but it is declared to be at least 0 and at most 8", fix="pad"):
        sized(maximum=8)(floats(9), floats(9))


def test_a_size_that_is_no_multiple_of_what_is_declared() -> None:
    with refused("", "n is 12", "but it is declared to be at least 0 and a multiple of 8", fix="build the program"):
        sized(multiple_of=8)(floats(12), floats(12))


def test_a_number_that_breaks_what_is_declared_of_it() -> None:
    k = te.var("k", minimum=1)
    A = te.placeholder((4,), "int32", "A")
    B = te.compute((4,), lambda i: A[i] // k, name="B")
    module = tilewright.build(te.create_schedule(B.op), [k, A, B], "llvm")
    with refused("", "k is 0 (argument 0 of main (k: int32)), but it is declared to be at least 1", fix="pad"):
        module(0, empty((4,), "int32"), empty((4,), "int32"))


# Numbers.


def test_a_text_for_a_number() -> None:
    with refused("", "argument 0 of f (a: float32) is 'two', of type str", fix="a number of type float32"):
        call(a="two")


def test_a_float_for_an_integer() -> None:
    with refused("", "argument 1 of f (k: int8) is 1.5, of type float", fix="a number of type int8"):
        call(k=1.5)


def test_an_integer_that_does_not_fit() -> None:
    with refused("", "argument 1 of f (k: int8) is 200, which does not fit", fix="int8 holds -128 to 127"):
        call(k=200)


def test_an_integer_for_a_condition() -> None:
    with refused("", "argument 2 of f (keep: bool) is 1, of type int", fix="a number of type bool"):
        call(keep=1)


def test_an_array_for_a_number() -> None:
    with refused("", "argument 0 of f (a: float32) is", "of type NDArray", fix="a number"):
        call(a=floats(1))


# Memory.


def test_an_array_with_strides() -> None:
    with refused("", "has strides (1, 4), but the program was built for contiguous elements", fix="decl_buffer"):
        call(A=floats(3, 4).as_strided((4, 3), (1, 4)))


def with_strides(*strides: Any, offset: Any = None) -> Module:
    """B = A + 1 for an A of float32[4, 3] with those strides."""
    A = te.placeholder((4, 3), name="A")
    B = te.compute((4, 3), lambda i, j: A[i, j] + 1.0, name="B")
    buffer = tir.decl_buffer((4, 3), "float32", "A", strides=list(strides), elem_offset=offset)
    return tilewright.build(te.create_schedule(B.op), [A, B], "llvm", binds={A: buffer})


def test_other_strides_than_declared() -> None:
    with refused("", "strides (3, 1): the stride of dimension 0 is 3, but", fix="as a variable"):
        with_strides(8, 1)(floats(4, 3), floats(4, 3))


def test_strides_that_break_what_is_declared_of_them() -> None:
    step = te.var("step", multiple_of=4)
    with refused("", "step is 3 (A_strides[0]), but it is declared to be a multiple of 4", fix="pad"):
        with_strides(step, 1)(floats(4, 3), floats(4, 3))


def test_another_offset_than_declared() -> None:
    with refused("", "starts 0 elements into its memory, but the program was built for 5", fix="elem_offset"):
        with_strides(3, 1, offset=5)(floats(4, 3), floats(4, 3))


def test_one_array_as_input_and_result() -> None:
    a = floats(4, 3)
    with refused("", "argument 3 of f (A", "and argument 4 of f (B", "share memory", fix="an array of its own"):
        call(A=a, B=a)


def test_views_that_overlap() -> None:
    whole = floats(10)
    with refused("", "share memory, and one of them is written", fix="an array of its own"):
        sized()(whole.as_strided((6,), (1,)), whole.as_strided((6,), (1,), 4))


def test_more_elements_than_32_bits_count() -> None:
    small = floats(1)
    large = NDArray(small.device, small.dtype, (2**31,), small.handle, small)
    with refused("", "A of g has 2,147,483,648 elements, too many for the 32-bit indices", fix='te.var("n", "int64")'):
        sized()(large, large)


def test_a_wrong_call_comes_without_our_insides() -> None:
    with pytest.raises(UserError) as raised:
        scaled()(1.0, 2)
    assert raised.value.__context__ is None
