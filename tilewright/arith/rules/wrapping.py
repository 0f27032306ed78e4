"""Rules of integers that wrap around: unsigned ones and types narrower than an index."""

from __future__ import annotations

from ...expr.nodes import Add, Div, Expr, FloorDiv, FloorMod, IntImm, Max, Min, Mod, Mul, Sub
from .pattern import constants, match, rule, wild

x, y = wild("x y")
c, d = constants("c d")


def _same(value: int, like: Expr) -> Expr:
    return IntImm(value, like.dtype)


RULES = [
    rule(match(Add, x, c), lambda x: x, when=lambda c: c.value == 0, domain="wrapping"),
    rule(match(Add, c, x), lambda x: x, when=lambda c: c.value == 0, domain="wrapping"),
    rule(match(Sub, x, c), lambda x: x, when=lambda c: c.value == 0, domain="wrapping"),
    rule(
        match(Sub, x, x), lambda x: _same(0, x), when=lambda x: x.dtype.is_int and x.dtype.lanes == 1, domain="wrapping"
    ),
    rule(match(Mul, x, c), lambda x, c: x if c.value else c, when=lambda c: c.value in (0, 1), domain="wrapping"),
    rule(match(Mul, c, x), lambda x, c: x if c.value else c, when=lambda c: c.value in (0, 1), domain="wrapping"),
    rule(match(Div, x, c), lambda x: x, when=lambda c: c.value == 1, domain="wrapping"),
    rule(match(FloorDiv, x, c), lambda x: x, when=lambda c: c.value == 1, domain="wrapping"),
    rule(match(Mod, x, c), lambda c: _same(0, c), when=lambda c: c.value == 1, domain="wrapping"),
    rule(match(FloorMod, x, c), lambda c: _same(0, c), when=lambda c: c.value == 1, domain="wrapping"),
    rule(match(Min, match(Min, x, c), d), lambda x, c, d: Min(x, _same(min(c.value, d.value), c)), domain="wrapping"),
    rule(match(Max, match(Max, x, c), d), lambda x, c, d: Max(x, _same(max(c.value, d.value), c)), domain="wrapping"),
    rule(match(Min, x, x), lambda x: x, domain="wrapping"),
    rule(match(Max, x, x), lambda x: x, domain="wrapping"),
]
