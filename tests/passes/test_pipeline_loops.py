"""Loops whose loads run an iteration ahead."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright
from tests.passes.running import compiled, finish
from tilewright import te
from tilewright.expr.traverse import post_order
from tilewright.loops.interpret import interpret
from tilewright.loops.nodes import Allocate, Barrier, For, Function, Store
from tilewright.loops.walk import statements


def column_sums(n: int = 32, factor: int = 8, turned: bool = False) -> tuple[Any, Any, Any, Any]:
    """Sums over n rows of 16, a block of threads, `factor` rows at a time in shared memory.

    `turned`: the threads add up other columns than they fill.
    """
    A, k = te.placeholder((n, 16), name="A"), te.reduce_axis((0, n), "k")
    C = te.compute((16,), lambda i: te.sum(A[k, 15 - i if turned else i], axis=k), "C")
    s = te.create_schedule(C.op)
    AS = s.cache_read(A, "shared", [C])
    tx = te.thread_axis((0, 16), "threadIdx.x")
    s[C].bind(C.op.axis[0], tx)
    outer, _ = s[C].split(C.op.reduce_axis[0], factor=factor)
    s[AS].compute_at(s[C], outer)
    s[AS].bind(AS.op.axis[1], tx)
    return s, A, AS, C


def shared_elements(function: Function) -> list[str]:
    found = (node.buffer for node in post_order(function.body) if isinstance(node, Allocate))
    return [f"{b.name}[{b.shape[0]}]" for b in found]


def check(s: Any, A: Any, C: Any) -> Function:
    """The lowered program, which still computes sums, without races once finished."""
    (function,) = tilewright.lower(s, [A, C]).functions
    a = np.random.default_rng(0).integers(-3, 4, [int(e) for e in A.shape]).astype("float32")
    for form, races in ((function, False), (finish(function, check=True), True)):
        c = np.full(16, np.nan, "float32")
        interpret(form, [a, c], races=races, outputs=form.buffers[1:])
        sums = a.sum(axis=0)
        assert np.array_equal(c, sums) or np.array_equal(c, sums[::-1])
    return function


def test_the_next_part_is_loaded_while_this_one_is_used() -> None:
    s, A, AS, C = column_sums()
    assert shared_elements(check(s, A, C)) == ["A.shared[128]"]
    s[AS].double_buffer()
    function = check(s, A, C)
    assert shared_elements(function) == ["A.shared[256]"]
    text = str(tilewright.lower(s, [A, C]))
    assert "for k_outer in range(3)" in text
    assert text.count("A_shared_1[") >= 3


@pytest.mark.parametrize("depth", [2, 3, 4])
@pytest.mark.parametrize(("n", "factor"), [(32, 8), (30, 4), (30, 8)])
def test_what_is_loaded_for_a_ring_is_stored_behind_the_work_of_the_iteration(depth: int, n: int, factor: int) -> None:
    """The loads are under way meanwhile; nothing is loaded further ahead than the schedule says."""
    s, A, AS, C = column_sums(n, factor, turned=True)
    s[AS].pipeline(depth)
    function = compiled(s, [A, C], without=["asynchronous_copies"])
    filled = 0
    for loop in post_order(function.body):
        if isinstance(loop, For) and loop.var.name == "k.outer":
            stores = [part.buffer.name for part in statements(loop.body) if isinstance(part, Store)]
            order = list(dict.fromkeys(name for name in stores if name in ("A.shared.next", "C", "A.shared")))
            assert order in (["A.shared.next", "C", "A.shared"], ["C"])
            filled += order != ["C"]
            assert sum(isinstance(part, Barrier) for part in statements(loop.body)) == 1
    assert filled
    a, c = np.random.default_rng(0).integers(-3, 4, (n, 16)).astype("float32"), np.full(16, np.nan, "float32")
    interpret(function, [a, c], outputs=function.buffers[1:])
    np.testing.assert_array_equal(c, a.sum(axis=0)[::-1])


def test_one_barrier_an_iteration_is_enough() -> None:
    s, A, AS, C = column_sums(turned=True)
    plain = finish(check(s, A, C))
    s[AS].double_buffer()
    doubled = finish(check(s, A, C))

    def barriers(form: Function) -> int:
        return sum(isinstance(node, Barrier) for node in post_order(form.body))

    assert barriers(plain) == 2
    assert barriers(doubled) == 2  # one in the loop, one before the part after it
    assert any(isinstance(node, Barrier) for node in post_order(doubled.body))


def test_threads_that_read_what_they_filled_themselves_wait_for_none() -> None:
    s, A, AS, C = column_sums()
    s[AS].double_buffer()
    assert not any(isinstance(node, Barrier) for node in post_order(finish(check(s, A, C)).body))


@pytest.mark.parametrize("factor", [32, 5])
def test_loops_that_run_once_and_uneven_ones(factor: int) -> None:
    s, A, AS, C = column_sums(factor=factor)
    s[AS].double_buffer()
    check(s, A, C)


def test_a_writer_that_reads_what_the_loop_computes_stays_where_it_is() -> None:
    """Running ahead, it would read what is not there yet."""
    A = te.placeholder((16,), name="A")
    B = te.compute((16,), lambda i: A[i] * 2.0, "B")
    s = te.create_schedule(B.op)
    first = s.cache_read(A, "local", [B])
    second = s.cache_read(first, "local", [B])
    s[first].compute_at(s[B], B.op.axis[0])
    s[second].compute_at(s[B], B.op.axis[0])
    s[second].double_buffer()
    (function,) = tilewright.lower(s, [A, B]).functions
    a, b = np.arange(16, dtype="float32"), np.full(16, np.nan, "float32")
    interpret(function, [a, b], outputs=function.buffers[1:])
    np.testing.assert_array_equal(b, a * 2)


def test_only_the_loop_around_its_writer_is_pipelined() -> None:
    """The loops further out do not halve the halves again."""
    A = te.placeholder((32, 16), name="A")
    k, j = te.reduce_axis((0, 8), "k"), te.reduce_axis((0, 4), "j")
    C = te.compute((16,), lambda i: te.sum(A[k * 4 + j, i], axis=[k, j]), "C")
    s = te.create_schedule(C.op)
    AS = s.cache_read(A, "shared", [C])
    tx = te.thread_axis((0, 16), "threadIdx.x")
    s[C].bind(C.op.axis[0], tx)
    s[AS].compute_at(s[C], C.op.reduce_axis[1])
    s[AS].bind(AS.op.axis[1], tx)
    assert shared_elements(check(s, A, C)) == ["A.shared[16]"]
    s[AS].double_buffer()
    assert shared_elements(check(s, A, C)) == ["A.shared[32]"]


# Deeper rings.


@pytest.mark.parametrize("depth", [2, 3, 4])
@pytest.mark.parametrize(("n", "factor"), [(32, 8), (32, 4), (16, 8), (30, 8), (8, 8), (7, 2)])
def test_rings_of_any_depth(depth: int, n: int, factor: int) -> None:
    """Tails, loops shorter than the ring, and a loop that runs once."""
    s, A, AS, C = column_sums(n, factor, turned=True)
    s[AS].pipeline(depth)
    function = check(s, A, C)
    stages = min(depth, -(-n // factor))
    assert shared_elements(function) == [f"A.shared[{stages * factor * 16}]"]
    (ring,) = (node.buffer for node in post_order(function.body) if isinstance(node, Allocate))
    assert ring.stages == stages


@pytest.mark.parametrize("depth", [2, 3, 4])
def test_one_barrier_an_iteration_at_any_depth(depth: int) -> None:
    s, A, AS, C = column_sums(64, 8, turned=True)
    s[AS].pipeline(depth)
    made = finish(check(s, A, C))
    loops = [node for node in post_order(made.body) if isinstance(node, For)]
    inside = [sum(isinstance(node, Barrier) for node in post_order(loop.body)) for loop in loops]
    assert max(inside) == 1


def test_a_depth_of_one_is_one_copy() -> None:
    s, A, AS, C = column_sums()
    plain = str(tilewright.lower(s, [A, C]))
    s[AS].pipeline(3)
    s[AS].pipeline(1)
    assert str(tilewright.lower(s, [A, C])) == plain


def product(depths: tuple[int, int], inner: int = 1, k: int = 24) -> tuple[Any, list[Any]]:
    """A product of matrices whose operands go through shared memory, and one of them through registers."""
    A, B = te.placeholder((k, 8), name="A"), te.placeholder((k, 8), name="B")
    r = te.reduce_axis((0, k), "k")
    C = te.compute((8, 8), lambda i, j: te.sum(A[r, 7 - i] * B[r, 7 - j], axis=r), "C")
    s = te.create_schedule(C.op)
    total = s.cache_write(C, "local")
    shared = [s.cache_read(tensor, "shared", [total]) for tensor in (A, B)]
    held = s.cache_read(shared[0], "local", [total])
    ty, tx = te.thread_axis((0, 8), "threadIdx.y"), te.thread_axis((0, 8), "threadIdx.x")
    for axis, thread in zip(C.op.axis, (ty, tx), strict=True):
        s[C].bind(axis, thread)
    s[total].compute_at(s[C], C.op.axis[1])
    outer, middle = s[total].split(total.op.reduce_axis[0], factor=4)
    s[total].reorder(outer, middle, *total.op.axis)
    s[held].compute_at(s[total], middle)
    for tensor, depth in zip(shared, depths, strict=True):
        s[tensor].compute_at(s[total], outer)
        row, column = s[tensor].op.axis
        s[tensor].bind(column, tx)
        s[tensor].bind(s[tensor].split(row, nparts=8)[0], ty)
        s[tensor].pipeline(depth)
    s[held].pipeline(inner)
    return s, [A, B, C]


@pytest.mark.parametrize("k", [24, 22, 8, 4])
@pytest.mark.parametrize(("depths", "inner"), [((3, 3), 1), ((3, 3), 2), ((2, 4), 3), ((4, 1), 4), ((1, 3), 1)])
def test_rings_side_by_side_and_within_each_other(depths: tuple[int, int], inner: int, k: int) -> None:
    s, args = product(depths, inner, k)
    (function,) = tilewright.lower(s, args).functions
    rng = np.random.default_rng(k)
    a, b = (rng.integers(-3, 4, (k, 8)).astype("float32") for _ in range(2))
    for form, races in ((function, False), (finish(function, check=True), True)):
        c = np.full((8, 8), np.nan, "float32")
        interpret(form, [a, b, c], races=races, outputs=form.buffers[2:])
        np.testing.assert_array_equal(c, (a.T @ b)[::-1, ::-1])


def test_rings_of_a_loop_whose_length_is_not_known() -> None:
    n = te.size_var("n")
    A, k = te.placeholder((n, 16), name="A"), te.reduce_axis((0, n), "k")
    C = te.compute((16,), lambda i: te.sum(A[k, 15 - i], axis=k), "C")
    s = te.create_schedule(C.op)
    AS = s.cache_read(A, "shared", [C])
    tx = te.thread_axis((0, 16), "threadIdx.x")
    s[C].bind(C.op.axis[0], tx)
    outer, _ = s[C].split(C.op.reduce_axis[0], factor=4)
    s[AS].compute_at(s[C], outer)
    s[AS].bind(AS.op.axis[1], tx)
    s[AS].pipeline(3)
    (function,) = tilewright.lower(s, [A, C]).functions
    for rows in (1, 4, 5, 9, 23):
        a = np.random.default_rng(rows).integers(-3, 4, (rows, 16)).astype("float32")
        for form, races in ((function, False), (finish(function, check=True), True)):
            c = np.full(16, np.nan, "float32")
            interpret(form, [a, c], races=races, outputs=form.buffers[1:])
            np.testing.assert_array_equal(c, a.sum(axis=0)[::-1])


def test_virtual_threads_have_their_place_in_every_stage() -> None:
    A = te.placeholder((24, 16), name="A")
    k = te.reduce_axis((0, 24), "k")
    C = te.compute((16,), lambda i: te.sum(A[k, 15 - i], axis=k), "C")
    s = te.create_schedule(C.op)
    AS = s.cache_read(A, "shared", [C])
    virtual, inner = s[C].split(C.op.axis[0], nparts=2)
    s[C].bind(virtual, te.thread_axis("vthread"))
    tx = te.thread_axis((0, 8), "threadIdx.x")
    s[C].bind(inner, tx)
    outer, _ = s[C].split(C.op.reduce_axis[0], factor=4)
    s[AS].compute_at(s[C], outer)
    s[AS].bind(s[AS].split(AS.op.axis[1], factor=8)[1], tx)
    s[AS].pipeline(3)
    check(s, A, C)
