"""Casts of sums to narrower integers, as sums of casts, so that common terms cancel."""

from __future__ import annotations

from ...arith.affine import Affine
from ...arith.engine import linear
from ...arith.facts import Facts, is_index
from ...arith.interval import bounds
from ...arith.room import has_room
from ...core.dtype import DType
from ...expr.nodes import Add, Cast, Expr, Mul, Sub
from ...expr.traverse import post_order


def narrowed_apart(e: Expr, facts: Facts) -> Expr:
    """The expression with casts of sums as sums of casts, if no part of one exceeds the narrower type.

    int32(i + j + 1) - int32(i)  ->  int32(i) + int32(j) + 1 - int32(i), for i and j from 0 to 10

    One cast alone stays as it is.
    """
    if sum(_narrows(at) for at in post_order(e)) < 2:
        return e
    memo: dict[Expr, Expr] = {}

    def visit(at: Expr) -> Expr:
        found = memo.get(at)
        if found is None:
            found = at.map_children(visit)
            if isinstance(found, Cast) and _narrows(found) and isinstance(found.value, (Add, Sub, Mul)):
                form = _parts(found, facts)
                found = found if form is None else form.to_expr()
            memo[at] = found
        return found

    return visit(e)


def _narrows(e: Expr) -> bool:
    return isinstance(e, Cast) and is_index(e.dtype) and is_index(e.value.dtype) and e.dtype.bits < e.value.dtype.bits


def _parts(e: Cast, facts: Facts) -> Affine | None:
    """The cast of a sum as a sum of casts; None if a part of it might not fit."""
    form = linear(e.value, facts)
    if not all(_fits(atom, e.dtype, facts) for atom in form.terms):
        return None
    made = Affine({Cast(e.dtype, atom): k for atom, k in form.terms.items()}, form.const, e.dtype)
    return made if has_room(made, facts) else None


def _fits(e: Expr, dtype: DType, facts: Facts) -> bool:
    low, high = bounds(e, facts)
    return dtype.min_value <= low and high <= dtype.max_value
