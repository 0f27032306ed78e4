"""Cross-thread reductions: threads of a block combine their parts, by shuffles or in shared memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.errors.refused import refused
from tests.loops.running import empty, floats, run
from tests.passes.running import finish
from tests.programs.harness import FLOATS, build
from tilewright import te, tir

on_grids = pytest.mark.parametrize(
    "target", [pytest.param("opencl", marks=pytest.mark.opencl), pytest.param("cuda", marks=pytest.mark.cuda)]
)

# (columns, threadIdx.x, threadIdx.y): within a warp, whole warps, odd numbers of warps, and neither.
SHAPES = [(100, 32, 2), (100, 4, 8), (300, 128, 2), (300, 96, 2), (2000, 1024, 1), (64, 64, 1), (7, 1, 1)]
SHAPES += [(100, 16, 3), (100, 7, 5), (50, 33, 1), (1500, 500, 1)]


def rows(
    n: int, columns: int, tx: int, ty: int, reduction: Callable[..., Any] = te.sum, dtype: str = "float32"
) -> tuple[te.Schedule, list[te.Tensor]]:
    """B[i] = the reduction of a row, shared by tx threads; ty rows a block."""
    A, k = te.placeholder((n, columns), dtype, "A"), te.reduce_axis((0, columns), "k")
    B = te.compute((n,), lambda i: reduction(A[i, k], axis=k), name="B")
    s = te.create_schedule(B.op)
    _, inner = s[B].split(k, factor=tx)
    block, row = s[B].split(B.op.axis[0], factor=ty)
    s[B].bind(block, te.thread_axis("blockIdx.x"))
    s[B].bind(row, te.thread_axis("threadIdx.y"))
    s[B].bind(inner, te.thread_axis("threadIdx.x"))
    return s, [A, B]


def call(s: te.Schedule, args: list[Any], target: str, *values: np.ndarray, out: np.ndarray) -> np.ndarray:
    f, dev = build(s, args, target), tw.device(target)
    given = tw.nd.array(out, dev)
    f(*(tw.nd.array(v, dev) for v in values), given)
    result: np.ndarray = given.numpy()
    return result


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_what_lower_shows_means_the_reduction(shape: tuple[int, int, int]) -> None:
    s, args = rows(5, *shape)
    values, out = floats(5, shape[0]), empty(5)
    run(tw.lower(s, args)["main"], values, out)
    np.testing.assert_allclose(out, values.sum(1), rtol=1e-4, atol=1e-5)


@on_grids
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_sums_and_maxima(shape: tuple[int, int, int], target: str) -> None:
    values = floats(5, shape[0])
    for reduction, want in ((te.sum, values.sum(1, dtype="float64")), (te.max, values.max(1))):
        s, args = rows(5, *shape, reduction)
        np.testing.assert_allclose(call(s, args, target, values, out=empty(5)), want, rtol=1e-4, atol=1e-4)


@on_grids
@pytest.mark.parametrize("dtype", [*FLOATS, "int8", "int32", "int64", "uint8"])
def test_every_type(dtype: str, target: str) -> None:
    if target == "opencl" and dtype in ("float16", "bfloat16"):
        tolerance = 5e-2
    else:
        tolerance = {"float16": 2e-2, "bfloat16": 8e-2}.get(dtype, 1e-5)
    kind = te.placeholder((1,), dtype).dtype.numpy
    values = np.random.default_rng(3).integers(-2 if dtype[0] != "u" else 0, 4, (4, 70)).astype(kind)
    s, args = rows(4, 70, 32, 2, dtype=dtype)
    got = call(s, args, target, values, out=np.zeros(4, kind))
    np.testing.assert_allclose(got.astype("float64"), values.astype("float64").sum(1), rtol=tolerance, atol=tolerance)


@on_grids
def test_several_values_at_once(target: str) -> None:
    """argmax: ties go to one of the largest, the same for all outputs."""
    index, value = te.placeholder((6, 200), "int32", "index"), te.placeholder((6, 200), name="value")
    k = te.reduce_axis((0, 200), "k")
    argmax = te.comm_reducer(
        lambda x, y: (tir.Select(x[1] >= y[1], x[0], y[0]), tir.Select(x[1] >= y[1], x[1], y[1])),
        lambda t0, t1: (tir.const(-1, t0), te.min_value(t1)),
        name="argmax",
    )
    values, numbers = floats(6, 200), np.tile(np.arange(200, dtype="int32"), (6, 1))
    for threads in (16, 64, 20):
        T0, T1 = te.compute((6,), lambda i: argmax((index[i, k], value[i, k]), axis=k), name="T")
        s = te.create_schedule(T0.op)
        s[T0].bind(s[T0].split(k, factor=threads)[1], te.thread_axis("threadIdx.x"))
        s[T0].bind(T0.op.axis[0], te.thread_axis("blockIdx.x"))
        f, dev = build(s, [index, value, T0, T1], target), tw.device(target)
        places, largest = tw.nd.array(np.full(6, 77, "int32"), dev), tw.nd.array(empty(6), dev)
        f(tw.nd.array(numbers, dev), tw.nd.array(values, dev), places, largest)
        np.testing.assert_array_equal(places.numpy(), values.argmax(1))
        np.testing.assert_array_equal(largest.numpy(), values.max(1))


def softmax(n: int, columns: int, threads: int, scope: str) -> tuple[te.Schedule, list[te.Tensor]]:
    A = te.placeholder((n, columns), name="A")
    k, m = te.reduce_axis((0, columns), "k"), te.reduce_axis((0, columns), "m")
    most = te.compute((n,), lambda i: te.max(A[i, k], axis=k), name="most")
    e = te.compute((n, columns), lambda i, j: te.exp(A[i, j] - most[i]), name="e")
    total = te.compute((n,), lambda i: te.sum(e[i, m], axis=m), name="total")
    out = te.compute((n, columns), lambda i, j: e[i, j] / total[i], name="out")
    s = te.create_schedule(out.op)
    s[e].compute_inline()
    tx = te.thread_axis("threadIdx.x")
    i, j = out.op.axis
    s[out].bind(i, te.thread_axis("blockIdx.x"))
    s[out].bind(s[out].split(j, factor=threads)[1], tx)
    for tensor, axis in ((total, m), (most, k)):
        s[tensor].bind(s[tensor].split(axis, factor=threads)[1], tx)
        s[tensor].compute_at(s[out], i)
        s[tensor].set_scope(scope)
    return s, [A, out]


@on_grids
@pytest.mark.parametrize("threads", [32, 64, 24])
def test_results_that_the_block_goes_on_with(threads: int, target: str) -> None:
    s, args = softmax(7, 150, threads, "shared")
    values = floats(7, 150)
    e = np.exp(values - values.max(1, keepdims=True))
    np.testing.assert_allclose(call(s, args, target, values, out=empty(7, 150)), e / e.sum(1, keepdims=True), rtol=1e-4)


@on_grids
def test_inside_a_loop_memory_is_used_again(target: str) -> None:
    """One exchange per iteration, through the same shared memory."""
    A, k = te.placeholder((9, 64), name="A"), te.reduce_axis((0, 64), "k")
    B = te.compute((9,), lambda i: te.sum(A[i, k], axis=k), name="B")
    values = floats(9, 64)
    for threads in (64, 24):
        s = te.create_schedule(B.op)
        s[B].bind(s[B].split(k, factor=threads)[1], te.thread_axis("threadIdx.x"))
        block, _ = s[B].split(B.op.axis[0], factor=4)  # the rows of a block one after the other
        s[B].bind(block, te.thread_axis("blockIdx.x"))
        got = call(s, [A, B], target, values, out=empty(9))
        np.testing.assert_allclose(got, values.sum(1, dtype="float64"), rtol=1e-4, atol=1e-4)


@on_grids
def test_partial_results_by_rfactor_and_a_predicate(target: str) -> None:
    n = te.size_var("n")
    A, k = te.placeholder((n, 1000), name="A"), te.reduce_axis((0, 1000), "k")
    B = te.compute((n,), lambda i: te.sum(A[i, k], axis=k), name="B")
    s = te.create_schedule(B.op)
    partial = s.rfactor(B, s[B].split(k, factor=16)[1])
    block, row = s[B].split(s[B].op.axis[0], factor=8)
    tx = te.thread_axis("threadIdx.x")
    s[B].bind(block, te.thread_axis("blockIdx.x"))
    s[B].bind(row, te.thread_axis("threadIdx.y"))
    s[B].bind(s[B].op.reduce_axis[0], tx)
    s[partial].compute_at(s[B], s[B].op.reduce_axis[0])
    s[B].set_store_predicate(tx.var.equal(3))
    values = floats(21, 1000)
    got = call(s, [A, B], target, values, out=empty(21))
    np.testing.assert_allclose(got, values.sum(1, dtype="float64"), rtol=1e-4, atol=1e-4)


def test_warps_of_cuda_exchange_registers() -> None:
    def source(*shape: int) -> str:
        s, args = rows(4, *shape)
        return str(tw.build(s, args, "cuda").imported_modules[0].get_source())

    within, whole, odd = source(100, 32, 2), source(300, 128, 2), source(100, 24, 1)
    assert within.count("__shfl") == 6
    assert "__shared__" not in within
    assert "__syncthreads" not in within
    assert whole.count("__shfl") == 6 + 3
    assert whole.count("__syncthreads") == 1
    assert "__shfl" not in odd
    assert odd.count("__syncthreads") == 6  # after the first stores, and after each of the 5 levels of a tree over 24


@pytest.mark.parametrize(("columns", "tx", "ty"), SHAPES)
def test_every_pass_leaves_a_well_formed_program(columns: int, tx: int, ty: int) -> None:
    """Shared memory of trees too is allocated at the head of the kernel."""
    s, args = rows(5, columns, tx, ty)
    (function,) = tw.lower(s, args).functions
    finish(function, check=True)


def test_a_store_predicate_keeps_the_parts_of_all_threads() -> None:
    s, args = rows(3, 10, 4, 1)
    B = args[1]
    s[B].set_store_predicate(s[B].value.annotation(s[B].leaf_iter_vars[3]).thread.var.equal(0))  # type: ignore[union-attr]
    values, out = floats(3, 10), empty(3)
    run(tw.lower(s, args)["main"], values, out)
    np.testing.assert_allclose(out, values.sum(1), rtol=1e-5)


def test_the_smallest_integer_starts_an_argmax() -> None:
    """Comparing with it by a difference would overflow."""
    A, k = te.placeholder((5, 9), "int32", "A"), te.reduce_axis((0, 9), "k")
    argmax = te.comm_reducer(
        lambda x, y: (tir.Select(x[1] > y[1], x[0], y[0]), te.max(x[1], y[1])),
        lambda t0, t1: (tir.const(-1, t0), te.min_value(t1)),
    )
    place, value = te.compute((5,), lambda i: argmax((k, A[i, k]), axis=k), name="T")
    s = te.create_schedule(place.op)
    values = np.random.default_rng(0).permuted(np.tile(np.arange(1, 10, dtype="int32"), (5, 1)), axis=1)
    places, largest = np.zeros(5, "int32"), np.zeros(5, "int32")
    run(tw.lower(s, [A, place, value])["main"], values, places, largest)
    np.testing.assert_array_equal(places, values.argmax(1))
    np.testing.assert_array_equal(largest, values.max(1))


def test_threads_that_need_different_results_share_no_reduction() -> None:
    s, args = rows(8, 16, 4, 1)
    B = args[1]
    s = te.create_schedule(B.op)
    total = s.cache_write(B, "local")
    _, row = s[B].split(B.op.axis[0], factor=4)
    s[B].bind(row, te.thread_axis("threadIdx.x"))
    s[total].compute_at(s[B], row)
    s[total].bind(s[total].split(s[total].op.reduce_axis[0], nparts=4)[0], te.thread_axis("threadIdx.x"))
    with refused("bind", "each needs another result", fix="outside of 'i.inner'"):
        tw.lower(s, args)


def test_what_is_computed_in_the_loop_of_each_thread() -> None:
    """Threads stand outside of the reduction loops that they run through, and so do those of what is computed there."""
    A, k = te.placeholder((4, 24), name="A"), te.reduce_axis((0, 24), "k")
    C = te.compute((4, 24), lambda i, j: A[i, j] + 1.0, name="C")
    B = te.compute((4,), lambda i: te.sum(C[i, k], axis=k), name="B")
    s = te.create_schedule(B.op)
    outer, inner = s[B].split(k, factor=4)
    s[B].bind(inner, te.thread_axis("threadIdx.x"))
    s[B].bind(B.op.axis[0], te.thread_axis("blockIdx.x"))
    s[C].compute_at(s[B], outer)
    lowered = tw.lower(s, [A, B])
    assert 'T.allocate([1], "float32", "local")' in str(lowered)
    values, out = floats(4, 24), empty(4)
    run(lowered["main"], values, out)
    np.testing.assert_allclose(out, values.sum(1) + 24, rtol=1e-5)
    s[C].set_scope("global")
    with refused("compute_at", "bound to blockIdx.x, but kept in global memory", fix="outside of the kernel"):
        tw.lower(s, [A, B])
