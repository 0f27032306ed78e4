"""Stores that only move elements of an input to a ring become copies, as large as alignment allows."""

from __future__ import annotations

from typing import Any

import pytest

from tests.loops.programs import alloc, buf, exprs, function, launch, load, loop, ramp, store
from tests.passes.kernels import A, B, tx
from tests.passes.running import run_pass
from tilewright.core.hardware import LoopKind, MemoryScope
from tilewright.expr.nodes import Expr, Var
from tilewright.expr.operators import as_expr, cast, if_then_else, less
from tilewright.loops.nodes import Buffer, Commit, Copy, For, Function, If, Stmt, Store, seq
from tilewright.loops.walk import statements
from tilewright.passes.asynchronous_copies import asynchronous_copies

i = Var("i")


def ring(stages: int = 2, dtype: str = "float32") -> Buffer:
    return Buffer("tile", dtype, exprs(1024), MemoryScope.SHARED, 64, stages=stages)


def made(buffer: Buffer, *body: Stmt, source: Buffer = A, target: str = "cuda") -> Function:
    """A kernel of 32 threads with these statements in a loop, after the pass."""
    kernel = launch(alloc(buffer, loop(i, 8, seq(*body))), tx=(tx, 32))
    return run_pass(asynchronous_copies, function((source, B), kernel), target)


def copies(function: Function) -> list[int]:
    """The bytes of each copy."""
    return [s.size for s in statements(function.body) if isinstance(s, Copy)]


def commits(function: Function) -> int:
    return sum(isinstance(s, Commit) for s in statements(function.body))


@pytest.mark.parametrize(
    ("dtype", "lanes", "start", "size"),
    [
        ("float32", 1, 0, 4),
        ("float32", 2, 0, 8),
        ("float32", 4, 0, 16),
        ("float32", 8, 0, 16),  # two instructions
        ("float32", 4, 2, 8),  # aligned to 8 bytes only
        ("float32", 4, 1, 4),
        ("float16", 2, 0, 4),
        ("float16", 8, 0, 16),
        ("float16", 8, 1, 0),  # the hardware copies no two bytes
        ("float16", 1, 0, 0),
    ],
)
def test_the_largest_size_that_is_aligned_on_both_sides(dtype: str, lanes: int, start: int, size: int) -> None:
    buffer, source = ring(dtype=dtype), buf("A", 1024, dtype=dtype)
    place: Expr = tx * lanes if lanes == 1 else ramp(tx * lanes, lanes)
    there: Expr = tx * lanes + start if lanes == 1 else ramp(tx * lanes + start, lanes)
    function = made(buffer, store(buffer, place, load(source, there)), Commit(), source=source)
    assert copies(function) == ([size] if size else [])
    assert commits(function) == 1


def test_padding_with_zeros_is_copied_and_other_values_are_stored() -> None:
    buffer = ring()
    inside = less(tx + i, 20)
    for value, count in [
        (if_then_else(inside, load(A, tx), as_expr(0.0, "float32")), 1),
        (if_then_else(inside, load(A, tx), as_expr(1.0, "float32")), 0),
        (load(A, tx) * 2.0, 0),
        (cast("float32", tx), 0),
    ]:
        assert len(copies(made(buffer, store(buffer, tx, value), Commit()))) == count


def test_only_fills_of_rings_directly_before_a_commit() -> None:
    buffer = ring()
    fill = store(buffer, tx, load(A, tx))
    assert copies(made(buffer, fill, Commit())) == [4]
    assert copies(made(buffer, fill)) == []
    assert copies(made(buffer, fill, store(B, tx, load(buffer, tx)), Commit())) == []
    one = ring(stages=1)
    assert copies(made(one, store(one, tx, load(A, tx)), Commit())) == []
    assert copies(made(buffer, loop(Var("j"), 2, fill), store(buffer, tx + 32, load(A, tx)), Commit())) == [4, 4]


def test_what_the_kernel_writes_is_not_copied() -> None:
    buffer = ring()
    assert copies(made(buffer, store(buffer, tx, load(B, tx)), Commit(), store(B, tx, load(buffer, tx)))) == []


def test_groups_are_counted_alike_in_all_threads() -> None:
    """No group ends under a condition that differs between the threads of a block."""
    buffer = ring()
    fill = seq(store(buffer, tx, load(A, tx)), Commit())
    for condition, count in [(less(tx, 7), 0), (less(i, 7), 1), (less(load(A, 0), 1.0), 0)]:
        function = made(buffer, If(condition, fill, None))
        assert (len(copies(function)), commits(function)) == (count, count)


def test_short_loops_behind_copies_are_unrolled() -> None:
    buffer, j = ring(), Var("j")
    use = loop(j, 4, store(B, tx * 4 + j, load(buffer, tx)))
    function = made(buffer, store(buffer, tx, load(A, tx)), Commit(), use)
    (after,) = (s for s in statements(function.body) if isinstance(s, For) and s.var is j)
    assert after.kind is LoopKind.UNROLLED


@pytest.mark.parametrize(("target", "count"), [("cuda -arch=sm_75", 0), ("cuda -arch=sm_80", 1), ("opencl", 0)])
def test_the_hardware_says_what_it_copies(target: str, count: int) -> None:
    buffer = ring()
    assert len(copies(made(buffer, store(buffer, tx, load(A, tx)), Commit(), target=target))) == count


def test_a_kernel_without_groups_is_left_as_it_is() -> None:
    body: Any = launch(store(B, tx, load(A, tx)), tx=(tx, 32))
    before = function((A, B), body)
    assert run_pass(asynchronous_copies, before) is before
    assert isinstance(body.body, Store)
