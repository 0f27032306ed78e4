"""Floor division becomes the hardware's where that is the same."""

from __future__ import annotations

from typing import Any

import pytest

from tests.loops.programs import buf, function, launch, load, loop, store
from tests.passes.running import run_pass
from tilewright.expr.nodes import Var
from tilewright.expr.operators import floordiv, floormod
from tilewright.expr.traverse import post_order
from tilewright.loops.nodes import Stmt, Store
from tilewright.passes.lower_divisions import lower_divisions

A, B = buf("A", 64), buf("B", 64)
i, n = Var("i"), Var("n")


def lowered(body: Stmt) -> str:
    """The index that is stored to."""
    made = run_pass(lower_divisions, function((A, B, n), body))
    (found,) = (node for node in post_order(made.body) if isinstance(node, Store))
    return str(found.indices[0])


@pytest.mark.parametrize(
    ("index", "text"),
    [
        (floordiv(i, 4), "T.truncdiv(i, 4)"),
        (floormod(i, 4), "T.truncmod(i, 4)"),
        (floordiv(i + 1, i + 2), "T.truncdiv(i + 1, i + 2)"),
        (floordiv(floormod(i, 6), 4), "T.truncdiv(T.truncmod(i, 6), 4)"),
        (floordiv(i - 1, 4), "(i - 1) // 4"),
        (floordiv(i - 1 + n, 4), "(i - 1 + n) // 4"),
        (floordiv(i, -4), "i // (-4)"),
        (floordiv(i, n), "i // n"),
    ],
)
def test_in_a_loop(index: Any, text: str) -> None:
    assert lowered(loop(i, 8, store(B, index, load(A, 0)))) == text


def test_in_a_kernel() -> None:
    assert lowered(launch(store(B, floormod(i, 4), load(A, 0)), tx=(i, 8))) == "T.truncmod(i, 4)"


def test_where_a_loop_starts_below_zero() -> None:
    assert lowered(loop(i, 8, store(B, floormod(i, 4), load(A, 0)), low=-2)) == "i % 4"
