"""Rewrite rules of Select and IfThenElse."""

from __future__ import annotations

from ...expr.nodes import FALSE, TRUE, And, IfThenElse, Not, Select
from .pattern import Rule, match, rule, wild

c, d, x, y, z = wild("c d x y z")


def _rules(kind: type[Select] | type[IfThenElse]) -> list[Rule]:
    return [
        rule(match(kind, c, x, x), lambda x: x),
        rule(match(kind, match(Not, c), x, y), lambda c, x, y: kind(c, y, x)),
        rule(match(kind, c, match(kind, c, x, y), z), lambda c, x, z: kind(c, x, z)),
        rule(match(kind, c, x, match(kind, c, y, z)), lambda c, x, z: kind(c, x, z)),
        rule(match(kind, c, match(kind, d, x, y), y), lambda c, d, x, y: kind(And(c, d), x, y)),
        rule(match(kind, c, TRUE, FALSE), lambda c: c),
        rule(match(kind, c, FALSE, TRUE), lambda c: Not(c)),
        rule(match(kind, c, x, FALSE), lambda c, x: And(c, x), domain="bool"),
    ]


RULES = [*_rules(Select), *_rules(IfThenElse)]
