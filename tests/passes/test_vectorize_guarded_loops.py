"""vectorize_guarded_loops: which loops get a version on vectors, where it may run, and that results stay right."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright
from tests.codegen.llvm.harness import flat, loop
from tilewright import te
from tilewright.expr import operators as op
from tilewright.expr.nodes import Expr, Load, Ramp, Var
from tilewright.expr.traverse import post_order
from tilewright.loops.nodes import For, Function, If, Stmt, Store
from tilewright.loops.printer import show_function
from tilewright.passes.vectorize_guarded_loops import vectorize_guarded_loops

O, S, N = Var("o"), Var("s"), Var("n")
A, B = flat("A", 1000), flat("B", 1000)


def made(condition: Expr, index: Expr, lanes: int = 16, read: Expr | None = None) -> Stmt:
    """What becomes of `for s in range(lanes): if likely(condition): B[index] = A[read or index]`."""
    body = If(op.likely(condition), Store(B, (index,), Load(A, (index if read is None else read,))), None)
    return vectorize_guarded_loops(Function("main", (A, B, N), loop(O, 50, loop(S, lanes, body)))).body


def has_vectors(stmt: Stmt) -> bool:
    """Whether something in it accesses memory by vectors."""
    return any(isinstance(node, Ramp) for node in post_order(stmt))


def test_the_last_lane_decides() -> None:
    at = O * 16 + S
    outer = made(at < N, at)
    assert isinstance(outer, For)
    choice = outer.body
    assert isinstance(choice, If)
    assert has_vectors(choice.then)
    assert isinstance(choice.orelse, For)
    text = show_function(Function("main", (A, B, N), outer))
    assert "if T.likely(o * 16 + 15 < n):" in text or "if T.likely(o * 16 + (0 + 15) < n):" in text


def test_the_first_lane_decides_where_positions_descend() -> None:
    outer = made(N - S > O, N - S - 1, read=O * 16 + S)
    assert not has_vectors(outer)  # stored in descending order: left to LLVM
    outer = made(N - S > O, O * 16 + S)
    assert isinstance(outer.body, If)
    text = str(outer.body.condition)
    assert "15" in text


@pytest.mark.parametrize(
    ("condition", "index", "why"),
    [
        (op.floormod(S, 3) < N, O * 16 + S, "the guard goes up and down"),
        (S < N, S * 3, "memory is not accessed in its own order"),
        (S * S < N, O * 16 + S, "the guard is not linear"),
    ],
)
def test_loops_that_are_left_alone(condition: Expr, index: Expr, why: str) -> None:
    assert not has_vectors(made(condition, index)), why


def test_loops_that_are_too_long_or_free_of_guards_are_left_alone() -> None:
    assert not has_vectors(made(O * 100 + S < N, O * 100 + S, lanes=100))
    free = Function("main", (A, B), loop(S, 16, Store(B, (S,), Load(A, (S,)))))
    assert vectorize_guarded_loops(free) is free


@pytest.mark.parametrize("size", [0, 1, 15, 16, 17, 31, 32, 100, 1000])
def test_results_of_any_size(size: int) -> None:
    n = te.size_var("n")
    X = te.placeholder((n, n), name="X")
    k = te.reduce_axis((0, n), "k")
    Y = te.compute((n, n), lambda i, j: te.sum(X[i, k] * X[k, j], axis=k), name="Y")
    s = te.create_schedule(Y.op)
    i, j = Y.op.axis
    io, jo, ii, ji = s[Y].tile(i, j, 4, 16)
    s[Y].reorder(io, jo, s[Y].op.reduce_axis[0], ii, ji)
    s[Y].vectorize(ji)
    module = tilewright.build(s, [X, Y], "llvm")
    assert "load <16 x float>" in module.get_source("ll")
    size = min(size, 100)
    x = np.random.default_rng(0).random((size, size)).astype("float32")
    out = tilewright.nd.array(np.full((size, size), np.nan, "float32"))
    module(tilewright.nd.array(x), out)
    np.testing.assert_allclose(out.numpy(), x @ x, rtol=1e-5)
