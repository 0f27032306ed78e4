"""Quotients and remainders of linear forms by positive constants.

Every such atom is a `Digits`: the digits `(base % high) // low` of a linear form. Forms are first divided as far as
they go exactly; the rest becomes a split, so that matching splits can be merged again. For example, `(x % 12) // 4 * 4
+ x % 4` is `x % 12`, and `x // 12 * 12 + x % 12` is x.
"""

from __future__ import annotations

from math import gcd, inf
from typing import NamedTuple

from ..expr.nodes import Expr, FloorDiv, FloorMod
from .affine import Affine, immediate
from .facts import Facts
from .interval import bounds, form_bounds, terms_bounds
from .modular import form_residues
from .room import has_room, stays_within, terms_have_room
from .write import write


class Digits(NamedTuple):
    """(base % high) // low; high 0 stands for no remainder taken."""

    base: Affine
    low: int
    high: int


class Quotient(NamedTuple):
    """The dividend and the divisor of a quotient that rounds toward zero, and the remainder."""

    base: Affine
    divisor: int
    rest: Expr


class Remainder(NamedTuple):
    """The partners of a remainder x % d: x, and x // d * d multiplied out."""

    base: Affine
    multiple: Affine


def quotient(form: Affine, divisor: int, facts: Facts) -> Affine:
    """form // divisor, for a divisor > 0. The form is the dividend of a program: its value fits its type."""
    if divisor == 1:
        return form
    whole: dict[Expr, int] = {}
    rest: dict[Expr, int] = {}
    for atom, k in form.terms.items():
        if k % divisor:
            rest[atom] = k
        else:
            whole[atom] = k // divisor
    left = form.const % divisor
    const = form.const // divisor
    if not rest:
        return Affine(whole, const, form.dtype)
    lo, hi = terms_bounds(rest.items(), left, facts)
    if lo != -inf and hi != inf and lo // divisor == hi // divisor:
        return Affine(whole, const + int(lo) // divisor, form.dtype)
    dividend = _dividend(rest, form, divisor, facts)
    if dividend.const != left:
        const = (form.const - dividend.const) // divisor
    if len(dividend.terms) > len(rest):
        whole = {}
    result = _quotient(dividend, divisor, facts)
    if whole:
        return (Affine(whole, const, form.dtype)).plus(result, 1)
    return result.shift(const)


def _dividend(rest: dict[Expr, int], form: Affine, divisor: int, facts: Facts) -> Affine:
    """Return the terms `rest` of a form, with a constant from 0 to divisor - 1.

    The other terms are multiples of the divisor. If this sum might not fit its type, return the form itself, or the
    form with a smaller constant of the same sign.
    """
    const, dtype = form.const, form.dtype
    left = const % divisor
    alike = len(rest) == len(form.terms)
    if (alike and left == const) or terms_have_room(rest.items(), left, dtype, facts):
        return Affine(rest, left, dtype)
    nearer = Affine(form.terms, left - divisor if left and const < 0 else left, dtype)
    return nearer if alike and stays_within(nearer, form, facts) else form


def _quotient(form: Affine, divisor: int, facts: Facts) -> Affine:
    """Return the quotient of a form, if its bounds do not make the quotient constant."""
    if facts.residue:
        coeff, base = form_residues(form, facts)
        surplus = base % gcd(coeff, divisor)  # lies below every step that the quotient can see
        if surplus and has_room(form.shift(-surplus), facts):
            return quotient(form.shift(-surplus), divisor, facts)
    parts = factor(form, divisor, facts)
    if parts is not None:
        return quotient(parts.major, divisor // parts.step, facts)
    if not facts.splits.keys().isdisjoint(form.terms):
        lifted = _lifted(form, facts)
        if lifted is not None:
            return digits(lifted.base, divisor, lifted.high, facts)
    pulled = _pull(form, facts, 1)
    if pulled is not None:
        if not pulled.high:
            return quotient(pulled.base, pulled.low * divisor, facts)
        return digits(pulled.base, pulled.low * divisor, pulled.high, facts)
    return _split_atom(form, divisor, 0, facts)


def remainder(form: Affine, divisor: int, facts: Facts) -> Affine:
    """form % divisor, for a divisor > 0. The form is the dividend of a program: its value fits its type."""
    rest = {atom: k for atom, k in form.terms.items() if k % divisor}
    if not rest:
        return Affine({}, form.const % divisor, form.dtype)
    form = _dividend(rest, form, divisor, facts)
    return _unwrapped(form, divisor, facts) or _remainder(form, divisor, facts)


def _unwrapped(form: Affine, modulus: int, facts: Facts) -> Affine | None:
    """form % modulus without the operator, if all values lie within one period.

    If it helps, coefficients are reduced modulo `modulus`: to 0 and above, then to the range around 0.
    """
    terms = form.terms
    for attempt in range(3):
        lo, hi = terms_bounds(terms.items(), form.const, facts)
        if lo != -inf and hi != inf and lo // modulus == hi // modulus:
            return Affine(terms, form.const - int(lo) // modulus * modulus, form.dtype)
        centre = attempt * modulus // 2
        terms = {atom: (k + centre) % modulus - centre for atom, k in form.terms.items() if k % modulus}
    return None


def _remainder(form: Affine, divisor: int, facts: Facts) -> Affine:
    if facts.residue:
        coeff, base = form_residues(form, facts)
        if coeff % divisor == 0:
            return Affine({}, base % divisor, form.dtype)
    parts = factor(form, divisor, facts)
    if parts is not None:
        high = remainder(parts.major, divisor // parts.step, facts)
        return parts.minor.plus(high, parts.step)
    for atom, k in form.terms.items():
        held = facts.splits.get(atom)
        if held is not None and held.high and held.high % held.low == 0 and held.high // held.low * k % divisor == 0:
            opened = _without(form, atom).plus(quotient(held.base, held.low, facts), k)
            if has_room(opened, facts):
                return remainder(opened, divisor, facts)
    pulled = _pull(form, facts, 0)
    if pulled is not None and not pulled.high:
        return digits(pulled.base, pulled.low, pulled.low * divisor, facts)
    return _split_atom(_shortened(form, divisor, facts), 1, divisor, facts)


def _shortened(form: Affine, modulus: int, facts: Facts) -> Affine:
    """The form modulo `modulus`, with the coefficients 1 and -1 if possible.

    Other coefficients stay: the quotient beside a remainder then has the same dividend, and one division serves both.
    """
    terms: dict[Expr, int] = {}
    for atom, k in form.terms.items():
        least = k % modulus
        if least:
            terms[atom] = k if k in (1, -1) else 1 if least == 1 else -1 if least == modulus - 1 else k
    if terms == form.terms:
        return _dividend(terms, form, modulus, facts)
    shorter = Affine(terms, form.const % modulus, form.dtype)
    return shorter if has_room(shorter, facts) else form


class Factored(NamedTuple):
    """step * major + minor, with 0 <= minor < step."""

    step: int
    major: Affine
    minor: Affine


def factor(form: Affine, divisor: int, facts: Facts) -> Factored | None:
    """`form` with the largest step > 1 that divides `divisor`; None if there is none."""
    steps = [gcd(k, divisor) for k in form.terms.values()]
    if max(steps) == 1:
        return None
    items = sorted(zip(steps, form.terms.items(), strict=True), key=lambda item: -item[0])
    step = divisor
    for i, (own, _) in enumerate(items):
        step = gcd(step, own)
        if step == 1:
            return None
        if i + 1 < len(items) and items[i + 1][0] % step == 0:
            continue
        below = dict(item for _, item in items[i + 1 :])
        left = form.const % step
        lo, hi = terms_bounds(below.items(), left, facts)
        if lo == -inf or hi == inf or lo // step != hi // step:
            continue
        shift = int(lo) // step
        above = {atom: k // step for atom, k in form.terms.items() if atom not in below}
        minor = {atom: k for atom, k in form.terms.items() if atom in below}
        return Factored(
            step,
            Affine(above, form.const // step + shift, form.dtype),
            Affine(minor, left - shift * step, form.dtype),
        )
    return None


def _pull(form: Affine, facts: Facts, units: int) -> Digits | None:
    """`form` as one quotient, a + b // c = (a*c + b) // c, if it holds such a quotient.

    A part of `form` alone may have a remainder taken too. At most `units` of the other terms may have the coefficient
    1, as each of them costs a product.
    """
    splits: dict[Expr, Digits] = facts.splits
    if splits.keys().isdisjoint(form.terms):
        return None
    for atom, k in form.terms.items():
        held = splits.get(atom)
        if k == 1 and len(form.terms) == 1 and form.const == 0:
            return held
        if k == 1 and held is not None and not held.high:
            others = _without(form, atom)
            if sum(j in (1, -1) for j in others.terms.values()) <= units:
                base = others.scale(held.low).plus(held.base, 1)
                if has_room(base, facts):
                    return Digits(base, held.low, 0)
    return None


def _lifted(form: Affine, facts: Facts) -> Digits | None:
    """Return `form` as one remainder, `(x % c) * k + y = (x*k + y) % (c*k)` for `0 <= y < k`, if that prints no
    longer."""
    for atom, k in form.terms.items():
        held = facts.splits.get(atom)
        if k > 1 and held is not None and held.low == 1:
            others = _without(form, atom)
            lo, hi = form_bounds(others, facts)
            if lo >= 0 and hi < k and sum(j in (1, -1) for j in held.base.terms.values()) <= 1:
                base = held.base.scale(k).plus(others, 1)
                if has_room(base, facts):
                    return Digits(base, 1, held.high * k)
    return None


def digits(base: Affine, low: int, high: int, facts: Facts) -> Affine:
    """(base % high) // low, after the remainder has been reduced as far as possible."""
    if low == 1:
        return remainder(base, high, facts)
    if high <= low:
        return Affine({}, 0, base.dtype)
    plain = _unwrapped(base, high, facts)
    if plain is not None:
        return quotient(plain, low, facts)
    if high % low == 0:
        parts = factor(base, low, facts)
        if parts is not None:
            step = parts.step
            return digits(parts.major, low // step, high // step, facts)
        if any(k in (low, -low) for k in base.terms.values()):
            opened = quotient(base, low, facts)
            if not _is_quotient(opened, base, low, facts):
                return remainder(opened, high // low, facts)
    return _split_atom(_shortened(base, high, facts), low, high, facts)


def _is_quotient(form: Affine, base: Affine, low: int, facts: Facts) -> bool:
    """Whether a form is just `base // low`: a divisible term stays in the dividend if the rest may not fit."""
    held = facts.splits.get(next(iter(form.terms))) if len(form.terms) == 1 and not form.const else None
    return held is not None and not held.high and held.low == low and held.base.key() == base.key()


def _split_atom(base: Affine, low: int, high: int, facts: Facts) -> Affine:
    """The form of one split. Under the same facts, equal splits are one atom, in any order of terms."""
    terms = base.terms
    if high:
        terms = {atom: k % high for atom, k in terms.items()}
    key: tuple[object, ...] = (frozenset(terms.items()), base.const, low, high, base.dtype)
    atom = facts.split_atoms.get(key)
    if atom is not None and high and not _computes(facts.splits[atom].base, base, facts):
        key = (*key, base.key())
        atom = facts.split_atoms.get(key)
    if atom is None:
        atom = write(base, facts)
        if high:
            atom = FloorMod(atom, immediate(high, base.dtype))
        if low > 1:
            atom = FloorDiv(atom, immediate(low, base.dtype))
        facts.split_atoms[key] = atom
        facts.splits[atom] = Digits(base, low, high)
    if facts.low or facts.high:  # a condition may have fixed the value of the split
        least, most = bounds(atom, facts)
        if least == most:
            return Affine({}, int(least), base.dtype)
    return Affine({atom: 1}, 0, base.dtype)


def _computes(held: Affine, base: Affine, facts: Facts) -> bool:
    """Whether a form that is congruent to `base` may be computed if `base` is."""
    return held.terms == base.terms or has_room(held, facts)


def _without(form: Affine, atom: Expr) -> Affine:
    return Affine({a: k for a, k in form.terms.items() if a is not atom}, form.const, form.dtype)
