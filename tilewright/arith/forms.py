"""Linear forms of the integer operators: what each contributes to a sum."""

from __future__ import annotations

from typing import Any

from ..expr import nodes as n
from ..expr.nodes import FALSE, TRUE, Expr, IntImm
from .affine import Affine, drop_zeros, immediate
from .engine import FORMS, WRITE, atom, difference, linear, merged, visit
from .facts import Facts, is_index
from .interval import bounds, form_bounds
from .prove import nonneg
from .splits import quotient, remainder

_MOST_PRODUCTS = 16


def write(form: Affine, facts: Facts) -> Expr:
    """The expression that a form is printed as."""
    const, splits = form.const, facts.splits
    if const and splits:
        for part, k in form.terms.items():
            held = splits.get(part)
            if held is not None and not held.high and held.base.const and const % k == 0:
                base = held.base.shift(const // k * held.low)
                moved = n.FloorDiv(write(base, facts), immediate(held.low, form.dtype))
                terms = {moved if a is part else a: j for a, j in form.terms.items()}
                return Affine(terms, 0, form.dtype).to_expr()
    return form.to_expr()


def _constant(e: IntImm, facts: Facts) -> Affine:
    return Affine({}, e.value, e.dtype)


def _variable(e: n.Var, facts: Facts) -> Affine:
    held = facts.ranges.get(e)
    if held is not None and isinstance(held[1], IntImm) and held[1].value == 1:
        return linear(held[0], facts)
    lo, hi = bounds(e, facts)
    if lo == hi:
        return Affine({}, int(lo), e.dtype)
    return Affine({e: 1}, 0, e.dtype)


def _product(e: n.Mul, facts: Facts) -> Affine:
    """Neither side is written as a constant; either may turn out to be one."""
    a, b = linear(e.a, facts), linear(e.b, facts)
    if not b.terms:
        return a.scale(b.const)
    if not a.terms:
        return b.scale(a.const)
    if (len(a.terms) + 1) * (len(b.terms) + 1) > _MOST_PRODUCTS:
        return atom(n.Mul(WRITE[0](a, facts), WRITE[0](b, facts)))
    terms: dict[Expr, int] = {}
    for x, k in a.terms.items():
        for y, j in b.terms.items():
            z = _monomial(x, y, facts)
            terms[z] = terms.get(z, 0) + k * j
        if b.const:
            terms[x] = terms.get(x, 0) + k * b.const
    if a.const:
        for y, j in b.terms.items():
            terms[y] = terms.get(y, 0) + j * a.const
    return merged(Affine(drop_zeros(terms), a.const * b.const, e.dtype), facts)


def factors(e: Expr) -> list[Expr]:
    """The factors of a product atom."""
    return [*factors(e.a), *factors(e.b)] if isinstance(e, n.Mul) else [e]


def _monomial(x: Expr, y: Expr, facts: Facts) -> Expr:
    order = facts.order
    parts = [*factors(x), *factors(y)]
    for part in parts:
        order.setdefault(part, len(order))
    parts.sort(key=order.__getitem__)
    product = parts[0]
    for part in parts[1:]:
        product = n.Mul(product, part)
    return product


def _floordiv(e: n.FloorDiv, facts: Facts) -> Affine:
    a, b = linear(e.a, facts), linear(e.b, facts)
    if not b.terms and b.const > 0:
        return quotient(a, b.const, facts)
    if not b.terms and b.const < 0:
        return quotient(a.scale(-1), -b.const, facts)
    return _symbolic_quotient(a, b, facts)[0] if b.terms else _kept(e, facts)


def _floormod(e: n.FloorMod, facts: Facts) -> Affine:
    a, b = linear(e.a, facts), linear(e.b, facts)
    if not b.terms and b.const > 0:
        return remainder(a, b.const, facts)
    return _symbolic_quotient(a, b, facts)[1] if b.terms else _kept(e, facts)


def _symbolic_quotient(a: Affine, b: Affine, facts: Facts) -> tuple[Affine, Affine]:
    """(a // b, a % b) for a divisor that is not constant."""
    whole, rest = _exact(a, b)
    if (not rest.terms and not rest.const) or (nonneg(rest, facts) and nonneg((b - rest).shift(-1), facts)):
        return whole, rest
    top, bottom = WRITE[0](rest, facts), WRITE[0](b, facts)
    return whole + atom(n.FloorDiv(top, bottom)), atom(n.FloorMod(top, bottom))


def _exact(a: Affine, b: Affine) -> tuple[Affine, Affine]:
    """(q, r) with a = q * b + r: the part of a that b divides, term by term, and the rest."""
    if len(b.terms) != 1 or b.const:
        lead = next(iter(b.terms))
        whole = a.terms.get(lead, 0) // b.terms[lead]
        return Affine({}, whole, a.dtype), a.plus(b, -whole)
    ((unit, scale),) = b.terms.items()
    wanted = factors(unit)
    whole_terms: dict[Expr, int] = {}
    const = 0
    rest_terms: dict[Expr, int] = {}
    for part, k in a.terms.items():
        left = factors(part)
        for one in wanted:
            index = next((i for i, have in enumerate(left) if have is one), None)
            if index is None:
                break
            del left[index]
        else:
            if k % scale == 0:
                if not left:
                    const += k // scale
                else:
                    product = left[0]
                    for one in left[1:]:
                        product = n.Mul(product, one)
                    whole_terms[product] = whole_terms.get(product, 0) + k // scale
                continue
        rest_terms[part] = k
    return Affine(whole_terms, const, a.dtype), Affine(rest_terms, a.const, a.dtype)


def _truncdiv(e: n.Div, facts: Facts) -> Affine:
    return _truncated(e, _floordiv, facts)


def _truncmod(e: n.Mod, facts: Facts) -> Affine:
    return _truncated(e, _floormod, facts)


def _truncated(e: Any, floored: Any, facts: Facts) -> Affine:
    a, b = linear(e.a, facts), linear(e.b, facts)
    if not a.terms and not b.terms and b.const:
        size = abs(a.const) // abs(b.const)
        whole = size if (a.const < 0) == (b.const < 0) else -size
        return Affine({}, whole if isinstance(e, n.Div) else a.const - whole * b.const, e.dtype)
    if form_bounds(a, facts)[0] >= 0 and form_bounds(b, facts)[0] >= 0:
        found: Affine = floored(e, facts)
        return found
    return _kept(e, facts)


def _kept(e: Any, facts: Facts) -> Affine:
    """The operator as it stands, with its arguments simplified."""
    return atom(e.map_children(lambda child: visit(child, facts)))


def _extreme(e: Any, facts: Facts) -> Affine:
    """Min and Max, over all the arguments of a nest of them."""
    kind = type(e)
    sign = 1 if kind is n.Min else -1
    kept: list[tuple[Expr, Affine]] = []
    for argument in _arguments(e, kind):
        form = linear(argument, facts)
        for i, (_, other) in enumerate(kept):
            gap = merged((form - other).scale(sign), facts)
            if nonneg(gap, facts):  # the other is at least as good
                break
            if nonneg(gap.scale(-1), facts):
                kept[i] = argument, form
                break
        else:
            kept.append((argument, form))
    unique = {WRITE[0](form, facts): form for _, form in kept}
    if len(unique) == 1:
        return next(iter(unique.values()))
    parts = sorted(unique, key=lambda x: isinstance(x, IntImm))
    result = parts[0]
    for part in parts[1:]:
        result = kind(result, part)
    return atom(result)


def _arguments(e: Any, kind: type) -> list[Expr]:
    if type(e) is kind:
        return [*_arguments(e.a, kind), *_arguments(e.b, kind)]
    return [e]


def _choice(e: Any, facts: Facts) -> Affine:
    cond = visit(e.condition, facts)
    if cond is TRUE:
        return linear(e.true_value, facts)
    if cond is FALSE:
        return linear(e.false_value, facts)
    return linear_or_atom(WRITE_CHOICE[0](e, cond, facts), e, facts)


def linear_or_atom(made: Expr, origin: Expr, facts: Facts) -> Affine:
    """The form of a rebuilt node: its own atom where it is still of that kind."""
    if type(made) is type(origin):
        facts.forms.setdefault(made, atom(made))
        return atom(made)
    return linear(made, facts)


def _cast(e: n.Cast, facts: Facts) -> Affine:
    value = visit(e.value, facts)
    while isinstance(value, n.Cast) and _cast_is_transparent(value, facts):
        value = value.value
    if value.dtype == e.dtype:
        return linear(value, facts)
    if isinstance(value, IntImm):
        return atom(immediate(value.value, e.dtype)) if _fits(value, e) else atom(n.Cast(e.dtype, value))
    return atom(n.Cast(e.dtype, value))


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


def _rebuilt(e: Any, facts: Facts) -> Affine:
    return atom(e.map_children(lambda child: visit(child, facts)))


WRITE_CHOICE: list[Any] = []
WRITE.append(write)
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
        n.Select: _choice,
        n.IfThenElse: _choice,
        n.Cast: _cast,
        n.Load: _rebuilt,
        n.Call: _rebuilt,
    }
)
__all__ = ["factors", "is_index", "write"]
