"""Passes on the way from a lowered program to what is compiled: kernels and what they keep, cut, share and name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright
from tests.loops.programs import alloc, buf, function, launch, load, loop, store, thread
from tests.passes.running import finish, run_pass
from tilewright import te
from tilewright.core.errors import UserError
from tilewright.core.hardware import LoopKind
from tilewright.expr.nodes import IfThenElse, Select, Var
from tilewright.expr.operators import floordiv, floormod, less, likely, truncdiv
from tilewright.expr.traverse import post_order
from tilewright.loops.interpret import interpret
from tilewright.loops.nodes import Allocate, For, Function, If, Launch, Let, Seq, Stmt, Store, seq
from tilewright.loops.verify import Form, verify
from tilewright.passes.expand_virtual_threads import MAX_COPIES, expand_virtual_threads
from tilewright.passes.guard_selects import guard_selects
from tilewright.passes.hoist_divisions import hoist_divisions
from tilewright.passes.launch_on_host import launch_on_host
from tilewright.passes.partition_loops import MAX_STORES, partition_loops
from tilewright.passes.share_storage import share_storage
from tilewright.passes.unroll_local_accesses import unroll_local_accesses

A, B = buf("A", 64), buf("B", 64)
tx, i, j, v = Var("tx"), Var("i"), Var("j"), Var("v")


def kernel(*body: Stmt, threads: int = 8) -> Function:
    return function((A, B), launch(seq(*body), tx=(tx, threads)))


def inside(made: Function) -> Any:
    """What stands in the kernel."""
    verify(made, Form.FINISHED)
    assert isinstance(made.body, Launch)
    return made.body.body


def copy(index: Any) -> Stmt:
    return store(B, index, load(A, index))


def same(before: Function, after: Function) -> None:
    """Both compute the same."""
    a = np.random.default_rng(5).standard_normal(64).astype("float32")
    results = []
    for made in (before, after):
        b = np.zeros(64, "float32")
        interpret(made, [a, b], races=False)
        results.append(b)
    np.testing.assert_array_equal(*results)


# expand_virtual_threads


def expanded(body: Stmt) -> Stmt:
    before = function((A, B), body)
    made = run_pass(expand_virtual_threads, before)
    verify(made, Form.FLAT)
    same(before, made)
    return made.body


def test_a_vthread_becomes_copies_of_what_depends_on_it() -> None:
    T = buf("T", 1)
    once = store(T, 0, load(A, i))
    made = expanded(alloc(T, loop(i, 4, thread("vt", 2, lambda v: seq(once, store(B, v * 4 + i, load(T, 0)))))))
    assert isinstance(made, Allocate)
    assert isinstance(made.body, For)
    assert isinstance(made.body.body, Seq)
    assert [s.buffer.name for s in made.body.body.stmts if isinstance(s, Store)] == ["T", "B", "B"]


def test_loops_inside_are_shared_by_the_copies() -> None:
    made = expanded(thread("vt", 2, lambda v: loop(i, 4, copy(v * 4 + i))))
    assert isinstance(made, For)
    assert isinstance(made.body, Seq)
    assert len(made.body.stmts) == 2


def test_storage_that_the_copies_fill_differently_grows() -> None:
    local, shared = buf("L", 2, scope="local"), buf("S", 1, scope="shared")

    def body(v: Var) -> Stmt:
        fill = seq(store(shared, 0, load(A, i)), store(local, 1, load(A, v)))
        return alloc(shared, alloc(local, fill, store(B, v, load(local, 1) + load(shared, 0))))

    made = expanded(loop(i, 1, thread("vt", 2, body)))
    sizes = {n.buffer.name: str(n.buffer.shape[0]) for n in post_order(made) if isinstance(n, Allocate)}
    assert sizes == {"S": "1", "L": "4"}


def test_many_copies_are_a_loop() -> None:
    made = expanded(thread("vt", MAX_COPIES, copy))
    assert isinstance(made, For)
    assert made.kind is LoopKind.SERIAL


def test_a_vthread_of_one_is_nothing() -> None:
    assert isinstance(expanded(thread("vt", 1, copy)), Store)


def test_a_vthread_without_a_constant_extent_is_refused() -> None:
    n = Var("n")
    with pytest.raises(UserError, match="a vthread has the extent `n`"):
        run_pass(expand_virtual_threads, function((A, B, n), thread("vt", n, copy)))


# guard_selects


def test_a_select_that_might_read_outside_evaluates_one_branch_only() -> None:
    guarded = loop(i, 64, store(B, i, Select(less(i, 60), load(A, i + 4), load(A, i))))
    before = function((A, B), guarded)
    made = run_pass(guard_selects, before)
    assert any(isinstance(node, IfThenElse) for node in post_order(made.body))
    assert not any(isinstance(node, Select) for node in post_order(made.body))
    same(made, made)


def test_a_select_that_reads_inside_stays() -> None:
    before = function((A, B), loop(i, 60, store(B, i, Select(less(i, 30), load(A, i + 4), load(A, i)))))
    made = run_pass(guard_selects, before)
    assert any(isinstance(node, Select) for node in post_order(made.body))
    same(before, made)


# partition_loops


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


# share_storage


def shared(*uses: tuple[Any, Stmt]) -> list[str]:
    """The shared buffers left of a kernel that uses these, one after the other."""
    body = seq(*(stmt for _, stmt in uses))
    for buffer in dict.fromkeys(buffer for buffer, _ in uses):
        body = alloc(buffer, body)
    before = kernel(body)
    made = run_pass(share_storage, before)
    same(before, made)
    return sorted(node.buffer.name for node in post_order(inside(made)) if isinstance(node, Allocate))


def fill(buffer: Any) -> tuple[Any, Stmt]:
    return buffer, store(buffer, tx, load(A, tx))


def drain(buffer: Any, row: int = 0) -> tuple[Any, Stmt]:
    return buffer, store(B, row * 8 + tx, load(buffer, tx))


def test_buffers_in_use_one_after_the_other_share() -> None:
    S, T = buf("S", 8, scope="shared"), buf("T", 16, scope="shared")
    assert shared(fill(S), drain(S), fill(T), drain(T, 1)) == ["T"]


def test_buffers_in_use_together_do_not() -> None:
    S, T = buf("S", 8, scope="shared"), buf("T", 8, scope="shared")
    assert shared(fill(S), fill(T), drain(S), drain(T, 1)) == ["S", "T"]


def test_buffers_of_other_types_do_not() -> None:
    S, T = buf("S", 8, scope="shared"), buf("T", 8, dtype="int32", scope="shared")
    ints = (T, store(T, tx, tx)), (T, store(B, tx, load(T, tx).astype("float32")))
    assert shared(fill(S), drain(S, 1), *ints) == ["S", "T"]


def test_what_shares_is_kept_apart_by_a_barrier() -> None:
    """Through the whole pipeline: the second buffer is filled when all are done with the first."""
    X = te.placeholder((32,), name="X")
    Y = te.compute((32,), lambda i: X[31 - i] * 2.0, "Y")
    s = te.create_schedule(Y.op)
    first = s.cache_read(X, "shared", [Y])
    second = s.cache_read(first, "local", [Y])
    third = s.cache_read(second, "shared", [Y])
    outer, inner = s[Y].split(Y.op.axis[0], nparts=1)
    s[Y].bind(outer, te.thread_axis("blockIdx.x"))
    s[Y].bind(inner, te.thread_axis("threadIdx.x"))
    for stage in (first, second, third):
        s[stage].compute_at(s[Y], outer)
    for stage in (first, third):
        s[stage].bind(stage.op.axis[0], te.thread_axis("threadIdx.x"))
    with pytest.raises(UserError):  # the local copy in between is each thread's own
        tilewright.lower(s, [X, Y])
    s[second].set_scope("shared")
    s[second].bind(second.op.axis[0], te.thread_axis("threadIdx.x"))
    made = finish(tilewright.lower(s, [X, Y]).functions[0], check=True)
    x, y = np.arange(32, dtype="float32"), np.full(32, np.nan, "float32")
    interpret(made, [x, y], outputs=made.buffers[1:])
    np.testing.assert_array_equal(y, x[::-1] * 2)
    allocated = [node.buffer.name for node in post_order(made.body) if isinstance(node, Allocate)]
    assert len(allocated) == 2


# unroll_local_accesses


def kinds(stmt: Stmt) -> list[str]:
    return [node.kind.value for node in post_order(stmt) if isinstance(node, For)]


def test_loops_that_index_a_threads_own_array_are_marked() -> None:
    L = buf("L", 8, scope="local")
    made = run_pass(unroll_local_accesses, kernel(alloc(L, loop(i, 8, store(L, i, load(A, i))), loop(j, 8, copy(j)))))
    assert kinds(inside(made)) == ["unrolled", "serial"]


def test_loops_of_other_memory_are_not() -> None:
    S = buf("S", 8, scope="shared")
    made = run_pass(unroll_local_accesses, kernel(alloc(S, loop(i, 8, store(S, i, load(A, i))))))
    assert kinds(inside(made)) == ["serial"]


def test_loops_too_long_to_unroll_are_not() -> None:
    L = buf("L", 10000, scope="local")
    made = run_pass(unroll_local_accesses, kernel(alloc(L, loop(i, 10000, store(L, i, load(A, 0))))))
    assert kinds(inside(made)) == ["serial"]


# hoist_divisions


def test_a_division_that_is_used_twice_is_named() -> None:
    quotient = truncdiv(tx, 3)
    before = kernel(store(B, quotient, load(A, quotient)))
    body = inside(run_pass(hoist_divisions, before))
    assert isinstance(body, Let)
    assert str(body.value) == "T.truncdiv(tx, 3)"
    assert isinstance(body.body, Store)
    assert body.body.indices == (body.var,)


def test_at_the_head_of_the_loop_that_it_depends_on() -> None:
    remainder = floormod(i * 8 + tx, 3)
    before = kernel(loop(i, 4, store(B, remainder, load(A, remainder))))
    made = run_pass(hoist_divisions, before)
    same(before, made)
    body = inside(made)
    assert isinstance(body, For)
    assert isinstance(body.body, Let)


def test_a_division_that_is_used_once_stays() -> None:
    before = kernel(store(B, truncdiv(tx, 3), load(A, tx)))
    assert isinstance(inside(run_pass(hoist_divisions, before)), Store)


def test_divisions_within_divisions() -> None:
    inner = floordiv(tx, 2)
    outer = floormod(inner, 3)
    before = kernel(store(B, inner, load(A, outer)), store(B, inner + 8, load(A, outer + 1)))
    made = run_pass(hoist_divisions, before)
    same(before, made)
    lets = [node for node in post_order(made.body) if isinstance(node, Let)]
    assert len(lets) == 2


# launch_on_host


def test_on_the_cpu_a_function_is_one_launch() -> None:
    made = run_pass(launch_on_host, function((A, B), loop(i, 64, copy(i))), "llvm")
    assert isinstance(made.body, Launch)
    assert made.body.threads == ()
    small, large = buf("small", 4), buf("large", 1 << 20)
    made = run_pass(launch_on_host, function((A, B), alloc(small, alloc(large, loop(i, 64, copy(i))))), "llvm")
    assert isinstance(made.body, Allocate)
    assert made.body.buffer is large
    assert isinstance(made.body.body, Launch)


def test_the_cpu_has_no_hardware_threads() -> None:
    with pytest.raises(UserError, match=r"threadIdx\.x"):
        run_pass(launch_on_host, function((A, B), thread("tx", 64, copy)), "llvm")
