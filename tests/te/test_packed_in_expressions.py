"""Calls of packed functions inside of what a stage computes: on a CPU, host code runs the loops and makes the calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.loops.running import run
from tests.passes.running import finish
from tilewright import register_func, te, tir
from tilewright.loops.interpret import interpret
from tilewright.runtime.packed import remove_global_func

GIVEN = np.arange(-3, 5, dtype="int32")
SQUARE = "tests.square"
A = te.placeholder((8,), "int32", "A")


@pytest.fixture
def calls() -> Iterator[list[Any]]:
    """The arguments of the calls of a function that squares."""
    seen: list[Any] = []

    def square(x: Any) -> Any:
        seen.append(x)
        return x * x

    register_func(SQUARE, square, override=True)
    yield seen
    remove_global_func(SQUARE)


def square(x: Any, dtype: str = "int32") -> Any:
    return tir.call_intrin(dtype, "tir.tvm_call_packed", SQUARE, x)


def computed(value: Callable[[Any], Any], target: str = "llvm", steps: Callable[..., Any] | None = None) -> np.ndarray:
    """B[i] = value(i): what the target and the interpreter compute, which have to agree."""
    B = te.compute((8,), value, name="B")
    s = te.create_schedule(B.op)
    if steps is not None:
        steps(s, B)
    out, same = tw.nd.empty((8,), str(B.dtype)), np.zeros(8, B.dtype.numpy)
    tw.build(s, [A, B], target)(tw.nd.array(GIVEN), out)
    function = tw.lower(s, [A, B])["main"]
    run(function, GIVEN, same, functions={SQUARE: lambda x: x * x})
    np.testing.assert_array_equal(out.numpy(), same)
    return out.numpy()


@pytest.mark.parametrize("target", ["llvm", "c"])
def test_a_call_within_an_expression(target: str, calls: list[Any]) -> None:
    found = computed(lambda i: tir.call_packed(SQUARE, A[i] + 1) * 2 + A[i], target)
    np.testing.assert_array_equal(found, (GIVEN + 1) ** 2 * 2 + GIVEN)
    assert calls == list(GIVEN + 1)


def test_a_call_whose_value_is_a_float(calls: list[Any]) -> None:
    """Arguments are rounded as compiled code rounds them."""
    found = computed(lambda i: square(A[i].astype("float32") * 0.1, "float32") + 0.5)
    third = GIVEN.astype("float32") * np.float32(0.1)
    assert calls == [float(x) for x in third]
    np.testing.assert_array_equal(found, np.float32([x * x for x in map(float, third)]) + np.float32(0.5))


def test_only_the_chosen_side_calls(calls: list[Any]) -> None:
    found = computed(lambda i: te.if_then_else(A[i] > 0, square(A[i]), A[i] - 1))
    np.testing.assert_array_equal(found, np.where(GIVEN > 0, GIVEN**2, GIVEN - 1))
    assert calls == [x for x in GIVEN if x > 0]
    calls.clear()
    found = computed(lambda i: te.if_then_else(i % 3 == 0, square(i), square(square(A[i]))))
    np.testing.assert_array_equal(found, [i * i if i % 3 == 0 else x**4 for i, x in enumerate(GIVEN)])


def test_each_occurrence_calls(calls: list[Any]) -> None:
    np.testing.assert_array_equal(computed(lambda i: square(A[i]) * square(A[i])), GIVEN**4)
    assert len(calls) == 16


def test_calls_in_loops_of_every_kind(calls: list[Any]) -> None:
    def steps(s: te.Schedule, B: te.Tensor) -> None:
        outer, inner = s[B].split(B.op.axis[0], factor=3)
        s[B].parallel(outer)
        s[B].vectorize(inner)

    np.testing.assert_array_equal(computed(lambda i: square(A[i]) + i, steps=steps), GIVEN**2 + np.arange(8))


def test_a_sum_of_calls(calls: list[Any]) -> None:
    k = te.reduce_axis((0, 8), name="k")
    found = computed(lambda i: te.sum(square(A[k] + i), axis=k))
    np.testing.assert_array_equal(found, [((GIVEN + i) ** 2).sum() for i in range(8)])


def test_a_statement_under_a_value_that_is_read(calls: list[Any]) -> None:
    def write(ins: Any, outs: Any) -> Any:
        ib = tir.ir_builder.create()
        a, b = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        with ib.for_range(0, 8, "i") as i:
            with ib.if_scope(a[i] > 1):
                ib.emit(tir.call_packed(SQUARE, a[i]))
            b[i] = a[i] + 1
        return ib.get()

    B = te.extern((8,), [A], write, name="B", dtype="int32")
    out = tw.nd.empty((8,), "int32")
    tw.build(te.create_schedule(B.op), [A, B], "llvm")(tw.nd.array(GIVEN), out)
    np.testing.assert_array_equal(out.numpy(), GIVEN + 1)
    assert calls == [2, 3, 4]


def test_stages_beside_it_and_of_any_length(calls: list[Any]) -> None:
    n = te.size_var("n")
    X = te.placeholder((n,), "int32", "X")
    C = te.compute((n,), lambda i: X[i] * 3, name="C")
    D = te.compute((n,), lambda i: square(C[i]) + 1, name="D")
    E = te.compute((n,), lambda i: D[i] - X[i], name="E")
    out = tw.nd.empty((8,), "int32")
    tw.build(te.create_schedule(E.op), [X, E], "llvm")(tw.nd.array(GIVEN), out)
    np.testing.assert_array_equal(out.numpy(), (GIVEN * 3) ** 2 + 1 - GIVEN)


def test_the_finished_program_is_well_formed(calls: list[Any]) -> None:
    B = te.compute((8,), lambda i: te.if_then_else(A[i] > 0, square(A[i] + 1), 0), name="B")
    (part,) = tw.lower(te.create_schedule(B.op), [A, B]).parts
    function = finish(part.function, "llvm", check=True)
    out = np.zeros(8, "int32")
    interpret(function, [GIVEN, out], functions={SQUARE: lambda x: x * x})
    np.testing.assert_array_equal(out, np.where(GIVEN > 0, (GIVEN + 1) ** 2, 0))
