"""Allocations move to the head of their kernel, or of the function."""

from __future__ import annotations

from tests.loops.programs import alloc, buf, function, load, loop, store, thread
from tests.passes.running import run_pass
from tilewright.core.hardware import LoopKind
from tilewright.expr.nodes import Var
from tilewright.loops.nodes import Allocate, For, Function, Seq, Stmt, seq
from tilewright.loops.verify import verify
from tilewright.passes.hoist_allocations import hoist_allocations

A, B = buf("A", 8), buf("B", 8)


def names(stmt: Stmt) -> list[str]:
    """The buffers allocated at the head of a statement."""
    return [stmt.buffer.name, *names(stmt.body)] if isinstance(stmt, Allocate) else []


def hoisted(*body: Stmt) -> Function:
    made = run_pass(hoist_allocations, function((A, B), *body))
    verify(made)
    return made


def test_to_the_head_of_the_function() -> None:
    T, U, i = buf("T", 1), buf("U", 1), Var("i")
    inner = alloc(U, store(U, 0, load(T, 0)), store(B, i, load(U, 0)))
    made = hoisted(loop(i, 8, alloc(T, store(T, 0, load(A, i)), inner)))
    assert names(made.body) == ["T", "U"]
    assert isinstance(made.body, Allocate)
    assert isinstance(made.body.body, Allocate)
    assert isinstance(made.body.body.body, For)


def test_an_allocation_after_another_statement_leaves_one_sequence() -> None:
    T, i = buf("T", 1), Var("i")
    made = hoisted(loop(i, 8, seq(store(B, i, 0.0), alloc(T, store(T, 0, load(A, i)), store(B, i, load(T, 0))))))
    assert isinstance(made.body, Allocate)
    nest = made.body.body
    assert isinstance(nest, For)
    assert isinstance(nest.body, Seq)
    assert len(nest.body.stmts) == 3


def test_to_the_head_of_the_kernel() -> None:
    T = buf("T", 1, scope="local")
    body = thread("bx", 2, lambda b: thread("tx", 4, lambda t: alloc(T, store(T, 0, load(A, b * 4 + t)))))
    made = hoisted(body)
    assert isinstance(made.body, For)
    assert made.body.kind is LoopKind.THREAD
    assert names(made.body.body) == ["T"]


def test_each_kernel_has_its_own() -> None:
    T, U = buf("T", 1, scope="local"), buf("U", 1, scope="local")
    made = hoisted(
        thread("tx", 4, lambda t: alloc(T, store(T, 0, 1.0))), thread("tx", 4, lambda t: alloc(U, store(U, 0, 1.0)))
    )
    assert isinstance(made.body, Seq)
    assert [names(kernel.body) for kernel in made.body.stmts if isinstance(kernel, For)] == [["T"], ["U"]]


def test_a_parallel_loop_keeps_what_each_iteration_needs() -> None:
    T, i = buf("T", 1), Var("i")
    made = hoisted(loop(i, 8, alloc(T, store(T, 0, load(A, i)), store(B, i, load(T, 0))), LoopKind.PARALLEL))
    assert isinstance(made.body, For)
    assert names(made.body.body) == ["T"]


def test_a_kernel_in_a_parallel_loop_keeps_its_own() -> None:
    T, i = buf("T", 1, scope="local"), Var("i")
    made = hoisted(loop(i, 8, thread("tx", 4, lambda t: alloc(T, store(T, 0, load(A, t)))), LoopKind.PARALLEL))
    assert isinstance(made.body, For)
    assert isinstance(made.body.body, For)
    assert names(made.body.body.body) == ["T"]


def test_copies_of_an_unrolled_loop_share_theirs() -> None:
    T = buf("T", 1)
    made = hoisted(*(alloc(T, store(T, 0, load(A, k)), store(B, k, load(T, 0))) for k in range(3)))
    assert names(made.body) == ["T"]


def test_a_size_that_a_loop_decides_stays_where_it_is_known() -> None:
    i = Var("i")
    T = buf("T", i + 1)
    nest = loop(i, 8, alloc(T, store(T, i, load(A, i))))
    assert hoisted(nest).body is nest
    assert hoisted(kernel := thread("tx", 4, nest)).body is kernel
