"""Quotients and remainders that round toward zero, of linear forms of unknown sign.

Dividends and divisors that are not negative are left to `splits`: rounding down is the same there.
"""

from __future__ import annotations

from math import gcd

from ..expr.nodes import Div, Expr, FloorDiv, FloorMod, IntImm, Mod
from ..expr.traverse import post_order
from . import splits
from .affine import Affine, immediate
from .engine import atom, linear
from .facts import Facts, is_index
from .interval import bounds, form_bounds
from .write import write


def quotient(a: Affine, b: Affine, facts: Facts) -> Affine | None:
    """The form of truncdiv(a, b); None if the operator stays as it is."""
    if b.terms:
        return Affine({}, 1, a.dtype) if a.same(b) else None
    divisor = b.const
    size = abs(divisor)
    step = gcd(*a.terms.values(), a.const, size)
    if not divisor or divisor == a.dtype.min_value:
        return None
    if step == size:
        return a.divided(size).scale(1 if divisor > 0 else -1)
    low, high = form_bounds(a, facts)
    if -size < low and high < size:
        return Affine({}, 0, a.dtype)
    if divisor < 0:
        return splits.quotient(a, size, facts).scale(-1) if low >= 0 else None
    return _whole(a.divided(step), divisor // step, facts)


def _whole(a: Affine, divisor: int, facts: Facts) -> Affine:
    """truncdiv(a, divisor), with truncdiv(truncdiv(x, c), d) as truncdiv(x, c * d)."""
    if len(a.terms) == 1 and not a.const:
        ((inner, k),) = a.terms.items()
        if k == 1 and isinstance(inner, Div) and isinstance(inner.b, IntImm) and inner.b.value > 0:
            both = immediate(inner.b.value * divisor, a.dtype)
            return linear(Div(inner.a, both), facts)
    top, bottom = write(a, facts), immediate(divisor, a.dtype)
    made = Div(top, bottom)
    if made not in facts.shares:
        facts.shares[made] = splits.Quotient(a, divisor, Mod(top, bottom))
    return atom(made)


def remainder(a: Affine, b: Affine, facts: Facts) -> Affine | None:
    """The form of truncmod(a, b), which has the sign of a; None if the operator stays as it is."""
    if b.terms:
        return Affine({}, 0, a.dtype) if a.same(b) else None
    size = abs(b.const)
    if not size or b.const == a.dtype.min_value:
        return None
    step = gcd(*a.terms.values(), a.const, size)
    if step == size:
        return Affine({}, 0, a.dtype)
    low, high = form_bounds(a, facts)
    if -size < low and high < size:
        return a
    if low >= 0:
        return splits.remainder(a, size, facts)
    a, size = a.divided(step), size // step
    left = Mod(write(a, facts), immediate(size, a.dtype))
    if left not in facts.shares:
        facts.shares[left] = splits.Remainder(a, _whole(a, size, facts).scale(size))
    return atom(left).scale(step)


def as_written(found: Expr, source: Expr, facts: Facts) -> Expr:
    """Return the result with divisions that round toward zero, if its source has no other divisions."""
    if not any(isinstance(at, (Div, Mod)) and is_index(at.dtype) for at in post_order(source)):
        return found
    if any(isinstance(at, (FloorDiv, FloorMod)) for at in post_order(source)):
        return found
    memo: dict[Expr, Expr] = {}

    def visit(e: Expr) -> Expr:
        made = memo.get(e)
        if made is None:
            made = e.map_children(visit)
            if isinstance(made, (FloorDiv, FloorMod)) and all(bounds(part, facts)[0] >= 0 for part in (made.a, made.b)):
                made = (Div if isinstance(made, FloorDiv) else Mod)(made.a, made.b)
            memo[e] = made
        return made

    return visit(found)
