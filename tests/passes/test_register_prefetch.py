"""Fills of shared memory that are loaded an iteration ahead: what comes in which order, and where it is not done."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.loops.programs import alloc, buf, function, launch, load, loop, ramp, store
from tests.passes.running import run_pass
from tilewright.core.hardware import LoopKind, MemoryScope
from tilewright.expr.nodes import IfThenElse, Ramp, Var
from tilewright.expr.operators import all_of, const, less, likely
from tilewright.expr.traverse import post_order
from tilewright.loops.interpret import interpret
from tilewright.loops.nodes import Allocate, Barrier, Buffer, For, Function, If, Launch, Let, Seq, Stmt, Store, seq
from tilewright.loops.verify import Form, verify
from tilewright.passes.place_barriers import place_barriers
from tilewright.passes.register_prefetch import MAX_HELD, register_prefetch

SIZE = 256
A, W, B = buf("A", SIZE), buf("W", SIZE), buf("B", SIZE)
S, T = buf("S", 64, scope="shared"), buf("T", 64, scope="shared")
tx, i, j, k, v = Var("tx"), Var("i"), Var("j"), Var("k"), Var("v")


def kernel(*body: Stmt, threads: int = 8, within: tuple[Buffer, ...] = ()) -> Function:
    made = seq(*body)
    for buffer in (S, T, *within):
        made = alloc(buffer, made)
    return function((A, W, B), launch(made, tx=(tx, threads)))


def lines(stmt: Stmt, depth: int = 0) -> list[str]:
    """A statement as short text."""
    pad = "  " * depth
    if isinstance(stmt, Seq):
        return [line for part in stmt.stmts for line in lines(part, depth)]
    if isinstance(stmt, For):
        return [f"{pad}for {stmt.var.name} in {stmt.min}, {stmt.extent}", *lines(stmt.body, depth + 1)]
    if isinstance(stmt, If):
        return [f"{pad}if {stmt.condition}", *lines(stmt.then, depth + 1)]
    if isinstance(stmt, Store):
        return [f"{pad}{stmt.buffer.name}[{stmt.indices[0]}] = {stmt.value}"]
    if isinstance(stmt, Barrier):
        return [f"{pad}barrier"]
    assert isinstance(stmt, (Allocate, Let))
    return lines(stmt.body, depth)


def outcome(made: Function, races: bool) -> np.ndarray:
    rng = np.random.default_rng(3)
    values = [rng.integers(-9, 10, SIZE).astype("float32") for _ in range(2)]
    result = np.zeros(SIZE, "float32")
    interpret(made, [*values, result], races=races)
    return result


def prefetched(before: Function) -> list[str]:
    """The kernel after the pass, with its barriers; checked to compute what it did before."""
    verify(before, Form.FLAT | Form.FINISHED)
    made = run_pass(register_prefetch, before)
    verify(made, Form.FLAT | Form.FINISHED)
    placed = run_pass(place_barriers, made)
    np.testing.assert_array_equal(outcome(placed, races=True), outcome(run_pass(place_barriers, before), races=True))
    assert isinstance(placed.body, Launch)
    return lines(placed.body.body)


def unchanged(before: Function) -> bool:
    """Whether the pass leaves a kernel as it is, but for its identity."""
    body = before.body
    assert isinstance(body, Launch)
    made = run_pass(register_prefetch, before).body
    assert isinstance(made, Launch)
    prefetched(before)
    return made.body is body.body


def fill(at: Any = tx, read: Any = None, source: Buffer = A, into: Buffer = S) -> Stmt:
    return store(into, at, load(source, i * 8 + tx if read is None else read))


def use(buffer: Buffer = S, row: Any = 0) -> Stmt:
    """Each thread adds what its neighbour loaded."""
    return store(B, row * 8 + tx, load(B, row * 8 + tx) + load(buffer, 7 - tx))


# What comes in which order.


def test_the_next_elements_are_loaded_before_this_ones_are_used() -> None:
    assert prefetched(kernel(loop(i, 5, seq(fill(), use())))) == [
        "S.next[0] = A[tx]",
        "for i in 0, 5",
        "  barrier",
        "  S[tx] = S.next[0]",
        "  if i < 4",
        "    S.next[0] = A[i * 8 + tx + 8]",
        "  barrier",
        "  B[tx] = B[tx] + S[7 - tx]",
    ]


def test_the_last_iteration_loads_nothing_beyond() -> None:
    """All of A is read, and the interpreter tells of any element after it."""
    prefetched(kernel(loop(i, SIZE // 8, seq(fill(), use()))))


def test_a_loop_that_starts_elsewhere() -> None:
    assert prefetched(kernel(loop(i, 5, seq(fill(), use()), low=3)))[:5] == [
        "S.next[0] = A[tx + 24]",
        "for i in 3, 5",
        "  barrier",
        "  S[tx] = S.next[0]",
        "  if i < 7",
    ]


def test_two_iterations() -> None:
    assert "  if i < 1" in prefetched(kernel(loop(i, 2, seq(fill(), use()))))


def test_a_fill_of_several_elements_takes_as_many_registers() -> None:
    rounds = loop(j, 4, store(S, j * 8 + tx, load(A, i * 32 + j * 8 + tx)))
    assert prefetched(kernel(loop(i, 3, seq(rounds, use())))) == [
        "for j in 0, 4",
        "  S.next[j] = A[j * 8 + tx]",
        "for i in 0, 3",
        "  barrier",
        "  for j in 0, 4",
        "    S[j * 8 + tx] = S.next[j]",
        "  if i < 2",
        "    for j in 0, 4",
        "      S.next[j] = A[i * 32 + j * 8 + tx + 32]",
        "  barrier",
        "  B[tx] = B[tx] + S[7 - tx]",
    ]


def test_loops_of_a_fill_are_counted_from_their_start() -> None:
    rounds = loop(j, 3, loop(k, 2, store(S, (j * 2 + k - 7) * 8 + tx, load(A, i * 48 + j * 2 + k)), low=3), low=2)
    found = prefetched(kernel(loop(i, 3, seq(rounds, use()))))
    assert found[2] == "    S.next[j * 2 + k - 7] = A[j * 2 + k]"
    assert found[7] == "      S[j * 16 + k * 8 + tx - 56] = S.next[j * 2 + k - 7]"


def test_guards_stay_with_loads_and_stores() -> None:
    guarded = If(likely(less(i * 8 + tx, 36)), fill(), None)
    found = prefetched(kernel(loop(i, 5, seq(guarded, use()))))
    assert found[:7] == [
        "S.next[0] = A[tx]",
        "for i in 0, 5",
        "  barrier",
        "  if T.likely(i * 8 + tx < 36)",
        "    S[tx] = S.next[0]",
        "  if i < 4",
        "    if T.likely(i * 8 + tx < 28)",
    ]


def test_a_guard_keeps_loads_within_the_array() -> None:
    """The last iteration's guard holds for some threads, and that of the one after would for none."""
    rows = SIZE // 8
    guarded = If(likely(less(i * 8 + tx, SIZE - 3)), fill(read=i * 8 + tx + 3), None)
    prefetched(kernel(store(S, tx, 0.0), loop(i, rows, seq(guarded, use()))))


def test_padding_is_loaded_as_padding() -> None:
    """What is outside of the array is not read in the iteration before, either."""
    inside = all_of(i * 8 + tx >= 3, less(i * 8 + tx, SIZE + 3))
    padded = store(S, tx, IfThenElse(inside, load(A, i * 8 + tx - 3), const(0.0)))
    found = prefetched(kernel(loop(i, SIZE // 8 + 2, seq(padded, use()))))
    assert found[0] == "S.next[0] = T.if_then_else(3 <= tx, A[tx - 3], T.float32(0))"


def test_vectors_are_held_as_vectors() -> None:
    wide = store(S, ramp(tx * 4, 4), load(A, ramp(i * 32 + tx * 4, 4)))
    found = prefetched(kernel(loop(i, 4, seq(wide, use()))))
    assert found[0] == "S.next[T.Ramp(0, 1, 4)] = A[tx * 4:tx * 4 + 4]"
    rounds = loop(j, 2, store(S, ramp(j * 32 + tx * 4, 4), load(A, ramp(i * 64 + j * 32 + tx * 4, 4))))
    found = prefetched(kernel(loop(i, 3, seq(rounds, use()))))
    assert found[1] == "  S.next[T.Ramp(j * 4, 1, 4)] = A[j * 32 + tx * 4:j * 32 + tx * 4 + 4]"


def test_vectors_in_loops_that_count_in_64_bits() -> None:
    wide, one = Var("j", "int64"), const(1, "int64")
    place = wide * 32 + tx.astype("int64") * 4
    body = store(S, Ramp(place, one, 4), load(A, Ramp(place + i.astype("int64"), one, 4)))
    rounds = For(wide, const(0, "int64"), const(2, "int64"), LoopKind.SERIAL, None, (), body)
    found = prefetched(kernel(loop(i, 3, seq(rounds, use()))))
    assert found[1].startswith("  S.next[T.Ramp(j * T.int64(4), T.int64(1), 4)] = A[")


def test_several_fills_are_loaded_after_the_last() -> None:
    body = seq(fill(), fill(source=W, into=T), use(S), use(T, 1))
    assert prefetched(kernel(loop(i, 3, body))) == [
        "S.next[0] = A[tx]",
        "T.next[0] = W[tx]",
        "for i in 0, 3",
        "  barrier",
        "  S[tx] = S.next[0]",
        "  T[tx] = T.next[0]",
        "  if i < 2",
        "    S.next[0] = A[i * 8 + tx + 8]",
        "    T.next[0] = W[i * 8 + tx + 8]",
        "  barrier",
        "  B[tx] = B[tx] + S[7 - tx]",
        "  B[8 + tx] = B[8 + tx] + T[7 - tx]",
    ]


def test_fills_with_work_between_them() -> None:
    found = prefetched(kernel(loop(i, 3, seq(fill(), use(), fill(source=W, into=T), use(T, 1)))))
    assert found.index("  B[tx] = B[tx] + S[7 - tx]") < found.index("  if i < 2")


def test_a_buffer_that_is_filled_in_two_parts() -> None:
    halves = seq(fill(), fill(at=tx + 8, read=i * 8 + tx + 100))
    other = store(B, tx + 8, load(B, tx + 8) + load(S, 15 - tx))
    found = prefetched(kernel(loop(i, 4, seq(halves, use(), other))))
    assert found[:2] == ["S.next[0] = A[tx]", "S.next[1] = A[tx + 100]"]


def test_a_loop_inside_of_a_kernels_other_loops() -> None:
    """The first load comes again each time around."""
    inner = loop(j, 3, seq(fill(read=i * 24 + j * 8 + tx), use(row=i)))
    assert prefetched(kernel(loop(i, 4, seq(store(B, i * 8 + tx, 1.0), inner))))[:5] == [
        "for i in 0, 4",
        "  B[i * 8 + tx] = T.float32(1)",
        "  S.next[0] = A[i * 24 + tx]",
        "  for j in 0, 3",
        "    barrier",
    ]


def test_a_loop_in_a_branch() -> None:
    block = Var("bx")
    body = If(less(block, 1), loop(i, 3, seq(fill(), use())), None)
    made = alloc(T, alloc(S, body))
    found = prefetched(function((A, W, B), launch(made, bx=(block, 2), tx=(tx, 8))))
    assert found[:3] == ["if bx < 1", "  S.next[0] = A[tx]", "  for i in 0, 3"]


# Nested loops.


def test_nested_loops_become_one() -> None:
    body = seq(fill(read=i * 40 + j * 8 + tx), use(row=i))
    assert prefetched(kernel(loop(i, 3, loop(j, 4, body)))) == [
        "S.next[0] = A[tx]",
        "for i.j in 0, 12",
        "  barrier",
        "  S[tx] = S.next[0]",
        "  if i.j < 11",
        "    S.next[0] = A[(i.j + 1) // 4 * 40 + (i.j + 1) % 4 * 8 + tx]",
        "  barrier",
        "  B[i.j // 4 * 8 + tx] = B[i.j // 4 * 8 + tx] + S[7 - tx]",
    ]


@pytest.mark.parametrize("lows", [(0, 0, 0), (2, 0, 0), (0, 3, 0), (0, 0, 1), (1, 2, 3)])
@pytest.mark.parametrize("extents", [(2, 3, 4), (1, 2, 5), (3, 1, 2), (2, 2, 1), (7, 1, 1)])
def test_nested_loops_take_all_their_values_in_order(lows: tuple[int, ...], extents: tuple[int, ...]) -> None:
    """Every iteration stores its number where the values of its variables say."""
    place = (i - lows[0]) * extents[1] * extents[2] + (j - lows[1]) * extents[2] + (k - lows[2])
    body = seq(fill(read=place), store(B, place * 4 + i + j + k, load(S, tx) + place.astype("float32")))
    nest = loop(k, extents[2], body, low=lows[2])
    nest = loop(i, extents[0], loop(j, extents[1], nest, low=lows[1]), low=lows[0])
    assert any("S.next" in line for line in prefetched(kernel(nest, threads=1)))


def test_pragmas_of_nested_loops_stay() -> None:
    inner = loop(j, 4, seq(fill(read=i * 32 + j * 8 + tx), use()))
    nest = For(i, const(0, "int32"), const(3, "int32"), LoopKind.SERIAL, None, (("unroll_explicit", 1),), inner)
    loops = [node for node in post_order(run_pass(register_prefetch, kernel(nest)).body) if isinstance(node, For)]
    assert [made.pragmas for made in loops] == [(("unroll_explicit", 1),)]


def test_loops_with_something_between_them_stay_nested() -> None:
    inner = loop(j, 4, seq(fill(read=i * 32 + j * 8 + tx), use()))
    found = prefetched(kernel(loop(i, 3, seq(store(B, tx + 8, 1.0), inner))))
    assert "  for j in 0, 4" in found


def test_more_iterations_than_32_bits_count_stay_nested() -> None:
    """Only the inner loop is loaded ahead then."""
    body = seq(store(S, tx, load(A, tx)), use())
    made = run_pass(register_prefetch, kernel(loop(i, 1 << 16, loop(j, 1 << 16, body))))
    verify(made, Form.FLAT | Form.FINISHED)
    assert isinstance(made.body, Launch)
    assert lines(made.body.body)[:3] == [f"for i in 0, {1 << 16}", "  S.next[0] = A[tx]", f"  for j in 0, {1 << 16}"]


# Where it is not done.


def uncertain() -> Function:
    n = Var("n")
    body = alloc(T, alloc(S, loop(i, n, seq(fill(), use()))))
    return function((A, W, B, n), launch(body, tx=(tx, 8)))


def test_loops_whose_extent_is_known_at_the_call() -> None:
    before = uncertain()
    made = run_pass(register_prefetch, before).body
    assert isinstance(made, Launch)
    assert isinstance(before.body, Launch)
    assert made.body is before.body.body


L = buf("L", 64, scope="local")
wide = buf("wide", 1024, scope="shared")
D = Buffer("D", "float32", (const(64, "int32"),), MemoryScope.SHARED, stages=2)
LEFT_ALONE: dict[str, Callable[[], Function]] = {
    "one iteration": lambda: kernel(loop(i, 1, seq(fill(), use()))),
    "nothing is computed after the fill": lambda: kernel(store(S, tx, 0.0), loop(i, 4, seq(use(), fill()))),
    "the fill is all there is": lambda: kernel(loop(i, 4, fill(at=i * 8 + tx)), use()),
    "too much for the registers": lambda: kernel(
        loop(i, 2, seq(loop(j, MAX_HELD + 1, store(S, j, load(A, i + j))), use())), threads=1
    ),
    "too many threads share them": lambda: kernel(
        loop(
            i, 2, seq(loop(j, 25, store(wide, tx, load(A, i + j))), If(less(tx, 9), store(B, tx, load(wide, tx)), None))
        ),
        threads=1024,
        within=(wide,),
    ),
    "the loop stores what the fill reads": lambda: kernel(
        loop(i, 4, seq(fill(source=B, read=i * 8 + tx), store(B, i * 8 + tx + 8, load(S, 7 - tx))))
    ),
    "the fill reads shared memory": lambda: kernel(
        store(T, tx, load(A, tx)), loop(i, 4, seq(fill(source=T, read=7 - tx), use()))
    ),
    "the fill reads local memory": lambda: kernel(
        store(L, 0, load(A, tx)), loop(i, 4, seq(fill(source=L, read=0), use())), within=(L,)
    ),
    "the fill reads nothing": lambda: kernel(loop(i, 4, seq(store(S, tx, i.astype("float32")), use()))),
    "the buffer has halves": lambda: kernel(
        loop(i, 4, seq(fill(into=D), store(B, tx, load(B, tx) + load(D, 7 - tx)))), within=(D,)
    ),
    "it stores to local memory": lambda: kernel(
        loop(i, 4, seq(store(L, 0, load(A, i * 8 + tx)), store(B, i * 8 + tx, load(L, 0)))), within=(L,)
    ),
    "it stores to global memory": lambda: kernel(loop(i, 4, seq(store(B, i, load(A, i)), store(B, i + 9, 1.0)))),
    "the loop is unrolled": lambda: kernel(loop(i, 4, seq(fill(), use()), LoopKind.UNROLLED)),
    "it names a value": lambda: kernel(
        loop(i, 4, seq(Let(v, i * 8 + tx, store(S, tx, load(A, v))), use())),
    ),
    "the fill's extent differs": lambda: kernel(
        loop(i, 4, seq(loop(j, i + 1, store(S, j * 8 + tx, load(A, i * 8 + tx))), use())),
    ),
}


@pytest.mark.parametrize("why", LEFT_ALONE)
def test_loops_that_are_left_alone(why: str) -> None:
    assert unchanged(LEFT_ALONE[why]())


def test_registers_that_the_kernel_uses_itself_count() -> None:
    def with_own(elements: int) -> Function:
        own = buf("own", elements, scope="local")
        rounds = loop(j, 16, store(S, j, load(A, i + j)))
        mine = store(own, 0, load(A, tx))
        return kernel(mine, loop(i, 4, seq(rounds, use())), within=(own,), threads=1)

    assert not unchanged(with_own(136))
    assert unchanged(with_own(137))


def test_elements_of_64_bits_take_two() -> None:
    doubles, source = buf("S", 64, dtype="float64", scope="shared"), buf("D", 64, dtype="float64")

    def held(count: int) -> bool:
        rounds = loop(j, count, store(doubles, j, load(source, i + j)))
        body = alloc(doubles, loop(i, 4, seq(rounds, store(B, 0, load(doubles, 0).astype("float32")))))
        before = launch(body, tx=(tx, 1))
        made = run_pass(register_prefetch, function((source, B), before)).body
        assert isinstance(made, Launch)
        return made.body is not before.body

    assert held(MAX_HELD // 2)
    assert not held(MAX_HELD // 2 + 1)


def test_host_code_has_no_registers() -> None:
    before = function((A, W, B), loop(i, 4, store(B, i, load(A, i))))
    assert run_pass(register_prefetch, before) is before
