"""Cancellation of digits: a sum that joins all digits of a number is that number.

    n = p // 196, y = p % 196 // 14, x = p % 14:     n * 50176 + y * 3584 + x * 256     ->     p * 256

The rules of simplification find this only if all digits are written in one form, and earlier simplification may have
changed some. Here every quotient and remainder is expanded into floors of quotients; all of these except the first
cancel.
"""

from __future__ import annotations

from functools import lru_cache

from ..core.divisors import divisors
from ..expr.nodes import Expr, FloorDiv, FloorMod, IntImm
from .affine import Affine, immediate
from .facts import Facts
from .interval import form_bounds


def cancel_digits(e: Expr, facts: Facts) -> Expr:
    """Return an integer sum equal to `e` with fewer quotients and remainders by constants, or `e` itself."""
    form = Affine.of(e)
    expanded = Affine({}, form.const, form.dtype)
    for atom, k in form.terms.items():
        expanded = expanded.plus(_expanded(atom, facts), k)
    return expanded.to_expr() if _digits(expanded) < _digits(form) else e


def _digits(form: Affine) -> int:
    return sum(isinstance(atom, (FloorDiv, FloorMod)) for atom in form.terms)


def _expanded(atom: Expr, facts: Facts) -> Affine:
    """Return a digit in terms of floors: `x % m = x - m * (x // m)` and `x % m // d = x // d - m / d * (x // m)`."""
    divisor = _divisor(atom)
    if isinstance(atom, FloorMod) and divisor:
        whole = Affine.of(atom.a)
        return whole.plus(_floor(whole, divisor, facts), -divisor)
    if isinstance(atom, FloorDiv) and divisor:
        modulus = _divisor(atom.a)
        if isinstance(atom.a, FloorMod) and modulus and modulus % divisor == 0:
            whole = Affine.of(atom.a.a)
            high = _floor(whole, modulus, facts)
            return _floor(whole, divisor, facts).plus(high, -(modulus // divisor))
        return _floor(Affine.of(atom.a), divisor, facts)
    return Affine({atom: 1}, 0, atom.dtype)


def _divisor(e: Expr) -> int:
    """The positive constant by which a quotient or remainder divides; 0 for other expressions."""
    return max(0, e.b.value) if isinstance(e, (FloorDiv, FloorMod)) and isinstance(e.b, IntImm) else 0


def _floor(form: Affine, divisor: int, facts: Facts) -> Affine:
    """The floor of form / divisor, with all provably whole terms outside of the quotient.

    It is taken by factors of the divisor: x // (f * g) = x // f // g. A factor is good if the terms that it does not
    divide stay below it, or are a single one.
    """
    for factor in _factors(divisor):
        whole = {atom: k // factor for atom, k in form.terms.items() if k % factor == 0}
        rest = Affine({atom: k for atom, k in form.terms.items() if k % factor}, form.const % factor, form.dtype)
        outside = Affine(whole, form.const // factor, form.dtype)
        low, high = form_bounds(rest, facts)
        if low >= 0 and high < factor:
            return _floor(outside, divisor // factor, facts) if factor < divisor else outside
        ((atom, k), *others) = rest.terms.items()
        if whole and not others and k == 1 and not rest.const:
            outside = outside.plus(_quotient(atom, factor, facts), 1)
            return _floor(outside, divisor // factor, facts) if factor < divisor else outside
    return _quotient(form.to_expr(), divisor, facts)


@lru_cache(maxsize=1024)
def _factors(number: int) -> tuple[int, ...]:
    """All factors of a number but 1, the largest first."""
    return tuple(reversed(divisors(number)[1:]))


def _quotient(e: Expr, divisor: int, facts: Facts) -> Affine:
    """e // divisor as one term; a quotient of a quotient becomes one quotient."""
    inner = _divisor(e)
    if isinstance(e, FloorDiv) and inner:
        return _floor(Affine.of(e.a), inner * divisor, facts)
    return Affine({FloorDiv(e, immediate(divisor, e.dtype)): 1}, 0, e.dtype)
