"""The iterations in which a guard holds run without it."""

from __future__ import annotations

from tests.loops.programs import loop, store
from tests.passes.kernels import B, copy, i, inside, kernel, same, tx
from tests.passes.running import run_pass
from tilewright.expr.operators import less, likely
from tilewright.expr.traverse import post_order
from tilewright.loops.nodes import For, If, Seq, Stmt, seq
from tilewright.passes.partition_loops import MAX_STORES, partition_loops


def guards(stmt: Stmt) -> int:
    return sum(isinstance(node, If) for node in post_order(stmt))


def test_the_iterations_in_which_a_guard_holds_run_without_it() -> None:
    before = kernel(loop(i, 8, If(likely(less(i * 8 + tx, 61)), copy(i * 8 + tx), None)))
    made = run_pass(partition_loops, before)
    same(before, made)
    body = inside(made)
    assert isinstance(body, Seq)
    first, rest = body.stmts
    assert isinstance(first, For)
    assert (str(first.extent), guards(first), guards(rest)) == ("7", 0, 1)


def test_a_guard_that_matters_from_the_start_stays() -> None:
    before = kernel(loop(i, 8, If(likely(less(tx, 5)), copy(i * 8 + tx), None)))
    assert inside(run_pass(partition_loops, before)) is inside(before)


def test_conditions_of_the_program_are_no_guards() -> None:
    before = kernel(loop(i, 8, If(less(i * 8 + tx, 61), copy(i * 8 + tx), None)))
    assert inside(run_pass(partition_loops, before)) is inside(before)


def test_large_bodies_are_not_doubled() -> None:
    body = If(likely(less(i * 8 + tx, 61)), copy(i * 8 + tx), None)
    many = seq(body, *(store(B, tx, float(n)) for n in range(MAX_STORES)))
    before = kernel(loop(i, 8, many))
    assert guards(inside(run_pass(partition_loops, before))) == 1
