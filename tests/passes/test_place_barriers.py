"""Barriers stand where one thread's shared data reaches another, once a place, and nowhere else."""

from __future__ import annotations

from typing import Any

import pytest

from tests.loops.programs import alloc, buf, exprs, function, launch, load, loop, store
from tests.passes.running import run_pass
from tilewright.core.errors import UserError
from tilewright.core.hardware import LoopKind, MemoryScope
from tilewright.expr.nodes import Expr, Var
from tilewright.expr.operators import floormod, less
from tilewright.expr.traverse import post_order
from tilewright.loops.nodes import Barrier, For, If, Seq, Stmt, seq
from tilewright.loops.verify import Form, verify
from tilewright.passes.place_barriers import place_barriers

A, B = buf("A", 64), buf("B", 64)
S, T = buf("S", 8, scope="shared"), buf("T", 8, scope="shared")
tx, i, j = Var("tx"), Var("i"), Var("j")


def placed(*body: Stmt, threads: Any = 8, buffers: tuple[Any, ...] = (S, T)) -> Stmt:
    """The body of a kernel of so many threads, with its barriers."""
    inside = seq(*body)
    for buffer in buffers:
        inside = alloc(buffer, inside)
    made = run_pass(place_barriers, function((A, B), launch(inside, tx=(tx, threads))))
    verify(made, Form.FINISHED)
    kernel: Any = made.body
    found = kernel.body
    for _ in buffers:
        found = found.body
    return found


def outline(stmt: Stmt) -> Any:
    """The nesting of a statement: "|" is a barrier, "S" a store to S, lists are loops and guards."""
    if isinstance(stmt, Seq):
        return [outline(part) for part in stmt.stmts]
    if isinstance(stmt, Barrier):
        return "|"
    if isinstance(stmt, For):
        inside = outline(stmt.body)
        return {stmt.var.name: inside}
    if isinstance(stmt, If):
        return {"if": outline(stmt.then), "else": outline(stmt.orelse)} if stmt.orelse else {"if": outline(stmt.then)}
    return stmt.buffer.name  # type: ignore[attr-defined]


def fill(buffer: Any = S, index: Any = tx) -> Stmt:
    return store(buffer, index, load(A, tx))


def drain(buffer: Any = S, index: Any = 7 - tx) -> Stmt:
    return store(B, tx, load(buffer, index))


def test_none_without_shared_memory() -> None:
    assert outline(placed(store(B, tx, load(A, 7 - tx)), store(B, tx, load(A, tx)), buffers=())) == ["B", "B"]


def test_none_for_local_memory() -> None:
    local = buf("L", 8, scope="local")
    assert outline(placed(fill(local), drain(local), buffers=(local,))) == ["L", "B"]


def test_none_in_a_block_of_one_thread() -> None:
    assert outline(placed(fill(), drain(), threads=1)) == ["S", "B"]


def test_none_where_nothing_is_read() -> None:
    assert outline(placed(fill(), fill(T), store(B, tx, 1.0))) == ["S", "T", "B"]


def test_one_between_a_writer_and_its_reader() -> None:
    assert outline(placed(fill(), drain())) == ["S", "|", "B"]


def test_one_for_two_writers_and_their_reader() -> None:
    both = store(B, tx, load(S, 7 - tx) + load(T, 7 - tx))
    assert outline(placed(fill(), fill(T), both)) == ["S", "T", "|", "B"]


def test_one_for_a_writer_and_its_readers() -> None:
    assert outline(placed(fill(), drain(), drain(), drain(index=0))) == ["S", "|", "B", "B", "B"]


def test_one_before_a_buffer_is_filled_again() -> None:
    assert outline(placed(fill(), drain(), fill(), drain())) == ["S", "|", "B", "|", "S", "|", "B"]


def test_none_for_a_stage_that_reads_its_own_result() -> None:
    """Its threads own the elements that they write, as in a reduction."""
    update = store(S, tx, load(S, tx) + load(A, tx))
    assert outline(placed(fill(), update, loop(i, 4, update))) == ["S", "S", {"i": "S"}]
    assert outline(placed(fill(), update, drain())) == ["S", "S", "|", "B"]


def test_a_chain_of_buffers() -> None:
    copy = store(T, tx, load(S, 7 - tx))
    assert outline(placed(fill(), copy, drain(T))) == ["S", "|", "T", "|", "B"]


def test_a_loop_that_fills_and_drains_parts_its_iterations() -> None:
    assert outline(placed(loop(i, 4, seq(fill(), drain())))) == {"i": ["|", "S", "|", "B"]}


def test_a_loop_that_only_drains_needs_none_inside() -> None:
    assert outline(placed(fill(), loop(i, 4, drain()))) == ["S", "|", {"i": "B"}]


def test_a_loop_that_drains_what_was_filled_before_and_fills_for_later() -> None:
    """The barrier at the end of one iteration's reading is the one before the next iteration's writing."""
    made = outline(placed(fill(), loop(i, 4, seq(drain(), fill()))))
    assert made == ["S", {"i": ["|", "B", "|", "S"]}]


def test_nested_loops() -> None:
    made = outline(placed(loop(i, 4, seq(fill(), loop(j, 4, drain())))))
    assert made == {"i": ["|", "S", "|", {"j": "B"}]}


def test_a_barrier_inside_an_inner_loop_serves_the_outer_one_too() -> None:
    """Every thread is done reading S before the last barrier of the inner loop."""
    made = outline(placed(loop(i, 4, seq(fill(), loop(j, 4, seq(store(T, tx, load(S, j)), drain(T)))))))
    assert made == {"i": ["S", {"j": ["|", "T", "|", "B"]}]}


def test_a_loop_that_may_not_run_is_no_barrier_for_what_is_around_it() -> None:
    n = Var("n")
    made = run_pass(
        place_barriers,
        function(
            (A, B, n), launch(alloc(S, alloc(T, fill(), loop(i, n, seq(fill(T), drain(T))), drain())), tx=(tx, 8))
        ),
    )
    kernel: Any = made.body
    assert outline(kernel.body.body.body) == ["S", {"i": ["|", "T", "|", "B"]}, "|", "B"]


def test_a_loop_that_runs_is_one() -> None:
    made = outline(placed(fill(), loop(i, 4, seq(fill(T), drain(T))), drain()))
    assert made == ["S", {"i": ["|", "T", "|", "B"]}, "B"]


def test_marked_loops_are_treated_alike() -> None:
    assert outline(placed(loop(i, 4, seq(fill(), drain()), LoopKind.UNROLLED))) == {"i": ["|", "S", "|", "B"]}


def guard(condition: Expr, *body: Stmt, orelse: Stmt | None = None) -> If:
    return If(condition, seq(*body), orelse)


def test_a_barrier_stands_outside_of_guards_that_threads_differ_in() -> None:
    some = less(tx, 5)
    assert outline(placed(guard(some, fill()), guard(some, drain()))) == [{"if": "S"}, "|", {"if": "B"}]
    made = outline(placed(loop(i, 4, seq(guard(some, fill()), guard(some, drain())))))
    assert made == {"i": ["|", {"if": "S"}, "|", {"if": "B"}]}


def test_a_guard_that_is_the_same_for_all_threads_may_hold_barriers() -> None:
    made = outline(placed(loop(i, 4, guard(less(i, 2), fill(), drain()))))
    assert made == {"i": ["|", {"if": ["S", "|", "B"]}]}


@pytest.mark.parametrize("statements", [(fill(), drain()), (fill(), Barrier(MemoryScope.SHARED))])
def test_a_barrier_where_threads_part_is_refused(statements: tuple[Stmt, ...]) -> None:
    with pytest.raises(UserError, match="within `if tx < 5`, but some threads of the block do not reach it"):
        placed(guard(less(tx, 5), *statements))


def through_global(index: Any) -> list[Barrier]:
    """The barriers where each thread stores an element of B, and reads the one at `index`."""
    body = seq(store(B, tx, load(A, tx)), store(A, tx, load(B, index)))
    made = run_pass(place_barriers, function((A, B), launch(body, tx=(tx, 8))))
    return [node for node in post_order(made.body) if isinstance(node, Barrier)]


def test_global_memory_that_threads_pass_on_gets_barriers_of_its_own() -> None:
    assert not through_global(tx)
    (barrier,) = through_global(7 - tx)
    assert barrier.scope is MemoryScope.GLOBAL


def test_global_memory_that_is_only_stored_gets_none() -> None:
    body = seq(store(B, tx, load(A, tx)), store(B, 7 - tx, 0.0))
    made = run_pass(place_barriers, function((A, B), launch(body, tx=(tx, 8))))
    assert not [node for node in post_order(made.body) if isinstance(node, Barrier)]


def test_both_branches_count() -> None:
    even = floormod(i, 2).equal(0)
    made = outline(placed(loop(i, 4, guard(even, fill(), orelse=drain()))))
    assert made == {"i": ["|", {"if": "S", "else": "B"}]}


def test_a_condition_may_read_shared_memory() -> None:
    reads = store(B, tx, 1.0)
    made = outline(placed(fill(), If(load(S, 0) > 0.0, reads, None)))
    assert made == ["S", "|", {"if": "B"}]


def test_an_index_may_read_shared_memory() -> None:
    I, at = buf("I", 8, dtype="int32", scope="shared"), exprs(0)[0]
    made = outline(placed(store(I, tx, tx), store(B, load(I, at), 1.0), buffers=(I,)))
    assert made == ["I", "|", "B"]


def test_the_halves_of_a_double_buffer_do_not_meet() -> None:
    """The next part is loaded into one half while the other is read: one barrier an iteration."""
    D = buf("D", 16, scope="shared")
    ahead = store(D, floormod(i + 1, 2) * 8 + tx, load(A, (i + 1) * 8 + tx))
    use = store(B, tx, load(D, floormod(i, 2) * 8 + 7 - tx))
    first = store(D, tx, load(A, tx))
    made = outline(placed(first, loop(i, 7, seq(ahead, use)), buffers=(D,)))
    assert made == ["D", {"i": ["|", "D", "B"]}]


def test_views_of_one_memory_meet() -> None:
    M = buf("M", 8, scope="shared")
    V = buf("V", 8, scope="shared", of=M)
    assert outline(placed(fill(M), drain(M), fill(V), drain(V), buffers=(M,))) == ["M", "|", "B", "|", "V", "|", "B"]


def test_a_condition_on_memory_that_changes_in_between_keeps_nothing_apart() -> None:
    """Threads below k store; those that read from k on do so after k became smaller."""
    k = buf("k", 1, dtype="int32", scope="local")

    def outlined(*between: Stmt) -> Any:
        write = guard(tx < load(k, 0), fill())
        read = guard(7 - tx >= load(k, 0), drain())
        return outline(placed(store(k, 0, 6), write, *between, read, buffers=(S, k)))

    assert outlined(store(k, 0, 3)) == ["k", {"if": "S"}, "k", "|", {"if": "B"}]
