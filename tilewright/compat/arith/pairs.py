"""Pairs of terms in a sum that are one term, or none: of minima and maxima, choices, quotients and remainders."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Any

from ...arith.affine import Affine
from ...arith.engine import linear
from ...arith.facts import Facts
from ...arith.room import has_room
from ...expr import nodes as n
from ...expr.nodes import Expr, IntImm

Term = tuple[Any, int]
"""An atom and its coefficient."""
Pair = Callable[[Term, Term, Facts], Affine | None]
_MOST_TERMS = 24


def without_pairs(form: Affine, facts: Facts) -> Expr | None:
    """Return a sum with its first pair of matching terms replaced; None if no terms match."""
    terms = [(a, k) for a, k in form.terms.items() if isinstance(a, tuple(_PAIRS))][:_MOST_TERMS]
    for one, other in combinations(terms, 2):
        for first, second in ((one, other), (other, one)):
            for pair in _PAIRS[type(first[0])]:
                found = pair(first, second, facts)
                if found is not None:
                    rest = {a: k for a, k in form.terms.items() if a is not one[0] and a is not other[0]}
                    return (Affine(rest, form.const, form.dtype) + found).to_expr()
    return None


def _difference(first: Term, second: Term, facts: Facts) -> Affine | None:
    """min(a, b) - min(c, d) = a - c if that equals b - d."""
    (one, k), (other, j) = first, second
    if k != -j or type(one) is not type(other):
        return None
    a, b, c, d = (linear(part, facts) for part in (one.a, one.b, other.a, other.b))
    for left, right in ((c, d), (d, c)):
        gap = a - left
        if gap.same(b - right):
            return gap.scale(k)
    return None


def _both(first: Term, second: Term, facts: Facts) -> Affine | None:
    """min(a, b) + max(a, b) = a + b."""
    (one, k), (other, j) = first, second
    if k != j or not isinstance(other, n.Max) or {one.a, one.b} != {other.a, other.b}:
        return None
    return (linear(one.a, facts) + linear(one.b, facts)).scale(k)


def _choices(first: Term, second: Term, facts: Facts) -> Affine | None:
    """Join two choices by the same condition to one choice."""
    (one, k), (other, j) = first, second
    if type(one) is not type(other) or one.condition is not other.condition:
        return None
    sums = [
        linear(a, facts).scale(k).plus(linear(b, facts), j).to_expr()
        for a, b in ((one.true_value, other.true_value), (one.false_value, other.false_value))
    ]
    return Affine({type(one)(one.condition, *sums): 1}, 0, one.dtype)


def _quotients(first: Term, second: Term, facts: Facts) -> Affine | None:
    """(x + c) // d - x // d = (x % d + c) // d."""
    (one, k), (other, j) = first, second
    if k != -j or not isinstance(other, n.FloorDiv) or one.b is not other.b or not isinstance(one.b, IntImm):
        return None
    gap = linear(one.a, facts) - linear(other.a, facts)
    if gap.terms or gap.const <= 0 or one.b.value <= 0:
        return None
    rest = linear(n.FloorMod(other.a, one.b), facts).shift(gap.const)
    return Affine({n.FloorDiv(rest.to_expr(), one.b): k}, 0, one.dtype) if has_room(rest, facts) else None


_PAIRS: dict[type, tuple[Pair, ...]] = {
    n.Min: (_difference, _both),
    n.Max: (_difference,),
    n.Select: (_choices,),
    n.IfThenElse: (_choices,),
    n.FloorDiv: (_quotients,),
}
