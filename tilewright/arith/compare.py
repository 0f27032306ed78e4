"""Comparisons of integers: a linear form is compared with a constant; the comparison is made as small as possible, or
decided.
"""

from __future__ import annotations

from collections.abc import Callable
from math import gcd, inf
from typing import Any

from ..expr import nodes as n
from ..expr.nodes import FALSE, TRUE, Expr, IntImm
from . import vectors
from .affine import Affine, immediate
from .engine import HANDLERS, difference, visit
from .facts import Facts, is_index
from .interval import terms_bounds
from .modular import form_residues
from .prove import is_size, nonneg
from .room import has_room
from .splits import remainder
from .write import write

Comparison = Callable[[Expr, Expr], Expr]


def _ordering(e: Any, facts: Facts) -> Expr:
    if not is_index(e.a.dtype):
        return vectors.arithmetic(e, facts)
    try:
        return ordering(type(e), difference(e.a, e.b, facts), facts)
    except OverflowError:
        kind = type(e)
        a, b = visit(e.a, facts), visit(e.b, facts)
        return n.LT(b, a) if kind is n.GT else n.LE(b, a) if kind is n.GE else kind(a, b)


def ordering(kind: type, form: Affine, facts: Facts) -> Expr:
    """The simplest `form kind 0` for LT, LE, GT, GE; OverflowError if no side of it is sure to fit."""
    terms = Affine(form.terms, 0, form.dtype)
    if kind is n.LT or kind is n.LE:
        return at_most(terms, -form.const - (kind is n.LT), facts)
    return at_least(terms, -form.const + (kind is n.GT), facts)


def at_most(terms: Affine, limit: int, facts: Facts) -> Expr:
    """The simplest `terms <= limit`; the terms have no constant."""
    while True:
        if not terms.terms:
            return TRUE if limit >= 0 else FALSE
        if turned(terms):
            return at_least(terms.scale(-1), -limit, facts)
        lo, hi = terms_bounds(terms.terms.items(), 0, facts)
        if hi <= limit:
            return TRUE
        if lo > limit:
            return FALSE
        smaller = _reduced(terms, limit, 0, facts) or _undivided(terms, limit, 0, facts)
        if smaller is None:
            break
        terms, limit = smaller
    if nonneg(terms.scale(-1).shift(limit), facts):
        return TRUE
    if nonneg(terms.shift(-limit - 1), facts):
        return FALSE
    return _below(terms, limit + 1, facts)


def at_least(terms: Affine, limit: int, facts: Facts) -> Expr:
    """The simplest `limit <= terms`; the terms have no constant."""
    while True:
        if not terms.terms:
            return TRUE if limit <= 0 else FALSE
        if turned(terms):
            return at_most(terms.scale(-1), -limit, facts)
        lo, hi = terms_bounds(terms.terms.items(), 0, facts)
        if lo >= limit:
            return TRUE
        if hi < limit:
            return FALSE
        smaller = _reduced(terms, limit, 1, facts) or _undivided(terms, limit, 1, facts)
        if smaller is None:
            break
        terms, limit = smaller
    if nonneg(terms.shift(-limit), facts):
        return TRUE
    if nonneg(terms.scale(-1).shift(limit - 1), facts):
        return FALSE
    return _above(terms, limit, facts)


def _reduced(terms: Affine, limit: int, up: int, facts: Facts) -> tuple[Affine, int] | None:
    """Divide by a common factor, dropping terms too small to matter; None if nothing becomes smaller.

    step * major + minor <= limit is major <= (limit - minor) // step, if that is the same for every value of minor.
    `up` rounds up instead, for the lower limit.
    """
    items = sorted(terms.terms.items(), key=lambda item: -abs(item[1]))
    step = 0
    for i, (_, k) in enumerate(items):
        step = gcd(step, k)
        if step == 1:
            return None
        below = dict(items[i + 1 :])
        lo, hi = terms_bounds(items[i + 1 :], 0, facts)
        if lo == -inf or hi == inf:
            continue
        first, last = limit - int(hi), limit - int(lo)
        if up:
            first, last = -(-first // step), -(-last // step)
        else:
            first, last = first // step, last // step
        if first == last:
            return Affine({a: j // step for a, j in terms.terms.items() if a not in below}, 0, terms.dtype), first
    return None


def _undivided(terms: Affine, limit: int, up: int, facts: Facts) -> tuple[Affine, int] | None:
    """Rewrite `a + x // c <= limit` to `a*c + x <= limit*c + c-1` if that prints no longer; likewise with `(x % d) //
    c`.

    With `up`, for limit <= a + x // c, which is limit*c <= a*c + x.
    """
    for atom, k in terms.terms.items():
        held = facts.splits.get(atom)
        if held is None or held.low == 1 or k != 1 or (held.high and len(terms.terms) > 1):
            continue
        others = {a: j for a, j in terms.terms.items() if a is not atom}
        if any(j in (1, -1) for j in others.values()):
            continue
        base = remainder(held.base, held.high, facts) if held.high else held.base
        form = Affine(others, 0, terms.dtype).scale(held.low).plus(base, 1)
        if others and not has_room(form, facts):
            continue
        last = 0 if up else held.low - 1
        return Affine(form.terms, 0, form.dtype), limit * held.low + last - form.const
    return None


def _below(terms: Affine, limit: int, facts: Facts) -> Expr:
    """`terms < limit` as printed: sizes stand alone on the right."""
    sizes, others = _parted(terms)
    if sizes is None:
        if not has_room(terms, facts):
            return _apart(n.LT if limit == 0 else n.LE, terms, limit - (limit == 1))
        return n.LT(write(terms, facts), immediate(limit, terms.dtype))
    if limit < 0:
        others, limit = others.shift(-limit), 0
    sizes = sizes.scale(-1).shift(limit)
    _require_room(others, sizes, facts)
    return n.LT(write(others, facts), write(sizes, facts))


def _above(terms: Affine, limit: int, facts: Facts) -> Expr:
    """`limit <= terms` as printed; if sizes stand alone, `others < sizes` or `sizes <= others`."""
    sizes, others = _parted(terms)
    if sizes is None:
        if not has_room(terms, facts):
            return _apart(n.LT if limit == 1 else n.LE, terms.scale(-1), limit - (limit == 1))
        return n.LE(immediate(limit, terms.dtype), write(terms, facts))
    if limit < 0:
        others, limit = others.shift(-limit), 0
    sizes = sizes.scale(-1).shift(limit)
    _require_room(others, sizes, facts)
    return n.LE(write(sizes, facts), write(others, facts))


def _require_room(others: Affine, sizes: Affine, facts: Facts) -> None:
    """Raise OverflowError if a side of a comparison might not fit: the comparison then stays as it is written."""
    if not has_room(others, facts) or not has_room(sizes, facts):
        raise OverflowError


def _apart(kind: Comparison, terms: Affine, limit: int) -> Expr:
    """`terms kind limit`, if a difference could overflow, as a comparison of its two atoms.

    Raises OverflowError if there are more terms: the comparison then stays as written.
    """
    if limit or sorted(terms.terms.values()) != [-1, 1] or any(type(atom) is n.Mul for atom in terms.terms):
        raise OverflowError
    a, b = sorted(terms.terms, key=terms.terms.__getitem__, reverse=True)
    return kind(a, b)


def turned(form: Affine) -> bool:
    """Whether to negate the form for printing, so that its largest term (sizes left out) is positive."""
    values = form.terms.values()
    if min(values) > 0 or max(values) < 0:
        return min(values) < 0
    terms = {a: k for a, k in form.terms.items() if not is_size(a)} or form.terms
    largest = max(map(abs, terms.values()))
    return next(k for k in terms.values() if abs(k) == largest) < 0


def _parted(terms: Affine) -> tuple[Affine | None, Affine]:
    """(the terms that are sizes, the other terms), if both exist and some are negative; else (None, all terms)."""
    if min(terms.terms.values()) > 0:
        return None, terms
    sizes = {a: k for a, k in terms.terms.items() if is_size(a)}
    others = {a: k for a, k in terms.terms.items() if a not in sizes}
    if not sizes or not others:
        return None, terms
    return Affine(sizes, 0, terms.dtype), Affine(others, 0, terms.dtype)


def _equality(e: Any, facts: Facts) -> Expr:
    if e.a is e.b and not e.a.dtype.is_float and e.a.dtype.lanes == 1:
        return TRUE if type(e) is n.EQ else FALSE
    if not is_index(e.a.dtype):
        return vectors.arithmetic(e, facts)
    try:
        alone = isinstance(e.a, IntImm) or isinstance(e.b, IntImm)
        return equality(type(e), difference(e.a, e.b, facts), facts, alone)
    except OverflowError:
        made: Expr = e.map_children(lambda child: visit(child, facts))
        return made


def equality(kind: Comparison, form: Affine, facts: Facts, alone: bool) -> Expr:
    """Return the simplest `form == 0`, or `form != 0`. `alone`: whether one side of the comparison was a constant."""
    yes, no = (TRUE, FALSE) if kind is n.EQ else (FALSE, TRUE)
    if not form.terms:
        return yes if form.const == 0 else no
    step = gcd(*form.terms.values())
    if form.const % step or _never_zero(form, facts):
        return no
    form = form.divided(step)
    if nonneg(form.shift(-1), facts) or nonneg(form.scale(-1).shift(-1), facts):
        return no
    if form.const == 0 and nonneg(form, facts) and nonneg(form.scale(-1), facts):
        return yes
    if turned(form):
        form = form.scale(-1)
    if len(form.terms) == 2 and sorted(form.terms.values()) == [-1, 1] and form.const == 0:
        (a, _), (b, _) = form.terms.items()
        return kind(a, b)
    terms = Affine(form.terms, 0, form.dtype)
    if not alone and len(form.terms) > 1 and not has_room(terms, facts):
        raise OverflowError  # the comparison stays as it is written
    return kind(write(terms, facts), immediate(-form.const, form.dtype))


def _never_zero(form: Affine, facts: Facts) -> bool:
    """Whether bounds or remainders keep the form from 0, at any of the steps that its coefficients suggest."""
    lo, hi = terms_bounds(form.terms.items(), form.const, facts)
    if lo > 0 or hi < 0:
        return True
    coeff, base = form_residues(form, facts)
    if coeff > 1 and base % coeff:
        return True
    items = sorted(form.terms.items(), key=lambda item: -abs(item[1]))
    step = 0
    for i, (_, k) in enumerate(items):
        step = gcd(step, k)
        if step == 1:
            break
        low, high = terms_bounds(items[i + 1 :], form.const, facts)
        if low != -inf and high != inf and int(low) // step == int(high) // step and low % step:
            return True
    return False


HANDLERS.update(dict.fromkeys((n.LT, n.LE, n.GT, n.GE), _ordering))
HANDLERS.update(dict.fromkeys((n.EQ, n.NE), _equality))
