"""Expressions as sums of variables with coefficients, which may be expressions themselves."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from ..expr import nodes as n
from ..expr.nodes import Expr, IntImm, Var
from ..expr.operators import add, const, floordiv, multiply, subtract
from ..expr.traverse import uses_any
from .affine import immediate

Coefficients = tuple[dict[Var, Expr], Expr]
"""The coefficient of each variable, and the rest."""


def coefficients(e: Expr, variables: Sequence[Var]) -> Coefficients | None:
    """`e` as a sum of multiples of the variables and a rest without them; None if there is none that fits the type."""
    try:
        return _coefficients(e, variables)
    except OverflowError:
        return None


def _coefficients(e: Expr, variables: Sequence[Var]) -> Coefficients | None:
    if not uses_any(e, variables):
        return {}, e
    if isinstance(e, Var):
        return {e: const(1, e.dtype)}, const(0, e.dtype)
    if isinstance(e, (n.Add, n.Sub)):
        a, b = _coefficients(e.a, variables), _coefficients(e.b, variables)
        if a is None or b is None:
            return None
        combine = add if isinstance(e, n.Add) else subtract
        zero = const(0, e.dtype)
        together = {v: exactly(combine, a[0].get(v, zero), b[0].get(v, zero)) for v in (*a[0], *b[0])}
        return together, exactly(combine, a[1], b[1])
    if isinstance(e, n.Mul):
        factor, other = (e.a, e.b) if not uses_any(e.a, variables) else (e.b, e.a)
        found = None if uses_any(factor, variables) else _coefficients(other, variables)
        if found is None:
            return None
        return {v: exactly(multiply, k, factor) for v, k in found[0].items()}, exactly(multiply, found[1], factor)
    return None


def exactly(compute: Any, a: Expr, b: Expr | int) -> Expr:
    """Compute one end from two others; OverflowError if the result of constants does not fit their type."""
    other = b.value if isinstance(b, IntImm) else b
    if isinstance(a, IntImm) and isinstance(other, int):
        value = _EXACT[compute](a.value, other)
        return immediate(value, a.dtype)
    made: Expr = compute(a, b)
    return made


_EXACT: dict[Any, Any] = {
    add: operator.add,
    subtract: operator.sub,
    multiply: operator.mul,
    floordiv: operator.floordiv,
}
