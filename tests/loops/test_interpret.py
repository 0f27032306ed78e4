"""The interpreter: what programs compute, in serial code and from one iteration to the next."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.expr.random_exprs import numbers
from tests.loops.programs import alloc, buf, function, launch, load, loop, store, thread
from tests.loops.running import empty, floats, run
from tilewright.core.dtype import DType
from tilewright.core.hardware import LoopKind
from tilewright.expr.evaluate import UndefinedValueError, evaluate
from tilewright.expr.intrinsics import TABLE
from tilewright.expr.nodes import Call, Cast, Expr, SizeVar, Var
from tilewright.expr.operators import (
    const,
    truncdiv,
    truncmod,
)
from tilewright.loops.interpret import InterpretError, interpret
from tilewright.loops.nodes import NOTHING, Evaluate, If, Let, Stmt, seq

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
