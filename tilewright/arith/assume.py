"""Simplification of expressions under further conditions, if these can change the result."""

from __future__ import annotations

from collections.abc import Iterable

from ..expr import nodes as n
from ..expr.nodes import Expr, Var
from ..expr.traverse import conjuncts, post_order, variables
from .engine import visit
from .facts import Facts

_DECIDABLE = (
    *(n.FloorDiv, n.FloorMod, n.Div, n.Mod, n.Min, n.Max, n.Select, n.IfThenElse, n.And, n.Or, n.Not),
    *(n.LT, n.LE, n.GT, n.GE, n.EQ, n.NE),
)
MOST_CHOICES = 6
"""The most nested choices of an expression that is simplified again under conditions: each level doubles the work."""
_NONE: frozenset[Var] = frozenset()


def decidable(e: Expr, facts: Facts) -> frozenset[Var]:
    """The variables in the operators of e that further facts could simplify."""
    found = facts.decidable.get(e)
    if found is None:
        if isinstance(e, _DECIDABLE):
            found = frozenset(variables(e))
        else:
            found = _NONE.union(*[decidable(child, facts) for child in e.children()])
        facts.decidable[e] = found
    return found


def choices(e: Expr) -> int:
    """How many choices are nested within e."""
    if hasattr(e, "choices_below"):
        return e.choices_below
    stack = [e]
    while stack:
        at = stack[-1]
        unknown = [child for child in at.children() if not hasattr(child, "choices_below")]
        if unknown:
            stack += unknown
            continue
        stack.pop()
        below = max([child.choices_below for child in at.children()], default=0)
        at.choices_below = below + isinstance(at, (n.Select, n.IfThenElse))
    return e.choices_below


def assuming(e: Expr, cond: Expr, facts: Facts) -> Expr:
    """A simplified e, simplified further under `cond`, if that can matter."""
    useful = facts.decidable.get(e)  # a decidable form answers most questions
    if useful is None:
        if choices(e) > MOST_CHOICES:
            return e
        useful = decidable(e, facts)
    if not useful or choices(e) > MOST_CHOICES or useful.isdisjoint(_variables(cond, facts)):
        return e
    return visit(e, ready(facts.assume(cond, memory=True)))


def _variables(cond: Expr, facts: Facts) -> Iterable[Var]:
    return decidable(cond, facts) if isinstance(cond, _DECIDABLE) else variables(cond)


def harmless(e: Expr) -> bool:
    """Whether nothing in e can fault, so that it may be evaluated speculatively."""
    for at in post_order(e):
        if isinstance(at, (n.Load, n.Call)):
            return False
        if isinstance(at, (n.FloorDiv, n.FloorMod, n.Div, n.Mod)) and not isinstance(at.b, n.IntImm):
            return False
    return True


def ready(facts: Facts) -> Facts:
    """The facts, extended by the simplified form of each condition."""
    if not facts.prepared:
        facts.prepared = True
        base = facts.without_conditions()
        simple = [visit(cond, base) for cond in facts.conditions]
        for cond in simple:
            for part in conjuncts(cond):
                if not isinstance(part, n.IntImm):
                    facts.learn(part)
        facts.forget()
    facts.trim()
    return facts
