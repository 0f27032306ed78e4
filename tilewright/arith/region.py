"""Symbolic extremes: the region that an index sweeps while some of its variables vary."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import product
from math import gcd, inf
from typing import Any, NamedTuple

from ..expr import nodes as n
from ..expr.nodes import Expr, IntImm, Var
from ..expr.traverse import uses_any
from .affine import Affine, immediate
from .assume import ready
from .engine import difference, linear, merged
from .facts import EMPTY, Bound, Facts, Range, is_index
from .interval import bounds, form_bounds
from .modular import form_residues
from .prove import in_terms_of_arguments, nonneg
from .room import has_room
from .rules.conversions import keeps
from .splits import Digits, quotient, remainder
from .write import write

_MOST_CHOICES = 32


class Ends(NamedTuple):
    """The least and the largest value; whether both are reached; and the direction in each variable.

    A direction is 1 or -1 if the value rises or falls with the variable, 0 if it does neither.
    """

    lo: Affine
    hi: Affine
    exact: bool
    directions: dict[Var, int]


class Extremes(NamedTuple):
    """Bounds of an expression over relaxed variables; `exact` if both are reached."""

    lo: Expr
    hi: Expr
    exact: bool


def extremes(e: Expr, relaxed: Mapping[Var, Range], facts: Facts = EMPTY) -> Extremes | None:
    """Symbolic bounds of e while each relaxed variable takes every value of its (min, extent) range.

    The other variables stay symbolic. None if no bound is found.
    """
    inner = facts.bind_all(relaxed)
    ready(inner)
    try:
        return _extremes(linear(e, inner), relaxed, inner)
    except OverflowError:  # an end does not fit the type
        return None


def _extremes(form: Affine, relaxed: Mapping[Var, Range], inner: Facts) -> Extremes | None:
    ends: Ends | None = Ends(form, form, True, {})
    for _ in range(len(relaxed) + 1):  # a range may depend on another relaxed variable
        assert ends is not None
        if not (_varies(ends.lo, relaxed) or _varies(ends.hi, relaxed)):
            return Extremes(write(ends.lo, inner), write(ends.hi, inner), ends.exact)
        low, high = _sum(ends.lo, relaxed, inner), _sum(ends.hi, relaxed, inner)
        if low is None or high is None:
            return None
        ends = Ends(low.lo, high.hi, ends.exact and low.exact and high.exact, {})
    return None


def _varies(form: Affine, relaxed: Mapping[Var, Range]) -> bool:
    return any(uses_any(atom, relaxed) for atom in form.terms)


def _sum(form: Affine, relaxed: Mapping[Var, Range], facts: Facts) -> Ends | None:
    """Ends of a linear form: each term at the end that its sign asks for."""
    fixed = {atom: k for atom, k in form.terms.items() if not uses_any(atom, relaxed)}
    lo = hi = Affine(fixed, form.const, form.dtype)
    exact = True
    directions: dict[Var, int] = {}
    for atom, k in form.terms.items():
        if atom in fixed:
            continue
        ends = _atom(atom, relaxed, facts)
        if ends is None:
            return None
        low, high = (ends.lo, ends.hi) if k > 0 else (ends.hi, ends.lo)
        lo, hi = lo.plus(low, k), hi.plus(high, k)
        exact = exact and ends.exact
        sign = 1 if k > 0 else -1
        for var, direction in ends.directions.items():
            if var in directions and not directions[var] == direction * sign != 0:
                exact = False  # the two parts are extreme at different values of var
                directions[var] = 0
            else:
                directions[var] = direction * sign
    return Ends(merged(lo, facts), merged(hi, facts), exact, directions)


def _atom(e: Any, relaxed: Mapping[Var, Range], facts: Facts) -> Ends | None:
    held = facts.splits.get(e)
    known = _ATOMS if is_index(e.dtype) else _WRAPPING_ATOMS
    found = None
    with suppress(OverflowError):  # an end that is divided or compared does not fit the type
        if held is not None:
            found = _split(held, relaxed, facts)
        elif type(e) in known:
            found = known[type(e)](e, relaxed, facts)
    return found or _constant_ends(e, facts)


def _constant_ends(e: Expr, facts: Facts) -> Ends | None:
    """The constant bounds, if any."""
    lo, hi = bounds(e, facts)
    if lo == -inf or hi == inf:
        return None
    return Ends(Affine({}, int(lo), e.dtype), Affine({}, int(hi), e.dtype), False, {})


def _variable(e: Var, relaxed: Mapping[Var, Range], facts: Facts) -> Ends:
    low, extent = relaxed[e]
    lo = linear(low, facts)
    return Ends(lo, merged(lo + linear(extent, facts), facts).shift(-1), True, {e: 1})


def _split(held: Digits, relaxed: Mapping[Var, Range], facts: Facts) -> Ends | None:
    ends = _sum(held.base, relaxed, facts)
    if held.high:
        full = _remainder(held.base, held.high, ends, relaxed, facts)
    elif ends is None:
        return None
    else:
        full = ends
    if held.low == 1:
        return full
    _require_room(full, facts)
    return full._replace(lo=quotient(full.lo, held.low, facts), hi=quotient(full.hi, held.low, facts))


def _fit(ends: Ends, facts: Facts) -> bool:
    """Whether the ends fit their type: the program computes the ends that it reaches."""
    return ends.exact or (has_room(ends.lo, facts) and has_room(ends.hi, facts))


def _require_room(ends: Ends, facts: Facts) -> None:
    """OverflowError if an end does not fit its type."""
    if not _fit(ends, facts):
        raise OverflowError


def _remainder(base: Affine, divisor: int, ends: Ends | None, relaxed: Mapping[Var, Range], facts: Facts) -> Ends:
    """base % divisor: exact if it does not wrap, or if one variable alone runs through every remainder."""
    if ends is not None and _fit(ends, facts):
        low, high = quotient(ends.lo, divisor, facts), quotient(ends.hi, divisor, facts)
        wraps = merged(high - low, facts)
        if not wraps.terms and wraps.const == 0:
            return ends._replace(lo=remainder(ends.lo, divisor, facts), hi=remainder(ends.hi, divisor, facts))
    covered = any(_runs_through(base, var, extent, divisor) for var, (_, extent) in relaxed.items())
    directions = {} if ends is None else dict.fromkeys(ends.directions, 0)
    return Ends(Affine({}, 0, base.dtype), Affine({}, divisor - 1, base.dtype), covered, directions)


def _runs_through(base: Affine, var: Var, extent: Expr, divisor: int) -> bool:
    """Whether the variable alone takes the form through every remainder."""
    step = base.terms.get(var)
    if step is None or gcd(step, divisor) != 1 or not isinstance(extent, IntImm) or extent.value < divisor:
        return False
    return not any(uses_any(atom, (var,)) for atom in base.terms if atom is not var)


def _extreme(e: Any, relaxed: Mapping[Var, Range], facts: Facts) -> Ends | None:
    """Min and Max of two parts."""
    a, b = _ends_of(e.a, relaxed, facts), _ends_of(e.b, relaxed, facts)
    if a is None or b is None:
        return None
    _require_room(a, facts)
    _require_room(b, facts)
    kind = type(e)
    exact = a.exact and b.exact
    directions = {**a.directions, **b.directions}
    for var in a.directions.keys() & b.directions.keys():
        if not a.directions[var] == b.directions[var] != 0:
            exact, directions[var] = False, 0
    return Ends(_pick(kind, a.lo, b.lo, facts), _pick(kind, a.hi, b.hi, facts), exact, directions)


def _pick(kind: Any, a: Affine, b: Affine, facts: Facts) -> Affine:
    return linear(kind(write(a, facts), write(b, facts)), facts)


def _choice(e: Any, relaxed: Mapping[Var, Range], facts: Facts) -> Ends | None:
    """Select and IfThenElse: from the lower of the lower ends to the higher of the higher ones."""
    a, b = _ends_of(e.true_value, relaxed, facts), _ends_of(e.false_value, relaxed, facts)
    if a is None or b is None:
        return None
    _require_room(a, facts)
    _require_room(b, facts)
    directions = dict.fromkeys([*a.directions, *b.directions], 0)
    return Ends(_pick(n.Min, a.lo, b.lo, facts), _pick(n.Max, a.hi, b.hi, facts), False, directions)


def _ends_of(e: Expr, relaxed: Mapping[Var, Range], facts: Facts) -> Ends | None:
    return _sum(linear(e, facts), relaxed, facts)


def _product(e: n.Mul, relaxed: Mapping[Var, Range], facts: Facts) -> Ends | None:
    """The range of a product with one symbolic side of known sign."""
    part, other = (e.a, e.b) if uses_any(e.a, relaxed) else (e.b, e.a)
    if uses_any(other, relaxed):
        return None
    ends = _ends_of(part, relaxed, facts)
    factor = linear(other, facts)
    if ends is None:
        return None
    if nonneg(factor, facts):
        return ends._replace(lo=_times(ends.lo, other, facts), hi=_times(ends.hi, other, facts))
    if nonneg(factor.scale(-1), facts):
        turned = {var: -direction for var, direction in ends.directions.items()}
        return Ends(_times(ends.hi, other, facts), _times(ends.lo, other, facts), ends.exact, turned)
    return None


def _times(form: Affine, factor: Expr, facts: Facts) -> Affine:
    return linear(n.Mul(write(form, facts), factor), facts)


def _floordiv(e: n.FloorDiv, relaxed: Mapping[Var, Range], facts: Facts) -> Ends | None:
    """A quotient by a positive divisor that is not constant, and stays."""
    if uses_any(e.b, relaxed) or not nonneg(linear(e.b, facts).shift(-1), facts):
        return None
    ends = _ends_of(e.a, relaxed, facts)
    if ends is None:
        return None
    _require_room(ends, facts)
    lo, hi = (linear(n.FloorDiv(write(end, facts), e.b), facts) for end in (ends.lo, ends.hi))
    return ends._replace(lo=lo, hi=hi)


def _floormod(e: n.FloorMod, relaxed: Mapping[Var, Range], facts: Facts) -> Ends | None:
    """A remainder of a positive divisor that is not constant, and stays."""
    divisor = linear(e.b, facts)
    if uses_any(e.b, relaxed) or not nonneg(divisor.shift(-1), facts):
        return None
    ends = _ends_of(e.a, relaxed, facts)
    if ends is not None and _fit(ends, facts):
        low, high = (n.FloorDiv(write(end, facts), e.b) for end in (ends.lo, ends.hi))
        if not (gap := difference(high, low, facts)).terms and gap.const == 0:
            lo, hi = (linear(n.FloorMod(write(end, facts), e.b), facts) for end in (ends.lo, ends.hi))
            return ends._replace(lo=lo, hi=hi)
    directions = {} if ends is None else dict.fromkeys(ends.directions, 0)
    return Ends(Affine({}, 0, e.dtype), divisor.shift(-1), False, directions)


def _cast(e: n.Cast, relaxed: Mapping[Var, Range], facts: Facts) -> Ends | None:
    """The range of an integer cast that keeps the values of both ends, and thus all values between them."""
    if not e.value.dtype.is_int or (ends := _ends_of(e.value, relaxed, facts)) is None:
        return None
    _require_room(ends, facts)
    if not keeps(e.value.dtype, e.dtype):
        spans = [form_bounds(end, facts) for end in (ends.lo, ends.hi)]
        if not all(e.dtype.min_value <= low and high <= e.dtype.max_value for low, high in spans):
            return None
    lo, hi = (linear(n.Cast(e.dtype, write(end, facts)), facts) for end in (ends.lo, ends.hi))
    return ends._replace(lo=lo, hi=hi)


_ATOMS: dict[type, Callable[[Any, Mapping[Var, Range], Facts], Ends | None]] = {
    n.Var: _variable,
    n.SizeVar: _variable,
    n.Min: _extreme,
    n.Max: _extreme,
    n.Select: _choice,
    n.IfThenElse: _choice,
    n.Mul: _product,
    n.FloorDiv: _floordiv,
    n.FloorMod: _floormod,
    n.Cast: _cast,
}
_WRAPPING_ATOMS = {kind: _ATOMS[kind] for kind in (n.Var, n.SizeVar, n.Min, n.Max, n.Select, n.IfThenElse, n.Cast)}
"""Operators that return one of their operands, so that wrapping does not matter."""


def solve_extent(lo: Expr, hi: Expr, facts: Facts = EMPTY) -> tuple[Expr, bool]:
    """hi - lo + 1, as a constant if possible, and whether it is exact; else it is an upper bound.

    OverflowError if it does not fit the type.
    """
    ready(facts)
    gap = difference(hi, lo, facts).shift(1)
    if not gap.terms:
        return immediate(gap.const, gap.dtype), True
    tighter, exact = _without_quotients(gap, facts)
    low = form_bounds(tighter, facts)[0]
    high = _most(tighter, facts, _MOST_CHOICES)
    if high != inf:
        return immediate(int(high), gap.dtype), exact and low == high
    return write(tighter, facts), exact


def _most(form: Affine, facts: Facts, budget: int) -> Bound:
    """The largest value of a form, with each Min and Max in it replaced by its arguments in turn.

    For a Max that is added, the result is the largest over its arguments. For a Min, each argument gives an upper
    bound.
    """
    plain = form_bounds(_without_quotients(form, facts)[0], facts)[1]
    found = in_terms_of_arguments(form, facts, n.Max) if budget > 1 else None
    if found is None:
        return plain
    every, forms = found
    worst = [_most(part, facts, budget // 2) for part in forms]
    return min(plain, max(worst) if every else min(worst))


def _without_quotients(form: Affine, facts: Facts) -> tuple[Affine, bool]:
    """Replace each x // c - y // c by its largest possible value, if x - y is bounded."""
    exact = True
    while True:
        pieces = [(a, k, facts.splits[a]) for a, k in form.terms.items() if a in facts.splits]
        for (x, k, above), (y, j, below) in product(pieces, pieces):
            if k > 0 and j == -k and above.low == below.low and not above.high and not below.high:
                difference = _quotient_difference(above.base, below.base, above.low, facts)
                if difference is not None:
                    least, most = difference
                    exact = exact and least == most
                    rest = {a: i for a, i in form.terms.items() if a is not x and a is not y}
                    form = Affine(rest, form.const + k * most, form.dtype)
                    break
        else:
            return form, exact


def _quotient_difference(x: Affine, y: Affine, divisor: int, facts: Facts) -> tuple[int, int] | None:
    """Bounds of x // divisor - y // divisor, from bounds of x - y and the remainders that y can leave."""
    lo, hi = form_bounds(merged(x - y, facts), facts)
    if lo == -inf or hi == inf:
        return None
    coeff, base = form_residues(y, facts)
    step = gcd(coeff, divisor)
    return (base % step + int(lo)) // divisor, (divisor - step + base % step + int(hi)) // divisor
