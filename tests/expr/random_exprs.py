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


def numbers(
    variables: Sequence[n.Expr], constants: st.SearchStrategy[Any], divisions: bool = True, depth: int = 4
) -> st.SearchStrategy[n.Expr]:
    """Expressions over `variables` (all of one type) and constants of that type, built without folding."""
    dtype = variables[0].dtype
    leaf = st.one_of(st.sampled_from(list(variables)), constants.map(lambda value: op.const(value, dtype)))
    if depth == 0:
        return leaf
    inner = numbers(variables, constants, divisions, depth - 1)
    kinds = [*ARITHMETIC, *(DIVISIONS if divisions else (n.Div,))]
    binary = st.builds(lambda f, a, b: f(a, b), st.sampled_from(kinds), inner, inner)
    test = conditions(inner, depth - 1)
    choice = st.builds(lambda f, c, a, b: f(c, a, b), st.sampled_from([n.Select, n.IfThenElse]), test, inner, inner)
    return st.one_of(leaf, binary, binary, choice)


def conditions(inner: st.SearchStrategy[n.Expr], depth: int = 2) -> st.SearchStrategy[n.Expr]:
    """Boolean expressions that compare `inner` ones."""
    compare = st.builds(lambda f, a, b: f(a, b), st.sampled_from(COMPARES), inner, inner)
    if depth <= 0:
        return compare
    below = conditions(inner, depth - 1)
    joined = st.builds(lambda f, a, b: f(a, b), st.sampled_from([n.And, n.Or, n.EQ, n.NE]), below, below)
    return st.one_of(compare, joined, st.builds(n.Not, below))
