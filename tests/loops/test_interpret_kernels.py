"""The interpreter: what kernels compute."""

from __future__ import annotations

import numpy as np
import pytest

from tests.counting import function_calls
from tests.loops.programs import alloc, buf, function, launch, load, loop, ramp, spread, store, thread
from tests.loops.running import empty, floats, run
from tilewright.core.dtype import DType
from tilewright.core.hardware import MemoryScope
from tilewright.expr.nodes import Cast, IfThenElse, Var
from tilewright.expr.operators import (
    all_of,
    any_of,
    const,
    if_then_else,
    likely,
    maximum,
    select,
)
from tilewright.loops.interpret import InterpretError
from tilewright.loops.nodes import Barrier, Function, If, Stmt, seq

SYNC = Barrier(MemoryScope.SHARED)


def test_every_thread_of_a_three_dimensional_grid_has_its_place() -> None:
    shape = (2, 3, 4, 5, 6, 7)
    A = buf("A", *shape, dtype="int32")
    names = ("bz", "by", "bx", "tz", "ty", "tx")
    at = tuple(Var(name) for name in names)
    value = at[0]
    for extent, var in zip(shape[1:], at[1:], strict=True):
        value = value * extent + var
    f = function((A,), launch(store(A, at, value), **dict(zip(names, zip(at, shape, strict=True), strict=True))))
    for lanes in (1, 1000, 1 << 20):
        x = empty(*shape, dtype="int32")
        run(f, x, lanes=lanes)
        np.testing.assert_array_equal(x.ravel(), np.arange(x.size))


def test_a_guard_masks_the_last_block() -> None:
    A, B = buf("A", 10), buf("B", 10)

    def body(b: Var) -> Stmt:
        return thread("tx", 4, lambda t: If(likely(b * 4 + t < 10), store(B, b * 4 + t, load(A, b * 4 + t)), None))

    x, y = floats(10), empty(10)
    run(function((A, B), thread("bx", 3, body)), x, y)
    np.testing.assert_array_equal(y, x)


def test_a_branch_that_is_not_taken_reads_nothing() -> None:
    A, B = buf("A", 4), buf("B", 6)
    x, y = floats(4), empty(6)
    value = lambda i: if_then_else(all_of(i >= 1, i < 5), load(A, i - 1), const(0.0))
    run(function((A, B), thread("bx", 6, lambda i: store(B, i, value(i)))), x, y)
    np.testing.assert_array_equal(y, np.pad(x, 1))
    eager = lambda i: select(all_of(i >= 1, i < 5), load(A, i - 1), const(0.0))
    with pytest.raises(InterpretError, match="out of bounds"):
        run(function((A, B), thread("bx", 6, lambda i: store(B, i, eager(i)))), x, y)


def test_and_or_stop_at_what_decides() -> None:
    A, B = buf("A", 4, dtype="int32"), buf("B", 6, dtype="int32")
    x = np.arange(4, dtype="int32")
    for condition in (
        lambda i: all_of(i < 4, load(A, i) > 1),
        lambda i: all_of(i < 4, any_of(i >= 4, load(A, i) > 1)),
    ):
        y, i = empty(6, dtype="int32"), Var("i")
        run(
            function((A, B), launch(store(B, i, IfThenElse(condition(i), const(1), const(0))), tx=(i, 6))),
            x,
            y,
        )
        np.testing.assert_array_equal(y, [0, 0, 1, 1, 0, 0])


def conv1d(M: int, N: int) -> Function:
    A, W, B, b, k = buf("A", M), buf("W", N), buf("B", M + N - 1), Var("b"), Var("k")
    term = if_then_else(any_of(k >= M, b - k < 0, b - k >= N), const(0.0), load(A, k) * load(W, b - k))
    body = seq(store(B, b, 0.0), loop(k, M + N - 1, store(B, b, load(B, b) + term)))
    return function((A, W, B), launch(body, bx=(b, M + N - 1)))


@pytest.mark.parametrize("lanes", [1 << 17, 64, 7])
def test_conv1d_block_by_block(lanes: int) -> None:
    x, w, y = floats(100), floats(9), empty(108)
    run(conv1d(100, 9), x, w, y, lanes=lanes)
    np.testing.assert_allclose(y, np.convolve(x, w), rtol=1e-4, atol=1e-5)


def test_a_naive_kernel_of_two_thousand_blocks_takes_seconds_at_most() -> None:
    x, w, y = floats(2048), floats(32), empty(2079)
    kernel = conv1d(2048, 32)
    assert function_calls(lambda: run(kernel, x, w, y)) < 1_500_000  # about a second
    np.testing.assert_allclose(y, np.convolve(x, w), rtol=1e-3, atol=1e-4)


def test_local_memory_is_one_copy_a_thread() -> None:
    A, B, T = buf("A", 6, 8), buf("B", 6, 8), buf("T", 3, scope="local")
    k = Var("k")

    def body(b: Var, t: Var) -> Stmt:
        fill = loop(k, 3, store(T, k, load(A, b, t) + Cast(DType("float32"), k)))
        return alloc(T, fill, store(B, (b, t), load(T, t % 3) + load(T, 0)))

    f = function((A, B), thread("bx", 6, lambda b: thread("tx", 8, lambda t: body(b, t))))
    x = floats(6, 8)
    for lanes in (1 << 17, 16):
        y = empty(6, 8)
        run(f, x, y, lanes=lanes)
        np.testing.assert_array_equal(y, (x + (np.arange(8) % 3).astype("float32")) + x)


def test_shared_memory_may_be_larger_in_some_blocks() -> None:
    B, b, k = buf("B", 4, 4, dtype="int32"), Var("bx"), Var("k")
    S = buf("S", b + 1, dtype="int32", scope="shared")
    body = alloc(S, loop(k, b + 1, store(S, k, b * 10 + k)), loop(k, b + 1, store(B, (b, k), load(S, b - k))))
    f = function((B,), launch(body, bx=(b, 4)))
    for lanes in (1 << 17, 1):
        y = np.zeros((4, 4), "int32")
        run(f, y, lanes=lanes)
        np.testing.assert_array_equal(y, [[i * 10 + i - j if j <= i else 0 for j in range(4)] for i in range(4)])


def test_a_loop_may_be_longer_in_some_threads() -> None:
    B, k = buf("B", 5, dtype="int32"), Var("k")

    def body(t: Var) -> Stmt:
        return seq(store(B, t, 0), loop(k, t, store(B, t, load(B, t) + k), low=t))

    y = empty(5, dtype="int32")
    run(function((B,), thread("tx", 5, body)), y)
    np.testing.assert_array_equal(y, [sum(range(t, 2 * t)) for t in range(5)])


def test_loops_of_one_tag_are_one_hardware_index() -> None:
    """As the depthwise document prints it: threadIdx.x is launched inside a loop, and again after it."""
    A, B, S, w = buf("A", 4, 8), buf("B", 4, 8), buf("S", 8, scope="shared"), Var("w")

    def block(b: Var) -> Stmt:
        fill = loop(w, 2, thread("tx", 4, lambda t: store(S, w * 4 + t, load(A, b, w * 4 + t))))
        use = thread("tx", 4, lambda t: loop(w, 2, store(B, (b, w * 4 + t), load(S, 7 - (w * 4 + t)))))
        return alloc(S, fill, use)

    x, y = floats(4, 8), empty(4, 8)
    run(function((A, B), thread("bx", 4, block)), x, y, races=False)
    np.testing.assert_array_equal(y, x[:, ::-1])


def test_a_tag_has_one_extent_in_a_kernel() -> None:
    B = buf("B", 8)
    body = seq(thread("tx", 4, lambda t: store(B, t, 0.0)), thread("tx", 8, lambda t: store(B, t, 0.0)))
    with pytest.raises(InterpretError, match=r"threadIdx.x has extents"):
        run(function((B,), thread("bx", 1, body)), empty(8))


def test_what_stands_in_no_thread_loop_is_done_by_all_threads() -> None:
    A, B, S, k = buf("A", 8), buf("B", 8), buf("S", 8, scope="shared"), Var("k")
    body = alloc(
        S,
        loop(k, 8, store(S, k, load(A, k))),  # every thread stores the same: no race
        SYNC,
        thread("tx", 8, lambda t: store(B, t, load(S, 7 - t))),
    )
    x, y = floats(8), empty(8)
    run(function((A, B), thread("bx", 1, body)), x, y)
    np.testing.assert_array_equal(y, x[::-1])


def test_axes_of_extent_one() -> None:
    A, B = buf("A", 1), buf("B", 1)
    body = lambda b: thread("ty", 1, lambda t: store(B, b + t, load(A, b) + 1.0))
    x, y = floats(1), empty(1)
    run(function((A, B), thread("bx", 1, body)), x, y)
    assert y[0] == x[0] + np.float32(1)


def test_vthreads_run_one_after_the_other_inside_the_threads() -> None:
    B = buf("B", 2, 4, dtype="int32")
    inner = lambda v: thread("tx", 4, lambda t: store(B, (v, t), v * 10 + t))
    for f in (
        function((B,), thread("vt", 2, inner)),
        function((B,), thread("bx", 1, thread("vt", 2, inner))),
    ):
        y = empty(2, 4, dtype="int32")
        run(f, y)
        np.testing.assert_array_equal(y, [[0, 1, 2, 3], [10, 11, 12, 13]])


def test_kernels_follow_one_another_in_host_loops() -> None:
    A, T, B, i = buf("A", 8), buf("T", 8), buf("B", 8), Var("i")
    step = seq(
        thread("tx", 8, lambda t: store(T, t, load(B, (t + 1) % 8))),
        thread("tx", 8, lambda t: store(B, t, load(T, t))),
    )
    first = thread("tx", 8, lambda t: store(B, t, load(A, t)))
    x, y = floats(8), empty(8)
    run(function((A, B), first, alloc(T, loop(i, 3, step))), x, y)
    np.testing.assert_array_equal(y, np.roll(x, -3))


def test_vector_loads_and_stores() -> None:
    A, B, T, S = buf("A", 4, 16), buf("B", 4, 16), buf("T", 4, scope="local"), buf("S", 16, scope="shared")

    def body(b: Var, t: Var) -> Stmt:
        wide = ramp(t * 4, 4)
        return seq(
            store(T, ramp(0, 4), load(A, b, wide)),
            store(S, wide, load(T, ramp(3, 4, -1))),
            store(B, (b, wide), load(S, wide) * spread(2.0, 4)),
        )

    f = function((A, B), thread("bx", 4, lambda b: alloc(S, thread("tx", 4, lambda t: alloc(T, body(b, t))))))
    x = floats(4, 16)
    for lanes in (1 << 17, 1):
        y = empty(4, 16)
        run(f, x, y, lanes=lanes)
        np.testing.assert_array_equal(y, x.reshape(4, 4, 4)[:, :, ::-1].reshape(4, 16) * 2)


def test_vectors_outside_kernels() -> None:
    A, B, i = buf("A", 8), buf("B", 8), Var("i")
    x, y = floats(8), empty(8)
    run(function((A, B), loop(i, 2, store(B, ramp(i * 4, 4), maximum(load(A, ramp(i * 4, 4)), 0.0)))), x, y)
    np.testing.assert_array_equal(y, np.maximum(x, 0))


def test_a_condition_may_differ_between_the_lanes_of_a_vector() -> None:
    A, B = buf("A", 6), buf("B", 8)
    at = lambda t: ramp(t * 4, 4)
    value = lambda t: IfThenElse(at(t) < spread(6, 4, "int32"), load(A, at(t)), spread(0.0, 4))
    x, y = floats(6), empty(8)
    run(function((A, B), thread("tx", 2, lambda t: store(B, at(t), value(t)))), x, y)
    np.testing.assert_array_equal(y, np.pad(x, (0, 2)))


def test_a_sum_over_shared_memory_with_barriers() -> None:
    A, B, S = buf("A", 4, 16), buf("B", 4), buf("S", 16, scope="shared")

    def body(b: Var, t: Var) -> Stmt:
        parts: list[Stmt] = [store(S, t, load(A, b, t))]
        for width in (8, 4, 2, 1):
            parts += [SYNC, If(t < width, store(S, t, load(S, t) + load(S, t + width)), None)]
        return alloc(S, *parts, If(t.equal(0), store(B, b, load(S, 0)), None))

    f = function((A, B), thread("bx", 4, lambda b: thread("tx", 16, lambda t: body(b, t))))
    x = floats(4, 16)
    for lanes in (1 << 17, 16):
        y = empty(4)
        run(f, x, y, lanes=lanes)
        np.testing.assert_allclose(y, x.sum(1), rtol=1e-5)
