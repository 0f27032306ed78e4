"""mask_guarded_loops and separate_full_tiles: which loops they change, and that results stay right."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilewright
from tests.codegen.llvm.harness import build, flat, loop
from tests.passes.running import run_pass
from tilewright import te
from tilewright.expr import operators as op
from tilewright.expr.nodes import Expr, IfThenElse, Load, Ramp, Var
from tilewright.expr.traverse import post_order
from tilewright.loops.nodes import For, Function, If, Stmt, Store, seq
from tilewright.loops.verify import Form, verify
from tilewright.passes.mask_guarded_loops import mask_guarded_loops
from tilewright.passes.separate_full_tiles import separate_full_tiles

P, S, K, N = Var("p"), Var("s"), Var("k"), Var("n")
A, B = flat("A", 1000), flat("B", 1000)


def guarded(condition: Expr, index: Expr, lanes: int = 16, read: Expr | None = None) -> Function:
    """`for s in range(lanes): if likely(condition): B[index] = A[read or index]`, within a loop over p."""
    body = If(op.likely(condition), Store(B, (index,), Load(A, (index if read is None else read,))), None)
    return Function("main", (A, B, N), loop(P, 50, loop(S, lanes, body)))


def masks(function: Function) -> list[If]:
    """The masked statements that the pass makes."""
    made = run_pass(mask_guarded_loops, function)
    verify(made, Form.FLAT | Form.MASKED)
    return [node for node in post_order(made.body) if isinstance(node, If) and node.condition.dtype.lanes > 1]


def test_a_guard_that_differs_between_iterations_becomes_a_mask() -> None:
    (mask,) = masks(guarded(P * 16 + S < N, P * 16 + S))
    assert mask.condition.dtype == "boolx16"
    assert isinstance(mask.then, Store)
    assert isinstance(mask.then.indices[0], Ramp)


def test_a_branch_that_differs_between_iterations_becomes_one_on_vectors() -> None:
    value = IfThenElse(op.all_of(S > 0, P * 16 + S < N), Load(A, (P * 16 + S - 1,)), op.const(0.0))
    function = Function("main", (A, B, N), loop(P, 50, loop(S, 16, Store(B, (P * 16 + S,), value))))
    made = run_pass(mask_guarded_loops, function).body
    assert isinstance(made, For)
    assert isinstance(made.body, Store)
    assert made.body.value.dtype == "float32x16"
    x = np.arange(1000, dtype="float32")
    out = tilewright.nd.array(np.zeros(1000, "float32"))
    build(function.body, A, B, N)(tilewright.nd.array(x), out, 500)
    at = np.arange(800)
    wanted = np.where((at % 16 > 0) & (at < 500), np.roll(x, 1)[:800], 0)
    np.testing.assert_array_equal(out.numpy()[:800], wanted)


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (guarded(S < N, S * 3), "memory is not accessed in its own order"),
        (guarded(S < N, op.const(5)), "all iterations store to one place"),
        (guarded(P * 100 + S < N, P * 100 + S, lanes=100), "too long"),
        (guarded(P * 2 + S < N, P * 2 + S, lanes=2), "too short"),
        (guarded(P < N, P * 16 + S), "the guard is the same for all"),
    ],
)
def test_loops_that_are_left_alone(function: Function, why: str) -> None:
    assert not masks(function), why
    assert run_pass(mask_guarded_loops, function) is function


def test_a_loop_whose_iterations_need_each_other_stays_serial() -> None:
    body = If(op.likely(S < N), Store(B, (S + 1,), Load(B, (S,)) + Load(A, (S,))), None)
    function = Function("main", (A, B, N), loop(S, 16, body))
    assert not masks(function)
    x = np.random.default_rng(0).random(1000).astype("float32")
    out = tilewright.nd.array(np.zeros(1000, "float32"))
    build(function.body, A, B, N)(tilewright.nd.array(x), out, 9)
    np.testing.assert_allclose(out.numpy()[:10], [0, *np.cumsum(x[:9])], rtol=1e-6)


def test_elements_of_one_array_further_apart_than_the_lanes_do_not_meet() -> None:
    body = If(op.likely(S < N), Store(B, (S + 32,), Load(B, (S,))), None)
    assert masks(Function("main", (A, B, N), loop(S, 16, body)))


def tiles(*order: tuple[Var, int]) -> Function:
    """Guards on p * 8 + k < n in the loops given, outermost first."""
    body: Stmt = If(op.likely(P * 8 + K < N), Store(B, (P * 8 + K,), op.const(1.0)), None)
    for var, extent in reversed(order):
        body = loop(var, extent, body)
    return Function("main", (A, B, N), body)


def test_the_guards_of_a_tile_are_tested_at_once() -> None:
    made = run_pass(separate_full_tiles, tiles((P, 10), (K, 8))).body
    assert isinstance(made, For)
    choice = made.body
    assert isinstance(choice, If)
    assert str(choice.condition) == "T.likely(p * 8 + 7 < n)"
    assert isinstance(choice.then, For)
    assert isinstance(choice.then.body, Store)
    assert isinstance(choice.orelse, For)
    assert isinstance(choice.orelse.body, If)


def test_guards_outside_of_any_loop_and_those_that_never_all_hold_are_left() -> None:
    once = tiles((P, 10))
    assert run_pass(separate_full_tiles, once) is once
    body = If(op.likely(K < 5), Store(B, (K,), op.const(1.0)), None)
    never = Function("main", (A, B), loop(K, 8, body))
    assert run_pass(separate_full_tiles, never) is never


def test_guards_of_different_tiles_are_apart() -> None:
    first, second = (tiles((P, 10), (K, 8)).body for _ in range(2))
    made = run_pass(
        separate_full_tiles, Function("main", (A, B, N), loop(S, N, seq(first, Store(A, (S,), op.const(0.0)), second)))
    )
    assert sum(isinstance(node, If) and node.orelse is not None for node in post_order(made.body)) == 1  # both the same


@settings(max_examples=25)
@given(st.data())
def test_results_of_any_size(data: st.DataObject) -> None:
    symbolic = data.draw(st.booleans())
    sizes = [data.draw(st.integers(0, 70)) for _ in range(3)]
    rows, lanes = data.draw(st.sampled_from([1, 3, 4])), data.draw(st.sampled_from([4, 8, 16]))
    m, n, depth = [te.size_var(name) for name in "mnl"] if symbolic else [max(size, 1) for size in sizes]
    sizes = sizes if symbolic else [m, n, depth]
    X, Y = te.placeholder((m, depth), name="X"), te.placeholder((depth, n), name="Y")
    k = te.reduce_axis((0, depth), "k")
    Z = te.compute((m, n), lambda i, j: te.sum(X[i, k] * Y[k, j], axis=k), name="Z")
    s = te.create_schedule(Z.op)
    sums = s.cache_write(Z, "local") if data.draw(st.booleans()) else None
    i, j = Z.op.axis
    io, jo, _, ji = s[Z].tile(i, j, rows, lanes)
    s[Z].vectorize(ji)
    if sums is not None:
        s[sums].compute_at(s[Z], jo)
        row, column = sums.op.axis
        s[sums].reorder(sums.op.reduce_axis[0], row, column)
        s[sums].vectorize(column)
        if data.draw(st.booleans()):
            s[sums].unroll(row)
    if data.draw(st.booleans()):
        s[Z].parallel(io)
    module = tilewright.build(s, [X, Y, Z], "llvm")
    random = np.random.default_rng(0)
    x, y = random.random((sizes[0], sizes[2]), "float32"), random.random((sizes[2], sizes[1]), "float32")
    out = tilewright.nd.array(np.full((sizes[0], sizes[1]), np.nan, "float32"))
    module(tilewright.nd.array(x), tilewright.nd.array(y), out)
    np.testing.assert_allclose(out.numpy(), x.astype("float64") @ y, rtol=1e-4)


@pytest.mark.parametrize("dtype", ["int8", "uint16", "float16", "bfloat16", "bool", "float64", "int64"])
def test_masked_accesses_of_every_type(dtype: str) -> None:
    a, b = flat("a", 48, dtype), flat("b", 48, dtype)
    body = If(op.likely(P * 16 + S < N), Store(b, (P * 16 + S,), Load(a, (P * 16 + S,))), None)
    module = build(loop(P, 3, loop(S, 16, body)), a, b, N)
    assert "llvm.masked.store" in module.get_source("ll")
    kind = tilewright.nd.empty((1,), dtype).numpy().dtype
    x = (np.arange(48) % 2).astype(kind)
    out = tilewright.nd.array(np.ones(48, kind), dtype=dtype)
    module(tilewright.nd.array(x, dtype=dtype), out, 21)
    np.testing.assert_array_equal(out.numpy()[:21], x[:21])
    np.testing.assert_array_equal(out.numpy()[21:], np.ones(27, kind))
