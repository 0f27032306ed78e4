"""Values of integer expressions over arrays, beside the exact value at each element."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.expr import random_exprs
from tilewright.expr import nodes as n
from tilewright.expr import operators as op
from tilewright.expr.arrays import evaluated
from tilewright.expr.evaluate import evaluate
from tilewright.expr.traverse import rewrite

x, y, z = (n.Var(name, "int64") for name in "xyz")
NUMBERS = st.integers(-12, 12)
ROWS = st.lists(st.tuples(NUMBERS, NUMBERS, NUMBERS), min_size=1, max_size=6)


def with_divisors(e: Any) -> Any:
    """Replace divisors of 0 by 1, as arrays do."""
    if isinstance(e, (n.Div, n.Mod, n.FloorDiv, n.FloorMod)):
        return type(e)(e.a, n.Select(n.EQ(e.b, op.const(0, "int64")), op.const(1, "int64"), e.b))
    return e


@given(random_exprs.numbers((x, y, z), NUMBERS, depth=3), ROWS)
def test_each_element_has_the_exact_value(e: n.Expr, rows: list[tuple[int, int, int]]) -> None:
    columns = dict(zip((x, y, z), np.array(rows, np.int64).T, strict=True))
    exact = [evaluate(rewrite(e, with_divisors), dict(zip((x, y, z), row, strict=True))) for row in rows]
    np.testing.assert_array_equal(np.broadcast_to(evaluated(e, columns), len(rows)), exact)
    assert [int(evaluated(e, dict(zip((x, y, z), row, strict=True)))) for row in rows] == exact


@given(random_exprs.conditions((x, y, z), NUMBERS), ROWS)
def test_each_condition_has_the_exact_value(e: n.Expr, rows: list[tuple[int, int, int]]) -> None:
    columns = dict(zip((x, y, z), np.array(rows, np.int64).T, strict=True))
    exact = [evaluate(rewrite(e, with_divisors), dict(zip((x, y, z), row, strict=True))) for row in rows]
    np.testing.assert_array_equal(np.broadcast_to(evaluated(e, columns), len(rows)), exact)


@pytest.mark.parametrize("name", ["bitwise_and", "bitwise_or", "bitwise_xor", "shift_left", "shift_right"])
def test_functions_of_bits(name: str) -> None:
    e, a, b = getattr(op, name)(x, y), np.arange(-4, 4), np.arange(8)
    exact = [evaluate(e, {x: int(p), y: int(q)}) for p, q in zip(a, b, strict=True)]
    assert evaluated(e, {x: a, y: b}).tolist() == exact


def test_unknown_parts() -> None:
    half = op.cast("int64", op.const(0.5, "float32"))
    for e in (x + 2, n.Add(x, half), n.Select(n.LT(x, y), y, y), n.Mod(y, x), n.LT(x, y), n.Not(n.LT(x, y))):
        assert evaluated(e, {y: np.array([3, 4])}) is None
    assert evaluated(n.Add(n.Mul(x, y), half), {y: np.array([3, 4])}, unknown=0).tolist() == [0, 0]
    assert evaluated(x + 2, {}, unknown=0) == 2
    assert evaluated(n.Select(n.LT(y, x), y, y), {y: np.array([3, 4])}, unknown=0) == 0
    for join in (n.And, n.Or):  # the other operand decides
        e = join(n.LT(x, y), n.LT(y, op.const(4, "int64")))
        assert evaluated(e, {y: np.array([3, 4])}).tolist() == [True, False]
