"""Modular sets: facts about an integer expression's remainder."""

from __future__ import annotations

from collections.abc import Callable
from math import gcd
from typing import Any, NamedTuple

from ..expr import nodes as n
from ..expr.nodes import Expr, IntImm
from .affine import Affine
from .facts import EMPTY, Facts, common_residues, is_index
from .interval import bounds

Pair = tuple[int, int]
_ANY: Pair = (1, 0)


class Modular(NamedTuple):
    """The values coeff * k + base for integers k; with coeff 0, the constant base."""

    coeff: int
    base: int


def modular(e: Expr, facts: Facts = EMPTY) -> Modular:
    """The tightest such set found for an integer expression; base lies in [0, coeff) if coeff > 0."""
    return Modular(*residues(e, facts))


def residues(e: Expr, facts: Facts) -> Pair:
    """`modular` as a plain pair, memoised."""
    found = facts.modular.get(e)
    if found is None:
        facts.modular[e] = _ANY  # stands while ranges that refer to each other are looked at
        found = _RESIDUES.get(type(e), _any)(e, facts)
        known = facts.residue.get(e)
        if known is not None:
            found = common_residues(found, known)
        facts.modular[e] = found
    return found


def form_residues(form: Affine, facts: Facts) -> Pair:
    """The residues of a linear form."""
    coeff, base = 0, form.const
    for atom, k in form.terms.items():
        c, b = residues(atom, facts)
        coeff = gcd(coeff, c * k)
        base += b * k
        if coeff == 1:
            return _ANY
    return _normal(coeff, base)


def _normal(coeff: int, base: int) -> Pair:
    return (coeff, base % coeff) if coeff else (0, base)


def _either(a: Pair, b: Pair) -> Pair:
    """Values of one set or the other."""
    return _normal(gcd(a[0], b[0], a[1] - b[1]), a[1])


def _any(e: Expr, facts: Facts) -> Pair:
    return _ANY


def _constant(e: IntImm, facts: Facts) -> Pair:
    return 0, e.value


def _variable(e: n.Var, facts: Facts) -> Pair:
    held = facts.ranges.get(e)
    if held is not None and isinstance(held[1], IntImm) and held[1].value == 1:
        return residues(held[0], facts)
    return e.known.multiple_of, 0


def _linear(e: Any, facts: Facts) -> Pair:
    if not is_index(e.dtype):
        return _ANY
    form = Affine.of(e)
    if len(form.terms) == 1 and e in form.terms:
        return _product(e, facts)
    return form_residues(form, facts)


def _product(e: Any, facts: Facts) -> Pair:
    (c, b), (d, a) = residues(e.a, facts), residues(e.b, facts)
    return _normal(gcd(c * d, c * a, d * b), a * b)


def _floordiv(e: Any, facts: Facts) -> Pair:
    coeff, base = residues(e.a, facts)
    if isinstance(e.b, IntImm) and e.b.value > 0 and is_index(e.dtype) and coeff % e.b.value == 0:
        return _normal(coeff // e.b.value, base // e.b.value)
    return _ANY


def _truncdiv(e: Any, facts: Facts) -> Pair:
    """A quotient that rounds towards zero is rounded down if the dividend is not negative, or divides evenly."""
    if not isinstance(e.b, IntImm) or e.b.value <= 0 or not is_index(e.dtype):
        return _ANY
    coeff, base = residues(e.a, facts)
    if coeff % e.b.value == 0 and ((coeff and base == 0) or bounds(e.a, facts)[0] >= 0):
        return _normal(coeff // e.b.value, base // e.b.value)
    return _ANY


def _call(e: n.Call, facts: Facts) -> Pair:
    """A shift to the right is a quotient that rounds down."""
    if e.name != "shift_right" or not is_index(e.dtype) or not isinstance(e.args[1], IntImm):
        return _ANY
    if not 0 <= e.args[1].value < e.dtype.bits:
        return _ANY
    coeff, base = residues(e.args[0], facts)
    by = 1 << e.args[1].value
    return _normal(coeff // by, base // by) if coeff % by == 0 else _ANY


def _floormod(e: Any, facts: Facts) -> Pair:
    coeff, base = residues(e.a, facts)
    if not isinstance(e.b, IntImm) or e.b.value <= 0 or not is_index(e.dtype):
        return _ANY
    divisor = e.b.value
    if coeff == 0 or coeff % divisor == 0:
        return 0, base % divisor
    return _normal(gcd(coeff, divisor), base)


def _extreme(e: Any, facts: Facts) -> Pair:
    return _either(residues(e.a, facts), residues(e.b, facts))


def _choice(e: Any, facts: Facts) -> Pair:
    return _either(residues(e.true_value, facts), residues(e.false_value, facts))


def _cast(e: n.Cast, facts: Facts) -> Pair:
    widens = is_index(e.dtype) and e.value.dtype.is_int and e.dtype.bits >= e.value.dtype.bits
    return residues(e.value, facts) if widens and is_index(e.value.dtype) else _ANY


_RESIDUES: dict[type, Callable[[Any, Facts], Pair]] = {
    IntImm: _constant,
    n.Var: _variable,
    n.SizeVar: _variable,
    n.Add: _linear,
    n.Sub: _linear,
    n.Mul: _linear,
    n.FloorDiv: _floordiv,
    n.FloorMod: _floormod,
    n.Div: _truncdiv,
    n.Call: _call,
    n.Min: _extreme,
    n.Max: _extreme,
    n.Select: _choice,
    n.IfThenElse: _choice,
    n.Cast: _cast,
}
