"""Each rule of well-formed loop nests, broken once."""

from __future__ import annotations

from typing import Any

import pytest

from tests.loops.programs import TAGS, alloc, buf, function, launch, load, loop, ramp, spread, store, thread
from tilewright import te
from tilewright.core.dtype import INT64, DType
from tilewright.core.errors import InternalError
from tilewright.core.hardware import LoopKind, MemoryScope, ThreadTag
from tilewright.expr import nodes as e
from tilewright.expr.nodes import Expr, SizeVar, Var
from tilewright.expr.operators import const, if_then_else, less
from tilewright.expr.traverse import post_order
from tilewright.loops.nodes import (
    NOTHING,
    AllReduce,
    Await,
    Barrier,
    Commit,
    Copy,
    Evaluate,
    For,
    If,
    Launch,
    Let,
    Seq,
    Stmt,
    Store,
    seq,
)
from tilewright.loops.verify import Form, verify

A = buf("A", 8)
I8 = buf("I", 8, dtype="int32")
ZERO, ONE, HALF = const(0), const(1), const(0.5)
SYNC = Barrier(MemoryScope.SHARED)


def broken(*body: Stmt, rule: str, params: tuple[Any, ...] = (A, I8), form: Form = Form.BUILT) -> None:
    with pytest.raises(InternalError, match=rule):
        verify(function(params, *body), form)


def bad_value(value: Expr, rule: str) -> None:
    """An expression that breaks a rule, as the value of a store of its type."""
    i = Var("i")
    broken(loop(i, 8, Evaluate(value)), rule=rule)


def test_a_well_formed_function_passes() -> None:
    n, i, x = SizeVar("n"), Var("i"), Var("x", "float32")
    B, S = buf("B", n), buf("S", 8, scope="shared")

    def body(b: Var) -> Stmt:
        fill = thread("tx", 8, lambda t: store(S, t, load(A, t)))
        use = thread("tx", 8, lambda t: Let(x, load(S, t), If(t < n, store(B, t, x), store(B, 0, x))))
        return alloc(S, fill, SYNC, loop(i, n, thread("vt", 2, lambda v: Evaluate(v + i))), use)

    verify(function((n, A, B), thread("bx", n, body)))
    verify(function((A, B), thread("bx", n, body)))  # n comes from the shape of B
    verify(function((A,), loop(i, 2, store(A, ramp(i * 4, 4), spread(0.0, 4)), LoopKind.PARALLEL)), Form.FLAT)
    verify(function((A,), launch(seq(SYNC, store(A, i, 0.0)), tx=(i, 8))), Form.FLAT | Form.FINISHED)


def test_variables_are_defined() -> None:
    i = Var("i")
    rule = "variable i is used outside of its definition"
    broken(store(A, i, 0.0), rule=rule)
    broken(loop(i, 8, NOTHING), store(A, i, 0.0), rule=rule)
    broken(Let(Var("x"), i, NOTHING), rule=rule)
    broken(loop(Var("j"), i, NOTHING), rule=rule)
    broken(Evaluate(load(A, load(I8, i))), rule=rule)


def test_variables_are_defined_once_on_a_path() -> None:
    i, n = Var("i"), Var("n")
    rule = "variable . is defined twice"
    broken(loop(i, 8, loop(i, 8, NOTHING)), rule=rule)
    broken(loop(i, 8, Let(i, ONE, NOTHING)), rule=rule)
    broken(loop(n, 8, NOTHING), params=(n,), rule=rule)
    broken(launch(loop(i, 8, NOTHING), tx=(i, 8)), rule=rule)
    verify(function((), loop(i, 8, NOTHING), loop(i, 8, NOTHING)))


def test_buffers_have_storage() -> None:
    T = buf("T", 8)
    rule = "buffer T is neither a parameter nor allocated here, in `"
    broken(store(T, 0, 0.0), rule=rule)
    broken(store(A, 0, load(T, 0)), rule=rule)
    broken(store(buf("V", 8, of=T), 0, 0.0), rule=rule)
    broken(alloc(T, store(T, 0, 0.0)), store(T, 0, 0.0), rule=rule)
    verify(function((A,), alloc(T, store(T, 0, 0.0)), alloc(T, store(buf("V", 8, of=T), 0, 0.0))))


def test_storage_is_allocated_once_on_a_path() -> None:
    T = buf("T", 8)
    broken(alloc(T, alloc(T, NOTHING)), rule="buffer T is allocated twice")
    broken(alloc(A, NOTHING), rule="buffer A is allocated twice")
    broken(alloc(buf("V", 8, of=A), NOTHING), rule="buffer V is allocated, but is a view of A")
    broken(alloc(buf("F", 8.0), NOTHING), rule="a size of F, .*, has type float32, not an integer type")


def test_an_access_has_one_index_a_dimension() -> None:
    M = buf("M", 4, 4)
    broken(store(M, 0, 0.0), params=(M,), rule="1 indices on the 2 dimensions of M")
    broken(Evaluate(load(M, 0, 0, 0)), params=(M,), rule="3 indices on the 2 dimensions of M")
    verify(function((M,), store(M, (0, 0), 0.0)))
    broken(store(M, (0, 0), 0.0), params=(M,), form=Form.FLAT, rule="buffer M has 2 dimensions in flat code")
    verify(function((M,), store(buf("M", 16, of=M), 0, 0.0)), Form.FLAT)


def test_indices_are_integers() -> None:
    broken(Store(A, (HALF,), HALF), rule="an index of A, `.*`, has type float32")
    broken(Evaluate(load(A, e.LT(ZERO, ONE))), rule="an index of A, .* has type bool")
    M = buf("M", 8, 8)
    both = store(M, (ramp(0, 4), ramp(0, 2)), spread(0.0, 4))
    broken(both, params=(M,), rule="indices of M have vectors of several lengths")


def test_a_stored_value_has_the_type_of_the_buffer() -> None:
    broken(Store(A, (ZERO,), ONE), rule="a value of type int32 is stored as float32")
    broken(Store(A, (ramp(0, 4),), HALF), rule="a value of type float32 is stored as float32x4")
    broken(Store(A, (ZERO,), spread(0.0, 4)), rule="a value of type float32x4 is stored as float32,")
    V = buf("V", 4, dtype="float32x2")
    verify(function((V,), Store(V, (ramp(0, 2),), spread(0.0, 4))))


def test_conditions_are_bool() -> None:
    broken(If(ONE, NOTHING, None), rule="the condition has type int32, not bool")
    broken(If(e.Broadcast(e.TRUE, 4), NOTHING, None), rule="the condition has type boolx4, not bool")
    bad_value(e.Select(ONE, HALF, HALF), "a condition of type int32, not bool")
    bad_value(e.IfThenElse(ONE, HALF, HALF), "a condition of type int32, not bool")
    bad_value(e.And(ONE, ONE), "a condition of type int32, not bool")
    bad_value(e.Not(ONE), "a condition of type int32, not bool")


def test_both_sides_have_one_type() -> None:
    for kind in (e.Add, e.FloorDiv, e.Min, e.LT, e.EQ):
        bad_value(kind(ONE, const(1, INT64)), "operands of types int32 and int64")
    bad_value(e.Add(e.TRUE, e.FALSE), "arithmetic on bool")
    bad_value(e.IfThenElse(e.TRUE, ONE, HALF), "branches of types int32 and float32")
    bad_value(e.And(e.TRUE, e.Broadcast(e.TRUE, 4)), "operands of types bool and boolx4")
    # Deep inside, too.
    bad_value(if_then_else(load(I8, 0) > 0, e.Add(ONE, const(1, INT64)), ONE), "operands of types")


def test_vectors_are_of_scalars() -> None:
    bad_value(e.Ramp(HALF, HALF, 4), "a ramp from float32 by float32")
    bad_value(e.Ramp(ramp(0, 4), ONE, 4), "a ramp from int32x4 by int32")
    bad_value(e.Ramp(ZERO, const(1, INT64), 4), "a ramp from int32 by int64")
    bad_value(e.Ramp(ZERO, ONE, 1), "a vector of 1 lanes")
    bad_value(e.Broadcast(HALF, 1), "a vector of 1 lanes")
    bad_value(e.Broadcast(spread(0.0, 2), 2), "a vector of vectors")
    bad_value(e.Cast(DType("int32"), spread(0.0, 2)), "a cast from float32x2 to int32, of another length")


def test_loops_run_over_integers() -> None:
    i = Var("i")
    broken(loop(i, HALF, NOTHING), rule="the extent of a loop, .*, has type float32, not an integer type")
    broken(loop(i, 8, NOTHING, low=e.TRUE), rule="the minimum of a loop, .*, has type bool")
    broken(loop(i, ramp(0, 4), NOTHING), rule="the extent of a loop, .*, has type int32x4")


def test_a_let_variable_has_the_type_of_its_value() -> None:
    broken(Let(Var("x"), HALF, NOTHING), rule="x of type int32 stands for a float32")


def test_thread_loops_have_a_hardware_index_and_others_have_none() -> None:
    i = Var("i")
    broken(For(i, ZERO, ONE, LoopKind.THREAD, None, (), NOTHING), rule="a THREAD loop has no hardware index")
    serial = For(i, ZERO, ONE, LoopKind.SERIAL, ThreadTag.THREAD_X, (), NOTHING)
    broken(serial, rule="a serial loop has a hardware index")


def test_a_tag_has_one_extent_in_a_kernel() -> None:
    n = SizeVar("n")
    four, eight, many = (thread("tx", size, NOTHING) for size in (4, 8, n))
    rule = "threadIdx.x has the extents"
    broken(thread("bx", 2, seq(four, eight)), rule=rule)
    broken(thread("bx", 2, seq(four, many)), params=(n,), rule=rule)
    verify(function((n,), four, eight, many, thread("bx", 2, seq(many, many))))  # kernels of their own
    vt = [thread("vt", size, NOTHING) for size in (2, 3)]
    verify(function((), thread("bx", 2, seq(*vt))))


def test_no_thread_loop_is_left_in_a_launch_or_in_finished_code() -> None:
    i, four = Var("i"), thread("tx", 4, NOTHING)
    rule = "a loop over threads is left in finished code"
    broken(launch(four, bx=(i, 8)), rule=rule)
    broken(four, form=Form.FINISHED, rule=rule)
    broken(thread("vt", 4, NOTHING), form=Form.FINISHED, rule=rule)
    verify(function((), thread("vt", 4, NOTHING)), Form.FLAT)


def test_launches_do_not_nest_and_name_an_index_once() -> None:
    i, j = Var("i"), Var("j")
    rule = "a kernel is launched from within a kernel"
    broken(launch(launch(NOTHING, tx=(j, 4)), bx=(i, 8)), rule=rule)
    broken(thread("bx", 4, launch(NOTHING, tx=(j, 4))), rule=rule)
    tag = TAGS["tx"]
    twice = Launch("k", ((tag, i, ONE), (tag, j, ONE)), NOTHING, 0, False)
    broken(twice, rule="a launch names each real hardware index at most once")
    broken(launch(NOTHING, vt=(i, 2)), rule="a launch names each real")
    broken(launch(NOTHING, tx=(i, HALF)), rule="the extent of threadIdx.x, .*, has type float32")


def test_barriers_stand_in_kernels() -> None:
    broken(SYNC, rule="a barrier stands outside any kernel, in `barrier")


def test_no_seq_stands_in_a_seq() -> None:
    inner = Seq((store(A, 0, 0.0), store(A, 1, 0.0)))
    broken(Seq((inner, store(A, 2, 0.0))), rule="a Seq stands directly in a Seq")


def test_nodes_that_do_not_belong() -> None:
    class Odd(Stmt):
        __slots__ = ()

    class Tensor:
        name, dtype = "T", DType("float32")

    broken(Odd(), rule="Odd is not a statement of the grammar")
    broken(Evaluate(e.Load(Tensor(), (ZERO,))), rule="reads T, which is not a buffer")


def test_the_error_names_function_rule_and_node() -> None:
    with pytest.raises(InternalError) as caught:
        verify(function((A,), loop(Var("i"), 8, Store(A, (ZERO,), ONE))))
    assert str(caught.value) == "main: a value of type int32 is stored as float32, in `A[0] = 1`"


def test_exchanges_between_threads_stand_alone() -> None:
    """An expression may be evaluated for some threads only; an exchange may not."""
    own = load(A, 0)
    theirs = e.Call("shuffle_down", (own, const(1, "int32"), const(32, "int32")), own.dtype)

    def kernel(value: Expr) -> Stmt:
        return thread("tx", 32, store(A, 1, value))

    verify(function((A, I8), kernel(theirs)))
    broken(kernel(if_then_else(own > 0, theirs, own)), rule="an exchange between threads stands inside of")
    broken(
        thread("tx", 32, If(theirs > 0, store(A, 1, own), None)), rule="an exchange between threads stands inside of"
    )
    broken(thread("tx", 32, Evaluate(theirs)), rule="an exchange between threads is not the whole value of a store")


# What passes rely on from a place in the list on.


def test_what_was_expanded_or_made_vectors_is_gone() -> None:
    i = Var("i")
    broken(loop(i, 8, store(A, i, 0.0), LoopKind.VECTORIZED), form=Form.SCALAR, rule="marked as a vector loop after")
    broken(thread("vt", 2, NOTHING), form=Form.EXPANDED, rule="a virtual thread is left after they were expanded")


def test_the_bounds_of_a_loop_have_the_type_of_its_variable() -> None:
    i = Var("i", "int64")
    rule = "the loop variable i of type int64 has bounds of int32 and int32"
    broken(For(i, const(0), const(8), LoopKind.SERIAL, None, (), NOTHING), rule=rule)


def test_shared_memory_is_allocated_at_the_head_of_its_kernel() -> None:
    i, tx, S = Var("i"), Var("tx"), buf("S", 8, scope="shared")
    inside = alloc(S, store(S, 0, 0.0))
    rule = "the shared buffer S is not allocated at the head of its kernel"
    verify(function((A,), launch(inside, tx=(tx, 8))), Form.HOISTED)
    broken(launch(loop(i, 2, inside), tx=(tx, 8)), form=Form.HOISTED, rule=rule)
    broken(thread("tx", 8, loop(i, 2, inside)), form=Form.HOISTED, rule=rule)
    verify(function((A,), launch(loop(i, 2, inside), tx=(tx, 8))))


@pytest.mark.parametrize("where", ["a guard", "a loop", "a loop over such a loop's variable", "a name"])
def test_every_thread_of_a_block_reaches_a_barrier(where: str) -> None:
    i, j, x, tx = Var("i"), Var("j"), Var("x"), Var("tx")
    inside: Stmt = {
        "a guard": If(less(tx, 4), SYNC, None),
        "a loop": loop(i, tx, SYNC),
        "a loop over such a loop's variable": loop(i, tx, loop(j, i, SYNC)),
        "a name": Let(x, tx + 1, If(less(x, 4), SYNC, None)),
    }[where]
    broken(launch(inside, tx=(tx, 8)), form=Form.FINISHED, rule="some threads of the block do not reach a barrier")
    same_for_all = If(less(Var("n"), 4), SYNC, None)
    verify(function((A, same_for_all.condition.a), launch(same_for_all, tx=(tx, 8))), Form.FINISHED)  # type: ignore[attr-defined]


def test_no_loop_for_cpu_threads_stands_in_a_kernel() -> None:
    i, tx = Var("i"), Var("tx")
    inside = loop(i, 2, store(A, i, 0.0), LoopKind.PARALLEL)
    broken(launch(inside, tx=(tx, 8)), form=Form.FINISHED, rule="a loop over CPU threads stands in a kernel of a grid")


def test_a_view_lies_in_the_memory_that_it_views() -> None:
    S, tx = buf("S", 8, scope="shared"), Var("tx")
    view = buf("V", 8, scope="local", of=S)
    rule = "V in local memory is a view of S in shared memory"
    broken(launch(alloc(S, store(view, 0, 0.0)), tx=(tx, 8)), rule=rule)


def test_reductions_over_threads_are_whole_values_and_then_gone() -> None:
    tx, k = Var("tx"), te.reduce_axis((0, 8), "k")
    combiner = te.sum(te.placeholder((8,))[k], axis=k).combiner
    reduced = AllReduce(combiner, (load(A, tx),), (tx,), 0)
    verify(function((A,), launch(store(A, 0, reduced), tx=(tx, 8))))
    broken(launch(store(A, 0, reduced), tx=(tx, 8)), form=Form.REDUCED, rule="a reduction over threads is left")
    broken(launch(store(A, 0, reduced + 1.0), tx=(tx, 8)), rule="an exchange between threads stands inside of")


@pytest.mark.parametrize(
    ("dtype", "room", "offset", "rule"),
    [
        ("float32", 64, 0, "V begins at byte 0, but of no buffer of bytes"),
        ("uint8", 64, 6, "V of type float32 begins at byte 6, between two elements"),
        ("uint8", 64, 36, "V at byte 36 is not within S"),
        ("uint8", 64, -4, "V at byte -4 is not within S"),
    ],
)
def test_a_view_of_bytes_has_its_elements_in_them(dtype: str, room: int, offset: int, rule: str) -> None:
    S = buf("S", room, dtype=dtype)
    view = buf("V", 8, of=S)
    view.byte_offset = offset
    broken(alloc(S, store(view, 0, 0.0)), rule=rule)


# Asynchronous copies.


@pytest.mark.parametrize(
    ("to", "value", "size", "rule"),
    [
        (buf("L", 8, scope="local"), load(A, 0), 4, "a copy goes to local memory"),
        (buf("S", 8, scope="shared"), load(A, 0) * 2, 4, "a copy is not from global memory"),
        (buf("S", 8, scope="shared"), if_then_else(less(Var("t"), 4), load(A, 0), 1.0), 4, "a copy is not from global"),
        (buf("S", 8, scope="shared"), load(A, 0), 8, "copies of 8 bytes do not make up float32"),
    ],
)
def test_a_copy_brings_elements_or_zeros_from_global_to_shared_memory(
    to: Any, value: Expr, size: int, rule: str
) -> None:
    t = next((node for node in post_order(value) if isinstance(node, Var)), Var("t"))
    broken(launch(alloc(to, Copy(to, (const(0),), value, size)), tx=(t, 8)), form=Form.FLAT | Form.FINISHED, rule=rule)


@pytest.mark.parametrize("step", [Commit(), Await(0, ())])
def test_every_thread_of_a_block_commits_and_awaits(step: Stmt) -> None:
    t = Var("t")
    broken(step, rule="copies are committed or awaited outside any kernel")
    rule = "some threads of the block do not reach a commit or a wait for copies"
    broken(launch(If(less(t, 4), step, None), tx=(t, 8)), form=Form.FINISHED, rule=rule)
    verify(function((A,), launch(step, tx=(t, 8))), Form.FINISHED)
