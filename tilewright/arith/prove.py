"""Proving that linear forms are not negative: by bounds, by symbolic ranges, by assumed conditions."""

from __future__ import annotations

from math import gcd, inf

from ..expr.nodes import Expr, SizeVar
from ..expr.traverse import variables
from .affine import Affine
from .engine import linear, merged
from .facts import Facts
from .interval import bounds, form_bounds

_DEPTH = 3


def nonneg(form: Affine, facts: Facts) -> bool:
    """Whether the form is provably at least 0."""
    if form_bounds(form, facts)[0] >= 0:
        return True
    if not facts.symbolic and not facts.nonneg:
        return False
    return _search(form, facts, _DEPTH)


def _search(form: Affine, facts: Facts, depth: int) -> bool:
    if form_bounds(form, facts)[0] >= 0:
        return True
    if facts.symbolic:
        lowered = _lowest(form, facts)
        if lowered is not None:
            if form_bounds(lowered, facts)[0] >= 0 or _product_signs(lowered, facts):
                return True
            if facts.nonneg and depth and _by_conditions(lowered, facts, depth):
                return True
    return bool(facts.nonneg) and depth > 0 and _by_conditions(form, facts, depth)


def _by_conditions(form: Affine, facts: Facts, depth: int) -> bool:
    """Take a known condition away from the form, so that one of its terms cancels."""
    for known in facts.nonneg:
        for atom, k in known.terms.items():
            own = form.terms.get(atom, 0)
            if own * k <= 0 or bounds(atom, facts)[0 if own > 0 else 1] not in (inf, -inf) and len(form.terms) == 1:
                continue
            common = gcd(own, k)
            rest = form.scale(abs(k) // common).plus(known, -(abs(own) // common))
            if len(rest.terms) <= len(form.terms) + 1 and _search(rest, facts, depth - 1):
                return True
            break
    return False


def _lowest(form: Affine, facts: Facts) -> Affine | None:
    """The form with each variable of symbolic range, latest first, at the end of its range that makes it least."""
    changed = False
    for var in reversed(facts.symbolic):
        k = form.terms.get(var)
        if k is None:
            continue
        low, extent = facts.ranges[var]
        end = linear(low, facts)
        if k < 0:
            end = end.plus(linear(extent, facts), 1).shift(-1)
        if var in end.terms:
            continue
        form = merged(Affine({a: j for a, j in form.terms.items() if a is not var}, form.const, form.dtype).plus(end, k), facts)
        changed = True
    return form if changed else None


def _product_signs(form: Affine, facts: Facts) -> bool:
    return False


def is_size(e: Expr) -> bool:
    """Whether only sizes occur in an expression."""
    return all(isinstance(var, SizeVar) for var in variables(e))
