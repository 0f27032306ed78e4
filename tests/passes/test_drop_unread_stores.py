"""drop_unread_stores: fills that nobody reads go, and those that somebody may read stay."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright
from tests.loops.programs import alloc, buf, function, launch, load, loop, store
from tests.passes.running import finish, run_pass
from tilewright import te
from tilewright.expr.nodes import Expr, Var
from tilewright.expr.operators import less, likely
from tilewright.expr.traverse import post_order
from tilewright.loops.interpret import interpret
from tilewright.loops.nodes import Allocate, For, Function, If, Launch, Let, LifetimeStart, Stmt, Store, seq
from tilewright.loops.verify import Form, verify
from tilewright.passes.drop_unread_stores import drop_unread_stores

A, B = buf("A", 64), buf("B", 64)
S, L = buf("S", 8, scope="shared"), buf("L", 1, scope="local")
tx, i, j, k = Var("tx"), Var("i"), Var("j"), Var("k")


def kernel(*body: Stmt) -> Function:
    return function((A, B), launch(alloc(S, alloc(L, *body)), tx=(tx, 8)))


def fill(row: Any = 0) -> Store:
    return store(S, tx, load(A, row * 8 + tx))


def use(row: Any = 0) -> Store:
    return store(B, row * 8 + tx, load(S, tx))


def kept(*body: Stmt) -> list[str]:
    """What a kernel of these statements still does, in program order; its result is the same."""
    before = kernel(*body)
    made = run_pass(drop_unread_stores, before)
    verify(made, Form.FLAT | Form.FINISHED)
    results = []
    for each in (before, made):
        a, b = np.random.default_rng(5).standard_normal(64).astype("float32"), np.zeros(64, "float32")
        interpret(each, [a, b], races=False)
        results.append(b)
    np.testing.assert_array_equal(*results)
    whole = [node for node in post_order(before.body) if isinstance(node, Store)]
    stores = [node for node in post_order(made.body) if isinstance(node, Store)]
    if len(stores) == len(whole):
        assert made is before
    used = {node.buffer for node in stores} & {S, L}
    assert {node.buffer for node in post_order(made.body) if isinstance(node, Allocate)} == used or made is before
    return [f"{node.buffer.name} = {node.value}" for node in stores]


FILL, USE = "S = A[tx]", "B = S[tx]"


def test_a_fill_that_is_read_stays() -> None:
    assert kept(fill(), use()) == [FILL, USE]


def test_a_fill_without_a_reader_goes_with_its_storage() -> None:
    assert kept(fill(), store(B, tx, 1)) == ["B = T.float32(1)"]


def test_a_fill_after_the_last_reader_goes_with_its_loops() -> None:
    assert kept(fill(), use(), loop(i, 4, If(less(tx, 5), fill(i), None))) == [FILL, USE]


def test_what_only_a_dropped_fill_read_goes_too() -> None:
    assert kept(store(L, 0, 1), store(S, tx, load(L, 0)), store(B, tx, 2)) == ["B = T.float32(2)"]


def test_global_memory_is_read_by_others() -> None:
    assert kept(store(B, tx, 1), store(B, tx, 2)) == ["B = T.float32(1)", "B = T.float32(2)"]


def test_sums_that_nobody_reads_go() -> None:
    add = store(L, 0, load(L, 0) + load(A, i))
    assert kept(store(L, 0, 0), loop(i, 4, add), store(B, tx, 1)) == ["B = T.float32(1)"]
    assert len(kept(store(L, 0, 0), loop(i, 4, add), store(B, tx, load(L, 0)))) == 3


def test_the_remainder_of_a_loop_that_lost_its_reader_goes() -> None:
    """Also within a loop, the next iteration of which fills anew before it reads."""
    inner = loop(j, 2, seq(fill(i + j), use(j)))
    rest = loop(k, 1, fill(i + k + 2))
    assert len(kept(loop(i, 3, seq(LifetimeStart(S), inner, rest)))) == 2
    assert len(kept(loop(i, 3, seq(LifetimeStart(S), fill(i), use(), rest)))) == 2
    assert len(kept(loop(i, 3, seq(fill(i), use(), rest)))) == 3  # it is not known that all of S is filled anew


def test_what_the_next_iteration_reads_stays() -> None:
    assert len(kept(fill(), loop(i, 3, seq(use(i), fill(i + 1))))) == 3
    assert len(kept(fill(), loop(i, 3, loop(j, 2, seq(use(i + j), fill(i + j + 1)))))) == 3


def test_what_one_loop_leaves_another_reads() -> None:
    assert len(kept(loop(i, 3, fill(i)), loop(j, 2, use(j)))) == 2


def test_what_threads_of_the_other_part_of_a_branch_read_stays() -> None:
    branch = If(less(tx, 1), loop(i, 8, store(S, i, load(A, i))), use())
    assert kept(branch) == ["S = A[i]", USE]


def test_parts_of_one_fill_stay() -> None:
    parts = [If(likely(less(tx, 4)), fill(), None), loop(i, 2, store(S, i + 6, 1)), store(S, 5, 2), store(S, 4, 3)]
    assert len(kept(*parts, use())) == 5


def test_a_loop_that_fills_for_itself_reads_nothing_from_before_it() -> None:
    assert len(kept(fill(1), loop(i, 2, seq(LifetimeStart(S), fill(i), use(i))))) == 2


def test_what_a_loop_fills_in_part_keeps_its_first_values() -> None:
    """A program written by hand: each iteration fills one element, and reads one that another may have filled."""
    row = buf("R", 8, scope="local")
    first = loop(j, 8, store(row, j, 0))
    body = loop(i, 8, seq(store(row, i, load(A, i)), store(B, i, load(row, 3))))
    assert len(kept(alloc(row, first, body))) == 3


def test_what_is_read_by_another_name_stays() -> None:
    view = buf("V", 8, scope="shared", of=S)
    assert len(kept(fill(), store(B, tx, load(view, tx)))) == 2


def test_only_the_element_of_a_thread_is_surely_stored_anew() -> None:
    """Unless a branch may leave it out."""
    first, again = store(L, 0, 1), store(L, 0, load(A, tx))
    read = store(B, tx, load(L, 0))
    assert len(kept(first, again, read)) == 2
    assert len(kept(first, If(less(tx, 4), again, None), read)) == 3
    assert len(kept(first, If(less(tx, 4), again, again), read)) == 2  # the two branches are one statement


def test_the_same_elements_filled_again_before_a_reader() -> None:
    assert kept(fill(1), fill(), use()) == [FILL, USE]
    guarded = [If(likely(less(tx, 4)), loop(i, 2, store(S, tx * 2 + i, load(A, i + n))), None) for n in range(2)]
    assert len(kept(fill(), *guarded, use())) == 3
    assert len(kept(fill(1), use(1), fill(), use())) == 4


def test_a_fill_that_reads_what_it_fills_is_no_fill_anew() -> None:
    again = store(S, tx, load(S, tx) + 1)
    assert len(kept(fill(), again, use())) == 3
    assert len(kept(fill(), loop(i, 2, seq(again, use(i))))) == 3


def test_elements_that_depend_on_memory_are_not_compared() -> None:
    index = buf("I", 8, dtype="int32", scope="shared")
    there = load(index, tx)
    body = [store(index, tx, tx), store(S, there, 1), store(index, tx, 7 - tx), store(S, there, 2), use()]
    assert len(kept(alloc(index, *body))) == 5


def test_results_that_are_updated_together_stay_together() -> None:
    """As the largest value and its place do, in loops that are cut in two."""
    M = buf("M", 8, scope="local")
    values = Var("v", "float32"), Var("w", "float32")

    def update(x: Expr) -> Stmt:
        new = seq(store(L, 0, values[0]), store(M, x, values[1]))
        return Let(values[0], load(L, 0) + load(M, x), Let(values[1], load(M, x) + load(A, x), new))

    def part(var: Var, low: int) -> For:
        x = var + low
        return loop(var, 4, seq(store(L, 0, 0), store(M, x, 0), loop(k, 2, update(x))))

    drain = loop(Var("d"), 1, store(B, tx, load(M, 1) + load(M, 5)))
    assert len(kept(alloc(M, part(i, 0), part(j, 4), drain))) == 7  # two of them stand in both loops


# Through the whole pipeline.


def uneven(unrolled: bool) -> tuple[Any, list[Any]]:
    """A sum whose last step is cut off by an uneven split, each step from a copy that all threads fill alike."""
    X = te.placeholder((5, 3), name="X")
    y, x = te.reduce_axis((0, 3), "y"), te.reduce_axis((0, 3), "x")
    Y = te.compute((8, 2), lambda i, j: te.sum(X[j + y, x] * (i + 1.0), axis=[y, x]), name="Y")
    s = te.create_schedule(Y.op)
    copied = s.cache_read(X, "shared", [Y])
    s[Y].bind(Y.op.axis[0], te.thread_axis("threadIdx.x"))
    outer, inner = s[Y].split(y, factor=2)
    s[Y].reorder(*Y.op.axis, outer, inner, x)
    s[copied].compute_at(s[Y], inner)
    for axis in (Y.op.axis[1], outer, inner) if unrolled else ():
        s[Y].unroll(axis)
    return s, [X, Y]


@pytest.mark.parametrize("unrolled", [False, True])
def test_an_uneven_split_leaves_no_idle_fill(unrolled: bool) -> None:
    (function,) = tilewright.lower(*uneven(unrolled)).functions
    x = np.arange(15, dtype="float32").reshape(5, 3)
    sums = np.array([x[:3].sum(), x[1:4].sum()])

    def fills(*without: str) -> int:
        y = np.full((8, 2), np.nan, "float32")
        made = finish(function, without=("register_prefetch", *without))
        interpret(made, [x, y], races=True)
        np.testing.assert_allclose(y, np.arange(1, 9)[:, None] * sums)
        return sum(isinstance(node, Store) and "shared" in node.buffer.name for node in post_order(made.body))

    assert fills() < fills("drop_unread_stores")


def test_halves_of_a_double_buffer_are_filled_for_the_next_iteration() -> None:
    X = te.placeholder((8, 4), name="X")
    k = te.reduce_axis((0, 4), "k")
    Y = te.compute((8,), lambda i: te.sum(X[i, k], axis=k), name="Y")
    s = te.create_schedule(Y.op)
    total = s.cache_write(Y, "local")
    copied = s.cache_read(X, "shared", [total])
    s[Y].bind(Y.op.axis[0], te.thread_axis("threadIdx.x"))
    s[total].compute_at(s[Y], Y.op.axis[0])
    s[copied].compute_at(s[total], total.op.reduce_axis[0])
    s[copied].double_buffer()
    (function,) = tilewright.lower(s, [X, Y]).functions
    stored = [node.buffer.name for node in post_order(finish(function).body) if isinstance(node, Store)]
    assert stored.count("X.shared") == 2, stored
    x, y = np.arange(32, dtype="float32").reshape(8, 4), np.full(8, np.nan, "float32")
    interpret(finish(function), [x, y], races=True)
    np.testing.assert_array_equal(y, x.sum(axis=1))


def test_nothing_to_drop_gives_the_same_function() -> None:
    before = kernel(loop(i, 2, seq(fill(i), use(i))))
    assert run_pass(drop_unread_stores, before) is before
    host = function((A, B), store(B, 0, 1))
    assert run_pass(drop_unread_stores, host) is host
    assert isinstance(before.body, Launch)
