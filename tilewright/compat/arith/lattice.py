"""Rules of minima, maxima, choices and conditions of one another, for the simplifier that users call.

Lowering does not use them: programs that are printed keep the form in which they were written.
"""

from __future__ import annotations

from typing import Any

from ...arith.rules.pattern import Rule, compile_rules, constants, match, rule, wild
from ...expr.nodes import EQ, FALSE, NE, TRUE, And, Div, FloorDiv, IfThenElse, Max, Min, Mul, Or, Select

c, u, v, w, x, y, z = wild("c u v w x y z")
a, b = constants("a b")


def _both_orders(kind: Any, a: Any, b: Any) -> list[Any]:
    return [match(kind, a, b), match(kind, b, a)]


def _factored(outer: Any, inner: Any) -> list[Rule]:
    """min(max(x, y), max(x, z)) = max(min(y, z), x), in every order, and the same with min and max exchanged."""
    return [
        rule(match(outer, first, second), lambda x, y, z: inner(outer(y, z), x))
        for first in _both_orders(inner, x, y)
        for second in _both_orders(inner, x, z)
    ]


def _joined(kind: Any, choice: Any) -> Rule:
    """The rule that joins two choices by the same condition to one choice."""
    return rule(
        match(kind, match(choice, c, u, v), match(choice, c, w, x)),
        lambda c, u, v, w, x: choice(c, kind(u, w), kind(v, x)),
    )


def _product(of_min: Any, of_max: Any) -> list[Rule]:
    return [
        rule(match(Mul, of_min, of_max), lambda x, y: Mul(x, y)),
        rule(match(Mul, of_max, of_min), lambda x, y: Mul(x, y)),
    ]


def _among(kind: Any, kept: Any, other: Any) -> list[Rule]:
    """x == 1 and x != 2 is x == 1, in either order; x != 1 or x == 2 is x != 1."""
    one, two = match(kept, x, a), match(other, x, b)
    return [
        rule(match(kind, *pair), lambda x, a: kept(x, a), when=lambda a, b: a.value != b.value)
        for pair in ((one, two), (two, one))
    ]


def _of_quotients(kind: Any, turned: Any, division: Any) -> Rule:
    """max(x // 4, y // 4) = max(x, y) // 4, and max(x // -4, y // -4) = min(x, y) // -4."""
    return rule(
        match(kind, match(division, x, a), match(division, y, a)),
        lambda x, y, a: division((kind if a.value > 0 else turned)(x, y), a),
        when=lambda a: a.value != 0,
    )


def _never_both(kind: Any, result: Any) -> list[Rule]:
    """x == y and x != y, in every order."""
    one, other = match(EQ, x, y), match(NE, x, y)
    return [rule(match(kind, a, b), lambda: result) for a, b in ((one, other), (other, one))]


RULES = [
    *_factored(Min, Max),
    *_factored(Max, Min),
    *(_joined(kind, choice) for kind in (Min, Max) for choice in (Select, IfThenElse)),
    *(one for pair in _both_orders(Max, x, y) for one in _product(match(Min, x, y), pair)),
    *(_of_quotients(kind, turned, of) for kind, turned in ((Min, Max), (Max, Min)) for of in (FloorDiv, Div)),
    *_never_both(And, FALSE),
    *_never_both(Or, TRUE),
    *_among(And, EQ, NE),
    *_among(Or, NE, EQ),
]
COMPILED = compile_rules(RULES)
