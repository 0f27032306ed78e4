"""separate_full_tiles: the test that stands before a tile, and where there is none. Beside test_mask_guarded_loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright
from tests.codegen.llvm.harness import build
from tests.loops.programs import alloc, buf, function, launch, load, loop, ramp, spread, store
from tests.passes.running import run_pass
from tilewright import te
from tilewright.core.hardware import LoopKind
from tilewright.expr.convert import const
from tilewright.expr.nodes import Expr, IfThenElse, Ramp, Var
from tilewright.expr.operators import all_of, any_of, equal, floordiv, floormod, less, likely
from tilewright.expr.traverse import post_order
from tilewright.loops.interpret import interpret
from tilewright.loops.nodes import Evaluate, For, Function, If, Let, Stmt, Store, seq
from tilewright.loops.verify import Form, verify
from tilewright.passes.context import PassContext
from tilewright.passes.separate_full_tiles import MAX_STORES, separate_full_tiles
from tilewright.runtime.array import array

A, B = buf("A", 400), buf("B", 400)
p, q, i, j, n, m, v = Var("p"), Var("q"), Var("i"), Var("j"), Var("n"), Var("m"), Var("v")
SIZES = (0, 1, 7, 8, 9, 16, 79, 80, 81)


def guarded(condition: Expr, body: Stmt | None = None) -> Stmt:
    return If(likely(condition), store(B, p * 8 + i, load(A, p * 8 + i)) if body is None else body, None)


def tiles(body: Stmt) -> Function:
    """Ten tiles of eight iterations."""
    return function((A, B, n, m), loop(p, 10, loop(i, 8, body)))


def outcome(made: Function, sizes: tuple[int, ...]) -> np.ndarray:
    b = np.zeros(400, "float32")
    interpret(made, [np.arange(400, dtype="float32") + 1, b, *sizes])
    return b


def compiled(made: Function, sizes: tuple[int, ...]) -> np.ndarray:
    """The same on this CPU, through LLVM."""
    out = array(np.zeros(400, "float32"))
    build(made.body, *made.params)(array(np.arange(400, dtype="float32") + 1), out, *sizes)
    return out.numpy()


def asked(before: Function, runs: bool = True) -> list[str]:
    """The conditions that tiles are tested for; the function is checked to mean the same for many sizes."""
    made = run_pass(separate_full_tiles, before)
    verify(made, Form.FLAT | Form.MASKED)
    if runs:
        for size in SIZES:
            for other in (3, 80):
                expected = outcome(before, (size, other))
                np.testing.assert_array_equal(outcome(made, (size, other)), expected)
            np.testing.assert_array_equal(compiled(before, (size, 80)), expected)
    found = [node for node in post_order(made.body) if isinstance(node, If) and node.orelse is not None]
    return [str(choice.condition).removeprefix("T.likely(").removesuffix(")") for choice in found]


def guards(stmt: Stmt) -> int:
    return sum(isinstance(node, If) for node in post_order(stmt))


# What is tested.


@pytest.mark.parametrize(
    ("condition", "test"),
    [
        (p * 8 + i < n, "p * 8 + 7 < n"),
        (p * 8 + i <= n, "p * 8 + 7 <= n"),
        (n > p * 8 + i, "p * 8 + 7 < n"),
        (n >= p * 8 + i, "p * 8 + 7 <= n"),
        (p * 8 + i * 3 < n, "p * 8 + 21 < n"),
        (p * 8 - i >= n, "n <= p * 8 - 7"),
        (p * 8 + i > n, "n < p * 8"),
    ],
    ids=str,
)
def test_a_tile_is_tested_where_its_guard_is_hardest_to_meet(condition: Expr, test: str) -> None:
    """At the last iteration of a loop where the guard bounds from above, at the first where from below."""
    assert asked(tiles(guarded(condition))) == [test]


def test_guards_on_two_axes_are_one_test() -> None:
    place = (p * 4 + i) * 16 + q * 4 + j
    body = guarded(p * 4 + i < n, guarded(q * 4 + j < m, store(B, place, load(A, place))))
    nest = loop(p, 5, loop(q, 4, loop(i, 4, loop(j, 4, body))))
    found = asked(function((A, B, n, m), nest))
    assert len(found) == 1
    assert " and " in found[0]


def test_a_conjunction_is_tested_as_a_whole() -> None:
    (text,) = asked(tiles(guarded(all_of(p * 8 + i < n, p * 8 + i >= m))))
    assert " and " in text


def test_the_fast_version_has_no_guards_and_the_slow_one_is_as_before() -> None:
    before = tiles(guarded(p * 8 + i < n))
    made = run_pass(separate_full_tiles, before).body
    assert isinstance(made, For)
    choice = made.body
    assert isinstance(choice, If)
    assert choice.orelse is not None
    assert guards(choice.then) == 0
    assert isinstance(before.body, For)
    assert choice.orelse is before.body.body


def test_guards_of_vectors_are_tested_for_all_lanes() -> None:
    """Masks, which mask_guarded_loops makes."""
    lanes = ramp(p * 8, 8)
    before = function((A, B, n, m), loop(p, 10, If(likely(less(lanes, spread(n, 8, "int32"))), wide(lanes), None)))
    assert asked(before, runs=False) == ["p * 8 + 7 < n"]


def wide(lanes: Ramp) -> Stmt:
    return Store(B, (lanes,), load(A, lanes))


def test_loops_that_start_elsewhere() -> None:
    before = function((A, B, n, m), loop(p, 10, loop(i, 8, guarded(p * 8 + i < n), low=3)))
    assert asked(before) == ["p * 8 + 10 < n"]


def test_a_tile_of_known_sizes() -> None:
    before = function((A, B, n, m), loop(p, 10, loop(i, 8, guarded(p * 8 + i < 77))))
    assert asked(before) == ["p < 9"]


def test_the_outermost_place_where_tiles_differ_is_taken() -> None:
    """Not within the inner loops, which would ask again and again; nor outside of all, where one answer decides."""
    place = p * 8 + i
    before = function((A, B, n, m), loop(p, 10, loop(q, 3, loop(i, 8, guarded(place < n)))))
    made = run_pass(separate_full_tiles, before).body
    assert isinstance(made, For)
    assert isinstance(made.body, If)
    asked(before)


def test_inside_a_launch() -> None:
    before = function((A, B, n, m), launch(tiles(guarded(p * 8 + i < n)).body))
    made = run_pass(separate_full_tiles, before)
    assert sum(isinstance(node, If) and node.orelse is not None for node in post_order(made.body)) == 1


# Where there is none.


L = buf("L", 8, scope="local")
LEFT_ALONE: dict[str, Function] = {
    "no guard": tiles(store(B, p * 8 + i, 1.0)),
    "a condition of the program": tiles(If(p * 8 + i < n, store(B, p * 8 + i, 1.0), None)),
    "a guard with an alternative": tiles(If(likely(p * 8 + i < n), store(B, p * 8 + i, 1.0), store(B, p * 8 + i, 2.0))),
    "the same for all tiles": function((A, B, n, m), loop(p, 10, loop(i, 8, guarded(i < n)))),
    "no tiles around": function((A, B, n, m), loop(i, 8, guarded(i < n, store(B, i, 1.0)))),
    "asked once a tile": function((A, B, n, m), loop(p, 10, guarded(p * 8 < n, store(B, p, 1.0)))),
    "not linear": tiles(guarded(floormod(p * 8 + i, 5) < n)),
    "not linear in an inner loop": tiles(guarded(p + floordiv(i, 2) < n)),
    "an alternative of conditions": tiles(guarded(any_of(p * 8 + i < n, p * 8 + i > m))),
    "an equality": tiles(guarded(equal(p * 8 + i, n))),
    "of floats": tiles(guarded(load(A, p * 8 + i) < 5.0)),
    "never all": function((A, B, n, m), loop(p, 10, loop(i, 8, guarded(all_of(i < 5, p < n))))),
    "inner loops whose extent differs": function(
        (A, B, n, m), loop(p, 10, loop(i, p + 1, guarded(p * 8 + i < n, store(B, p * 8 + i, 1.0))))
    ),
    "a name in the guard": tiles(Let(v, p * 8 + i, guarded(v < n))),
    "many stores": tiles(seq(*(guarded(p * 8 + i < n, store(B, k, 1.0)) for k in range(MAX_STORES + 1)))),
    "storage of its own": function(
        (A, B, n, m), loop(p, 10, loop(i, 8, alloc(L, guarded(p * 8 + i < n, store(L, i, 1.0)))))
    ),
    "an effect": tiles(seq(Evaluate(load(A, i)), guarded(p * 8 + i < n))),
}


@pytest.mark.parametrize("why", LEFT_ALONE)
def test_left_alone(why: str) -> None:
    assert run_pass(separate_full_tiles, LEFT_ALONE[why]) is LEFT_ALONE[why]


def test_as_many_stores_as_are_worth_it() -> None:
    few = seq(*(guarded(p * 8 + i < n, store(B, k, 1.0)) for k in range(MAX_STORES)))
    assert asked(tiles(few), runs=False)


# Choices in expressions.


def within(low: Expr | int, at: Expr, high: Expr | int) -> Expr:
    return all_of(low <= at, at < high)


def read(condition: Expr, at: Expr) -> Expr:
    """What padding makes of a read."""
    return IfThenElse(condition, load(A, at), const(0.0, "float32"))


def chosen(stmt: Stmt) -> list[str]:
    return [str(node.condition) for node in post_order(stmt) if isinstance(node, IfThenElse)]


def window(condition: Expr) -> Function:
    """Tiles of eight sums over three neighbours, at p * 8 + i + v - 1."""
    at = p * 8 + i
    total = store(B, at, load(B, at) + read(condition, at + v - 1))
    return function((A, B, n, m), loop(p, 10, loop(i, 8, loop(v, 3, total))))


def test_tiles_inside_an_image_read_without_asking() -> None:
    before = window(within(1, p * 8 + i + v, n + 1))
    assert asked(before) == ["1 <= p and p * 8 + 9 < n + 1"]
    made = run_pass(separate_full_tiles, before)
    tested = next(node for node in post_order(made.body) if isinstance(node, If))
    assert chosen(tested.then) == []
    assert tested.orelse is not None
    assert len(chosen(tested.orelse)) == 1


def test_choices_that_are_written_out_are_asked_together() -> None:
    body = seq(*(store(B, p * 8 + c, read(within(1, p * 8 + c, n), p * 8 + c - 1)) for c in range(8)))
    assert asked(function((A, B, n, m), loop(p, 10, body)))[0].endswith("p * 8 + 7 < n")


def test_where_all_tiles_meet_a_border_the_other_direction_is_tested() -> None:
    total = store(B, q * 8 + i, read(all_of(within(1, i + j, 8), within(1, q + v, 5)), i + v))
    before = function((A, B, n, m), loop(q, 6, loop(v, 2, loop(j, 2, loop(i, 8, total)))))
    assert asked(before)[0] == "1 <= q + v and q + v < 5"
    columns = store(B, q * 2 + i, read(all_of(within(1, p + j, 2), within(1, q + v, 5)), i + v))
    both = function((A, B, n, m), loop(p, 2, loop(q, 6, loop(v, 2, loop(j, 2, loop(i, 2, columns))))))
    assert all("p" not in condition for condition in asked(both))


def test_a_choice_inside_of_another_is_made_first() -> None:
    at = p * 8 + i
    inner = IfThenElse(at < m, load(A, at), const(1.0, "float32"))
    total = store(B, at, IfThenElse(at < n, inner, const(2.0, "float32")))
    before = function((A, B, n, m), loop(p, 10, loop(i, 8, total)))
    made = run_pass(separate_full_tiles, before)
    assert asked(before) == ["p * 8 + 7 < m and p * 8 + 7 < n"]
    assert len(chosen(made.body)) == 2


def test_choices_by_what_memory_holds_stay() -> None:
    by_data = window(load(A, p * 8 + i + v) > 3.0)
    assert run_pass(separate_full_tiles, by_data) is by_data
    either = window(any_of(p * 8 + i < n, v < 1))
    assert run_pass(separate_full_tiles, either) is either


def test_a_choice_that_is_made_once_stays() -> None:
    once = function((A, B, n, m), loop(p, 10, store(B, p, read(p < n, p))))
    assert run_pass(separate_full_tiles, once) is once


# Through the whole pipeline.


def product(rows: int, columns: int) -> tuple[Any, list[Any]]:
    """C = A B of sizes known at the call, in tiles."""
    a, b, depth = (te.size_var(name) for name in "abd")
    X, Y = te.placeholder((a, depth), name="X"), te.placeholder((depth, b), name="Y")
    k = te.reduce_axis((0, depth), "k")
    C = te.compute((a, b), lambda i, j: te.sum(X[i, k] * Y[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
    x, y, xi, yi = s[C].tile(*C.op.axis, rows, columns)
    s[C].reorder(x, y, k, xi, yi)
    s[C].vectorize(yi)
    return s, [X, Y, C]


@pytest.mark.parametrize("separates", [True, False])
@pytest.mark.parametrize("sizes", [(1, 1, 1), (4, 8, 3), (5, 9, 2), (7, 17, 5), (12, 24, 4), (3, 40, 1), (0, 5, 2)])
def test_results_of_tiles_and_what_is_left_over(sizes: tuple[int, int, int], separates: bool) -> None:
    s, args = product(4, 8)
    with PassContext(disabled_pass=[] if separates else ["separate_full_tiles"]):
        module = tilewright.build(s, args, "llvm")
    a, b, depth = sizes
    rng = np.random.default_rng(1)
    x, y = (rng.integers(-3, 4, shape).astype("float32") for shape in ((a, depth), (depth, b)))
    out = array(np.full((a, b), np.nan, "float32"))
    module(array(x), array(y), out)
    np.testing.assert_array_equal(out.numpy(), x @ y)


def test_the_loops_of_a_tile_keep_their_kinds() -> None:
    body = loop(j, 2, guarded(p * 8 + i < n), LoopKind.UNROLLED)
    made = run_pass(separate_full_tiles, function((A, B, n, m), loop(p, 10, loop(i, 8, body))))
    kinds = [node.kind for node in post_order(made.body) if isinstance(node, For) and node.var is j]
    assert set(kinds) == {LoopKind.UNROLLED}


def test_a_guard_that_reads_what_the_tile_stores_is_asked_each_time() -> None:
    most = buf("most", 1)
    counted = seq(store(B, p * 8 + i, 1.0), store(most, 0, load(most, 0) - 1.0))
    before = function((most, B), loop(p, 10, loop(i, 8, guarded(i < load(most, 0).astype("int32"), counted))))
    made = run_pass(separate_full_tiles, before)
    results = []
    for each in (before, made):
        b = np.zeros(400, "float32")
        interpret(each, [np.full(1, 9, "float32"), b])
        results.append(b)
    np.testing.assert_array_equal(*results)
