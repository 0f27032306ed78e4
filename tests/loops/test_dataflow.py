"""Accesses and dependences: compared with kernels written out, access by access."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.loops.enumerated import events, races
from tests.loops.programs import alloc, buf, exprs, function, launch, load, loop, ramp, store
from tests.loops.random_kernels import kernels
from tests.passes.running import run_pass
from tilewright.arith.facts import EMPTY
from tilewright.arith.simplify import simplify
from tilewright.core.errors import UserError
from tilewright.core.hardware import MemoryScope
from tilewright.expr.evaluate import evaluate
from tilewright.expr.nodes import Expr, Var
from tilewright.expr.operators import const, floordiv, floormod, less, shift_right
from tilewright.expr.traverse import post_order
from tilewright.loops.dataflow import (
    MANY,
    Access,
    Accesses,
    Actors,
    Scene,
    accesses,
    dependence,
    feeds,
    index_variables,
)
from tilewright.loops.interpret import InterpretError, interpret
from tilewright.loops.nodes import Barrier, For, Function, If, Let, Seq, Stmt, map_statements, seq
from tilewright.loops.overlap import LoopDistance, Meeting, meeting
from tilewright.passes.place_barriers import place_barriers

SHARED = frozenset({MemoryScope.SHARED})
A, B = buf("A", 64), buf("B", 64)
S, T = buf("S", 64, scope="shared"), buf("T", 64, scope="shared")
tx, ty, i, j, k, n = (Var(name) for name in ("tx", "ty", "i", "j", "k", "n"))


# Barriers, against the oracle.


@settings(max_examples=settings.default.max_examples // 2, deadline=None)
@given(kernels())
def test_no_race_is_left_in_any_kernel(kernel: Function) -> None:
    with suppress(UserError):  # a barrier is needed under a guard of some threads, where none can stand
        placed = run_pass(place_barriers, kernel)
        left = next(races(events(placed)), None)
        assert left is None, f"{left}\n{placed.body}"


@settings(max_examples=settings.default.max_examples // 3, deadline=None)
@given(kernels())
def test_a_program_that_has_its_barriers_gets_no_more(kernel: Function) -> None:
    with suppress(UserError):
        placed = run_pass(place_barriers, kernel)
        assert run_pass(place_barriers, placed).body is placed.body


@settings(max_examples=settings.default.max_examples // 2, deadline=None)
@given(kernels())
def test_the_race_detector_agrees(kernel: Function) -> None:
    """It finds no race where there is none: where only one statement can race, that is what it finds."""
    with suppress(UserError):
        placed = run_pass(place_barriers, kernel)
        data = np.arange(24, dtype="float32"), np.zeros(24, "float32")
        fault = ""
        try:
            interpret(placed, data)
        except InterpretError as error:
            fault = str(error)
        if "race: " in fault and not fault.startswith("B:"):
            met = next(races(events(placed), within=True), None)
            assert met is not None, f"{fault}\n{placed.body}"


def barriers(stmt: Any) -> int:
    """How many barriers stand in a statement."""
    if isinstance(stmt, Barrier):
        return 1
    return sum(barriers(child) for child in stmt.children() if isinstance(child, Stmt))


def without_barrier(stmt: Stmt, which: list[int]) -> Stmt:
    """The statement without the barrier whose number is counted down to -1 in `which`."""
    if isinstance(stmt, Seq):
        parts = []
        for part in stmt.stmts:
            if isinstance(part, Barrier):
                which[0] -= 1
                parts += [] if which[0] == -1 else [part]
            else:
                parts.append(without_barrier(part, which))
        return seq(*parts)
    return map_statements(stmt, lambda child: without_barrier(child, which))


def needed_barriers(*body: Stmt, threads: int = 32) -> int:
    """How many barriers a kernel gets; each is needed, and together they are enough."""
    inside = alloc(S, alloc(T, *body))
    placed = run_pass(place_barriers, function((A, B), launch(inside, tx=(tx, threads))))
    assert next(races(events(placed)), None) is None
    count = barriers(placed.body)
    for at in range(count):
        fewer = placed.with_body(without_barrier(placed.body, [at]))
        assert next(races(events(fewer)), None) is not None, f"barrier {at} of {count} is not needed"
    return count


def fill(buffer: Any = S, index: Any = tx) -> Stmt:
    return store(buffer, index, load(A, tx))


def halving(step: Expr) -> Stmt:
    return If(less(tx, step), store(S, tx, load(S, tx) + load(S, tx + step)), None)


def test_a_tree_reduction_gets_one_barrier_a_step() -> None:
    """The one at the head of a step parts it from the one before; the result is read by who wrote it."""
    s = Var("s")
    tree = loop(i, 6, Let(s, shift_right(const(32, "int32"), i), halving(s)))
    result = If(less(tx, 1), store(B, 0, load(S, 0)), None)
    assert needed_barriers(fill(S, tx), fill(S, tx + 32), tree, result) == 1
    placed: Any = run_pass(place_barriers, function((A, B), launch(alloc(S, fill(), tree, result), tx=(tx, 64)))).body
    assert barriers(next(node for node in post_order(placed) if isinstance(node, For))) == 1


def test_a_tree_reduction_written_out_gets_one_barrier_a_step() -> None:
    steps = [halving(exprs(size)[0]) for size in (16, 8, 4, 2, 1)]
    result = If(less(tx, 1), store(B, 0, load(S, 0)), None)
    assert needed_barriers(fill(), *steps, result) == 5


def test_a_tree_reduction_by_growing_strides() -> None:
    step = Var("step")
    body = If(floormod(tx, step * 2).equal(0), store(S, tx, load(S, tx) + load(S, tx + step)), None)
    tree = loop(i, 5, Let(step, shift_right(const(16, "int32"), 4 - i), body))
    assert needed_barriers(fill(), tree, store(B, tx, load(S, 0))) == 2


def test_threads_read_what_other_threads_own() -> None:
    assert needed_barriers(fill(), store(B, tx, load(S, 31 - tx))) == 1
    assert needed_barriers(fill(), store(B, tx, load(S, tx))) == 0
    assert needed_barriers(fill(), store(B, tx, load(S, tx + 32))) == 0  # never filled, but by no one else


def test_rows_of_threads() -> None:
    """Each thread fills a row; a number of several digits is equal where its digits are."""
    row = lambda buffer: loop(i, 4, loop(j, 2, store(buffer, tx * 8 + i * 2 + j, 1.0)))
    assert needed_barriers(row(S), loop(k, 8, store(B, tx, load(S, tx * 8 + k))), threads=8) == 0
    assert needed_barriers(row(S), loop(k, 8, store(B, tx, load(S, tx * 8 + k + 1))), threads=7) == 1


def test_padded_rows_of_fused_threads() -> None:
    padded = floordiv(tx, 4) * 5 + floormod(tx, 4)
    assert needed_barriers(fill(S, padded), store(B, tx, load(S, padded))) == 0
    assert needed_barriers(fill(S, padded), store(B, tx, load(S, floordiv(tx, 4) * 5 + 3))) == 1


def test_rounds_of_threads_over_padded_rows() -> None:
    """Rounds of 32 threads over rows of 6 elements, 7 apart: no two of them store the same one."""
    element = i * 32 + tx
    rows = store(S, floordiv(element, 6) * 7 + floormod(element, 6), 1.0)
    assert needed_barriers(loop(i, 3, rows)) == 0


@pytest.mark.parametrize("depth", [2, 3, 4])
def test_a_ring_is_filled_ahead_of_its_readers_with_one_barrier(depth: int) -> None:
    ahead = store(S, floormod(i + (depth - 1), depth) * 16 + tx, load(A, tx))
    use = store(B, tx, load(S, floormod(i, depth) * 16 + 15 - tx))
    first = [store(S, slot * 16 + tx, load(A, tx)) for slot in range(depth - 1)]
    assert needed_barriers(*first, loop(i, 7, seq(ahead, use)), threads=16) == 1


def test_a_name_is_read_before_what_it_names_is_overwritten() -> None:
    v = Var("v", "float32")
    shift = lambda: Let(v, load(S, 31 - tx), store(S, tx, v))
    assert needed_barriers(fill(), shift()) == 2


def test_barriers_of_the_program_count() -> None:
    sync = Barrier(MemoryScope.SHARED)
    assert needed_barriers(fill(), sync, store(B, tx, load(S, 31 - tx))) == 1
    assert needed_barriers(loop(i, 4, seq(fill(), sync, store(B, tx, load(S, 31 - tx)), sync))) == 2


def test_guards_keep_accesses_apart() -> None:
    low, high = less(tx, 16), less(15, tx)
    assert needed_barriers(If(low, fill(), None), If(high, store(B, tx, load(S, tx)), None)) == 0
    assert needed_barriers(If(low, fill(), None), If(high, store(B, tx, load(S, tx - 16)), None)) == 1
    assert needed_barriers(If(low, fill(), store(B, tx, load(S, tx)))) == 0


# Regions, against the oracle.


@st.composite
def regions(draw: Any) -> tuple[Expr, tuple[Expr, ...]]:
    """An index over threads, a loop around both accesses and one around each, and conditions."""
    pick = lambda *choices: draw(st.sampled_from(choices))
    atoms = [tx, ty, i, j, floordiv(tx, 2), floormod(tx, 2), floormod(i, 3), floormod(i + 1, 3), floormod(i + j, 2)]
    atoms += [floordiv(i * 4 + tx, 3), floormod(i * 4 + tx, 3)]
    index: Expr = const(pick(0, 0, 1, 3, 8), "int32")
    for _ in range(pick(1, 2, 3)):
        index = index + pick(*atoms) * pick(1, 1, 2, 4, 8, 3, -1)
    conditions = tuple(less(pick(tx, ty, j, i), pick(1, 2, 3)) for _ in range(pick(0, 0, 1)))
    return simplify(index), conditions


@settings(max_examples=settings.default.max_examples, deadline=None)
@given(regions(), regions(), st.sampled_from([None, 1, 2, 0]))
def test_meetings_are_never_missed(first: Any, second: Any, distance: int | None) -> None:
    """NEVER and IN_ONE_THREAD are proofs: no element is met otherwise. A distance of 0: in one iteration."""
    extents = {tx: 4, ty: 2, i: 4, j: 3}
    step = None if distance == 0 else LoopDistance(i, distance)
    facts = EMPTY.bind_all({var: (const(0, "int32"), const(e, "int32")) for var, e in extents.items() if var is not j})
    inner = loop(j, 3, Seq(()))
    sides = []
    for index, conditions in (first, second):
        (access,) = accesses(store(S, index, 1.0), SHARED, conditions)
        region = access.in_loop(inner).region
        assert region is not None
        sides.append(region)
    found = meeting(sides[0], sides[1], frozenset({tx, ty}), facts, step)
    distances = [0] if distance == 0 else [distance] if distance else [1, 2, 3]
    for by in distances:
        for at in range(4 - by):
            here, there = placed_at(*first, at), placed_at(*second, at + by)
            for element in here.keys() & there.keys():
                assert found is not Meeting.NEVER, (first, second, by, element)
                threads = here[element] | there[element]
                assert found is Meeting.ANYWHERE or len(threads) == 1, (first, second, by, element)


def placed_at(index: Expr, conditions: tuple[Expr, ...], at: int) -> dict[int, set[tuple[int, int]]]:
    """Which threads access which elements in iteration `at`."""
    found: dict[int, set[tuple[int, int]]] = {}
    for x in range(4):
        for y in range(2):
            for inner in range(3):
                env = {tx: x, ty: y, i: at, j: inner}
                if all(evaluate(c, env) for c in conditions):
                    found.setdefault(evaluate(index, env), set()).add((x, y))
    return found


# Accesses.


def found(stmt: Any, **more: Any) -> list[tuple[str, bool]]:
    return [(access.buffer.name, access.writes) for access in accesses(stmt, SHARED, **more)]


def test_accesses_are_those_of_the_scopes_asked_for() -> None:
    stmt = store(S, tx, load(T, i) + load(A, i))
    assert found(stmt) == [("T", False), ("S", True)]
    assert not accesses(stmt, {MemoryScope.LOCAL})


def test_conditions_extents_and_names_are_read() -> None:
    assert found(If(load(S, 0) > 0.0, store(B, 0, 1.0), None)) == [("S", False)]
    I = buf("I", 4, dtype="int32", scope="shared")
    assert found(loop(i, load(I, 0), store(B, i, 1.0))) == [("I", False)]
    assert found(store(B, load(I, 1), 1.0)) == [("I", False)]


def test_accesses_that_differ_by_a_constant_are_one() -> None:
    (access,) = accesses(seq(*(store(S, tx * 8 + u, 1.0) for u in (0, 2, 6))), SHARED)
    assert access.region is not None
    assert (access.region.form.const, access.region.step, access.region.count) == (0, 2, 4)
    (access,) = accesses(store(S, ramp(tx * 4 + 3, 4, -1), load(A, ramp(0, 4))), SHARED)
    assert access.region is not None
    assert (access.region.form.const, access.region.step, access.region.count) == (0, 1, 4)


def test_many_accesses_become_one_to_anywhere() -> None:
    held = accesses(seq(*(store(S, tx * u, 1.0) for u in range(1, MANY + 3))), SHARED)
    assert any(access.region is None for access in held)
    assert len(list(held)) <= MANY


def test_a_place_that_memory_decides_is_any() -> None:
    I = buf("I", 4, dtype="int32", scope="shared")
    write = next(access for access in accesses(store(S, load(I, tx), 1.0), SHARED) if access.writes)
    assert write.region is None


def test_dependences_say_who_and_which_loop() -> None:
    scene = Scene(frozenset({tx}), EMPTY.bind_all({tx: exprs((0, 8)), i: exprs((0, 4))}))  # type: ignore[dict-item]

    def between(source: Stmt, sink: Stmt, step: LoopDistance | None = None) -> Any:
        (a,), (b,) = accesses(source, SHARED), accesses(sink, SHARED)
        return dependence(a, b, scene, step)

    read = store(B, tx, load(S, tx))
    assert between(fill(), read).actors is Actors.ONE_THREAD
    assert between(fill(), store(B, tx, load(S, 7 - tx))).actors is Actors.SEVERAL_THREADS
    assert between(read, read) is None
    assert between(fill(S, i * 8 + tx), store(B, tx, load(S, i * 8 + tx)), LoopDistance(i, None)) is None
    carried = between(fill(S, i * 8 + tx + 8), store(B, tx, load(S, i * 8 + tx)), LoopDistance(i, 1))
    assert carried.carried_by is i
    assert carried.actors is Actors.ONE_THREAD


def test_what_feeds_what_goes_by_memory() -> None:
    view = buf("V", 64, scope="shared", of=S)
    assert feeds(fill(S), store(B, tx, load(S, tx)))
    assert feeds(fill(view), store(B, tx, load(S, tx)))
    assert not feeds(fill(T), store(B, tx, load(S, tx)))
    assert not feeds(store(B, tx, load(S, tx)), fill(S))


def test_variables_of_indices_are_those_of_one_memory() -> None:
    stmt = store(S, tx + i, load(A, j))
    assert index_variables(stmt, MemoryScope.SHARED) == {tx, i}
    assert index_variables(stmt, MemoryScope.GLOBAL) == {j}


def test_views_of_one_memory_depend_on_each_other() -> None:
    view = buf("V", 64, scope="shared", of=S)
    assert view.memory is S
    a, b = Access(S, True, None), Access(view, False, None)
    found = dependence(a, b, Scene(frozenset({tx}), EMPTY))
    assert found is not None
    assert found.actors is Actors.SEVERAL_THREADS
    assert dependence(a, Access(T, True, None), Scene(frozenset({tx}), EMPTY)) is None
    assert Accesses((a, b)) | Accesses() is not None
