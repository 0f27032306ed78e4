"""Loops marked to run on vectors, and those that stay scalar."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from tests.loops.programs import alloc, buf, function, load, loop, store
from tests.passes.running import run_pass
from tilewright import te
from tilewright.core.errors import UserError
from tilewright.core.hardware import LoopKind
from tilewright.expr.nodes import Expr, Select, Var
from tilewright.expr.operators import floormod, if_then_else, less, likely
from tilewright.loops.interpret import interpret
from tilewright.loops.nodes import For, If, Seq, Stmt, Store, seq
from tilewright.loops.verify import verify
from tilewright.passes.vectorize_loops import vectorize_loops

A, B = buf("A", 64), buf("B", 64)
i, j, n = Var("i"), Var("j"), Var("n")
RNG = np.random.default_rng(3)


def vectorized(*body: Stmt, params: tuple[Any, ...] = (A, B)) -> Stmt:
    """The body with its vector loops replaced: well formed, and computing what it did."""
    before = function(params, *body)
    made = run_pass(vectorize_loops, before)
    verify(made)
    verify(before)
    if params == (A, B):
        a = RNG.standard_normal(64).astype("float32")
        results = []
        for f in (before, made):
            b = np.zeros(64, "float32")
            interpret(f, [a, b], races=False)
            results.append(b)
        np.testing.assert_array_equal(*results)
    return made.body


def vector(body: Stmt, lanes: Any = 4, var: Var = i) -> For:
    return loop(var, lanes, body, LoopKind.VECTORIZED)


def text(node: object) -> str:
    """A statement or expression as text, the ends of slices worked out."""
    return re.sub(r"\b(\d+):\1 \+ (\d+)", lambda m: f"{m[1]}:{int(m[1]) + int(m[2])}", str(node))


def one_store(value: Expr, index: Any = i) -> str:
    """`value` stored in a vector loop of 4, as text."""
    made = vectorized(vector(store(B, index, value)))
    assert isinstance(made, Store)
    assert made.value.dtype == "float32x4"
    return text(f"{made.indices[0]}: {made.value}")


def stays(stmt: Stmt) -> bool:
    """Whether there is a serial loop in place of the vector one."""
    return isinstance(stmt, For) and stmt.kind is LoopKind.SERIAL and stmt.var.name == "i.s"


def test_a_copy() -> None:
    assert one_store(load(A, i)) == "T.Ramp(0, 1, 4): A[0:4]"


def test_other_starts_and_strides() -> None:
    assert one_store(load(A, i * 2 + 5), i + 8) == "T.Ramp(8, 1, 4): A[5:13:2]"
    assert one_store(load(A, 63 - i)).endswith("A[T.Broadcast(63, 4) - T.Ramp(0, 1, 4)]")


def test_what_is_the_same_for_all_lanes_is_spread() -> None:
    assert one_store(load(A, i) * load(A, 5)) == "T.Ramp(0, 1, 4): A[0:4] * T.Broadcast(A[5], 4)"
    assert one_store(load(A, 7)).endswith(": T.Broadcast(A[7], 4)")


def test_functions_conversions_and_choices() -> None:
    assert one_store(te.exp(load(A, i))).endswith(": T.exp(A[0:4])")
    assert one_store(i.astype("float32")).endswith(": T.Cast('float32x4', T.Ramp(0, 1, 4))")
    chosen = Select(load(A, i) > 0.0, load(A, i), load(A, i + 1))
    assert one_store(chosen).endswith(": T.Select(A[0:4] > T.Broadcast(T.float32(0), 4), A[0:4], A[1:5])")


def test_a_condition_that_is_the_same_for_all_lanes() -> None:
    made = vectorized(loop(j, 4, vector(store(B, j * 4 + i, if_then_else(j < 2, load(A, i), 0.0)))))
    assert isinstance(made, For)
    assert "T.if_then_else(j < 2, A[0:4], T.Broadcast(T.float32(0), 4))" in text(made.body)


def test_a_loop_of_one_lane() -> None:
    made = vectorized(vector(store(B, i, load(A, i)), lanes=1))
    assert isinstance(made, Store)
    assert str(made.indices[0]) == "0"


def test_statements_in_order() -> None:
    made = vectorized(vector(seq(store(B, i, load(A, i)), store(B, i + 8, load(B, i)))))
    assert isinstance(made, Seq)
    assert [s.value.dtype.lanes for s in made.stmts if isinstance(s, Store)] == [4, 4]


def test_loops_inside() -> None:
    made = vectorized(vector(loop(j, 3, store(B, i, load(B, i) + load(A, i * 3 + j)))))
    assert isinstance(made, For)
    assert made.kind is LoopKind.SERIAL
    assert "B[0:4] + A[j:j + 12:3]" in text(made.body)


def test_a_guard_that_is_the_same_for_all_lanes() -> None:
    made = vectorized(loop(j, 4, vector(If(likely(j < 3), store(B, j * 4 + i, load(A, i)), None))))
    assert isinstance(made, For)
    assert isinstance(made.body, If)
    assert isinstance(made.body.then, Store)


def test_a_guard_that_only_seems_to_differ() -> None:
    """Where the extent is a multiple of the lanes, the last one is inside where the first one is."""
    made = vectorized(loop(j, 4, vector(If(likely(j * 4 + i < 12), store(B, j * 4 + i, load(A, i)), None))))
    assert isinstance(made, For)
    assert isinstance(made.body, If)
    assert str(made.body.condition) == "T.likely(j < 3)"


@pytest.mark.parametrize(
    "body",
    [
        If(likely(less(j * 4 + i, 11)), store(B, j * 4 + i, load(A, i)), None),
        If(floormod(i, 2).equal(0), store(B, i, 1.0), store(B, i, 2.0)),
        store(B, i, if_then_else(less(i, 2), load(A, i), 0.0)),
        loop(Var("k"), i, store(B, i, load(A, i))),
        store(B, 0, load(A, i)),
    ],
    ids=["guard", "branch", "choice", "loop", "one element"],
)
def test_what_differs_between_lanes_stays_a_loop(body: Stmt) -> None:
    made = vectorized(loop(j, 4, vector(body)))
    assert isinstance(made, For)
    assert stays(made.body)


def test_a_loop_that_stays_does_not_keep_another_from_it() -> None:
    made = vectorized(vector(store(B, i, if_then_else(less(i, 2), load(A, i), 0.0))), vector(store(B, j, 1.0), var=j))
    assert isinstance(made, Seq)
    assert stays(made.stmts[0])
    assert isinstance(made.stmts[1], Store)


def test_storage_inside_stays_scalar() -> None:
    local = buf("L", 1, scope="local")
    made = vectorized(vector(alloc(local, store(local, 0, load(A, i)), store(B, i, load(local, 0)))))
    assert stays(made)


def test_an_extent_that_is_not_constant_is_refused() -> None:
    with pytest.raises(UserError, match="loop 'i' has the extent `n`, which is not constant"):
        vectorized(vector(store(B, i, load(A, i)), n), params=(A, B, n))


def test_what_has_no_vector_loop_is_left_alone() -> None:
    before = function((A, B), loop(i, 4, store(B, i, load(A, i))))
    assert run_pass(vectorize_loops, before) is before
