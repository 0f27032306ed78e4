"""Simplifying keeps calls with effects: as many as the program says, in its order. Calls of pure functions fold."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tilewright
from tests.errors.refused import refused
from tilewright import te, tir
from tilewright.arith.simplify import simplify
from tilewright.expr.nodes import Expr, IntImm
from tilewright.tensor.reduction import max as max_of

Call = Callable[[], Expr]
TWO: dict[str, Callable[[Call], Expr]] = {
    "difference": lambda f: f() - f(),
    "sum": lambda f: f() + f(),
    "maximum": lambda f: max_of(f(), f()),
    "equality": lambda f: te.if_then_else(f() == f(), 1, 2),
    "order": lambda f: tir.Select(f() < f(), 1, 2),
    "quotient": lambda f: (f() + f()) // 2 * 0 + 1,
}
ONE: dict[str, Callable[[Call], Expr]] = {
    "product": lambda f: f() * 0,
    "remainder": lambda f: f() % 1,
    "nested": lambda f: (f() + 4 - 4) * 0 + 3,
}
CASES = [*((case, 2) for case in TWO.values()), *((case, 1) for case in ONE.values())]
NAMES = [*TWO, *ONE]


@pytest.mark.parametrize(("case", "calls"), CASES, ids=NAMES)
def test_host_code_calls_a_packed_function_as_often_as_written(case: Callable[[Call], Expr], calls: int) -> None:
    seen: list[int] = []

    def counted(x: int) -> int:
        seen.append(x)
        return len(seen)

    tilewright.register_func("test.counted", counted, override=True)
    B = te.compute((3,), lambda i: case(lambda: tir.call_packed("test.counted", i)), name="B")
    module = tilewright.build(te.create_schedule(B.op), [B], "llvm")
    module(tilewright.nd.empty((3,), "int32"))
    assert seen == [i for i in range(3) for _ in range(calls)]


def test_compiled_code_calls_a_function_with_an_effect_as_often_as_written() -> None:
    """Random numbers of the C library: the difference of two of them is not 0."""
    B = te.compute((8,), lambda i: tir.call_extern("int32", "rand") - tir.call_extern("int32", "rand"), name="B")
    out = tilewright.nd.empty((8,), "int32")
    tilewright.build(te.create_schedule(B.op), [B], "llvm")(out)
    assert np.count_nonzero(out.numpy())


def test_pure_calls_fold() -> None:
    x = te.var("x")
    once = tir.call_pure_extern("int32", "abs", x)
    assert simplify(once - once) == IntImm(0, "int32")  # type: ignore[arg-type]
    assert str(simplify(once + once)) == 'T.call_pure_extern("int32", "abs", x) * 2'


def test_arguments_of_calls_with_effects_are_simplified() -> None:
    x = te.var("x")
    call = tir.call_extern("int32", "f", x + 1 - 1)
    assert str(simplify(call - call)) == 'T.call_extern("int32", "f", x) - T.call_extern("int32", "f", x)'


def test_the_magnitude_of_a_call_is_of_one_call() -> None:
    seen: list[int] = []

    def counted(x: int) -> int:
        seen.append(x)
        return -(x + 1)

    tilewright.register_func("test.negative", counted, override=True)
    B = te.compute((3,), lambda i: te.abs(tir.call_packed("test.negative", i)), name="B")
    out = tilewright.nd.empty((3,), "int32")
    tilewright.build(te.create_schedule(B.op), [B], "llvm")(out)
    assert seen == [0, 1, 2]
    assert out.numpy().tolist() == [1, 2, 3]
    with refused("abs", "calls a function with an effect", fix="call_pure_extern"):
        te.abs(tir.call_extern("int64", "f"))
