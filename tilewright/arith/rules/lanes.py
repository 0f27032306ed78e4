"""Rules of vectors with equal lanes: one lane is computed, and then broadcast."""

from __future__ import annotations

from typing import Any

from ...expr.nodes import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Broadcast,
    Cast,
    Div,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    Select,
    Sub,
)
from .pattern import Rule, match, numbers, rule, wild

c, x, y = wild("c x y")
to, lanes = numbers("to lanes")


def _binary(kind: Any, domain: str) -> Rule:
    pattern = match(kind, match(Broadcast, x, lanes), match(Broadcast, y, lanes))
    return rule(pattern, lambda x, y, lanes: Broadcast(kind(x, y), lanes), domain=domain)


RULES = [
    *(_binary(kind, "lanes") for kind in (Add, Sub, Mul, Div, Mod, Min, Max, EQ, NE, LT, LE, GT, GE)),
    *(_binary(kind, "lanes of bool") for kind in (And, Or)),
    rule(match(Not, match(Broadcast, x, lanes)), lambda x, lanes: Broadcast(Not(x), lanes), domain="lanes of bool"),
    rule(
        match(Cast, to, match(Broadcast, x, lanes)),
        lambda to, x, lanes: Broadcast(Cast(to.scalar, x), lanes),
        domain="lanes",
    ),
    rule(
        match(Select, match(Broadcast, c, lanes), match(Broadcast, x, lanes), match(Broadcast, y, lanes)),
        lambda c, x, y, lanes: Broadcast(Select(c, x, y), lanes),
        domain="lanes",
    ),
]
