"""Select and IfThenElse: decided conditions, and branches that may rely on them."""

from __future__ import annotations

from typing import Any

from ..expr import nodes as n
from ..expr.nodes import FALSE, TRUE, Expr, Var
from ..expr.traverse import conjuncts, variables
from .affine import Affine
from .engine import FORMS, HANDLERS, atom, linear, visit
from .facts import Facts
from .generic import again
from .logic import negated

_DECIDABLE = (
    n.FloorDiv, n.FloorMod, n.Div, n.Mod, n.Min, n.Max, n.Select, n.IfThenElse, n.And, n.Or, n.Not,
    n.LT, n.LE, n.GT, n.GE, n.EQ, n.NE,
)  # fmt: skip
_NONE: frozenset[Var] = frozenset()


def decidable(e: Expr, facts: Facts) -> frozenset[Var]:
    """The variables below operators of e that knowing more could simplify."""
    found = facts.decidable.get(e)
    if found is None:
        if isinstance(e, _DECIDABLE):
            found = frozenset(variables(e))
        else:
            found = _NONE.union(*(decidable(child, facts) for child in e.children()))
        facts.decidable[e] = found
    return found


def assuming(e: Expr, cond: Expr, facts: Facts) -> Expr:
    """A simplified e, simplified further where `cond` holds; looked into only where that can matter."""
    useful = decidable(e, facts)
    if not useful or useful.isdisjoint(variables(cond)):
        return e
    return visit(e, ready(facts.assume(cond)))


def ready(facts: Facts) -> Facts:
    """The facts, once what the simplified form of each condition says has been noted too."""
    if not facts.prepared:
        facts.prepared = True
        base = facts.without_conditions()
        simple = [visit(cond, base) for cond in facts.conditions]
        for cond in simple:
            for part in conjuncts(cond):
                facts.learn(part)
        facts.forget()
    facts.trim()
    return facts


def _choice(e: Any, facts: Facts) -> Expr:
    cond = visit(e.condition, facts)
    if cond is TRUE or cond is FALSE:
        return visit(e.true_value if cond is TRUE else e.false_value, facts)
    a, b = visit(e.true_value, facts), visit(e.false_value, facts)
    if a is not b:
        a, b = assuming(a, cond, facts), assuming(b, negated(cond, facts), facts)
    return again(type(e)(cond, a, b), facts)


def _choice_form(e: Any, facts: Facts) -> Affine:
    made = _choice(e, facts)
    if type(made) is type(e):
        facts.forms[made] = atom(made)
    return linear(made, facts)


HANDLERS[n.Select] = HANDLERS[n.IfThenElse] = _choice
FORMS[n.Select] = FORMS[n.IfThenElse] = _choice_form
