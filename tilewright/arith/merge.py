"""Joining quotients and remainders of one number within a sum."""

from __future__ import annotations

from ..expr.nodes import Expr
from .affine import Affine
from .facts import Facts
from .splits import Digits, Quotient, digits, quotient, remainder


def merge(form: Affine, facts: Facts) -> Affine:
    """Combine the matching splits of a form."""
    while len(form.terms) > 1:
        pieces = [(atom, k, facts.splits[atom]) for atom, k in form.terms.items() if atom in facts.splits]
        found = _join(form, pieces, facts) or _complement(form, pieces, facts) if pieces else None
        if found is None and facts.shares:
            found = _join_shares(form, facts)
        if found is None:
            break
        form = found
    return form


def _join_shares(form: Affine, facts: Facts) -> Affine | None:
    """x // d * d + x % d is x, for symbolic divisors; x - truncdiv(x, d) * d is truncmod(x, d)."""
    for atom, k in form.terms.items():
        share = facts.shares.get(atom)
        if isinstance(share, Quotient):
            scale, odd = divmod(-k, share.divisor)
            if not odd and _holds(form, share.base, scale):
                rest = Affine({share.rest: 1}, -share.base.const, form.dtype)
                return _replaced(form, {*share.base.terms, atom}, rest, scale)
        elif share is not None and _holds(form, share.multiple, k):
            return _replaced(form, {*share.multiple.terms, atom}, share.base, k)
    return None


Pieces = list[tuple[Expr, int, Digits]]


def _join(form: Affine, pieces: Pieces, facts: Facts) -> Affine | None:
    """Rewrite `(x % a) // b * (b // c) + (x % b) // c` to `(x % a) // c`; without the a, to `x // c`."""
    for atom, k, below in pieces:
        if not below.high:
            continue
        for other, j, above in pieces:
            if above.low != below.high or j * below.low != k * above.low:
                continue
            if above.low % below.low:
                continue
            if above.high % above.low:  # the digit below is then that of x % a itself, perhaps in another form
                whole = remainder(above.base, above.high, facts)
                if _congruent(whole, below.base, above.low):
                    return _replaced(form, {atom, other}, quotient(whole, below.low, facts), k)
            elif _congruent(above.base, below.base, above.low):
                if above.high:
                    joined = digits(above.base, below.low, above.high, facts)
                else:
                    joined = quotient(above.base, below.low, facts)
                return _replaced(form, {atom, other}, joined, k)
    return None


def _complement(form: Affine, pieces: Pieces, facts: Facts) -> Affine | None:
    """x - x // c * c is x % c, and x - x % c is x // c * c."""
    for atom, j, (base, low, high) in pieces:
        scale, odd = divmod(-j, low)
        if not high and not odd and _holds(form, base, scale):
            joined = remainder(base, low, facts).shift(-base.const)
            return _replaced(form, {*base.terms, atom}, joined, scale)
        if low == 1 and _holds(form, base, scale):
            joined = quotient(base, high, facts).scale(high).shift(-base.const)
            return _replaced(form, {*base.terms, atom}, joined, scale)
        if low > 1 and high and not odd and high % low == 0:
            for whole, k, other in pieces:
                if k == scale and other.low == 1 and other.high == high and _congruent(other.base, base, high):
                    return _replaced(form, {whole, atom}, remainder(base, low, facts), scale)
    return None


def _holds(form: Affine, base: Affine, scale: int) -> bool:
    """Whether the terms of scale * base are all in the form."""
    return all(form.terms.get(atom) == k * scale for atom, k in base.terms.items())


def _congruent(a: Affine, b: Affine, modulus: int) -> bool:
    """Whether a and b are always equal modulo `modulus`, term by term."""
    if a is b:
        return True
    if (a.const - b.const) % modulus:
        return False
    terms = b.terms
    for atom, k in a.terms.items():
        if (k - terms.get(atom, 0)) % modulus:
            return False
    return all(k % modulus == 0 for atom, k in terms.items() if atom not in a.terms)


def _replaced(form: Affine, gone: set[Expr], joined: Affine, scale: int) -> Affine:
    """`form` with `joined * scale` in place of the terms `gone`, at the place of the first of them."""
    terms: dict[Expr, int] = {}
    placed = False
    for atom, k in form.terms.items():
        if atom not in gone:
            terms[atom] = terms.get(atom, 0) + k
        elif not placed:
            placed = True
            for part, j in joined.terms.items():
                terms[part] = terms.get(part, 0) + j * scale
    return Affine({a: k for a, k in terms.items() if k}, form.const + joined.const * scale, form.dtype)
