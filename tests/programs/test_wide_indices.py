"""Indices of 64 bits: chosen where 32 may not do, narrowed where they do, and arrays of more than 2³¹ elements."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilewright
from tests.passes.running import finish
from tests.programs.harness import every_target, result, spread
from tests.programs.zoo import CONV1D, MATMUL, PROGRAMS, Program
from tilewright import te, tir
from tilewright.core.errors import UserError
from tilewright.loops.interpret import interpret
from tilewright.loops.verify import Form, verify
from tilewright.passes import widen_indices as widening
from tilewright.runtime.array import NDArray, array, empty
from tilewright.runtime.device import device

HUGE = 2**31 + 4097
PLACES = np.array([0, 1, 96, 97, 2**30, 2**31 - 1, 2**31, 2**31 + 1, HUGE - 2, HUGE - 1])


def sources(s: te.Schedule, args: list[Any], target: str = "cuda") -> str:
    """The kernels' source."""
    source: str = tilewright.build(s, args, target).imported_modules[0].get_source()
    return source


def touched(*shape: int, dtype: str = "int8") -> tuple[te.Schedule, list[Any]]:
    """B = A + 1, by threads."""
    A = te.placeholder(shape, dtype, "A")
    B = te.compute(shape, lambda *i: A(*i) + te.const(1, dtype), name="B")
    s = te.create_schedule(B.op)
    spread(s, B, "cuda", threads=256)
    return s, [A, B]


def test_programs_that_need_no_more_count_in_32_bits() -> None:
    assert "long" not in sources(*touched(1 << 15, 1 << 15))
    assert "long" not in sources(*touched(2, 1 << 15, 1 << 15))  # 2³¹ elements, the last of which is number 2³¹ - 1
    n = te.size_var("n")
    A = te.placeholder((n, n), name="A")
    B = te.compute((n, n), lambda i, j: A[j, i], name="B")
    s = te.create_schedule(B.op)
    spread(s, B, "cuda")
    assert "long" not in sources(s, [A, B])


@pytest.mark.parametrize("shape", [(1 << 16, 1 << 16), (HUGE,), (3, 1 << 15, 1 << 15)], ids=str)
def test_large_arrays_are_indexed_with_64_bits(shape: tuple[int, ...]) -> None:
    text = sources(*touched(*shape))
    assert re.search(r"\(long long\)blockIdx_x \* 256LL \+ \(long long\)threadIdx_x", text)
    assert "const int threadIdx_x = threadIdx.x;" in text


def test_what_fits_is_computed_in_32_bits() -> None:
    A = te.placeholder((1 << 16, 1 << 16), "int8", "A")
    B = te.compute((1 << 16, 1 << 16), lambda i, j: A[i, j] + te.const(1, "int8"), name="B")
    s = te.create_schedule(B.op)
    outer, inner = s[B].split(B.op.axis[1], factor=256)
    s[B].bind(outer, te.thread_axis("blockIdx.x"))
    s[B].bind(inner, te.thread_axis("threadIdx.x"))
    s[B].reorder(outer, inner, B.op.axis[0])
    text = sources(s, [A, B])
    assert "for (int i = 0; i < 65536; ++i)" in text
    assert "(long long)i * 65536LL + (long long)(blockIdx_x * 256) + (long long)threadIdx_x" in text


def test_sizes_of_64_bits_make_indices_of_64_bits_and_declared_limits_narrow_them() -> None:
    def transposed(size: Any) -> str:
        A = te.placeholder((size, size), name="A")
        B = te.compute((size, size), lambda i, j: A[j, i], name="B")
        s = te.create_schedule(B.op)
        for axis, tag in zip(B.op.axis, ("y", "x"), strict=True):
            s[B].bind(axis, te.thread_axis(f"blockIdx.{tag}"))
        return sources(s, [A, B])

    wide, narrow = transposed(te.size_var("n", "int64")), transposed(te.size_var("n", "int64", maximum=4096))
    assert "B[(long long)blockIdx_y * n + (long long)blockIdx_x]" in wide
    assert "long long n" in wide
    assert "long long" not in narrow.replace("long long n", "")


def test_a_size_that_32_bits_cannot_count_is_refused() -> None:
    n = te.size_var("n")
    A = te.placeholder((n,), "int8", "A")
    B = te.compute((1,), lambda i: A[i], name="B")
    s = te.create_schedule(B.op)
    module = tilewright.build(s, [A, B], "llvm")
    small = array(np.zeros(1, "int8"))
    claims = NDArray(small.device, small.dtype, (3_000_000_000,), small.handle, small)  # nobody reads it
    with pytest.raises(UserError, match=r'A of main has 3,000,000,000 elements.*32-bit.*\n  fix: .*"n", "int64"'):
        module(claims, empty((1,), "int8"))


def sizes_of(data: st.DataObject, program: Program) -> dict[str, int]:
    """Small sizes; not below the tile of a program that shares its threads between stages."""
    edges = (16, 17, 19) if program is MATMUL else (1, 2, 3, 5, 8, 13)
    sizes = {name: data.draw(st.sampled_from(edges), label=name) for name in program.names}
    if program is CONV1D:
        sizes["n"] = max(sizes["n"], sizes["k"] - 1)
    return sizes


@every_target
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.name)
def test_programs_of_64_bit_sizes_compute_the_same(program: Program, target: str) -> None:
    tensors = program.declare({name: te.size_var(name, "int64") for name in program.names}, "float32")
    s = te.create_schedule(tensors[-1].op)
    program.schedule(s, tensors, target)
    module = tilewright.build(s, tensors, target)
    for size in (0, 1, 5, 33):
        sizes = dict.fromkeys(program.names, size)
        inputs = program.inputs(sizes, "float32")
        got = result(module, inputs, program.shapes(sizes)[-1], "float32")
        np.testing.assert_array_equal(got, program.expected(inputs, "float32"))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.name)
@settings(max_examples=6)
@given(data=st.data())
def test_programs_widened_and_narrowed_mean_the_same(program: Program, data: st.DataObject) -> None:
    """As if a single element were too many to count with 32 bits."""
    sizes = sizes_of(data, program)
    tensors = program.declare(sizes, "int32")
    s = te.create_schedule(tensors[-1].op)
    program.schedule(s, tensors, "opencl")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(widening, "NARROW", 0)
        (function,) = tilewright.lower(s, tensors).functions
    verify(function, Form.FLAT)
    finished = finish(function)
    verify(finished, Form.FLAT | Form.FINISHED)
    inputs = program.inputs(sizes, "int32")
    out = np.full(program.shapes(sizes)[-1], 113, "int32")
    interpret(finished, [*inputs, out], outputs=[finished.buffers[-1]])
    np.testing.assert_array_equal(out, program.expected(inputs, "int32"))


def test_data_keeps_its_type_where_indices_are_widened() -> None:
    """int32 data wraps as before, in values and in comparisons with it."""
    A = te.placeholder((3, 4), "int32", "A")
    B = te.compute((3, 4), lambda i, j: te.if_then_else(A[i, j] + i > j, A[i, j] * i + j, i.astype("int32")), name="B")
    s = te.create_schedule(B.op)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(widening, "NARROW", 0)
        module = tilewright.build(s, [A, B], "llvm")
    x = np.random.default_rng(1).integers(-2, 3, (3, 4)).astype("int32")
    i, j = np.ogrid[:3, :4]
    np.testing.assert_array_equal(
        result(module, [x], (3, 4), "int32"), np.where(x + i > j, x * i + j, np.broadcast_to(i, (3, 4)))
    )


def counted(target: str, size: Any) -> Any:
    """B[i] = i % 97, for more elements than 32 bits count."""
    B = te.compute((size,), lambda i: (i % 97).astype("int8"), name="B")
    s = te.create_schedule(B.op)
    spread(s, B, target, threads=256)
    return tilewright.build(s, [B], target)


def picked(target: str, size: int) -> Any:
    """C[j] = A[at[j]]"""
    A, at = te.placeholder((size,), "int8", "A"), te.placeholder((len(PLACES),), "int64", "at")
    C = te.compute((len(PLACES),), lambda j: A[at[j]], name="C")
    s = te.create_schedule(C.op)
    spread(s, C, target)
    return tilewright.build(s, [A, at, C], target)


def needs_allocation(target: str, nbytes: int) -> None:
    """Skip where the OpenCL device refuses an array of `nbytes` bytes."""
    if target != "opencl":
        return
    pyopencl = pytest.importorskip("pyopencl")
    on = next(one for platform in pyopencl.get_platforms() for one in platform.get_devices())
    if on.max_mem_alloc_size < nbytes:
        pytest.skip(
            f"{on.name} allows {on.max_mem_alloc_size:,} bytes per allocation; the array takes {nbytes:,} bytes"
        )


OPENCL, CUDA = (pytest.param(kind, marks=getattr(pytest.mark, kind)) for kind in ("opencl", "cuda"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "symbolic"),
    [
        pytest.param("opencl", False, marks=pytest.mark.opencl),
        ("llvm", True),
        pytest.param("cuda", False, marks=pytest.mark.cuda),
        pytest.param("cuda", True, marks=pytest.mark.cuda),
    ],
)
def test_an_array_of_more_than_two_to_the_31_elements(target: str, symbolic: bool) -> None:
    needs_allocation(target, HUGE)
    on = device(target)
    large = empty((HUGE,), "int8", on)
    counted(target, te.size_var("n", "int64") if symbolic else HUGE)(large)
    out = empty((len(PLACES),), "int8", on)
    picked(target, HUGE)(large, array(PLACES, on), out)
    np.testing.assert_array_equal(out.numpy(), PLACES % 97)
    n = te.size_var("n")
    short = tilewright.build(*_copy(n, target), target)
    with pytest.raises(UserError, match=rf"has {HUGE:,} elements, too many for the 32-bit indices"):
        short(large, empty((1,), "int8", on))


def _copy(n: Any, target: str) -> tuple[te.Schedule, list[Any]]:
    A = te.placeholder((n,), "int8", "A")
    B = te.compute((1,), lambda i: A[i], name="B")
    s = te.create_schedule(B.op)
    spread(s, B, target)
    return s, [A, B]


@pytest.mark.slow
@pytest.mark.parametrize("target", [OPENCL, CUDA])
def test_rows_whose_offsets_exceed_32_bits(target: str) -> None:
    """More than 2³¹ bytes, and fewer elements than 2³¹."""
    rows, columns = 2, 2**28 + 5
    needs_allocation(target, rows * columns * 4)
    fill = te.compute((rows, columns), lambda i, j: ((i * 7 + j) % 11).astype("int32"), name="fill")
    s = te.create_schedule(fill.op)
    spread(s, fill, target, threads=256)
    on = device(target)
    data = empty((rows, columns), "int32", on)
    tilewright.build(s, [fill], target)(data)
    at = te.placeholder((4,), "int64", "at")
    source = te.placeholder((rows, columns), "int32", "source")
    got = te.compute((rows, 4), lambda i, j: source[i, at[j]], name="got")
    s = te.create_schedule(got.op)
    spread(s, got, target)
    places = np.array([0, 1, columns - 2, columns - 1])
    out = empty((rows, 4), "int32", on)
    tilewright.build(s, [source, at, got], target)(data, array(places, on), out)
    np.testing.assert_array_equal(out.numpy(), (np.arange(rows)[:, None] * 7 + places) % 11)
    assert data.nbytes > 2**31


def test_constants_beyond_32_bits_in_shapes() -> None:
    T = te.placeholder((2**32, 4), "int8", "T")
    assert (T.shape[0].dtype, T.shape[1].dtype) == ("int64", "int32")
    assert te.reduce_axis((0, 2**31)).var.dtype == "int64"
    assert te.placeholder((2**30,), "int8", "T").shape[0].dtype == "int32"
    assert tir.const(2**31).dtype == "int64"
