"""Rearrangement: sums, quotients and comparisons of minima, maxima and choices in the shortest form found.

    min(x, y - z) + z            ->  min(x + z, y)
    min(x + 10, y + 1) - min(x, y - 9)  ->  10
    select(c, y, z) - y          ->  select(c, 0, z - y)

Users who ask the analyzer to simplify get it. Lowering does not use it: it meets few such sums, and its programs keep
the form in which they were written. A step is taken if the result is smaller, or if no step leads back.
"""

from __future__ import annotations

from math import gcd
from typing import Any

from ...arith.affine import Affine, immediate
from ...arith.engine import linear
from ...arith.facts import Facts, is_index
from ...arith.room import has_room
from ...arith.simplify import simplify
from ...arith.sizes import weight
from ...expr import nodes as n
from ...expr.effects import contains_effects
from ...expr.nodes import FALSE, TRUE, Expr, IntImm
from ...expr.traverse import post_order
from .lattice import COMPILED
from .pairs import without_pairs

_MOST_STEPS = 64
_MOST_NODES = 2000
"""The most nodes of an expression to rearrange: each step inspects all parts that it may shorten."""
_CHOICES = (n.Min, n.Max, n.Select, n.IfThenElse)
_TURNED: dict[type, type[n.Min | n.Max]] = {n.Min: n.Max, n.Max: n.Min}


def rearrange(e: Expr, facts: Facts) -> Expr:
    """The shortest form found of a simplified expression, of the same value whenever the facts hold."""
    if contains_effects(e) or sum(1 for _ in post_order(e)) > _MOST_NODES:
        return e
    return _Rearranging(facts).visit(e)


class _Rearranging:
    """One expression's rearrangement, with a budget of steps."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.memo: dict[Expr, Expr] = {}
        self.left = _MOST_STEPS

    def visit(self, e: Expr) -> Expr:
        """The shortest form found of an expression and of its parts."""
        found = self.memo.get(e)
        if found is None:
            made: Expr = e.map_children(self.visit)
            found = e if made is e else simplify(made, self.facts)
            better = self.step(found)
            while better is not None and self.left:
                self.left -= 1
                found = simplify(better, self.facts)
                better = self.step(found)
            self.memo[e] = found = self.divided(found)
        return found

    def divided(self, e: Expr) -> Expr:
        """A sum with a common factor of its terms as a product, if that is shorter."""
        if not isinstance(e, (n.Add, n.Sub)) or not is_index(e.dtype):
            return e
        form = Affine.of(e)
        factor = gcd(*form.terms.values(), form.const)
        if factor < 2:
            return e
        try:
            made = n.Mul(form.divided(factor).to_expr(), immediate(factor, e.dtype))
        except OverflowError:
            return e
        return made if weight(made) < weight(e) else e

    def step(self, e: Expr) -> Expr | None:
        """Return a shorter form of an expression with shortest parts; None if there is none that fits."""
        try:
            return self._shorter(e)
        except OverflowError:
            return None

    def _shorter(self, e: Expr) -> Expr | None:
        rule = COMPILED.get(type(e))
        found = None if rule is None or not (is_index(e.dtype) or e.dtype.is_bool) else rule(e)
        if found is not None:
            return found
        if isinstance(e, n.Compare):
            return self.comparison(e) if is_index(e.a.dtype) else None
        if not is_index(e.dtype):
            return _vector_product(e) if isinstance(e, n.Mul) else None
        if isinstance(e, (n.Add, n.Sub, n.Mul)):
            return self.sum(e)
        if isinstance(e, (n.Min, n.Max)):
            return self.common(e)
        if isinstance(e, n.Call):
            return _leading_zeros(e) if e.name == "clz" else None
        return self.quotient(e) if isinstance(e, n.FloorDiv) else None

    def smaller(self, new: Expr, old: Expr) -> Expr | None:
        """The new form, simplified, if that is smaller."""
        found = simplify(new, self.facts)
        return found if weight(found) < weight(old) else None

    def sum(self, e: Expr) -> Expr | None:
        """Move the other terms of a sum into one of its choices."""
        form = linear(e, self.facts)
        paired = without_pairs(form, self.facts)
        if paired is not None:
            return paired
        for atom, k in form.terms.items():
            if k not in (1, -1) or not isinstance(atom, _CHOICES):
                continue
            rest = Affine({a: j for a, j in form.terms.items() if a is not atom}, form.const, form.dtype)
            if not rest.terms and not rest.const:
                continue
            made = _moved_into(atom, k, rest, atom is next(iter(form.terms)), self.facts)
            found = None if made is None else self.smaller(made, e)
            if found is not None:
                return found
        return None

    def common(self, e: n.Min | n.Max) -> Expr | None:
        """The minimum or maximum of two sums, with their common terms moved outside; of variables, sorted by name."""
        if isinstance(e.a, n.Var) and isinstance(e.b, n.Var):
            return type(e)(e.b, e.a) if e.b.name < e.a.name else None
        a, b = linear(e.a, self.facts), linear(e.b, self.facts)
        shared = {atom: k for atom, k in a.terms.items() if b.terms.get(atom) == k}
        outside = Affine(shared, a.const if a.const == b.const else 0, a.dtype)
        a, b = a - outside, b - outside
        kind, sign = type(e), 1
        turns = any(form.terms for form in (a, b)) and all(k < 0 for form in (a, b) for k in form.terms.values())
        if turns:  # min(3 - x, 2) = 3 - max(x, 1)
            moved = next(form.const for form in (a, b) if form.terms)
            outside, a, b = outside.shift(moved), a.shift(-moved).scale(-1), b.shift(-moved).scale(-1)
            kind, sign = _TURNED[kind], -1
        factor = gcd(*a.terms.values(), *b.terms.values(), a.const, b.const)
        if factor > 1:
            a, b = a.divided(factor), b.divided(factor)
        if not (has_room(a, self.facts) and has_room(b, self.facts)):
            return None
        inner = kind(a.to_expr(), b.to_expr())
        chosen = Affine({inner: sign * max(factor, 1)}, 0, outside.dtype)
        made = (chosen + outside).to_expr()
        if factor > 1 or turns:
            return None if made is e else made
        return self.smaller(made, e) if outside.terms or outside.const else None

    def quotient(self, e: n.FloorDiv) -> Expr | None:
        """min(x * 6, y) // 2 = min(x * 3, y // 2), if that divides at least one of the two."""
        if not isinstance(e.a, (n.Min, n.Max)) or not isinstance(e.b, IntImm) or e.b.value <= 0:
            return None
        parts = [simplify(n.FloorDiv(part, e.b), self.facts) for part in (e.a.a, e.a.b)]
        if all(isinstance(part, n.FloorDiv) for part in parts):
            return None
        made = type(e.a)(*parts)
        return made if weight(made) <= weight(e) else None

    def comparison(self, e: Any) -> Expr | None:
        """Write x - y < 0 as x < y, and a comparison of an extreme as a comparison of one of its parts."""
        for one, other, side in ((e.a, e.b, 0), (e.b, e.a, 1)):
            if isinstance(other, IntImm) and other.value == 0 and isinstance(one, n.Sub):
                pair = (one.a, one.b) if side == 0 else (one.b, one.a)
                fit = all(has_room(linear(part, self.facts), self.facts) for part in pair)
                return type(e)(*pair) if fit and not isinstance(one.a, IntImm) else None
            if isinstance(one, (n.Min, n.Max)) and isinstance(e, (n.LT, n.LE, n.GT, n.GE)):
                apart = self.of_parts(e, one, side)
                if apart is not None:
                    return apart
        return None

    def of_parts(self, e: Any, choice: n.Min | n.Max, side: int) -> Expr | None:
        """A comparison of a minimum or maximum that a part of it decides."""
        pairs = [(part, e.b) if side == 0 else (e.a, part) for part in (choice.a, choice.b)]
        parts = [simplify(type(e)(*pair), self.facts) for pair in pairs]
        least = isinstance(e, (n.LT, n.LE)) == (side == 0)  # small values satisfy the comparison
        either = isinstance(choice, n.Min) == least
        for known, rest in (parts, parts[::-1]):
            if known is TRUE or known is FALSE:
                return known if (known is TRUE) == either else rest
        return None


def _moved_into(atom: Any, k: int, rest: Affine, first: bool, facts: Facts) -> Expr | None:
    """k * atom + rest as a choice among sums, with the choice's terms `first` or last; None if sums may overflow."""
    is_extreme = isinstance(atom, (n.Min, n.Max))
    values = (atom.a, atom.b) if is_extreme else (atom.true_value, atom.false_value)
    own = [linear(value, facts).scale(k) for value in values]
    sums = [each + rest if first else rest + each for each in own]
    if not is_extreme:
        chosen: Expr = type(atom)(atom.condition, *(each.to_expr() for each in sums))
        return chosen
    if not all(has_room(each, facts) for each in sums):  # sums that are compared must not wrap
        return None
    kind: type[n.Min | n.Max] = type(atom) if k == 1 else _TURNED[type(atom)]
    return kind(*(each.to_expr() for each in sums))


def _vector_product(e: n.Mul) -> Expr | None:
    """ramp(u, v) * broadcast(w) = ramp(u * w, v * w)."""
    for one, other in ((e.a, e.b), (e.b, e.a)):
        if isinstance(one, n.Ramp) and isinstance(other, n.Broadcast) and is_index(one.base.dtype):
            return n.Ramp(n.Mul(one.base, other.value), n.Mul(one.stride, other.value), one.lanes)
    return None


def _leading_zeros(e: n.Call) -> Expr | None:
    """The number of zero bits before the first 1 of a constant; of 0, targets differ."""
    (value,) = e.args
    if not isinstance(value, IntImm) or value.value <= 0:
        return None
    return IntImm(value.dtype.bits - value.value.bit_length(), e.dtype)
