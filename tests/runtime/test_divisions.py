"""Divisions by sizes that may be 0: an answer as NumPy has it, and never the end of the process."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tilewright import te, tir
from tilewright.runtime.divisions import floordiv, floormod, quotient, truncdiv, truncmod
from tilewright.runtime.module import Module

KINDS = ["c", "llvm", pytest.param("opencl", marks=pytest.mark.opencl)]


def built(out: te.Tensor, args: list[object], kind: str) -> Module:
    """A module of one stage, whose loops are bound to threads on a GPU."""
    s = te.create_schedule(out.op)
    if kind == "opencl":
        outer, inner = s[out].split(s[out].fuse(*out.op.axis), 32)
        s[out].bind(outer, te.thread_axis("blockIdx.x"))
        s[out].bind(inner, te.thread_axis("threadIdx.x"))
    module: Module = tw.build(s, args, kind)
    return module


@pytest.mark.parametrize("kind", KINDS)
def test_a_divisor_is_zero_though_the_sizes_in_it_are_not(kind: str) -> None:
    n = te.var("n")
    a = te.placeholder((n,), name="A", dtype="int32")
    f = built(b := te.compute((n,), lambda i: a[i] // (n - 1) + a[i] % (n - 1), name="B"), [a, b], kind)
    on = tw.device("cpu" if kind != "opencl" else kind)
    for values in ([7], [7, 9, -8]):
        data = tw.nd.array(np.array(values, "int32"), on)
        made = tw.nd.empty((len(values),), "int32", on)
        f(data, made)
        by = len(values) - 1
        assert made.numpy().tolist() == [v // by + v % by if by else 0 for v in values]


@pytest.mark.parametrize("kind", KINDS)
def test_an_array_that_is_only_read_may_be_empty_and_its_size_a_divisor(kind: str) -> None:
    n, m = te.var("n"), te.var("m")
    a = te.placeholder((n,), name="A", dtype="int32")
    f = built(b := te.compute((m,), lambda i: te.if_then_else(i < n, a[i], i // n), name="B"), [a, b], kind)
    on = tw.device("cpu" if kind != "opencl" else kind)
    made = tw.nd.empty((4,), "int32", on)
    f(tw.nd.empty((0,), "int32", on), made)
    assert made.numpy().tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("kind", KINDS)
def test_host_code_divides_by_an_argument_that_is_zero(kind: str) -> None:
    n, m = te.var("n"), te.var("m")
    a = te.placeholder((n,), name="A")
    f = built(b := te.compute((n // m,), lambda i: a[i] + 1, name="B"), [a, m, b], kind)
    on = tw.device("cpu" if kind != "opencl" else kind)
    data = tw.nd.array(np.arange(7, dtype="float32"), on)
    f(data, 0, tw.nd.empty((0,), device=on))
    made = tw.nd.empty((3,), device=on)
    f(data, 2, made)
    assert made.numpy().tolist() == [1, 2, 3]


def test_divisions_of_host_code() -> None:
    for a in range(-7, 8):
        for b in (-3, -1, 1, 2, 5):
            assert (floordiv(a, b), floormod(a, b)) == divmod(a, b)
            assert (truncdiv(a, b), truncmod(a, b)) == (int(a / b), int(np.fmod(a, b)))
        assert (floordiv(a, 0), floormod(a, 0), truncdiv(a, 0), truncmod(a, 0)) == (0, 0, 0, 0)
    assert quotient(1.0, 4.0) == 0.25
    assert quotient(-1.0, 0.0) == -np.inf
    assert np.isnan(quotient(0.0, 0.0))


def test_a_choice_among_the_extents_of_an_argument() -> None:
    n = te.var("n")
    a = te.placeholder((n,), name="A")
    b = te.compute((tir.Select(n > 4, n, 4),), lambda i: te.if_then_else(i < n, a[i], 0.0), name="B")
    f = built(b, [a, b], "llvm")
    for size in (7, 2):
        made = tw.nd.empty((max(size, 4),))
        f(tw.nd.array(np.ones(size, "float32")), made)
        assert made.numpy().sum() == size


def test_a_program_in_c_computes_sizes() -> None:
    n = te.var("n", multiple_of=8)
    a = te.placeholder((n,), name="A")
    b = te.compute((n // 4,), lambda i: a[i * 4] + 1, name="B")
    c = te.compute((n // 4,), lambda i: b[i] * 2, name="C")
    f = tw.build(te.create_schedule(c.op), [a, c], "c")
    made = tw.nd.empty((4,))
    f(tw.nd.array(np.arange(16, dtype="float32")), made)
    assert made.numpy().tolist() == [2, 10, 18, 26]
