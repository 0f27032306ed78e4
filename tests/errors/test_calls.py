"""Wrong calls of built functions, and wrong uses of arrays and modules: one test a message."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright
from tests.errors.refused import refused
from tilewright import UserError, te, tir
from tilewright.runtime import load_module
from tilewright.runtime.array import NDArray, array, empty, from_dlpack
from tilewright.runtime.device import cuda, device, opencl
from tilewright.runtime.driver import DeviceError
from tilewright.runtime.module import Module

ON_CUDA = pytest.mark.skipif(cuda().exist, reason="there is a GPU here")


@cache
def scaled() -> Module:
    """f(a: float32, k: int8, keep: bool, A: float32[4, 3], B: float32[4, 3])"""
    a, k, keep = te.var("a", "float32"), te.var("k", "int8"), te.var("keep", "bool")
    A = te.placeholder((4, 3), name="A")
    B = te.compute((4, 3), lambda i, j: te.if_then_else(keep, A[i, j] * a + k.astype("float32"), A[i, j]), name="B")
    return tilewright.build(te.create_schedule(B.op), [a, k, keep, A, B], "llvm", name="f")


@cache
def sized(declare: Callable[..., Any] = te.size_var, **facts: Any) -> Module:
    """g(A: float32[n], B: float32[n])"""
    n = te.size_var("n", **facts)
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] + 1.0, name="B")
    return tilewright.build(te.create_schedule(B.op), [A, B], "llvm", name="g")


def floats(*shape: int) -> NDArray:
    """An array of float32 on the CPU."""
    return array(np.zeros(shape, "float32"))


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
    with refused("", "argument 3 of f (A: float32[4, 3]) is a torch.Tensor", fix="nd.from_dlpack(x)"):
        call(A=torch.zeros(4, 3))


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
    with refused("", "has strides (1, 4), but the program was built for elements that follow", fix="decl_buffer"):
        call(A=floats(3, 4).as_strided((4, 3), (1, 4)))


def with_strides(*strides: Any, offset: Any = None) -> Module:
    """B = A + 1 for an A of float32[4, 3] with those strides."""
    A = te.placeholder((4, 3), name="A")
    B = te.compute((4, 3), lambda i, j: A[i, j] + 1.0, name="B")
    buffer = tir.decl_buffer((4, 3), "float32", "A", strides=list(strides), elem_offset=offset)
    return tilewright.build(te.create_schedule(B.op), [A, B], "llvm", binds={A: buffer})


def test_other_strides_than_declared() -> None:
    with refused("", "strides (3, 1): that of dimension 0 is 3, but the program was built for 8", fix="as a variable"):
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


# Arrays.


def test_a_part_of_an_array() -> None:
    with refused("", "read and written whole, so [0] is not possible", fix="a.numpy()[...]"):
        floats(3)[0]


def test_writing_a_part_of_an_array() -> None:
    with refused("", "read and written whole", fix="use a[:] = values"):
        floats(3)[1:] = 0


def test_values_of_another_shape() -> None:
    with refused("copyfrom", "cannot copy values of shape (4,) into an array of shape (3,)", fix="a[:] = 0"):
        floats(3)[:] = np.zeros(4)


def test_copying_into_another_shape() -> None:
    with refused("copyto", "cannot copy float32[3] on cpu(0) into float32[4] on cpu(0)", fix="the same shape"):
        floats(3).copyto(floats(4))


def test_a_negative_extent() -> None:
    with refused("empty", "an array cannot have the shape (2, -1)", fix="at least 0"):
        empty((2, -1))


def test_a_view_beyond_the_array() -> None:
    with refused("", "a view of shape (4,) with strides (1,) from element 0 on is not within float32[3]", fix="inside"):
        floats(3).as_strided((4,), (1,))


def test_memory_of_what_shares_none() -> None:
    with refused("", "a list cannot share its memory: it has no __dlpack__", fix="nd.array(x)"):
        from_dlpack([1, 2])


def test_memory_that_is_read_only() -> None:
    x = np.zeros(3)
    x.flags.writeable = False
    with refused("", "this array is read-only", fix="nd.array(x)"):
        from_dlpack(x)


def test_memory_that_runs_backwards() -> None:
    with refused("", "this array has strides (-1,), some negative", fix="nd.array(x)"):
        from_dlpack(np.zeros(3)[::-1])


@pytest.mark.opencl
def test_opencl_memory_for_other_libraries() -> None:
    with refused("", "the memory of opencl(0) has no address", fix="a.numpy()"):
        np.from_dlpack(empty((3,), device=opencl(0)))


# Devices, modules and timing.


def test_an_unknown_kind_of_device() -> None:
    with refused("device", "unknown kind of device 'metal'", fix="cpu, llvm"):
        device("metal")


@ON_CUDA
def test_a_device_that_is_not_there() -> None:
    with refused("", "no NVIDIA driver here", fix='target "llvm" with tw.cpu()'):
        empty((3,), device=cuda())


def test_a_stream_on_a_device_without_streams() -> None:
    with refused("", "cpu(0) has no streams to choose from", fix="cuda devices"):
        device("cpu").set_raw_stream(1)


def test_a_function_that_is_not_in_the_module() -> None:
    with refused("", "the module has no function 'h'", fix="it has g"):
        sized()["h"]


def test_a_form_of_source_that_there_is_none_of() -> None:
    with refused("", "there is no 'ptx' form of a module for llvm", fix="ll, opt, asm, host"):
        sized().get_source("ptx")


def test_a_file_that_holds_no_module(tmp_path: Path) -> None:
    (tmp_path / "m").write_text("something else")
    with refused("load_module", "is no saved module, or a damaged one", fix="module.save(path)"):
        load_module(tmp_path / "m")


def test_timing_nothing() -> None:
    with refused("time_evaluator", "number=0: a whole number of at least 1 is needed", fix="number=10"):
        sized().time_evaluator("g", device("cpu"), number=0)


def test_timing_with_wrong_arguments() -> None:
    timed = sized().time_evaluator("g", device("cpu"), number=1)
    with refused("", "g takes 2 arguments", "but 1 were given"):
        timed(floats(3))


# Values of the wrong kind.

A_SMALL_ARRAY = floats(3)


class Foreign:
    """An array of another library that gives its memory to nobody."""

    def __init__(self, where: Any) -> None:
        self.where = where

    def __dlpack_device__(self) -> Any:
        return self.where

    def __dlpack__(self, **options: Any) -> Any:
        raise RuntimeError("no")


class OnCuda:
    """Memory on a GPU that nothing is said of."""

    __cuda_array_interface__: dict[str, Any] = {}  # noqa: RUF012


VALUES: list[tuple[Callable[[], Any], str, str, str]] = [
    (lambda: array(None), "array", "of type object, which are no numbers: None", "give numbers"),
    (lambda: array([[1, 2], [3]]), "array", "the values are no array", "rows of one length"),
    (lambda: array("abc"), "array", "of type <U3, which are no numbers: 'abc'", "give numbers"),
    (lambda: empty(None), "empty", "shape=None is no tuple of whole numbers", "(16, 32)"),
    (lambda: empty("x"), "empty", "shape='x' is no tuple of whole numbers", "(16, 32)"),
    (lambda: empty((3, "x")), "empty", "'x' in shape=(3, 'x') is no whole number", "(16, 32)"),
    (lambda: empty((1.5,)), "empty", "1.5 in shape=(1.5,) is no whole number", "(16, 32)"),
    (lambda: empty((te.var("n"),)), "empty", "n in shape=(n,) is no whole number", "a variable"),
    (lambda: empty((3,), device("cpu")), "", "unknown data type cpu(0)", "float16"),
    (lambda: A_SMALL_ARRAY.copyfrom("x"), "copyfrom", "which are no numbers: 'x'", "give numbers"),
    (lambda: A_SMALL_ARRAY.copyfrom(None), "copyfrom", "which are no numbers: None", "give numbers"),
    (lambda: A_SMALL_ARRAY.copyto(None), "copyto", "into None", "tw.cpu()"),
    (lambda: A_SMALL_ARRAY.copyto(np.zeros(3)), "copyto", "into array([0., 0., 0.])", "a.numpy()"),
    (lambda: A_SMALL_ARRAY.as_strided(3, 4), "as_strided", "shape=3 is no tuple", "whole numbers"),
    (lambda: A_SMALL_ARRAY.as_strided((3,), ("x",)), "as_strided", "'x' in strides=('x',)", "whole numbers"),
    (lambda: A_SMALL_ARRAY.as_strided((3,), (1, 1)), "as_strided", "needs 1 strides, not (1, 1)", "one stride"),
    (lambda: A_SMALL_ARRAY + 1, "", "(float32[3] on cpu(0)) has no +", "a.numpy()"),
    (lambda: -A_SMALL_ARRAY, "", "has no -", "a.numpy()"),
    (lambda: float(A_SMALL_ARRAY), "", "has no float()", "a.numpy()"),
    (lambda: len(A_SMALL_ARRAY), "", "has no len()", "a.numpy()"),
    (lambda: from_dlpack(np.zeros(3, "complex64")), "from_dlpack", "complex numbers, 64 bits", "x.real"),
    (lambda: from_dlpack(np.zeros(3, ">f4")), "from_dlpack", "native byte order", "nd.array(x)"),
    (lambda: from_dlpack(Foreign(3)), "from_dlpack", "the Foreign does not share its memory", "nd.array(x)"),
    (lambda: from_dlpack(Foreign((1, 0))), "from_dlpack", "does not share its memory: no", "nd.array(x)"),
    (lambda: from_dlpack(OnCuda()), "from_dlpack", "its __cuda_array_interface__ is {}", "nd.array(x)"),
    (lambda: device("cuda:x"), "device", "'cuda:x' names no device: 'x' is no number", '"cuda:0"'),
    (lambda: device("cuda:-1"), "device", "'-1' is no number", '"cuda:0"'),
    (lambda: device("cpu", "x"), "device", "'x' is no number of a device", "tw.cpu(0)"),
    (lambda: device("cpu", -1), "device", "-1 is no number of a device", "from 0"),
    (lambda: device("cuda 3"), "device", "unknown kind of device 'cuda 3'", '"cuda:1"'),
    (lambda: empty((3,), device=device("cpu", 7)), "", "there is no cpu(7): this machine has 1", "from 0 to 0"),
    (lambda: sized().save(None), "save", "None is no path of a file", "kernel.tw"),  # type: ignore[arg-type]
    (lambda: sized().save("/no/such/folder/m"), "save", "cannot write /no/such/folder/m", "can be written"),
    (lambda: load_module(3), "load_module", "3 is no path of a file", "kernel.tw"),  # type: ignore[arg-type]
    (lambda: load_module("/no/such/file"), "load_module", "cannot read /no/such/file", "module.save(path)"),
    (lambda: sized().export_library("m", cc=1), "export_library", "there is no argument 'cc'", "name alone"),
    (lambda: sized().time_evaluator("g", None), "time_evaluator", "dev=None is no device", "tw.cpu()"),  # type: ignore[arg-type]
    (lambda: timing(number=1.5), "time_evaluator", "number=1.5: a whole number of at least 1", "number=10"),
    (lambda: timing(min_repeat_ms=-1), "time_evaluator", "min_repeat_ms=-1: a number of at least 0", "number=10"),
    (lambda: timing(cache_flush_bytes="x"), "time_evaluator", "cache_flush_bytes='x'", "number=10"),
    (lambda: timing(f_preproc="x"), "time_evaluator", "f_preproc='x' is unknown", "cache_flush_bytes"),
    (lambda: device("cpu").use_stream(None).__enter__(), "use_stream", "None is no stream", "an address"),
]


def timing(**options: Any) -> Any:
    """A timer of `sized()` with such options."""
    return sized().time_evaluator("g", device("cpu"), **options)


@pytest.mark.parametrize("row", VALUES, ids=lambda row: row[2][:40])
def test_a_value_of_the_wrong_kind(row: tuple[Callable[[], Any], str, str, str]) -> None:
    attempt, primitive, says, fix = row
    with refused(primitive, says, fix=fix):
        attempt()


def test_a_saved_module_that_was_damaged(tmp_path: Path) -> None:
    sized().save(tmp_path / "m")
    whole = bytearray((tmp_path / "m").read_bytes())
    for damaged in (whole[: len(whole) // 2], whole[:100] + bytes(200) + whole[300:]):
        (tmp_path / "m").write_bytes(damaged)
        with refused("load_module", "is no saved module, or a damaged one", fix="module.save(path)"):
            load_module(tmp_path / "m")


def test_more_memory_than_there_is() -> None:
    with pytest.raises(DeviceError, match=r"cpu\(0\) cannot allocate 4,000,000,000,000,000 bytes"):
        empty((10**15,))


def test_a_wrong_call_comes_without_our_insides() -> None:
    with pytest.raises(UserError) as raised:
        scaled()(1.0, 2)
    assert raised.value.__context__ is None
