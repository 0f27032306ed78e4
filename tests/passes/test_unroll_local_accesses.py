"""Loops that index a thread's own arrays are marked as unrolled."""

from __future__ import annotations

from tests.loops.programs import alloc, buf, load, loop, store
from tests.passes.kernels import A, copy, i, inside, j, kernel
from tests.passes.running import run_pass
from tilewright.expr.traverse import post_order
from tilewright.loops.nodes import For, Stmt
from tilewright.passes.unroll_local_accesses import unroll_local_accesses


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
