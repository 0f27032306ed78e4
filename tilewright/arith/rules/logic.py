"""Rules of conditions compared with constants, and of conditions that are alike in every lane."""

from __future__ import annotations

from ...expr.nodes import EQ, FALSE, NE, TRUE, Broadcast, Not, Select
from .pattern import match, rule, wild

x, y = wild("x y")

RULES = [
    rule(match(EQ, x, TRUE), lambda x: x, domain="bool"),
    rule(match(EQ, TRUE, x), lambda x: x, domain="bool"),
    rule(match(EQ, x, FALSE), lambda x: Not(x), domain="bool"),
    rule(match(EQ, FALSE, x), lambda x: Not(x), domain="bool"),
    rule(match(NE, x, FALSE), lambda x: x, domain="bool"),
    rule(match(NE, FALSE, x), lambda x: x, domain="bool"),
    rule(match(NE, x, TRUE), lambda x: Not(x), domain="bool"),
    rule(match(NE, TRUE, x), lambda x: Not(x), domain="bool"),
    rule(match(Select, match(Broadcast, TRUE, None), x, y), lambda x: x, domain="vector"),
    rule(match(Select, match(Broadcast, FALSE, None), x, y), lambda y: y, domain="vector"),
]
