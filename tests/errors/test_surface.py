"""Mistakes at the surface that once ended in a raw exception, or in nothing at all."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.errors.refused import refused
from tilewright import autotvm, nd, te
from tilewright.autotvm.task import ConfigSpace
from tilewright.core.own_code import calling

NAN, INF = float("nan"), float("inf")


def module() -> Any:
    A = te.placeholder((4,), name="A")
    B = te.compute((4,), lambda i: A[i] + 1, name="B")
    return tw.build(te.create_schedule(B.op), [A, B], "llvm")


@pytest.fixture(scope="module")
def built() -> Any:
    return module()


def test_a_module_called_by_name(built: Any) -> None:
    a, b = nd.array(np.zeros(4, "float32")), nd.empty((4,))
    for f in (built, built.entry_func):
        with refused("", "main takes its 2 arguments by position, but B came by name", fix="f(A, B)"):
            f(a, B=b)


@pytest.mark.parametrize("value", [NAN, INF, 1e300, -1, "x", True, 10**300, 1 + 2j, np.complex64(1)])
@pytest.mark.parametrize("name", ["number", "repeat", "min_repeat_ms", "cooldown_interval", "cache_flush_bytes"])
def test_timing_options_that_would_never_end(built: Any, name: str, value: Any) -> None:
    with refused("time_evaluator", f"{name}="):
        built.time_evaluator("main", tw.cpu(), **{name: value})


def test_an_unknown_timing_option(built: Any) -> None:
    with refused("time_evaluator", "there is no option 'repeats'", fix="repeat"):
        built.entry_func.time_evaluator(tw.cpu(), repeats=3)
    with refused("time_evaluator", "9 options are given"):
        built.entry_func.time_evaluator(tw.cpu(), *range(1, 10))


@pytest.mark.parametrize("dtype", ["float32x0", "float32x99999", "float32x" + "9" * 5000, "int" + "9" * 5000, "int٣٢"])
def test_data_types_that_are_none(dtype: str) -> None:
    for use in (lambda: te.placeholder((4,), dtype), lambda: nd.empty((4,), dtype), lambda: te.var("n", dtype)):
        with refused("", "data type"):
            use()


def test_an_array_of_handles() -> None:
    with refused("empty", "the elements would be of type handle", fix='"float32"'):
        nd.empty((4,), "handle")


def test_an_array_beyond_any_memory() -> None:
    with refused("empty", "would take 2^"):
        nd.empty((10**5000,))
    with refused("empty", "an array of 65 dimensions"):
        nd.empty((1,) * 65)


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([300], "int8"),
        ([-1], "uint8"),
        ([NAN], "int32"),
        ([INF], "int64"),
        ([2.0**63], "int64"),
        ([-(2**31) - 1], "int32"),
    ],
)
def test_values_that_an_integer_array_cannot_hold(values: list[Any], dtype: str) -> None:
    for use in (
        lambda: nd.array(values, dtype=dtype),
        lambda: nd.empty((1,), dtype).copyfrom(np.array(values)),
        lambda: nd.empty((1,), dtype).__setitem__(slice(None), values[0]),
    ):
        with refused("copyfrom", f"does not fit into {dtype}"):
            use()


def test_values_that_an_integer_array_holds() -> None:
    assert nd.array([127.9, -128.9], dtype="int8").numpy().tolist() == [127, -128]
    assert nd.array(np.array([2**64 - 1], "uint64"), dtype="uint64").numpy()[0] == 2**64 - 1
    a = nd.empty((2,), "int8")
    a[:] = 3.0
    assert a.numpy().tolist() == [3, 3]


def test_values_of_which_a_part_would_be_lost() -> None:
    masked, imaginary = np.ma.array([1.0, 2.0], mask=[0, 1]), np.array([1 + 2j, 3])
    a = nd.empty((2,))
    for name, use in (
        ("array", nd.array),
        ("array", lambda x: nd.array(x, dtype="float32")),
        ("copyfrom", a.copyfrom),
        ("copyfrom", lambda x: a.__setitem__(slice(None), x)),
    ):
        with refused(name, "a masked array", fix="x.filled(0)"):
            use(masked)
        with refused(name, "complex numbers", fix="x.imag"):
            use(imaginary)
    with refused("copyfrom", "complex numbers"):
        a[:] = 2j


def test_a_view_from_an_offset_that_is_none() -> None:
    with refused("as_strided", "is not a whole number"):
        nd.empty((4,)).as_strided((2,), (1,), NAN)


class Producer:
    def __init__(self, where: Any = (1, 0)) -> None:
        self.where = where

    def __dlpack_device__(self) -> Any:
        if isinstance(self.where, Exception):
            raise self.where
        return self.where

    def __dlpack__(self, **_: Any) -> Any:
        raise KeyError("lost")


@pytest.mark.parametrize("source", [Producer(), Producer(OSError("lost")), Producer(None), Producer((1, 0, 0))])
def test_a_producer_of_arrays_that_raises(source: Any) -> None:
    with refused("from_dlpack", "the Producer does not share its memory"):
        nd.from_dlpack(source)


def test_an_array_interface_that_raises_keeps_its_type() -> None:
    class Absent:
        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            raise LookupError("not loaded yet")

    with pytest.raises(LookupError, match="not loaded yet") as caught:
        nd.array(Absent())
    (note,) = caught.value.__notes__
    assert note.startswith("raised by the values' own __array__, called from ")
    assert "test_surface.py" in note


def test_names_of_hardware_that_are_no_targets() -> None:
    for name, meant in (("gpu", "cuda"), ("nvidia", "cuda"), ("cpu", "llvm"), ("x86", "llvm"), ("rocm", "opencl")):
        with refused("Target", f"unknown target kind '{name}'", fix=f"write '{meant}'"):
            tw.target.Target(name)


def test_a_target_of_another_processor_family() -> None:
    A = te.placeholder((4,), name="A")
    s = te.create_schedule(te.compute((4,), lambda i: A[i], name="B").op)
    for triple in ("bogus", "riscv64-unknown-linux-gnu"):
        with refused("Target", f"-mtriple={triple} is not of a supported processor family"):
            tw.build(s, [A, s.outputs[0].output(0)], f"llvm -mtriple={triple}")


def test_limits_of_a_target_that_are_no_numbers() -> None:
    for text in ("²", "9" * 5000, "-1"):
        with refused("Target", "is not a positive whole number"):
            tw.target.Target(f"cuda -max_num_threads={text}")


def test_an_option_that_a_packaged_template_lacks() -> None:
    with refused("conv2d", "there is no option 'kernal'", fix="did you mean kernel?"):
        autotvm.templates.conv2d.task("llvm", shape=(1, 4, 8, 8), kernal=3)
    with refused("conv1d", "the option shape is missing"), tw.target.Target("llvm"):
        autotvm.templates.conv1d(kernel=3)


def fails(*_: Any) -> Any:
    raise KeyError("mine")


@autotvm.template("tests/surface/fails")
def failing_template() -> Any:
    fails()


@pytest.mark.parametrize(
    ("call", "what"),
    [
        (lambda: te.compute((4,), lambda i: fails(i), name="B"), "the function of te.compute 'B'"),
        (lambda: te.comm_reducer(fails, lambda t: 0, name="r")(1, 2), "fcombine of the reducer 'r'"),
        (lambda: autotvm.task.create("tests/surface/fails", (), "llvm"), "the template 'tests/surface/fails'"),
        (lambda: ConfigSpace().define_split("t", 8, num_outputs=2, filter=fails), "the filter of the knob 't'"),
    ],
)
def test_what_a_users_own_function_raises_keeps_its_type(call: Any, what: str) -> None:
    with pytest.raises(KeyError, match="mine") as caught:
        call()
    (note,) = caught.value.__notes__
    assert note.startswith(f"raised by {what}, called from ")
    assert "test_surface.py:" in note


def test_a_call_from_no_file_has_a_note_without_a_place() -> None:
    program = """
from tilewright import te
try: te.compute((4,), lambda i: {}[0], name="B")
except KeyError as error: print(error.__notes__)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[\"raised by the function of te.compute 'B'\"]\n"


def test_our_own_errors_get_no_note() -> None:
    with pytest.raises(tw.error.UserError) as caught, calling("anything"):
        te.placeholder((-1,))
    assert not hasattr(caught.value, "__notes__")


def test_a_form_a_policy_and_a_file_name_that_are_none(tmp_path: Path) -> None:
    A = te.placeholder((4,), name="A")
    B = te.compute((4,), lambda i: A[i] + 1, name="B")
    module = tw.build(te.create_schedule(B.op), [A, B], "llvm")
    pair = np.zeros(2)
    with refused("", "a module for llvm has no form array([0., 0.])", fix="ask for one of ll"):
        module.get_source(pair)  # type: ignore[arg-type]
    with refused("export_library", "File name too long", fix="that can be written"):
        module.export_library(str(tmp_path / ("9" * 300)))
    with refused("define_reorder", "array([0., 0.])", fix="identity"):
        ConfigSpace().define_reorder("order", [te.var("x")], pair)  # type: ignore[arg-type]
