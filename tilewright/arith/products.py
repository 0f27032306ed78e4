"""Products of atoms, such as strides times indices: kept sorted, so that equal products are the same node."""

from __future__ import annotations

from ..expr.nodes import Expr, Mul, SizeVar, Var
from .affine import Affine, drop_zeros, is_unit
from .facts import Facts


def factors(e: Expr) -> list[Expr]:
    """The factors of a product atom."""
    return [*factors(e.a), *factors(e.b)] if isinstance(e, Mul) else [e]


def product(parts: list[Expr], facts: Facts) -> Expr | None:
    """The product of the parts in their fixed order, sizes last; None for none."""
    if len(parts) > 1:
        order = facts.order
        for part in parts:
            if part not in order:
                is_size = isinstance(part, SizeVar) or is_unit(part)
                rank = 2 if is_size else 0 if isinstance(part, Var) else 1
                order[part] = rank, size_name(part), len(order)
        parts = sorted(parts, key=order.__getitem__)
    result: Expr | None = None
    for part in parts:
        result = part if result is None else Mul(result, part)
    return result


def size_name(e: Expr) -> str:
    """The name of a variable, also of the n in `n // 8` for a declared multiple of 8; "" for anything else."""
    whole = e.a if is_unit(e) else e  # type: ignore[attr-defined]
    return whole.name if isinstance(whole, Var) else ""


def without(parts: list[Expr], wanted: list[Expr]) -> list[Expr] | None:
    """The remaining parts after removing each wanted part once; None if a wanted part is missing."""
    left = list(parts)
    for one in wanted:
        index = next((i for i, have in enumerate(left) if have is one), None)
        if index is None:
            return None
        del left[index]
    return left


def times(a: Affine, b: Affine, facts: Facts) -> Affine:
    """a * b, multiplied out."""
    if not b.terms:
        return a.scale(b.const)
    if not a.terms:
        return b.scale(a.const)
    terms: dict[Expr, int] = {}
    for x, k in a.terms.items():
        for y, j in b.terms.items():
            both = product([*factors(x), *factors(y)], facts)
            assert both is not None
            terms[both] = terms.get(both, 0) + k * j
        if b.const:
            terms[x] = terms.get(x, 0) + k * b.const
    if a.const:
        for y, j in b.terms.items():
            terms[y] = terms.get(y, 0) + j * a.const
    return Affine(drop_zeros(terms), a.const * b.const, a.dtype)
