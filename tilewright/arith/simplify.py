"""Simplifying and proving: the face of this floor."""

from __future__ import annotations

from ..core.recursion import HERE, ROOM
from ..expr.nodes import TRUE, Expr
from . import choices, compare, forms, generic, logic, vectors  # noqa: F401  (they fill the tables of the engine)
from .assume import ready
from .engine import difference, visit
from .facts import EMPTY, Facts, is_index
from .prove import nonneg


def simplify(e: Expr, facts: Facts = EMPTY) -> Expr:
    """The simplest expression found that has e's value wherever the facts hold.

    Indices (signed integers of 32 bits or more) are taken not to overflow; where nothing that `e` computes does,
    nothing that the result divides or compares does. Floating-point results keep every bit.
    """
    found = facts.memo.get(e)
    if found is not None:
        return found
    if HERE.rooms:  # as in all of lowering
        return visit(e, ready(facts))
    with ROOM:
        return visit(e, ready(facts))


def prove(cond: Expr, facts: Facts = EMPTY) -> bool:
    """Whether the condition provably holds wherever the facts do."""
    return simplify(cond, facts) is TRUE


def prove_equal(a: Expr, b: Expr, facts: Facts = EMPTY) -> bool:
    """Whether a and b are provably of one value wherever the facts hold."""
    if a is b:
        return True
    ready(facts)
    if is_index(a.dtype) and a.dtype == b.dtype:
        gap = difference(a, b, facts)
        return (not gap.terms and gap.const == 0) or (nonneg(gap, facts) and nonneg(gap.scale(-1), facts))
    return visit(a, facts) is visit(b, facts)
