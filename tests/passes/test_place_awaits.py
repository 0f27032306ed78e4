"""Rings filled by asynchronous copies: which stores become copies, where groups end, and how many are awaited."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright
from tests.passes.running import compiled
from tests.passes.test_pipeline_loops import column_sums, product
from tilewright import te, tir
from tilewright.core.errors import InternalError
from tilewright.core.target import Target
from tilewright.expr.traverse import post_order
from tilewright.loops.interpret import interpret
from tilewright.loops.nodes import NOTHING, Await, Barrier, Commit, Copy, For, Function, Stmt, map_statements

Program = tuple[Any, list[Any]]


def sums(depth: int, n: int = 64, factor: int = 8) -> Program:
    s, A, AS, C = column_sums(n, factor, turned=True)
    s[AS].pipeline(depth)
    return s, [A, C]


def inputs(args: list[Any]) -> list[np.ndarray]:
    """Small whole numbers, so that sums are exact in any order."""
    rng = np.random.default_rng(0)
    return [rng.integers(-3, 4, [int(e) for e in t.shape]).astype(t.dtype) for t in args[:-1]]


def run(function: Function, args: list[Any]) -> np.ndarray:
    out = np.full([int(e) for e in args[-1].shape], np.nan, args[-1].dtype)
    interpret(function, [*inputs(args), out], outputs=function.buffers[-1:])
    return out


def awaited(function: Function) -> list[int]:
    return [node.pending for node in post_order(function.body) if isinstance(node, Await)]


def sizes(function: Function) -> set[int]:
    return {node.size for node in post_order(function.body) if isinstance(node, Copy)}


def changed(function: Function, change: Callable[[Stmt], Stmt]) -> Function:
    def visit(stmt: Stmt) -> Stmt:
        return change(map_statements(stmt, visit))

    return function.with_body(visit(function.body))


@pytest.mark.parametrize("depth", [2, 3, 4])
@pytest.mark.parametrize(("n", "factor"), [(64, 8), (16, 8), (24, 8), (30, 8), (7, 2)])
def test_each_iteration_awaits_all_but_the_groups_issued_for_later_ones(depth: int, n: int, factor: int) -> None:
    s, args = sums(depth, n, factor)
    function = compiled(s, args)
    stages = min(depth, -(-n // factor))
    if n % factor == 0 and n // factor > stages:  # else, iterations are written out
        assert awaited(function) == [stages - 2]
    np.testing.assert_array_equal(run(function, args), inputs(args)[0].sum(axis=0)[::-1])


def _count(stmt: Stmt, kind: type[Stmt]) -> int:
    return sum(isinstance(node, kind) for node in post_order(stmt))


@pytest.mark.parametrize("depth", [2, 3, 4])
def test_an_iteration_has_one_await_one_commit_and_one_barrier(depth: int) -> None:
    function = compiled(*sums(depth))
    loops = [node for node in post_order(function.body) if isinstance(node, For) and _count(node.body, Await)]
    assert loops
    for loop in loops:
        for kind in (Await, Commit, Barrier):
            assert _count(loop.body, kind) == 1


@pytest.mark.parametrize("depth", [2, 3, 4])
def test_waiting_for_one_group_too_few_reads_what_is_not_there_yet(depth: int) -> None:
    s, args = sums(depth)

    def later(stmt: Stmt) -> Stmt:
        return Await(stmt.pending + 1, stmt.buffers) if isinstance(stmt, Await) else stmt

    with pytest.raises(InternalError, match="reads memory that was never written"):
        run(changed(compiled(s, args), later), args)


def test_without_its_barrier_an_await_is_for_the_own_thread_alone() -> None:
    s, args = sums(3)
    without = changed(compiled(s, args), lambda stmt: NOTHING if isinstance(stmt, Barrier) else stmt)
    with pytest.raises(InternalError, match="race"):
        run(without, args)


def test_without_commits_nothing_arrives() -> None:
    s, args = sums(3)
    without = changed(compiled(s, args), lambda stmt: NOTHING if isinstance(stmt, Commit) else stmt)
    with pytest.raises(InternalError, match="reads memory that was never written"):
        run(without, args)


@pytest.mark.parametrize("k", [24, 22, 8, 4])
@pytest.mark.parametrize(("depths", "inner"), [((3, 3), 1), ((3, 3), 2), ((2, 4), 3), ((4, 1), 4), ((4, 2), 1)])
def test_rings_of_different_depths_and_rings_in_rings(depths: tuple[int, int], inner: int, k: int) -> None:
    s, args = product(depths, inner, k)
    function = compiled(s, args)
    a, b = inputs(args)
    np.testing.assert_array_equal(run(function, args), (a.T @ b)[::-1, ::-1])
    if k == 24:
        assert tilewright.build(s, args, "cuda").resources


def test_the_shallow_ring_does_not_wait_for_what_the_deep_one_loads_further_ahead() -> None:
    function = compiled(*product((2, 4)))
    assert max(awaited(function)) >= 1


def test_loops_of_unknown_length() -> None:
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
    function = compiled(s, [A, C])
    assert sizes(function) == {16}
    for rows in (1, 4, 5, 9, 23):
        a = np.random.default_rng(rows).integers(-3, 4, (rows, 16)).astype("float32")
        c = np.full(16, np.nan, "float32")
        interpret(function, [a, c], outputs=function.buffers[1:])
        np.testing.assert_array_equal(c, a.sum(axis=0)[::-1])


def test_nested_loops_with_nothing_between_them_share_one_ring() -> None:
    """The tiles of the next outer iteration are loaded during the last inner ones."""
    A = te.placeholder((6, 4, 16), name="A")
    j, k = te.reduce_axis((0, 6), "j"), te.reduce_axis((0, 4), "k")
    C = te.compute((16,), lambda i: te.sum(A[j, k, 15 - i], axis=[j, k]), "C")
    s = te.create_schedule(C.op)
    AS = s.cache_read(A, "shared", [C])
    tx = te.thread_axis((0, 16), "threadIdx.x")
    s[C].bind(C.op.axis[0], tx)
    s[AS].compute_at(s[C], C.op.reduce_axis[1])
    s[AS].bind(AS.op.axis[2], tx)
    s[AS].pipeline(3)
    function = compiled(s, [A, C])
    assert awaited(function) == [1]  # once, not once per outer iteration
    np.testing.assert_array_equal(run(function, [A, C]), inputs([A, C])[0].sum(axis=(0, 1))[::-1])


# Which stores become copies.


def tile(
    dtype: str = "float32", width: int = 64, lanes: int = 1, body: Callable[[Any, Any, Any], Any] | None = None
) -> Program:
    """Sums over rows that go through shared memory, stored by each thread `lanes` elements at a time."""
    A, k = te.placeholder((32, width), dtype, "A"), te.reduce_axis((0, 32), "k")
    P = A if body is None else te.compute((32, width), lambda y, x: body(A, y, x), "P")
    C = te.compute((width,), lambda i: te.sum(P[k, width - 1 - i].astype("float32"), axis=k), "C")
    s = te.create_schedule(C.op)
    if body is None:
        PS = s.cache_read(A, "shared", [C])
    else:
        PS = P
        s[P].set_scope("shared")
    tx = te.thread_axis((0, width), "threadIdx.x")
    s[C].bind(C.op.axis[0], tx)
    outer, _ = s[C].split(C.op.reduce_axis[0], factor=4)
    s[PS].compute_at(s[C], outer)
    element, lane = s[PS].split(s[PS].fuse(*s[PS].op.axis), factor=lanes)
    s[PS].bind(s[PS].split(element, factor=width)[1], tx)
    s[PS].vectorize(lane)
    s[PS].pipeline(3)
    return s, [A, C]


@pytest.mark.parametrize(
    ("dtype", "width", "lanes", "expected"),
    [
        ("float32", 64, 1, {4}),
        ("float32", 64, 2, {8}),
        ("float32", 64, 4, {16}),
        ("float64", 32, 1, {8}),
        ("float64", 32, 2, {16}),
        ("float16", 64, 1, set()),  # two bytes are not a copy
        ("float16", 64, 2, {4}),
        ("float16", 64, 4, {8}),
        ("int8", 64, 4, {4}),
    ],
)
def test_copies_are_as_large_as_alignment_allows(dtype: str, width: int, lanes: int, expected: set[int]) -> None:
    s, args = tile(dtype, width, lanes)
    function = compiled(s, args, without=["cooperative_fetch"])
    assert sizes(function) == expected
    np.testing.assert_array_equal(run(function, args), inputs(args)[0].astype("float32").sum(axis=0)[::-1])
    assert tilewright.build(s, args, "cuda").resources


def test_rows_of_odd_length_are_copied_in_smaller_pieces() -> None:
    """A vector of four elements in memory that is only known to be aligned to one."""
    A, k = te.placeholder((32, 65), "float32", "A"), te.reduce_axis((0, 32), "k")
    C = te.compute((64,), lambda i: te.sum(A[k, 64 - i], axis=k), "C")
    s = te.create_schedule(C.op)
    AS = s.cache_read(A, "shared", [C])
    tx = te.thread_axis((0, 64), "threadIdx.x")
    s[C].bind(C.op.axis[0], tx)
    outer, _ = s[C].split(C.op.reduce_axis[0], factor=4)
    s[AS].compute_at(s[C], outer)
    element, lane = s[AS].split(s[AS].fuse(*s[AS].op.axis), factor=4)
    s[AS].bind(s[AS].split(element, factor=64)[1], tx)
    s[AS].vectorize(lane)
    s[AS].pipeline(2)
    function = compiled(s, [A, C])
    assert sizes(function) == {4}
    np.testing.assert_array_equal(run(function, [A, C]), inputs([A, C])[0].sum(axis=0)[:0:-1])


@pytest.mark.parametrize("choose", [tir.if_then_else, tir.Select])
def test_padding_is_copied_as_zeros(choose: Any) -> None:
    def body(A: Any, y: Any, x: Any) -> Any:
        return choose(tir.all(y >= 2, y < 30), A[y - 2, x], tir.const(0, A.dtype))

    s, args = tile(lanes=4, body=body)
    function = compiled(s, args)
    assert sizes(function) == {16}
    a = inputs(args)[0]
    np.testing.assert_array_equal(run(function, args), a[:28].sum(axis=0)[::-1])
    source = tilewright.build(s, args, "cuda").imported_modules[0].get_source()
    assert "copy_16_or_zeros(present, " in source


@pytest.mark.parametrize(
    "body",
    [
        lambda A, y, x: A[y, x] * 2.0,
        lambda A, y, x: tir.if_then_else((y + x) % 2 == 0, A[y, x], tir.const(1, A.dtype)),
        lambda A, y, x: tir.if_then_else((y + x) % 2 == 0, A[y, x], tir.const(-0.0, A.dtype)),
    ],
    ids=["computed", "ones", "negative zeros"],
)
def test_what_is_computed_is_stored(body: Any) -> None:
    s, args = tile(body=body)
    function = compiled(s, args)
    assert not sizes(function)
    assert not awaited(function)
    assert not any(isinstance(node, Commit) for node in post_order(function.body))
    run(function, args)


@pytest.mark.parametrize(("target", "expected"), [("cuda -arch=sm_75", set()), ("cuda -arch=sm_80", {16})])
def test_architectures_without_asynchronous_copies_store(target: str, expected: set[int]) -> None:
    s, args = sums(3)
    function = compiled(s, args, target)
    assert sizes(function) == expected
    np.testing.assert_array_equal(run(function, args), inputs(args)[0].sum(axis=0)[::-1])


def test_copies_can_be_switched_off() -> None:
    s, args = sums(3)
    function = compiled(s, args, without=["asynchronous_copies"])
    assert not sizes(function)
    assert not any(isinstance(node, (Commit, Await)) for node in post_order(function.body))


def test_what_the_kernel_writes_is_not_copied() -> None:
    """Its threads may write it while the copy is under way."""
    A, k = te.placeholder((32, 16), name="A"), te.reduce_axis((0, 32), "k")
    B = te.compute((32, 16), lambda y, x: A[y, x] + 1.0, "B")
    C = te.compute((16,), lambda i: te.sum(B[k, 15 - i], axis=k), "C")
    s = te.create_schedule(C.op)
    BS = s.cache_read(B, "shared", [C])
    tx = te.thread_axis((0, 16), "threadIdx.x")
    s[C].bind(C.op.axis[0], tx)
    s[B].bind(B.op.axis[1], tx)
    outer, _ = s[C].split(C.op.reduce_axis[0], factor=8)
    s[BS].compute_at(s[C], outer)
    s[BS].bind(BS.op.axis[1], tx)
    s[BS].pipeline(2)
    function = compiled(s, [A, B, C])
    assert sizes(function) == {16}  # B is written by another kernel, before this one


def test_the_printed_program_shows_copies_groups_and_awaits() -> None:
    s, args = sums(3)
    text = tilewright.lower(s, args).explain("cuda")
    assert "# asynchronous" in text
    assert "T.ptx_commit_group()" in text
    assert "T.ptx_wait_group(1)" in text
    source = tilewright.build(s, args, "cuda").imported_modules[0].get_source()
    assert 'asm volatile("cp.async.commit_group;" : : : "memory");' in source
    assert 'asm volatile("cp.async.wait_group 1;" : : : "memory");' in source


def test_a_ring_outside_of_any_kernel_is_filled_by_stores() -> None:
    A, k = te.placeholder((8, 8), name="A"), te.reduce_axis((0, 8), "k")
    C = te.compute((8, 8), lambda i, j: te.sum(A[k, i] * A[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
    AS = s.cache_read(A, "shared", [C])
    s[AS].compute_at(s[C], C.op.axis[0])
    s[AS].pipeline(2)
    (part,) = tilewright.lower(s, [A, C]).parts
    made = part.compiled_for(Target("cuda -arch=sm_90")).function
    assert not any(isinstance(node, Commit) for node in post_order(made.body))
