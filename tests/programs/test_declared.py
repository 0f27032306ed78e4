"""Facts declared on sizes make better code, which stays right: fewer guards, vectors, buffers of a known size."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tilewright
from tests.programs.harness import build, every_target, result
from tilewright import te
from tilewright.core.errors import UserError


def rows(n: te.Var, m: te.Var, target: str) -> tuple[te.Schedule, list[te.Tensor]]:
    """C = 2 A + B by vectors of 4 along the rows."""
    A, B = te.placeholder((n, m), name="A"), te.placeholder((n, m), name="B")
    C = te.compute((n, m), lambda i, j: A[i, j] * 2.0 + B[i, j], name="C")
    s = te.create_schedule(C.op)
    outer, inner = s[C].split(C.op.axis[1], factor=4)
    s[C].vectorize(inner)
    if target != "llvm":
        s[C].bind(C.op.axis[0], te.thread_axis("blockIdx.x"))
        s[C].bind(outer, te.thread_axis("threadIdx.x"))
    return s, [A, B, C]


def source(s: te.Schedule, tensors: list[te.Tensor]) -> str:
    """The CUDA source."""
    text: str = tilewright.build(s, tensors, "cuda").imported_modules[0].get_source()
    return text


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_what_is_declared_shows_in_the_code(dtype: str) -> None:
    n = te.size_var("n", dtype)
    plain, known = (source(*rows(n, te.size_var("m", dtype, multiple_of=k), "cuda")) for k in (1, 4))
    assert "if (" in plain
    assert "float4" not in plain
    assert "if (" not in known
    assert known.count("*(const float4*)") == 2
    assert "make_float4" in known


@every_target
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_programs_under_declared_facts_are_right(target: str, dtype: str) -> None:
    n, m = te.size_var("n", dtype, minimum=2), te.size_var("m", dtype, multiple_of=4, maximum=64)
    s, tensors = rows(n, m, target)
    module = build(s, tensors, target)
    rng = np.random.default_rng(0)
    for shape in ((2, 4), (7, 0), (5, 12), (31, 64)):
        a, b = (rng.integers(-3, 4, shape).astype("float32") for _ in range(2))
        np.testing.assert_array_equal(result(module, (a, b), shape, "float32"), 2 * a + b)
    for shape, message in (
        ((1, 4), r"n is 1 \(extent 0 of argument 0 of main \(A\)\), but it is declared to be at least 2"),
        ((2, 6), "m is 6 .* declared to be at least 0, at most 64 and a multiple of 4"),
        ((2, 68), "m is 68"),
    ):
        a = np.zeros(shape, "float32")
        with pytest.raises(UserError, match=message):
            result(module, (a, a), shape, "float32")


def gram(n: te.Var) -> tuple[te.Schedule, list[te.Tensor]]:
    """B[i, j] = sum of A[i, k] * A[i, j], each row kept in shared memory by its block."""
    m, k = te.size_var("m"), te.reduce_axis((0, n), "k")
    A = te.placeholder((m, n), name="A")
    B = te.compute((m, n), lambda i, j: te.sum(A[i, k] * A[i, j], axis=k), name="B")
    s = te.create_schedule(B.op)
    shared = s.cache_read(A, "shared", [B])
    row, column = B.op.axis
    s[B].bind(row, te.thread_axis("blockIdx.x"))
    s[B].bind(column, te.thread_axis("threadIdx.x"))
    s[shared].compute_at(s[B], row)
    s[shared].bind(s[shared].op.axis[1], te.thread_axis("threadIdx.x"))
    return s, [A, B]


@pytest.mark.parametrize(
    "target",
    [pytest.param("opencl", marks=pytest.mark.opencl), pytest.param("cuda", marks=pytest.mark.cuda)],
)
def test_a_buffer_is_as_large_as_a_size_can_be(target: str) -> None:
    s, tensors = gram(te.size_var("n", maximum=100))
    assert re.search(r"__shared__ float A_shared\[100\];", source(s, tensors))
    module = build(s, tensors, target)
    for shape in ((3, 1), (3, 0), (0, 3), (2, 100)):
        a = np.random.default_rng(1).integers(0, 3, shape).astype("float32")
        np.testing.assert_array_equal(result(module, (a,), shape, "float32"), a.sum(1, keepdims=True) * a)


def test_a_buffer_without_bounds_is_refused() -> None:
    s, tensors = gram(te.size_var("n"))
    with pytest.raises(UserError, match=r"A.shared in shared memory has extents \(n\).*\n  fix: .*maximum=\.\.\."):
        tilewright.build(s, tensors, "opencl")


@every_target
def test_a_size_may_be_an_extents_part(target: str) -> None:
    """The variable counts tiles: divisibility without a declaration."""
    n = te.size_var("n")
    A = te.placeholder((n * 8,), name="A")
    B = te.compute((n * 8,), lambda i: A[i] + 1.0, name="B")
    s = te.create_schedule(B.op)
    outer, inner = s[B].split(B.op.axis[0], factor=8)
    s[B].vectorize(inner)
    if target != "llvm":
        s[B].bind(outer, te.thread_axis("blockIdx.x"))
    module = build(s, [A, B], target)
    for size in (0, 8, 72):
        a = np.arange(size, dtype="float32")
        np.testing.assert_array_equal(result(module, (a,), (size,), "float32"), a + 1)
    with pytest.raises(UserError, match="extent 0 is 12, but the other arguments make it 8"):
        result(module, (np.zeros(12, "float32"),), (12,), "float32")
