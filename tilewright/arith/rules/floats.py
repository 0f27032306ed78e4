"""Rules of floating-point arithmetic: only rules that keep every bit, signed zeros and NaN included.

x * 0 and x - x may be NaN, x + 0.0 turns -0.0 into 0.0, and sums are never reassociated.
"""

from __future__ import annotations

import math

from ...expr.nodes import Add, Div, Expr, FloatImm, Mul, Sub
from .pattern import match, rule, wild

x, y = wild("x y")


def is_one(y: Expr) -> bool:
    """Whether y is 1.0."""
    return isinstance(y, FloatImm) and y.value == 1.0


def is_zero(y: Expr, sign: float) -> bool:
    """Whether y is the zero of that sign."""
    return isinstance(y, FloatImm) and y.value == 0.0 and math.copysign(1.0, y.value) == sign


RULES = [
    rule(match(Mul, x, y), lambda x: x, when=lambda y: is_one(y), domain="float"),
    rule(match(Mul, x, y), lambda y: y, when=lambda x: is_one(x), domain="float"),
    rule(match(Div, x, y), lambda x: x, when=lambda y: is_one(y), domain="float"),
    rule(match(Sub, x, y), lambda x: x, when=lambda y: is_zero(y, 1.0), domain="float"),
    rule(match(Add, x, y), lambda x: x, when=lambda y: is_zero(y, -1.0), domain="float"),
    rule(match(Add, x, y), lambda y: y, when=lambda x: is_zero(x, -1.0), domain="float"),
]
