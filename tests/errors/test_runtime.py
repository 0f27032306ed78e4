"""Wrong uses of arrays, devices, modules and timers: one test a message."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import tilewright as tw
from tests.errors.programs import floats, sized
from tests.errors.refused import refused
from tilewright import te
from tilewright.runtime import load_module
from tilewright.runtime.array import array, empty
from tilewright.runtime.device import cuda, device, opencl
from tilewright.runtime.driver import DeviceError
from tilewright.runtime.from_dlpack import from_dlpack

ON_CUDA = pytest.mark.skipif(cuda().exist, reason="there is a GPU here")


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
    with refused("device", "unknown kind of device 'abacus'", fix="cpu, llvm"):
        device("abacus")


def test_a_device_of_a_kind_without_a_driver() -> None:
    assert not device("metal").exist
    with refused("", "Tilewright has no driver for metal", fix='target "llvm" with tw.cpu()'):
        empty((3,), device=device("mtl"))
    with refused("", "Tilewright has no driver for rocm"):
        device("rocm").sync()


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


def test_what_is_no_name_of_a_function() -> None:
    wrong: Any = [1]
    with refused("", "the module has no function [1]", fix="it has g"):
        sized()[wrong]


@pytest.mark.opencl
def test_options_that_the_compiler_of_opencl_does_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_OPENCL_OPTIONS", "-cl-no-such-option")
    A = te.placeholder((7,), name="A")
    B = te.compute((7,), lambda i: A[i] + 1.0, name="B")
    s = te.create_schedule(B.op)
    s[B].bind(B.op.axis[0], te.thread_axis("threadIdx.x"))
    module = tw.build(s, [A, B], "opencl")
    with refused("", "OpenCL refuses the options '-cl-no-such-option'", fix="TILEWRIGHT_OPENCL_OPTIONS"):
        module(array(np.zeros(7, "float32"), opencl()), empty((7,), "float32", opencl()))


def test_a_form_of_source_that_there_is_none_of() -> None:
    with refused("", "a module for llvm has no form 'ptx'", fix="ll, opt, asm, host"):
        sized().get_source("ptx")


def test_a_file_that_holds_no_module(tmp_path: Path) -> None:
    (tmp_path / "m").write_text("something else")
    with refused("load_module", "is not a saved module, or a damaged one", fix="module.save(path)"):
        load_module(tmp_path / "m")


def test_timing_nothing() -> None:
    with refused("time_evaluator", "number=0: a whole number of at least 1 is needed", fix="number=10"):
        sized().time_evaluator("g", device("cpu"), number=0)


def test_timing_with_wrong_arguments() -> None:
    timed = sized().time_evaluator("g", device("cpu"), number=1)
    with refused("", "g takes 2 arguments", "but 1 was given"):
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

    __cuda_array_interface__: ClassVar[dict[str, Any]] = {}


VALUES: list[tuple[Callable[[], Any], str, str, str]] = [
    (lambda: array(None), "array", "of type object, which are not numbers: None", "give numbers"),
    (lambda: array([[1, 2], [3]]), "array", "the values are not an array", "rows of one length"),
    (lambda: array("abc"), "array", "of type <U3, which are not numbers: 'abc'", "give numbers"),
    (lambda: empty(None), "empty", "shape=None is not a tuple of whole numbers", "(16, 32)"),
    (lambda: empty("x"), "empty", "shape='x' is not a tuple of whole numbers", "(16, 32)"),
    (lambda: empty((3, "x")), "empty", "'x' in shape=(3, 'x') is not a whole number", "(16, 32)"),
    (lambda: empty((1.5,)), "empty", "1.5 in shape=(1.5,) is not a whole number", "(16, 32)"),
    (lambda: empty((te.var("n"),)), "empty", "n in shape=(n,) is not a whole number", "a variable"),
    (lambda: empty((3,), device("cpu")), "", "unknown data type cpu(0)", "float16"),
    (lambda: A_SMALL_ARRAY.copyfrom("x"), "copyfrom", "which are not numbers: 'x'", "give numbers"),
    (lambda: A_SMALL_ARRAY.copyfrom(None), "copyfrom", "which are not numbers: None", "give numbers"),
    (lambda: A_SMALL_ARRAY.copyto(None), "copyto", "into None", "tw.cpu()"),
    (lambda: A_SMALL_ARRAY.copyto(np.zeros(3)), "copyto", "into array([0., 0., 0.])", "a.numpy()"),
    (lambda: A_SMALL_ARRAY.as_strided(3, 4), "as_strided", "shape=3 is not a tuple", "whole numbers"),
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
    (lambda: device("cuda:x"), "device", "'cuda:x' names no device: 'x' is not a number", '"cuda:0"'),
    (lambda: device("cuda:-1"), "device", "'-1' is not a number", '"cuda:0"'),
    (lambda: device("cpu", "x"), "device", "'x' is not a device number", "tw.cpu(0)"),
    (lambda: device("cpu", -1), "device", "-1 is not a device number", "from 0"),
    (lambda: device("cuda 3"), "device", "unknown kind of device 'cuda 3'", '"cuda:1"'),
    (lambda: empty((3,), device=device("cpu", 7)), "", "there is no cpu(7): this machine has 1", "from 0 to 0"),
    (lambda: sized().save(None), "save", "None is not a file path", "kernel.tw"),  # type: ignore[arg-type]
    (lambda: sized().save("/no/such/folder/m"), "save", "cannot write /no/such/folder/m", "can be written"),
    (lambda: load_module(3), "load_module", "3 is not a file path", "kernel.tw"),  # type: ignore[arg-type]
    (lambda: load_module("/no/such/file"), "load_module", "cannot read /no/such/file", "module.save(path)"),
    (lambda: sized().export_library("m", cc=1), "export_library", "there is no argument 'cc'", "name alone"),
    (lambda: sized().time_evaluator("g", None), "time_evaluator", "dev=None is not a device", "tw.cpu()"),  # type: ignore[arg-type]
    (
        lambda: sized().time_evaluator("g", device("opencl")),
        "time_evaluator",
        "dev=opencl(0) is of another kind than the module",
        "give tw.cpu()",
    ),
    (lambda: timing(number=1.5), "time_evaluator", "number=1.5: a whole number of at least 1", "number=10"),
    (lambda: timing(min_repeat_ms=-1), "time_evaluator", "min_repeat_ms=-1: a number of at least 0", "number=10"),
    (lambda: timing(cache_flush_bytes="x"), "time_evaluator", "cache_flush_bytes='x'", "number=10"),
    (lambda: timing(f_preproc="x"), "time_evaluator", "f_preproc='x' is unknown", "cache_flush_bytes"),
    (
        lambda: timing(f_preproc=np.zeros(2)),
        "time_evaluator",
        "f_preproc=array([0., 0.]) is unknown",
        "cache_flush_bytes",
    ),
    (lambda: device("cpu").use_stream(None).__enter__(), "use_stream", "None is not a stream", "an address"),
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
        with refused("load_module", "is not a saved module, or a damaged one", fix="module.save(path)"):
            load_module(tmp_path / "m")


def test_more_memory_than_there_is() -> None:
    with pytest.raises(DeviceError, match=r"cpu\(0\) cannot allocate 4,000,000,000,000,000 bytes"):
        empty((10**15,))
