"""Linear forms of the integer operators: the contribution of each to a sum."""

from __future__ import annotations

from typing import Any

from ..core.dtype import DType
from ..expr import nodes as n
from ..expr.nodes import Expr, IntImm
from ..expr.traverse import chain
from . import truncated
from .affine import Affine, immediate, unit_of
from .engine import FORMS, atom, linear, merged, opaque_atom, visit
from .facts import Facts, is_index
from .interval import bounds, form_bounds
from .products import factors, product, times, without
from .prove import nonneg
from .room import stays_within
from .splits import Remainder, quotient, remainder
from .write import write

_MOST_PRODUCTS = 16
_MOST_COMPARED = 64
"""The most arguments of a minimum that are all compared pairwise; beyond it, only arguments with the same atoms are."""


def _constant(e: IntImm, facts: Facts) -> Affine:
    return Affine({}, e.value, e.dtype)


def _variable(e: n.Var, facts: Facts) -> Affine:
    held = facts.ranges.get(e)
    if held is not None and isinstance(held[1], IntImm) and held[1].value == 1 and held[0].dtype == e.dtype:
        return linear(held[0], facts)
    lo, hi = bounds(e, facts)
    if lo == hi:
        return Affine({}, int(lo), e.dtype)
    unit, k = unit_of(e)
    return Affine({unit: k}, 0, e.dtype)


def _product(e: n.Mul, facts: Facts) -> Affine:
    """Return the form of a * b. Neither factor is written as a constant, but either may simplify to one."""
    a, b = linear(e.a, facts), linear(e.b, facts)
    if (len(a.terms) + 1) * (len(b.terms) + 1) > _MOST_PRODUCTS:
        return atom(n.Mul(write(a, facts), write(b, facts)))
    return merged(times(a, b, facts), facts)


def _floordiv(e: n.FloorDiv, facts: Facts) -> Affine:
    a, b = linear(e.a, facts), linear(e.b, facts)
    if not b.terms and b.const > 0:
        return quotient(a, b.const, facts)
    if not b.terms and b.const < 0 and form_bounds(a, facts)[0] > e.dtype.min_value:
        return quotient(a.scale(-1), -b.const, facts)
    return _symbolic_quotient(a, b, facts)[0] if b.terms else opaque_atom(e, facts)


def _floormod(e: n.FloorMod, facts: Facts) -> Affine:
    a, b = linear(e.a, facts), linear(e.b, facts)
    if not b.terms and b.const > 0:
        return remainder(a, b.const, facts)
    return _symbolic_quotient(a, b, facts)[1] if b.terms else opaque_atom(e, facts)


def _symbolic_quotient(a: Affine, b: Affine, facts: Facts) -> tuple[Affine, Affine]:
    """(a // b, a % b) for a divisor that is not constant."""
    whole, rest = _exact(a, b, facts)
    if (not rest.terms and not rest.const) or (nonneg(rest, facts) and nonneg((b - rest).shift(-1), facts)):
        return whole, rest
    if (whole.terms or whole.const) and not stays_within(rest, a, facts):
        whole, rest = Affine({}, 0, a.dtype), a
    top, bottom = write(rest, facts), write(b, facts)
    over, left = atom(n.FloorDiv(top, bottom)), n.FloorMod(top, bottom)
    if left not in facts.shares:
        facts.shares[left] = Remainder(rest, times(over, b, facts))
    return whole + over, atom(left)


def _exact(a: Affine, b: Affine, facts: Facts) -> tuple[Affine, Affine]:
    """(q, r) with a = q * b + r: the part of a that b divides, term by term, and the rest."""
    if len(b.terms) != 1 or b.const:
        lead = next(iter(b.terms))
        whole = a.terms.get(lead, 0) // b.terms[lead]
        return Affine({}, whole, a.dtype), a.plus(b, -whole)
    ((unit, scale),) = b.terms.items()
    wanted = factors(unit)
    quotients: dict[Expr, int] = {}
    const = 0
    rest: dict[Expr, int] = {}
    for part, k in a.terms.items():
        left = without(factors(part), wanted) if k % scale == 0 else None
        if left is None:
            rest[part] = k
        elif (one := product(left, facts)) is None:
            const += k // scale
        else:
            quotients[one] = quotients.get(one, 0) + k // scale
    return Affine(quotients, const, a.dtype), Affine(rest, a.const, a.dtype)


def _truncdiv(e: n.Div, facts: Facts) -> Affine:
    return _truncated(e, _floordiv, truncated.quotient, facts)


def _truncmod(e: n.Mod, facts: Facts) -> Affine:
    return _truncated(e, _floormod, truncated.remainder, facts)


def _truncated(e: Any, floored: Any, rounded: Any, facts: Facts) -> Affine:
    a, b = linear(e.a, facts), linear(e.b, facts)
    if not a.terms and not b.terms and b.const:
        size = abs(a.const) // abs(b.const)
        whole = size if (a.const < 0) == (b.const < 0) else -size
        return Affine({}, whole if isinstance(e, n.Div) else a.const - whole * b.const, e.dtype)
    if form_bounds(a, facts)[0] >= 0 and form_bounds(b, facts)[0] >= 0:
        found: Affine = floored(e, facts)
        return found
    return rounded(a, b, facts) or opaque_atom(e, facts)


def _extreme(e: Any, facts: Facts) -> Affine:
    """Min and Max, over all the arguments of a nest of them."""
    kind = type(e)
    kept = _best([linear(argument, facts) for argument in chain(e, kind)], 1 if kind is n.Min else -1, facts)
    unique = {write(form, facts): form for form in kept}
    if len(unique) == 1:
        return next(iter(unique.values()))
    parts = sorted(unique, key=lambda x: isinstance(x, IntImm))
    result = parts[0]
    for part in parts[1:]:
        result = kind(result, part)
        facts.forms.setdefault(result, atom(result))  # if no part decides alone, none is superfluous
    return atom(result)


def _best(forms: list[Affine], sign: int, facts: Facts) -> list[Affine]:
    """Return the forms that may be the least; with a `sign` of -1, the greatest."""
    few = len(forms) <= _MOST_COMPARED
    kept: list[Affine] = []
    alike: dict[frozenset[Expr], list[int]] = {}
    for form in forms:
        others = alike.setdefault(frozenset() if few else frozenset(form.terms), [])
        for i in others[-_MOST_COMPARED:]:
            gap = merged((form - kept[i]).scale(sign), facts)
            if nonneg(gap, facts):  # the other argument is at least as good
                break
            if nonneg(gap.scale(-1), facts):
                kept[i] = form
                break
        else:
            others.append(len(kept))
            kept.append(form)
    return kept


def _cast(e: n.Cast, facts: Facts) -> Affine:
    if is_index(e.value.dtype) and e.dtype.bits > e.value.dtype.bits and isinstance(e.value, _SPREADS):
        return linear(_widened(e.value, e.dtype), facts)
    value = visit(e.value, facts)
    while isinstance(value, n.Cast) and _cast_is_transparent(value, facts):
        value = value.value
    if value.dtype == e.dtype:
        return linear(value, facts)
    if isinstance(value, IntImm):
        return atom(immediate(value.value, e.dtype)) if _fits(value, e) else atom(n.Cast(e.dtype, value))
    return atom(n.Cast(e.dtype, value))


_SPREADS = (n.Add, n.Sub, n.Mul, n.FloorDiv, n.FloorMod, n.Div, n.Mod, n.Min, n.Max)


def _widened(e: Expr, to: DType) -> Expr:
    """An index computed in the type `to` throughout, so that sums of casts and casts of sums are equal."""
    if isinstance(e, IntImm):
        return immediate(e.value, to)
    if isinstance(e, _SPREADS):
        return type(e)(_widened(e.a, to), _widened(e.b, to))
    return n.Cast(to, e)


def _fits(value: IntImm, e: n.Cast) -> bool:
    return e.dtype.min_value <= value.value <= e.dtype.max_value


def _cast_is_transparent(e: n.Cast, facts: Facts) -> bool:
    """Whether a cast between integers provably keeps the value."""
    source, target = e.value.dtype, e.dtype
    if not source.is_int or not target.is_int or source.lanes != 1:
        return False
    if target.min_value <= source.min_value and source.max_value <= target.max_value:
        return True
    lo, hi = bounds(e.value, facts)
    return target.min_value <= lo and hi <= target.max_value


FORMS.update(
    {
        IntImm: _constant,
        n.Var: _variable,
        n.SizeVar: _variable,
        n.Mul: _product,
        n.FloorDiv: _floordiv,
        n.FloorMod: _floormod,
        n.Div: _truncdiv,
        n.Mod: _truncmod,
        n.Min: _extreme,
        n.Max: _extreme,
        n.Cast: _cast,
        n.Load: opaque_atom,
        n.Call: opaque_atom,
    }
)
