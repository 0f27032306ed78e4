"""Random expressions of one type, as hypothesis strategies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import strategies as st

from tilewright.expr import nodes as n
from tilewright.expr import operators as op

ARITHMETIC: tuple[Callable[..., n.Expr], ...] = (n.Add, n.Sub, n.Mul, n.Min, n.Max)
DIVISIONS: tuple[Callable[..., n.Expr], ...] = (n.Div, n.Mod, n.FloorDiv, n.FloorMod)
COMPARES: tuple[Callable[..., n.Expr], ...] = (n.EQ, n.NE, n.LT, n.LE, n.GT, n.GE)
Draw = Callable[[Any], Any]


@st.composite
def numbers(
    draw: Draw,
    variables: Sequence[n.Expr],
    constants: st.SearchStrategy[Any],
    divisions: bool = True,
    depth: int = 4,
) -> n.Expr:
    """An expression over `variables` (all of one type) and constants of that type, built without folding."""
    kinds = [*ARITHMETIC, *(DIVISIONS if divisions else (n.Div,))]

    def number(left: int) -> n.Expr:
        what = draw(st.integers(0, 5)) if left else 0
        if what <= 1:
            leaf = draw(st.one_of(st.sampled_from(list(variables)), constants))
            return leaf if isinstance(leaf, n.Expr) else op.const(leaf, variables[0].dtype)
        if what <= 4:
            return draw(st.sampled_from(kinds))(number(left - 1), number(left - 1))
        choice = draw(st.sampled_from([n.Select, n.IfThenElse]))
        return choice(_condition(draw, number, left - 1, 1), number(left - 1), number(left - 1))

    return number(depth)


@st.composite
def conditions(draw: Draw, variables: Sequence[n.Expr], constants: st.SearchStrategy[Any], depth: int = 3) -> n.Expr:
    """A boolean expression that compares small numbers."""
    return _condition(draw, lambda left: draw(numbers(variables, constants, False, left)), 1, depth)


def _condition(draw: Draw, number: Callable[[int], n.Expr], size: int, depth: int) -> n.Expr:
    what = draw(st.integers(0, 3)) if depth else 0
    if what <= 1:
        return draw(st.sampled_from(COMPARES))(number(size), number(size))
    if what == 2:
        return n.Not(_condition(draw, number, size, depth - 1))
    join = draw(st.sampled_from([n.And, n.Or, n.EQ, n.NE]))
    return join(_condition(draw, number, size, depth - 1), _condition(draw, number, size, depth - 1))
