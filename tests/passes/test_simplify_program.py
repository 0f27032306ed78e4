"""Expressions are simplified by what the loops around say; statements that do nothing go."""

from __future__ import annotations

from tests.loops.programs import alloc, buf, function, launch, load, loop, store, thread
from tests.passes.running import run_pass
from tilewright.core.hardware import LoopKind
from tilewright.expr.nodes import Var
from tilewright.expr.operators import floordiv, floormod, if_then_else, less, likely
from tilewright.loops.nodes import NOTHING, For, If, Launch, Let, Seq, Stmt, Store, seq
from tilewright.loops.verify import verify
from tilewright.passes.simplify_program import simplify_program

A, B = buf("A", 64), buf("B", 64)
i, j, n = Var("i"), Var("j"), Var("n")


def simplified(*body: Stmt) -> Stmt:
    made = run_pass(simplify_program, function((A, B, n), *body))
    verify(made)
    return made.body


def copy(index: object) -> Stmt:
    return store(B, index, load(A, index))


def test_indices_know_their_loops() -> None:
    made = simplified(loop(i, 8, loop(j, 4, copy(floordiv(i * 4 + j, 4) + floormod(j, 4)))))
    assert "indices=(i + j,)" in repr(made)


def test_guards_that_hold_go() -> None:
    made = simplified(loop(i, 8, If(likely(less(i, 8)), copy(i), None)))
    assert isinstance(made, For)
    assert isinstance(made.body, Store)


def test_guards_that_fail_go_with_what_they_guard() -> None:
    assert simplified(loop(i, 8, If(less(i, 0), copy(i), None))) is NOTHING
    made = simplified(loop(i, 8, If(less(i, 0), copy(i), copy(i + 1))))
    assert isinstance(made, For)
    assert isinstance(made.body, Store)


def test_guards_that_may_do_either_stay() -> None:
    made = simplified(loop(i, 8, If(likely(less(i + 1, 8)), copy(i), None)))
    assert isinstance(made, For)
    assert isinstance(made.body, If)
    assert str(made.body.condition) == "T.likely(i < 7)"


def test_loops_that_run_once_or_never_go() -> None:
    assert isinstance(simplified(loop(i, 1, copy(i), low=3)), Store)
    assert simplified(loop(i, 0, copy(i))) is NOTHING
    assert simplified(loop(i, 4, loop(j, 0, copy(i)))) is NOTHING


def test_thread_loops_of_one_stay() -> None:
    made = simplified(thread("bx", 1, copy))
    assert isinstance(made, For)
    assert made.kind is LoopKind.THREAD


def test_branches_of_values_are_decided() -> None:
    made = simplified(loop(i, 8, store(B, i, if_then_else(i < 8, load(A, i), 0.0))))
    assert isinstance(made, For)
    assert str(made.body.value) == "A[i]"  # type: ignore[attr-defined]


def test_nothing_is_left_of_what_does_nothing() -> None:
    T = buf("T", 4)
    never = loop(i, 0, store(T, 0, 1.0))
    assert simplified(alloc(T, never)) is NOTHING
    assert isinstance(simplified(never, copy(0), never), Store)
    assert isinstance(simplified(seq(copy(0), never, copy(1))), Seq)


def test_kernels_know_their_threads() -> None:
    t = Var("t")
    made = simplified(launch(If(likely(less(t, 8)), copy(floormod(t, 8)), None), tx=(t, 8)))
    assert isinstance(made, Launch)
    assert isinstance(made.body, Store)
    assert str(made.body.indices[0]) == "t"


def test_named_values() -> None:
    v = Var("v")
    made = simplified(loop(i, 8, Let(v, floormod(i, 8), copy(v))))
    assert isinstance(made, For)
    assert isinstance(made.body, Let)
    assert str(made.body.value) == "i"
