"""The interpreter: what programs compute, in serial code and in kernels."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.expr.random_exprs import numbers
from tests.loops.programs import alloc, buf, function, launch, load, loop, ramp, spread, store, thread
from tilewright.core.dtype import DType
from tilewright.core.hardware import LoopKind, MemoryScope
from tilewright.expr.evaluate import UndefinedValueError, evaluate
from tilewright.expr.intrinsics import TABLE
from tilewright.expr.nodes import Call, Cast, Expr, IfThenElse, SizeVar, Var
from tilewright.expr.operators import (
    all_of,
    any_of,
    const,
    if_then_else,
    likely,
    maximum,
    select,
    truncdiv,
    truncmod,
)
from tilewright.loops.interpret import InterpretError, interpret
from tilewright.loops.nodes import NOTHING, Barrier, Buffer, Evaluate, Function, If, Let, Stmt, seq

SYNC = Barrier(MemoryScope.SHARED)


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype("float32")


def empty(*shape: int, dtype: str = "float32") -> np.ndarray:
    return np.full(shape, 77, dtype)


def run(f: Function, *args: Any, **flags: Any) -> None:
    """Run with the last argument, the output, unwritten at first."""
    interpret(f, args, outputs=[p for p in f.params[-1:] if isinstance(p, Buffer)], **flags)


# Serial code.


@pytest.mark.parametrize("kind", [k for k in LoopKind if k is not LoopKind.THREAD])
def test_loops_that_are_not_threads_run_one_iteration_after_the_other(kind: LoopKind) -> None:
    A, B, i = buf("A", 6), buf("B", 6), Var("i")
    x, y = floats(6), empty(6)
    run(function((A, B), loop(i, 6, store(B, i, load(A, i) * 2.0), kind)), x, y)
    np.testing.assert_array_equal(y, x * 2)


def test_a_loop_starts_at_its_minimum() -> None:
    B, i = buf("B", 6, dtype="int32"), Var("i")
    y = np.zeros(6, "int32")
    interpret(function((B,), loop(i, 2, store(B, i, i * 10), low=3)), [y])
    np.testing.assert_array_equal(y, [0, 0, 0, 30, 40, 0])


def test_buffers_of_no_dimension() -> None:
    A, B, T = buf("A"), buf("B"), buf("T", scope="local")
    x, y = np.array(3, "float32"), np.array(0, "float32")
    run(function((A, B), alloc(T, store(T, (), load(A) + 1.0), store(B, (), load(T) * load(T)))), x, y)
    assert y == 16


def test_a_size_may_be_a_parameter_or_come_from_an_argument() -> None:
    n, m, i, j = SizeVar("n"), SizeVar("m"), Var("i"), Var("j")
    A, B = buf("A", n, m), buf("B", m, n)
    f = function((n, A, B), loop(i, n, loop(j, m, store(B, (j, i), load(A, i, j)))))
    x, y = floats(3, 5), empty(5, 3)
    run(f, 3, x, y)
    np.testing.assert_array_equal(y, x.T)


def test_arguments_must_fit_the_parameters() -> None:
    A = buf("A", 4)
    f = function((A,), NOTHING)
    with pytest.raises(InterpretError, match="takes 1 arguments, not 2"):
        interpret(f, [empty(4), empty(4)])
    with pytest.raises(InterpretError, match=r"A is float32\[4\], but the argument is float32\[5\]"):
        interpret(f, [empty(5)])
    with pytest.raises(InterpretError, match=r"the argument is float64\[4\]"):
        interpret(f, [np.zeros(4)])


def test_an_argument_need_not_be_contiguous() -> None:
    B, i = buf("B", 3), Var("i")
    y = np.zeros((3, 2), "float32")
    interpret(function((B,), loop(i, 3, store(B, i, 5.0))), [y[:, 1]])
    np.testing.assert_array_equal(y, [[0, 5], [0, 5], [0, 5]])


def test_flat_views_share_the_memory_of_their_parameter() -> None:
    A, B = buf("A", 3, 4), buf("B", 3, 4)
    A1, B1, i = buf("A", 12, of=A), buf("B", 12, of=B), Var("i")
    x, y = floats(3, 4), empty(3, 4)
    run(function((A, B), loop(i, 12, store(B1, i, load(A1, 11 - i)))), x, y)
    np.testing.assert_array_equal(y.ravel(), x.ravel()[::-1])


def test_let_keeps_the_value_from_before_a_store() -> None:
    A, B, T, old = buf("A", 4), buf("B", 4), buf("T", 1, scope="local"), Var("old", "float32")

    def body(i: Var) -> Stmt:
        use = Let(old, load(T, 0), seq(store(T, 0, 9.0), store(B, i, old + load(T, 0))))
        return alloc(T, store(T, 0, load(A, i)), use)

    x, y = floats(4), empty(4)
    run(function((A, B), thread("tx", 4, body)), x, y)
    np.testing.assert_array_equal(y, x + np.float32(9))


def test_evaluate_and_else() -> None:
    B, i = buf("B", 4, dtype="int32"), Var("i")
    body = seq(Evaluate(i + 1), If(i < 2, store(B, i, 1), store(B, i, 2)))
    for f in (function((B,), loop(i, 4, body)), function((B,), launch(body, tx=(i, 4)))):
        y = np.zeros(4, "int32")
        interpret(f, [y])
        np.testing.assert_array_equal(y, [1, 1, 2, 2])


# Arithmetic.


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "float16", "float32", "float64", "bfloat16"])
def test_arithmetic_has_the_type_of_its_operands(dtype: str) -> None:
    A, B, C = (buf(name, 8, dtype=dtype) for name in "ABC")
    kind = DType(dtype).numpy
    rng = np.random.default_rng(0)
    x, y = (rng.integers(1, 100, 8).astype(kind) for _ in "ab")
    z = np.zeros(8, kind)
    f = function((A, B, C), thread("bx", 8, lambda i: store(C, i, load(A, i) * load(B, i) + load(A, i))))
    run(f, x, y, z)
    assert (z == x * y + x).all()


def test_integer_division_truncates_or_floors() -> None:
    A, B, C = buf("A", 4, dtype="int32"), buf("B", 4, dtype="int32"), buf("C", 4, 4, dtype="int32")
    kinds = (truncdiv, truncmod, lambda a, b: a // b, lambda a, b: a % b)

    def body(i: Var) -> Stmt:
        return seq(*(store(C, (k, i), kind(load(A, i), load(B, i))) for k, kind in enumerate(kinds)))

    x, y = np.array([7, -7, 7, -7], "int32"), np.array([2, 2, -2, -2], "int32")
    z = empty(4, 4, dtype="int32")
    run(function((A, B, C), thread("tx", 4, body)), x, y, z)
    np.testing.assert_array_equal(z, [[3, -3, -3, 3], [1, -1, 1, -1], [3, -4, -4, 3], [1, 1, -1, -1]])


@pytest.mark.parametrize("name", ["exp", "sqrt", "tanh", "floor", "erf", "sigmoid"])
def test_intrinsics_keep_float32(name: str) -> None:
    A, B = buf("A", 16), buf("B", 16)
    x, y = np.abs(floats(16)), empty(16)
    run(function((A, B), thread("tx", 16, lambda i: store(B, i, TABLE[name](load(A, i))))), x, y)
    wide = x.astype("float64")
    exact = {
        "erf": np.vectorize(math.erf),
        "sigmoid": lambda v: 1 / (1 + np.exp(-v)),
    }
    np.testing.assert_allclose(y, exact.get(name, getattr(np, name, None))(wide), rtol=1e-6)


def test_casts_of_floats_truncate_and_saturate() -> None:
    A, B = buf("A", 4), buf("B", 4, dtype="int8")
    x, y = np.array([1.9, -1.9, 200.5, -200.5], "float32"), empty(4, dtype="int8")
    run(function((A, B), thread("tx", 4, lambda i: store(B, i, Cast(DType("int8"), load(A, i))))), x, y)
    np.testing.assert_array_equal(y, [1, -1, 127, -128])


# Kernels.


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
    value = lambda i: if_then_else(all_of(i >= 1, i < 5), load(A, i - 1), const(0.0))  # noqa: E731
    run(function((A, B), thread("bx", 6, lambda i: store(B, i, value(i)))), x, y)
    np.testing.assert_array_equal(y, np.pad(x, 1))
    eager = lambda i: select(all_of(i >= 1, i < 5), load(A, i - 1), const(0.0))  # noqa: E731
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
    begin = time.perf_counter()
    run(conv1d(2048, 32), x, w, y)
    assert time.perf_counter() - begin < 5
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
    body = lambda b: thread("ty", 1, lambda t: store(B, b + t, load(A, b) + 1.0))  # noqa: E731
    x, y = floats(1), empty(1)
    run(function((A, B), thread("bx", 1, body)), x, y)
    assert y[0] == x[0] + np.float32(1)


def test_vthreads_run_one_after_the_other_inside_the_threads() -> None:
    B = buf("B", 2, 4, dtype="int32")
    inner = lambda v: thread("tx", 4, lambda t: store(B, (v, t), v * 10 + t))  # noqa: E731
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
    at = lambda t: ramp(t * 4, 4)  # noqa: E731
    value = lambda t: IfThenElse(at(t) < spread(6, 4, "int32"), load(A, at(t)), spread(0.0, 4))  # noqa: E731
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


# What is remembered between iterations is forgotten in time.


def test_loops_may_nest_one_way_and_then_the_other() -> None:
    B, i, j = buf("B", 3, 4, dtype="int32"), Var("i"), Var("j")
    one = store(B, (i, j), i * 10 + j)
    two = store(B, (i, j), load(B, i, j) + (i * 10 + j))
    y = np.zeros((3, 4), "int32")
    interpret(function((B,), loop(i, 3, loop(j, 4, one)), loop(j, 4, loop(i, 3, two))), [y])
    np.testing.assert_array_equal(y, 2 * (np.arange(3)[:, None] * 10 + np.arange(4)))


def test_a_let_changes_what_depends_on_it() -> None:
    B, i, v = buf("B", 5, dtype="int32"), Var("i"), Var("v")
    y = np.ones(5, "int32")
    body = loop(i, 4, Let(v, load(B, i) * 2, store(B, i + 1, v + 1)))
    for f in (function((B,), body), function((B,), thread("tx", 1, body))):
        y[0] = 1
        interpret(f, [y])
        np.testing.assert_array_equal(y, [1, 3, 7, 15, 31])


def test_memory_may_have_another_shape_each_time() -> None:
    B, i, j = buf("B", 3, dtype="int32"), Var("i"), Var("j")
    T = buf("T", 2, i + 1, dtype="int32")
    fill = loop(j, i + 1, seq(store(T, (0, j), 1), store(T, (1, j), j + 7)))
    y = np.zeros(3, "int32")
    interpret(function((B,), loop(i, 3, alloc(T, fill, store(B, i, load(T, 1, 0))))), [y])
    np.testing.assert_array_equal(y, [7, 7, 7])


def test_host_loops_and_chunks_give_kernels_other_values() -> None:
    B, k, b = buf("B", 3, 10, dtype="int32"), Var("k"), Var("b")
    kernel = launch(store(B, (k, b), k * 100 + b * b), bx=(b, 10))
    y = np.zeros((3, 10), "int32")
    interpret(function((B,), loop(k, 3, kernel)), [y], lanes=4)
    np.testing.assert_array_equal(y, np.arange(3)[:, None] * 100 + np.arange(10) ** 2)


T1, T2, K = Var("tx"), Var("ty"), Var("k")


@given(numbers([T1, T2, K], st.integers(-3, 3), depth=4))
def test_the_interpreter_agrees_with_the_evaluator(e: Expr) -> None:
    B = buf("B", 3, 4, 3, dtype="int32")
    f = function((B,), launch(loop(K, 3, store(B, (T1, T2, K), e)), tx=(T1, 3), ty=(T2, 4)))
    y = np.zeros((3, 4, 3), "int32")
    try:
        expected = [evaluate(e, {T1: p, T2: q, K: r}) for p, q, r in np.ndindex(3, 4, 3)]
    except UndefinedValueError:
        with pytest.raises(InterpretError, match="division by zero"):
            interpret(f, [y])
        return
    interpret(f, [y])
    assert y.ravel().tolist() == expected


def test_an_unknown_intrinsic_or_statement_is_named() -> None:
    A = buf("A", 1)
    with pytest.raises(InterpretError, match="intrinsic frobnicate"):
        interpret(function((A,), Evaluate(Call("frobnicate", (), DType("int32")))), [empty(1)])
    with pytest.raises(InterpretError, match="stores int32 in memory of float32"):
        interpret(function((A,), store(A, 0, const(1))), [empty(1)])
