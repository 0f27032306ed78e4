"""Integer linear forms: sum of coefficient * atom, plus a constant.

An atom is any expression that is not itself a sum, a difference or a product with a constant. The terms keep the
order in which the atoms first appeared; `to_expr` writes the canonical sum that printed programs show.

A variable n declared as a multiple of 8 is rewritten to `8 * (n // 8)`, so that the rules of coefficients apply to it.
It is written as n again.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from operator import itemgetter

from ..core.dtype import INT32, INT64, DType
from ..expr.nodes import Add, Expr, FloorDiv, IntImm, Mul, SizeVar, Sub, Var

_coefficient = itemgetter(1)
_RECURSION_BUDGET = 128


class Affine:
    """sum(k * atom for atom, k in terms) + const, of integer type `dtype`; no k is 0. Immutable by convention."""

    __slots__ = ("const", "dtype", "terms")

    def __init__(self, terms: dict[Expr, int], const: int, dtype: DType = INT32) -> None:
        self.terms = terms
        self.const = const
        self.dtype = dtype

    @staticmethod
    def of(e: Expr) -> Affine:
        """The linear form of `e` without simplification; sums that wrap, and nonlinear parts, are atoms."""
        if e.dtype is not INT32 and e.dtype != INT64 and type(e) is not IntImm:
            return Affine({e: 1}, 0, e.dtype)
        terms: dict[Expr, int] = {}
        const = 0
        for leaf, scale in leaves(e):
            if type(leaf) is IntImm:
                const += scale * leaf.value
            else:
                terms[leaf] = terms.get(leaf, 0) + scale
        return Affine(drop_zeros(terms), const, e.dtype)

    def __add__(self, other: Affine) -> Affine:
        return self.plus(other, 1)

    def __sub__(self, other: Affine) -> Affine:
        return self.plus(other, -1)

    def plus(self, other: Affine, scale: int) -> Affine:
        """self + other * scale"""
        terms = dict(self.terms)
        for atom, k in other.terms.items():
            total = terms.get(atom, 0) + k * scale
            if total:
                terms[atom] = total
            else:
                terms.pop(atom, None)
        return Affine(terms, self.const + other.const * scale, self.dtype)

    def shift(self, amount: int) -> Affine:
        """self + amount"""
        return Affine(self.terms, self.const + amount, self.dtype) if amount else self

    def wrapped(self) -> Affine:
        """The same form with its coefficients and constant within the type, as hardware computes it."""
        low, high = self.dtype.min_value, self.dtype.max_value
        if low <= self.const <= high and all([low <= k <= high for k in self.terms.values()]):
            return self
        span = high - low + 1
        terms = {atom: (k - low) % span + low for atom, k in self.terms.items()}
        return Affine(drop_zeros(terms), (self.const - low) % span + low, self.dtype)

    def scale(self, factor: int) -> Affine:
        """self * factor"""
        if factor == 1:
            return self
        if factor == 0:
            return Affine({}, 0, self.dtype)
        return Affine({atom: k * factor for atom, k in self.terms.items()}, self.const * factor, self.dtype)

    def divided(self, divisor: int) -> Affine:
        """self / divisor, if that is whole for every coefficient; the constant rounds down."""
        return Affine({atom: k // divisor for atom, k in self.terms.items()}, self.const // divisor, self.dtype)

    def same(self, other: Affine) -> bool:
        """Whether both are the same form, in any order of the terms."""
        return self.const == other.const and self.terms == other.terms

    def key(self) -> tuple[object, ...]:
        """The identity of the form, in any order of the terms."""
        return frozenset(self.terms.items()), self.const, self.dtype

    def to_expr(self) -> Expr:
        """The canonical sum: larger coefficients first, then subtracted terms, the constant last.

        Raises OverflowError if a coefficient does not fit the type.
        """
        const, dtype = self.const, self.dtype
        if not self.terms:
            return immediate(const, dtype)
        items = list(self.terms.items())
        if any(type(atom) in _MAY_HOLD_UNITS for atom in self.terms):
            items = [_without_units(atom, k) for atom, k in items]
        if len(items) > 1:
            items.sort(key=_coefficient, reverse=True)  # stable: ties stay in the order of first appearance
        atom, k = items[0]
        if k > 0 or const == 0:
            total = atom if k == 1 else Mul(atom, immediate(k, dtype))
            rest: Iterable[tuple[Expr, int]] = items[1:]
        else:
            total, const, rest = immediate(const, dtype), 0, items
        for atom, k in rest:
            if k > 0 or k == dtype.min_value:  # the type does not hold the opposite of its least value
                total = Add(total, atom if k == 1 else Mul(atom, immediate(k, dtype)))
            else:
                total = Sub(total, atom if k == -1 else Mul(atom, immediate(-k, dtype)))
        if const > 0 or const == dtype.min_value:
            return Add(total, immediate(const, dtype))
        return Sub(total, immediate(-const, dtype)) if const < 0 else total


def immediate(value: int, dtype: DType) -> Expr:
    """The constant; raises OverflowError if it does not fit the type."""
    if not dtype.min_value <= value <= dtype.max_value:
        raise OverflowError(f"{value} does not fit {dtype}")
    return IntImm(value, dtype)


def drop_zeros(terms: dict[Expr, int]) -> dict[Expr, int]:
    """The terms with nonzero coefficients."""
    if 0 in terms.values():
        return {atom: k for atom, k in terms.items() if k}
    return terms


def unit_of(e: Expr) -> tuple[Expr, int]:
    """Return (u, k) with `e = u * k` for a leaf: `n // 8` and 8 for an n declared as a multiple of 8, else e and 1."""
    kind = type(e)
    if (kind is Var or kind is SizeVar) and (k := e.known.multiple_of) > 1:  # type: ignore[attr-defined]
        return FloorDiv(e, IntImm(k, e.dtype)), k
    return e, 1


def is_unit(e: Expr) -> bool:
    """Whether e is the n // 8 of an n that is declared a multiple of 8."""
    return type(e) is FloorDiv and isinstance(e.a, Var) and isinstance(e.b, IntImm) and unit_of(e.a)[0] is e


_MAY_HOLD_UNITS = (FloorDiv, Mul)


def _without_units(atom: Expr, k: int) -> tuple[Expr, int]:
    """The term k * atom with n in place of 8 * (n // 8)."""
    if isinstance(atom, Mul):
        a, k = _without_units(atom.a, k)
        b, k = _without_units(atom.b, k)
        return (atom if a is atom.a and b is atom.b else Mul(a, b)), k
    if is_unit(atom) and k % atom.b.value == 0:  # type: ignore[attr-defined]
        return atom.a, k // atom.b.value  # type: ignore[attr-defined]
    return atom, k


def leaves(e: Expr, opaque: Set[Expr] = frozenset()) -> list[tuple[Expr, int]]:
    """(leaf, scale) for each leaf of a sum, left to right; products with a constant are part of the scale.

    A leaf may appear more than once, unless the sum is large. Sums that are `opaque` are leaves within others.
    """
    if opaque:
        return _leaves_of_graph(e, opaque)
    found: list[tuple[Expr, int]] = []
    stack: list[tuple[Expr, int]] = [(e, 1)]
    budget = _RECURSION_BUDGET
    while stack:
        at, scale = stack.pop()
        kind = type(at)
        if kind is Add:
            stack.append((at.b, scale))  # type: ignore[attr-defined]
            stack.append((at.a, scale))  # type: ignore[attr-defined]
        elif kind is Sub:
            stack.append((at.b, -scale))  # type: ignore[attr-defined]
            stack.append((at.a, scale))  # type: ignore[attr-defined]
        elif kind is Mul and type(at.b) is IntImm:  # type: ignore[attr-defined]
            stack.append((at.a, scale * at.b.value))  # type: ignore[attr-defined]
        elif kind is Mul and type(at.a) is IntImm:  # type: ignore[attr-defined]
            stack.append((at.b, scale * at.a.value))  # type: ignore[attr-defined]
        else:
            if (kind is Var or kind is SizeVar) and at.known.multiple_of > 1:  # type: ignore[attr-defined]
                at, unit = unit_of(at)
                scale *= unit
            found.append((at, scale))
            continue
        budget -= 1
        if budget < 0:
            return _leaves_of_graph(e, opaque)
    return found


def _parts(e: Expr) -> list[tuple[Expr, int]]:
    """The direct parts of a sum or a product with a constant, each with its scale; [] for a leaf."""
    if isinstance(e, Add):
        return [(e.a, 1), (e.b, 1)]
    if isinstance(e, Sub):
        return [(e.a, 1), (e.b, -1)]
    if isinstance(e, Mul):
        if isinstance(e.b, IntImm):
            return [(e.a, e.b.value)]
        if isinstance(e.a, IntImm):
            return [(e.b, e.a.value)]
    return []


def _leaves_of_graph(root: Expr, opaque: Set[Expr]) -> list[tuple[Expr, int]]:
    """`leaves` in time linear in the number of distinct nodes: shared sums are walked once."""
    order: list[Expr] = []
    seen: set[Expr] = set()
    first: list[Expr] = []
    stack: list[tuple[Expr, bool]] = [(root, False)]
    while stack:
        at, ready = stack.pop()
        if ready:
            order.append(at)
            continue
        if at in seen:
            continue
        seen.add(at)
        parts = _parts(at) if at is root or at not in opaque else []
        if parts:
            stack.append((at, True))
            stack.extend((part, False) for part, _ in reversed(parts))
        else:
            first.append(at)
    total: dict[Expr, int] = {root: 1}
    for at in reversed(order):
        scale = total.pop(at)
        for part, k in _parts(at):
            total[part] = total.get(part, 0) + scale * k
    return [(unit_of(leaf)[0], total[leaf] * unit_of(leaf)[1]) for leaf in first]
