"""`traverse.fold`: values of nodes from those of their children."""

from __future__ import annotations

import tilewright as tw
from tilewright import tir
from tilewright.expr.traverse import fold


def test_each_node_is_looked_at_once() -> None:
    x = tir.Var("x", "int32")
    e, seen = x, []
    for _ in range(100):  # 2**100 nodes, written out
        e = e * e + 1

    def size(at: object, below: list[int]) -> int:
        seen.append(at)
        return 1 + sum(below)

    known: dict[object, int] = {}
    assert fold(e, known, size) > 2**100
    assert len(seen) == len(set(seen)) == len(known)
    fold(e + x, known, size)
    assert len(seen) == len(known)


def test_expressions_deeper_than_the_stack() -> None:
    x = tir.Var("x", "int32")
    e = x
    for i in range(20_000):
        e = tir.Max(e, x + i)
    assert fold(e, {}, lambda _, below: 1 + max(below, default=0)) == 20_001


def test_children_that_do_not_count_are_not_visited() -> None:
    A = tw.te.placeholder((8,), "int32", "A")
    i = tir.Var("i", "int32")
    e = A[i // 2] + i
    visited: dict[object, str] = {}
    fold(e, visited, lambda at, _: type(at).__name__, lambda at: [] if at is e.a else at.children())
    assert sorted(visited.values()) == ["Add", "Load", "Var"]
