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
    """Return the simplest expression found that equals e whenever the facts hold.

    Notes
    -----
    The result is right for all values of variables and tensors that their types have, except if `e` has no value:

    - a sum, difference, product or quotient of signed integers of 32 or 64 bits does not fit its type,
    - an integer is divided by 0, or shifted by less than 0 or by all of its bits.

    Narrower and unsigned integers wrap, and so do casts and shifts. If nothing in `e` overflows, no dividend or
    compared value of the result overflows; its sums may wrap midway. Floating-point results keep every bit.
    """
    found = facts.memo.get(e)
    if found is not None:
        return found
    if HERE.rooms:  # true in all of lowering
        return visit(e, ready(facts))
    with ROOM:
        return visit(e, ready(facts))


def prove(cond: Expr, facts: Facts = EMPTY) -> bool:
    """Whether the condition provably holds whenever the facts do."""
    return simplify(cond, facts) is TRUE


def prove_equal(a: Expr, b: Expr, facts: Facts = EMPTY) -> bool:
    """Whether a and b are provably equal whenever the facts hold."""
    if a is b:
        return True
    ready(facts)
    if is_index(a.dtype) and a.dtype == b.dtype:
        gap = difference(a, b, facts)
        return (not gap.terms and gap.const == 0) or (nonneg(gap, facts) and nonneg(gap.scale(-1), facts))
    return visit(a, facts) is visit(b, facts)
