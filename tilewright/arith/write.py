"""How a simplified linear form is printed."""

from __future__ import annotations

from math import gcd
from operator import itemgetter

from ..expr.nodes import Expr, FloorDiv, Mul, SizeVar
from .affine import Affine, immediate, is_unit
from .facts import Facts
from .products import factors, product, size_name, without
from .room import stays_within


def write(form: Affine, facts: Facts) -> Expr:
    """The expression that a form is printed as."""
    if form.const and facts.splits:
        form = _absorbed(form, facts)
    if any(type(atom) is Mul for atom in form.terms):
        form = _factored(form, facts)
    return form.to_expr()


def _absorbed(form: Affine, facts: Facts) -> Affine:
    """x // c + k as (x + c*k) // c, if x has a constant anyway."""
    for atom, k in sorted(form.terms.items(), key=itemgetter(1), reverse=True):
        held = facts.splits.get(atom)
        if held is not None and not held.high and held.base.const and form.const % k == 0:
            base = held.base.shift(form.const // k * held.low)
            if not stays_within(base, held.base, facts):
                continue
            moved = FloorDiv(write(base, facts), immediate(held.low, form.dtype))
            return Affine({moved if a is atom else a: j for a, j in form.terms.items()}, 0, form.dtype)
    return form


def _factored(form: Affine, facts: Facts) -> Affine:
    """Products with a size as one: i*n*4 + j*n is (i*4 + j)*n."""
    while True:
        count: dict[Expr, int] = {}
        for atom in form.terms:
            for part in set(factors(atom)):
                if isinstance(part, SizeVar) or is_unit(part):
                    count[part] = count.get(part, 0) + 1
        shared = max(count, key=lambda part: (count[part], size_name(part)), default=None)
        if shared is None or count[shared] < 2:
            return form
        form = _gathered(form, shared, facts)


def _gathered(form: Affine, shared: Expr, facts: Facts) -> Affine:
    """The form with all products that have the factor `shared` as one atom."""
    inside: dict[Expr, int] = {}
    const = 0
    gone: set[Expr] = set()
    for atom, k in form.terms.items():
        left = without(factors(atom), [shared])
        if left is None:
            continue
        gone.add(atom)
        one = product(left, facts)
        if one is None:
            const = k
        else:
            inside[one] = k
    scale = gcd(const, *inside.values())
    if all(k < 0 for k in inside.values()) and const <= 0:
        scale = -scale
    total = Affine({a: k // scale for a, k in inside.items()}, const // scale, form.dtype)
    joined = Mul(write(total, facts), shared)
    terms: dict[Expr, int] = {}
    for atom, k in form.terms.items():
        if atom in gone:
            terms.setdefault(joined, scale)
        else:
            terms[atom] = k
    return Affine(terms, form.const, form.dtype)
