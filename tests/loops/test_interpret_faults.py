"""The interpreter finds faults: bounds, unwritten memory, races, divergent barriers; and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.loops.programs import alloc, buf, function, load, loop, ramp, spread, store, thread
from tilewright.core.errors import InternalError
from tilewright.core.hardware import MemoryScope
from tilewright.expr.nodes import Var
from tilewright.expr.operators import const, if_then_else
from tilewright.loops.interpret import InterpretError, interpret
from tilewright.loops.nodes import NOTHING, Await, Barrier, Buffer, Commit, Copy, Evaluate, Function, If, Stmt, seq

SYNC = Barrier(MemoryScope.SHARED)
SYNC_GLOBAL = Barrier(MemoryScope.GLOBAL)


def empty(*shape: int, dtype: str = "float32") -> np.ndarray:
    return np.arange(int(np.prod(shape)), dtype=dtype).reshape(shape)


def fails(f: Function, *args: Any, match: str, **flags: Any) -> str:
    """The text of the error that running `f` raises."""
    with pytest.raises(InterpretError, match=match) as caught:
        interpret(f, args, outputs=[p for p in f.params[-1:] if isinstance(p, Buffer)], **flags)
    return str(caught.value)


def in_block(threads: int, body: Callable[[Var, Var], Stmt], blocks: int = 2) -> Stmt:
    return thread("bx", blocks, lambda b: thread("tx", threads, lambda t: body(b, t)))


def test_an_interpret_error_is_an_internal_error() -> None:
    assert issubclass(InterpretError, InternalError)


# Bounds.


def test_out_of_bounds_names_index_thread_variables_and_statement() -> None:
    A, B, k = buf("A", 4, 6), buf("B", 4), Var("k")
    f = function((A, B), in_block(4, lambda b, t: loop(k, 3, store(B, t, load(A, t, b * 3 + k + t)))))
    text = fails(f, empty(4, 6), empty(4), match=r"A: index 1 is out of bounds of A\[4, 6\] \(global\)", races=False)
    assert "index:     [3, 6]" in text
    assert "thread:    blockIdx.x = 1, threadIdx.x = 3" in text
    assert "variables: k = 0" in text
    assert "statement: B[tx] = A[tx, bx * 3 + k + tx]" in text


@pytest.mark.parametrize("low", [-1, 1])
def test_each_dimension_has_its_own_bounds(low: int) -> None:
    A, j = buf("A", 2, 4), Var("j")
    f = function((A,), loop(j, 4, store(A, (0, j + low), 0.0)))
    text = fails(f, empty(2, 4), match=r"index 1 is out of bounds")
    assert f"index:     [0, {-1 if low < 0 else 4}]" in text
    assert "thread" not in text


def test_lanes_of_a_vector_have_bounds() -> None:
    A, B = buf("A", 6), buf("B", 8)
    f = function((A, B), thread("tx", 2, lambda t: store(B, ramp(t * 4, 4), load(A, ramp(t * 4, 4)))))
    text = fails(f, empty(6), empty(8), match="out of bounds")
    assert "index:     [6]" in text
    assert "threadIdx.x = 1" in text


def test_shared_and_local_memory_have_bounds() -> None:
    B = buf("B", 4)
    for scope in ("shared", "local"):
        S = buf("S", 4, scope=scope)
        f = function((B,), in_block(4, lambda b, t, S=S: alloc(S, store(S, t + 1, 0.0))))
        fails(f, empty(4), match=rf"S: index 0 is out of bounds of S\[4\] \({scope}\)")


def test_without_checks_nothing_is_raised() -> None:
    A, B = buf("A", 4), buf("B", 4)
    f = function((A, B), thread("tx", 4, lambda t: store(B, t, load(A, t + 2))))
    interpret(f, [empty(4), empty(4)], check=False)


def test_division_by_zero() -> None:
    A, B = buf("A", 4, dtype="int32"), buf("B", 4, dtype="int32")
    f = function((A, B), thread("tx", 4, lambda t: store(B, t, 1 // load(A, t))))
    x, y = np.array([1, 2, 0, 3], "int32"), empty(4, dtype="int32")
    assert "threadIdx.x = 2" in fails(f, x, y, match=r"division by zero in `1 // A\[tx\]`")
    safe = lambda t: if_then_else(load(A, t) > 0, 1 // load(A, t), const(9))
    interpret(function((A, B), thread("tx", 4, lambda t: store(B, t, safe(t)))), [x, y])
    np.testing.assert_array_equal(y, [1, 0, 9, 0])


def test_undefined_names() -> None:
    A = buf("A", 4)
    fails(function((A,), store(A, Var("i"), 0.0)), empty(4), match="variable i is used outside of its definition")
    fails(function((A,), store(buf("T", 4), 0, 0.0)), empty(4), match="without allocated storage")


# Unwritten memory.


@pytest.mark.parametrize("scope", ["global", "shared", "local"])
@pytest.mark.parametrize("lanes", [1 << 17, 1])
def test_reading_what_was_never_written(scope: str, lanes: int) -> None:
    B, T = buf("B", 2, 4), buf("T", 4, scope=scope)

    def body(b: Var, t: Var) -> Stmt:
        return alloc(T, store(T, t, 0.0), store(B, (b, t), load(T, t if scope != "local" else 0)))

    f = function((B,), in_block(4, body))
    if scope == "local":
        text = fails(f, empty(2, 4), match="T: reads memory that was never written", lanes=lanes)
        assert "threadIdx.x = 1" in text
    else:
        interpret(f, [empty(2, 4)], races=False, lanes=lanes)
    f = function(
        (B,),
        in_block(4, lambda b, t: alloc(T, If(t < 3, store(T, t, 0.0), None), store(B, (b, t), load(T, t)))),
    )
    assert "threadIdx.x = 3" in fails(f, empty(2, 4), match="never written", races=False, lanes=lanes)


def test_memory_is_unwritten_again_each_time_it_is_allocated() -> None:
    B, T, i = buf("B", 4), buf("T", 1, scope="local"), Var("i")
    body = alloc(T, If(i < 1, store(T, 0, 1.0), None), store(B, i, load(T, 0)))
    text = fails(function((B,), loop(i, 4, body)), empty(4), match="T: reads memory that was never written")
    assert "i = 1" in text


def test_outputs_are_unwritten_where_asked() -> None:
    B = buf("B", 4)
    f = function((B,), thread("tx", 4, lambda t: store(B, t, load(B, t) + 1.0)))
    interpret(f, [empty(4)])
    fails(f, empty(4), match="B: reads memory that was never written")


# Shared memory.


def exchange(*between: Stmt, turns: int = 1) -> Function:
    """Each thread reads an element that its neighbour has stored."""
    B, S, k = buf("B", 2, 8), buf("S", 8, scope="shared"), Var("k")

    def body(b: Var, t: Var) -> Stmt:
        step = seq(store(S, t, (t + k).astype("float32")), *between, store(B, (b, t), load(S, (t + 1) % 8)))
        return alloc(S, loop(k, turns, step))

    return function((B,), in_block(8, body))


def test_a_read_of_what_another_thread_wrote_needs_a_barrier() -> None:
    text = fails(
        exchange(), empty(2, 8), match="S: race: reads an element that thread 1 of block 0 wrote, with no barrier"
    )
    assert "threadIdx.x = 0" in text
    assert "statement: B[bx, tx] = S[(tx + 1) % 8]" in text
    for lanes in (1 << 17, 8):
        y = empty(2, 8)
        interpret(exchange(SYNC), [y], lanes=lanes)
        np.testing.assert_array_equal(y[1], (np.arange(8) + 1) % 8)


def test_without_race_detection_all_threads_take_each_statement_together() -> None:
    y = empty(2, 8)
    interpret(exchange(), [y], races=False)
    np.testing.assert_array_equal(y[0], (np.arange(8) + 1) % 8)


def test_a_barrier_on_other_memory_does_not_help() -> None:
    fails(exchange(SYNC_GLOBAL), empty(2, 8), match="race: reads")


def test_overwriting_what_another_thread_reads_needs_a_barrier() -> None:
    text = fails(exchange(SYNC, turns=2), empty(2, 8), match="overwrites an element that thread 7 of block 0 read")
    assert "k = 1" in text
    B, S, k = buf("B", 2, 8), buf("S", 8, scope="shared"), Var("k")

    def body(b: Var, t: Var) -> Stmt:
        step = seq(store(S, t, (t + k).astype("float32")), SYNC, store(B, (b, t), load(S, (t + 1) % 8)), SYNC)
        return alloc(S, loop(k, 3, step))

    interpret(function((B,), in_block(8, body)), [empty(2, 8)])


def test_memory_allocated_in_a_loop_is_the_same_memory_each_time() -> None:
    B, S, k = buf("B", 2, 8), buf("S", 8, scope="shared"), Var("k")

    def body(*end: Stmt) -> Function:
        def inside(b: Var, t: Var) -> Stmt:
            value = (t + k).astype("float32")
            use = seq(store(S, t, value), SYNC, store(B, (b, t), load(S, (t + 1) % 8)), *end)
            return loop(k, 3, alloc(S, use))

        return function((B,), in_block(8, inside))

    fails(body(), empty(2, 8), match="race: overwrites")
    interpret(body(SYNC), [empty(2, 8)])


def test_a_shift_in_place_is_a_race() -> None:
    S, B = buf("S", 8, scope="shared"), buf("B", 8)

    def body(b: Var, t: Var) -> Stmt:
        fill = seq(store(S, t, t.astype("float32")), SYNC)
        return alloc(S, fill, store(S, t, load(S, (t + 1) % 8)))

    fails(function((B,), in_block(8, body)), empty(8), match="race: overwrites an element that thread")


def test_threads_that_store_different_values_in_one_place() -> None:
    S, B = buf("S", 8, scope="shared"), buf("B", 8)
    one = lambda b, t: alloc(S, store(S, t // 2, t.astype("float32")))
    fails(
        function((B,), in_block(8, one)),
        empty(8),
        match="several threads write different values in one statement",
    )
    first, second = (
        (lambda t: If(t < 1, store(S, 0, 1.0), None)),
        (lambda t: If(t.equal(1), store(S, 0, 2.0), None)),
    )
    two = lambda *mid: lambda b, t: alloc(S, first(t), *mid, second(t))
    text = fails(function((B,), in_block(8, two())), empty(8), match="writes another value than thread 0 of block 0")
    assert "threadIdx.x = 1" in text
    interpret(function((B,), in_block(8, two(SYNC))), [empty(8)])


@pytest.mark.parametrize("value", [0.0, float("nan")])
def test_threads_that_store_the_same_value_do_not_race(value: float) -> None:
    """As the 1-D convolution does: each thread stores the whole of W_shared, and reads what it has stored."""
    S, B, k = buf("S", 8, scope="shared"), buf("B", 2, 8), Var("k")

    def body(b: Var, t: Var) -> Stmt:
        fill = loop(k, 8, store(S, k, k.astype("float32") + value))
        return alloc(S, fill, store(B, (b, t), load(S, 7 - t)))

    for lanes in (1 << 17, 8):
        y = empty(2, 8)
        interpret(function((B,), in_block(8, body)), [y], lanes=lanes)
        np.testing.assert_array_equal(y[1], np.arange(7, -1, -1) + value)


def test_the_same_value_from_some_threads_is_a_race_for_those_that_did_not_store_it() -> None:
    S, B = buf("S", 4, scope="shared"), buf("B", 2, 8)

    def program(index: Callable[[Var], Any], *mid: Stmt) -> Function:
        def body(b: Var, t: Var) -> Stmt:
            fill = store(S, t // 2, (t // 2).astype("float32"))
            return alloc(S, fill, *mid, store(B, (b, t), load(S, index(t))))

        return function((B,), in_block(8, body))

    interpret(program(lambda t: t // 2), [empty(2, 8)])
    text = fails(
        program(lambda t: (t // 2 + 1) % 4), empty(2, 8), match="reads an element that several threads of block 0 wrote"
    )
    assert "threadIdx.x = 0" in text
    interpret(program(lambda t: (t // 2 + 1) % 4, SYNC), [empty(2, 8)])


def test_members_of_one_epoch_are_strangers_in_the_next() -> None:
    S, B = buf("S", 1, scope="shared"), buf("B", 8)

    def body(b: Var, t: Var) -> Stmt:
        low, high = (lambda s: If(t < 4, s, None)), (lambda s: If(t >= 4, s, None))
        return alloc(S, low(store(S, 0, 1.0)), SYNC, high(store(S, 0, 2.0)), low(store(B, t, load(S, 0))))

    fails(function((B,), in_block(8, body, blocks=1)), empty(8), match="race: reads an element that several threads")


def test_writing_what_is_there_already_is_no_race() -> None:
    S, B = buf("S", 8, scope="shared"), buf("B", 2, 8)

    def body(b: Var, t: Var) -> Stmt:
        fill = seq(store(S, t, 5.0), SYNC)
        return alloc(
            S,
            fill,
            store(B, (b, t), load(S, (t + 1) % 8)),
            store(S, t, 5.0),
            store(B, (b, t), load(S, (t + 2) % 8)),
        )

    interpret(function((B,), in_block(8, body)), [empty(2, 8)])


def test_a_thread_may_use_its_own_elements_without_a_barrier() -> None:
    S, B, k = buf("S", 32, scope="shared"), buf("B", 2, 8), Var("k")

    def body(b: Var, t: Var) -> Stmt:
        own = ramp(t * 4, 4)
        step = store(S, own, load(S, own) + spread(1.0, 4))
        return alloc(S, store(S, own, spread(0.0, 4)), loop(k, 5, step), store(B, (b, t), load(S, t * 4 + 3)))

    y = empty(2, 8)
    interpret(function((B,), in_block(8, body)), [y])
    assert (y == 5).all()


def test_blocks_do_not_share() -> None:
    S, B = buf("S", 1, scope="shared"), buf("B", 8)
    f = function((B,), thread("bx", 8, lambda b: alloc(S, store(S, 0, b.astype("float32")), store(B, b, load(S, 0)))))
    for lanes in (1 << 17, 3):
        y = empty(8)[::-1].copy()
        interpret(f, [y], lanes=lanes)
        np.testing.assert_array_equal(y, np.arange(8))


# Global memory.


@pytest.mark.parametrize("lanes", [1 << 17, 4])
def test_blocks_must_not_use_what_other_blocks_write(lanes: int) -> None:
    B = buf("B", 8)
    value = lambda b: b.astype("float32")
    reads = thread("bx", 8, lambda b: seq(store(B, b, value(b)), SYNC_GLOBAL, store(B, b, load(B, (b + 7) % 8))))
    fails(
        function((B,), reads), empty(8), match="race: (reads|overwrites) an element that thread 0 of block", lanes=lanes
    )
    meets = thread("bx", 8, lambda b: store(B, b // 2, value(b)))
    fails(function((B,), meets), empty(8), match="race: ", lanes=lanes)
    later = seq(thread("bx", 8, lambda b: store(B, b, value(b))), thread("bx", 8, lambda b: store(B, 7 - b, value(b))))
    interpret(function((B,), later), [empty(8)], lanes=lanes)  # two kernels: in order
    same = thread("bx", 8, lambda b: store(B, b // 2, 1.0))
    interpret(function((B,), same), [empty(8)], lanes=lanes)


@pytest.mark.parametrize("lanes", [1 << 17, 4])
def test_blocks_may_write_the_same_value_and_read_it_themselves(lanes: int) -> None:
    B, C = buf("B", 1), buf("C", 8)
    f = function((B, C), thread("bx", 8, lambda b: seq(store(B, 0, 3.0), store(C, b, load(B, 0)))))
    y = empty(8)
    interpret(f, [empty(1), y], lanes=lanes)
    assert (y == 3).all()
    odd = lambda b: seq(If((b % 2).equal(0), store(B, 0, 3.0), None), store(C, b, load(B, 0)))
    fails(function((B, C), thread("bx", 8, odd)), empty(1), y, match="race: reads an element that", lanes=lanes)


def test_threads_of_one_block_meet_in_global_memory_behind_its_barrier() -> None:
    def program(sync: Stmt) -> Function:
        B, C = buf("B", 2, 8), buf("C", 2, 8)
        body = lambda b, t: seq(store(B, (b, t), t.astype("float32")), sync, store(C, (b, t), load(B, b, (t + 1) % 8)))
        return function((B, C), in_block(8, body))

    interpret(program(SYNC_GLOBAL), [empty(2, 8), empty(2, 8)])
    fails(
        program(SYNC), empty(2, 8), empty(2, 8), match="race: reads an element that thread 1 of block 1"
    )  # 0: no change
    fails(program(NOTHING), empty(2, 8), empty(2, 8), match="race: reads")


# Barriers.


def test_a_barrier_must_be_reached_by_all_threads_of_a_block() -> None:
    B = buf("B", 8)
    some = lambda b, t: If(t < 4, SYNC, None)
    text = fails(function((B,), in_block(8, some)), empty(8), match="a barrier that not all threads of the block reach")
    assert "threadIdx.x = 4" in text
    ragged = lambda b, t: loop(Var("k"), t, SYNC)
    fails(function((B,), in_block(8, ragged)), empty(8), match="a barrier that not all")
    whole = lambda b, t: If(b < 1, SYNC, None)
    interpret(function((B,), in_block(8, whole)), [empty(8)])
    fails(function((B,), SYNC), empty(8), match="outside any kernel")


def test_a_barrier_of_some_blocks_orders_only_their_accesses() -> None:
    B, S = buf("B", 2, 8), buf("S", 8, scope="shared")

    def body(b: Var, t: Var) -> Stmt:
        sync = If(b < 1, SYNC, None)
        return alloc(S, store(S, t, t.astype("float32")), sync, store(B, (b, t), load(S, (t + 1) % 8)))

    text = fails(
        function((B,), in_block(8, body)), empty(2, 8), match="race: reads an element that thread 1 of block 1"
    )
    assert "blockIdx.x = 1" in text


def test_an_effect_is_checked_too() -> None:
    A = buf("A", 4)
    fails(function((A,), Evaluate(load(A, 9))), empty(4), match="out of bounds")


# Asynchronous copies.


def copied(*behind: Stmt) -> Function:
    """Each thread copies an element to shared memory, does what comes `behind`, and reads its neighbour's."""
    A, B, S = buf("A", 8), buf("B", 2, 8), buf("S", 8, scope="shared")

    def body(b: Var, t: Var) -> Stmt:
        fill = Copy(S, (t,), load(A, t), 4)
        return alloc(S, fill, *behind, store(B, (b, t), load(S, 7 - t)))

    return function((A, B), in_block(8, body))


def test_what_is_copied_is_there_once_its_group_is_awaited() -> None:
    y = empty(2, 8)
    interpret(copied(Commit(), Await(0, ()), SYNC), [empty(8) + 1, y], outputs=())
    np.testing.assert_array_equal(y, [range(8, 0, -1)] * 2)


@pytest.mark.parametrize(
    "behind",
    [
        (SYNC,),
        (Commit(), SYNC),
        (Await(0, ()), SYNC),
        (Commit(), Await(1, ()), SYNC),
        (Commit(), SYNC, Await(1, ())),
    ],
    ids=["barrier", "commit", "await", "too few", "too few, late"],
)
def test_what_is_under_way_has_no_value(behind: tuple[Stmt, ...]) -> None:
    fails(copied(*behind), empty(8), empty(2, 8), match="S: reads memory that was never written")


def test_an_await_is_for_the_own_thread() -> None:
    fails(copied(Commit(), Await(0, ())), empty(8), empty(2, 8), match="S: race: reads an element that thread")
    fails(copied(Commit(), SYNC, Await(0, ())), empty(8), empty(2, 8), match="S: race: reads an element that thread")


def test_a_copy_overwrites_what_others_still_read() -> None:
    A, B, S = buf("A", 8), buf("B", 2, 8), buf("S", 8, scope="shared")

    def body(b: Var, t: Var) -> Stmt:
        use = store(B, (b, t), load(S, 7 - t))
        return alloc(S, store(S, t, load(A, t)), SYNC, use, Copy(S, (t,), load(A, 7 - t), 4))

    fails(function((A, B), in_block(8, body)), empty(8), empty(2, 8), match="race: overwrites an element that thread")


@pytest.mark.parametrize("step", [Commit(), Await(0, ())])
def test_groups_are_those_of_all_threads(step: Stmt) -> None:
    A = buf("A", 8)
    fails(function((A,), step), empty(8), match="outside any kernel")
    some = function((A,), in_block(8, lambda b, t: If(t < 4, step, None)))
    fails(some, empty(8), match="that not all threads of the block reach")
