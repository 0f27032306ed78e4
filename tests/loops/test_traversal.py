"""Traversal visits every field of every node: what a statement holds is found and replaced wherever it stands."""

from __future__ import annotations

from typing import Any

import pytest

from tests.loops.programs import alloc, buf, launch, load, store
from tilewright.core.node import Node, node
from tilewright.expr.nodes import SizeVar, Var
from tilewright.expr.operators import const
from tilewright.expr.traverse import substitute, variables
from tilewright.loops.nodes import Stmt


def test_a_field_of_unknown_kind_is_an_error_at_class_creation() -> None:
    class Strange(Node):
        body: Stmt
        parts: dict[str, Stmt]

    with pytest.raises(TypeError, match=r"Strange has fields with unknown kinds of nodes: parts: "):
        node()(Strange)


def test_variables_and_substitute_reach_the_extents_of_a_launch() -> None:
    n, m, tx = SizeVar("n"), SizeVar("m"), Var("tx")
    A = buf("A", n)
    stmt: Any = launch(store(A, tx, 0.0), tx=(tx, n * 2))
    assert variables(stmt) == (n, tx)
    made = substitute(stmt, {n: m})
    ((tag, var, extent),) = made.threads
    assert (tag, var) == (stmt.threads[0][0], tx)
    assert variables(extent) == (m,)
    assert substitute(stmt, {m: n}) is stmt


def test_variables_and_substitute_reach_the_extents_of_an_allocation() -> None:
    n, i = SizeVar("n"), Var("i")
    A, L = buf("A", 8), buf("L", n, scope="local")
    stmt: Any = alloc(L, store(A, i, load(L, i)))
    assert set(variables(stmt)) == {n, i}
    made = substitute(stmt, {n: const(4)})
    assert variables(made) == (i,)
    assert str(made.buffer.shape[0]) == "4"
    assert made.body.value.source is made.buffer
    assert L.shape == (n,)
