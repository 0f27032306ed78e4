"""Pragmas of tasks: threads that start once, loops that are dealt out to them, and barriers between those."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.errors.refused import refused
from tests.loops.running import floats, run
from tilewright import te, tir
from tilewright.loops.nodes import Allocate
from tilewright.runtime import set_num_threads

THREADS = [1, 2, 3, 8]


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    yield
    set_num_threads(None)


def addition(*pragmas: str, rows: int = 13, n: int = 1040) -> tuple[te.Schedule, list[te.Tensor], Any, Any]:
    """C = A + B as in the legacy release's test of these pragmas."""
    A, B = te.placeholder((n,), name="A"), te.placeholder((n,), name="B")
    C = te.compute((n,), lambda i: A[i] + B[i], name="C")
    s = te.create_schedule(C.op)
    xo, xi = s[C].split(C.op.axis[0], factor=4)
    xo1, xo2 = s[C].split(xo, factor=rows)
    s[C].parallel(xo2)
    for key in pragmas:
        s[C].pragma(xo1 if key == "parallel_launch_point" else xo2, key)
    s[C].vectorize(xi)
    return s, [A, B, C], xo1, xo2


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("strided", [True, False])
@pytest.mark.parametrize("n", [1040, 1000])
def test_every_element_is_computed_once(threads: int, strided: bool, n: int) -> None:
    more = ["parallel_stride_pattern"] if strided else []
    s, args, _, _ = addition("parallel_launch_point", *more, "parallel_barrier_when_finish", n=n)
    f = tw.build(s, args, "llvm")
    set_num_threads(threads)
    a, b, out = floats(n), floats(n), tw.nd.empty((n,))
    f(tw.nd.array(a), tw.nd.array(b), out)
    np.testing.assert_array_equal(out.numpy(), a + b)


def test_the_threads_start_once_and_share_by_stride_or_stretch() -> None:
    s, args, _, _ = addition("parallel_launch_point", "parallel_stride_pattern", "parallel_barrier_when_finish")
    source = tw.build(s, args, "llvm").get_source()
    assert "@tilewright_parallel_for" not in source
    assert source.count("call i32 @tilewright_launch(") == 1
    assert source.count("call i32 @tilewright_task_barrier(") == 1
    assert "step = add nsw i64 %i.outer.inner.at, %tasks" in source
    s, args, _, _ = addition("parallel_launch_point")
    source = tw.build(s, args, "llvm").get_source()
    assert "@tilewright_task_barrier" not in source, "what it stores is used nowhere else"
    assert "%share = sdiv i64" in source


def passed_on(rounds: int, n: int, marked: bool) -> tuple[te.Schedule, list[te.Tensor]]:
    """B = A; `rounds` times: T[i] = B[n - 1 - i] + 1, B[i] = T[i] * 2: each loop reads what other threads stored."""
    A = te.placeholder((n,), "int32", "A")

    def write(ins: Any, outs: Any) -> Any:
        a, b, t = ins[0], outs[0], tir.decl_buffer((n,), "int32", "T")

        def loop(value: Any, target: Any) -> Any:
            i = te.var("i")
            notes = {"parallel_stride_pattern": 1} if marked else {}
            return tir.For(i, 0, n, tir.ForKind.PARALLEL, target.vstore(i, value(i)), annotations=notes)

        k = te.var("k")
        body = tir.SeqStmt([loop(lambda i: b.vload(n - 1 - i) + 1, t), loop(lambda i: t.vload(i) * 2, b)])
        both = tir.SeqStmt([loop(a.vload, b), tir.For(k, 0, rounds, tir.ForKind.SERIAL, body)])
        region = tir.For(te.var("once"), 0, 1, tir.ForKind.SERIAL, both, annotations={"parallel_launch_point": 1})
        return Allocate(t, region)

    B = te.extern((n,), [A], write, name="B", dtype="int32")
    return te.create_schedule(B.op), [A, B]


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("marked", [True, False])
def test_loops_wait_for_what_other_threads_store(threads: int, marked: bool) -> None:
    """No barrier is asked for: those that are needed are there."""
    rounds, n = 20, 101
    s, args = passed_on(rounds, n, marked)
    values = np.arange(n, dtype="int32")
    want = values.copy()
    for _ in range(rounds):
        want = (want[::-1] + 1) * 2
    run(tw.lower(s, args)["main"], values, out := np.zeros(n, np.int32))
    np.testing.assert_array_equal(out, want)
    f = tw.build(s, args, "llvm")
    set_num_threads(threads)
    for _ in range(20):
        result = tw.nd.array(np.full(n, 77, np.int32))
        f(tw.nd.array(values), result)
        np.testing.assert_array_equal(result.numpy(), want)


def test_threads_that_sleep_are_woken_for_the_shortest_tasks() -> None:
    """Tasks wait for each other: each needs a thread, whatever a loop of their length would be worth."""
    f = tw.build(*passed_on(2, 8, marked=True), "llvm")
    set_num_threads(4)
    values = np.arange(8, dtype="int32")
    for _ in range(20):
        result = tw.nd.array(np.full(8, 77, np.int32))
        f(tw.nd.array(values), result)
        np.testing.assert_array_equal(result.numpy(), values * 4 + 6)
        time.sleep(0.001)  # in which threads go to sleep


def test_stages_computed_inside() -> None:
    """What a parallel loop stores is one for all threads, what every thread computes is its own."""
    A = te.placeholder((8, 64), name="A")
    B = te.compute((8, 64), lambda i, j: A[i, j] + 1, name="B")
    S = te.compute((8, 64), lambda i, j: A[i, j] * 2, name="S")
    C = te.compute((8, 64), lambda i, j: B[i, 63 - j] + S[i, j], name="C")
    s = te.create_schedule(C.op)
    i, j = C.op.axis
    for stage in (B, S):
        s[stage].compute_at(s[C], i)
    s[B].parallel(B.op.axis[1])
    s[C].parallel(j)
    s[C].pragma(i, "parallel_launch_point")
    f = tw.build(s, [A, C], "llvm")
    a = floats(8, 64)
    for threads in THREADS:
        set_num_threads(threads)
        out = tw.nd.empty((8, 64))
        f(tw.nd.array(a), out)
        np.testing.assert_allclose(out.numpy(), a[:, ::-1] + 1 + 2 * a, rtol=1e-6)


def test_what_is_refused() -> None:
    for key in ("parallel_stride_pattern", "parallel_barrier_when_finish"):
        s, args, _, _ = addition(key)
        with refused("pragma", f"has the pragma {key}, outside of any parallel_launch_point", fix="a loop around it"):
            tw.build(s, args, "llvm")
    A = te.placeholder((8, 4), name="A")
    k = te.reduce_axis((0, 4), name="k")
    B = te.compute((8,), lambda i: te.sum(A[i, k], axis=k), name="B")
    s = te.create_schedule(B.op)
    s[B].pragma(B.op.axis[0], "parallel_launch_point")
    with refused("pragma", "every thread would update 'B'", fix="make a loop around the update parallel"):
        tw.build(s, [A, B], "llvm")


def test_a_barrier_inside_of_a_parallel_loop() -> None:
    A = te.placeholder((8, 4), name="A")
    B = te.compute((8, 4), lambda i, j: A[i, j] + 1, name="B")
    s = te.create_schedule(B.op)
    i, j = B.op.axis
    io, ii = s[B].split(i, factor=2)
    s[B].pragma(io, "parallel_launch_point")
    s[B].parallel(ii)
    s[B].pragma(j, "parallel_barrier_when_finish")
    with refused("pragma", "inside of a parallel loop", fix="to the parallel loop"):
        tw.build(s, [A, B], "llvm")
