"""Select and IfThenElse: decided conditions, and branches that may rely on them."""

from __future__ import annotations

from typing import Any

from ..expr import nodes as n
from ..expr.nodes import FALSE, TRUE, Expr
from .affine import Affine
from .assume import MOST_CHOICES, assuming, choices, harmless
from .engine import FORMS, HANDLERS, atom, linear, visit
from .facts import Facts
from .generic import again
from .logic import negated


def _choice(e: Any, facts: Facts) -> Expr:
    cond = visit(e.condition, facts)
    if cond is TRUE or cond is FALSE:
        return visit(e.true_value if cond is TRUE else e.false_value, facts)
    a, b = visit(e.true_value, facts), visit(e.false_value, facts)
    if a is not b:
        lazy = isinstance(e, n.IfThenElse)  # a Select evaluates each branch even if its condition fails
        if choices(a) <= MOST_CHOICES and (lazy or harmless(a)):  # deeper choices stay as they are
            a = assuming(a, cond, facts)
        if choices(b) <= MOST_CHOICES and (lazy or harmless(b)):
            b = assuming(b, negated(cond, facts), facts)
    return again(type(e)(cond, a, b), facts)


def _choice_form(e: Any, facts: Facts) -> Affine:
    made = _choice(e, facts)
    if type(made) is type(e):
        facts.forms[made] = atom(made)
    return linear(made, facts)


HANDLERS[n.Select] = HANDLERS[n.IfThenElse] = _choice
FORMS[n.Select] = FORMS[n.IfThenElse] = _choice_form
