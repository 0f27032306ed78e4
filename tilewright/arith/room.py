"""Whether a sum can be computed in its type: intermediate results of a rewritten expression may not overflow.

If a value wraps, its quotients, remainders, comparisons and minima change. So a rewrite may introduce a quotient or
comparison of a new sum only if this sum fits its type for all values. A variable without bounds may have any value of
its type. Sums themselves need no such care: if their value fits, it is right in any order.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from typing import Any

from ..core.dtype import DType
from ..expr.nodes import Add, Expr, FloorDiv, IntImm, Mul, SizeVar, Sub, Var
from ..expr.traverse import post_order
from .affine import Affine
from .facts import Bound, Facts, is_index
from .interval import bounds


def has_room(form: Affine, facts: Facts) -> bool:
    """Whether no partial sum of a form, in any order, exceeds its type."""
    return terms_have_room(form.terms.items(), form.const, form.dtype, facts)


def sums_have_room(e: Expr, facts: Facts) -> bool:
    """Whether nothing in an expression overflows, so that it may be evaluated under other conditions, too."""
    sums = [at for at in post_order(e) if isinstance(at, (Add, Sub, Mul)) and is_index(at.dtype)]
    return all(has_room(Affine.of(at), facts) for at in sums)


def stays_within(form: Affine, original: Affine, facts: Facts) -> bool:
    """Whether a form fits its type if the original does: the same one, or an atom plus a smaller constant."""
    if form.terms == original.terms:
        const, other = form.const, original.const
        if const == other:
            return True
        if len(form.terms) == 1 and (const or other > 0) and min(0, other) <= const <= max(0, other):
            ((atom, k),) = form.terms.items()
            if k in (1, -1) and type(atom) is not Mul:
                return True
    return has_room(form, facts)


def terms_have_room(items: Iterable[tuple[Expr, int]], const: int, dtype: DType, facts: Facts) -> bool:
    """Whether no partial sum of (atom, coefficient) items and a constant exceeds `dtype`."""
    least: Bound = min(const, 0)
    most: Bound = max(const, 0)
    table = facts.bounds
    for atom, k in items:
        low, high = table.get(atom) or bounds(atom, facts)
        if (low == -inf or high == inf) and type(atom) is not Mul:  # a sum multiplied out may be larger than the sum
            low, high = _limits(atom, facts)
        if k < 0:
            low, high = high, low
        if (first := k * low) < 0:
            least += first
        if (last := k * high) > 0:
            most += last
    return dtype.min_value <= least and most <= dtype.max_value


def _limits(e: Any, facts: Facts) -> tuple[Bound, Bound]:
    """Bounds of an integer without constant bounds: a computed value fits its type, and so do its parts.

    A loop over n // 32 blocks then counts to 2**26. Its variable times 32 fits, because n does.
    """
    found = facts.limits.get(e)
    if found is not None:
        return found
    dtype = e.dtype
    low, high = bounds(e, facts)
    facts.limits[e] = low, high = max(low, dtype.min_value), min(high, dtype.max_value)
    kind = type(e)
    first: Bound = low
    last: Bound = high
    if (kind is Var or kind is SizeVar) and e in facts.ranges:
        least, extent = facts.ranges[e]
        if is_index(least.dtype) and is_index(extent.dtype):
            first = _limits(least, facts)[0]
            last = _form_limits(Affine.of(least) + Affine.of(extent), facts)[1] - 1
    elif kind is FloorDiv and type(e.b) is IntImm and e.b.value > 0 and is_index(dtype):
        first, last = (end // e.b.value for end in _limits(e.a, facts))
    elif kind in (Add, Sub, Mul) and is_index(dtype):
        form = Affine.of(e)
        if e not in form.terms:
            first, last = _form_limits(form, facts)
    found = facts.limits[e] = max(low, first), min(high, last)
    return found


def _form_limits(form: Affine, facts: Facts) -> tuple[Bound, Bound]:
    low: Bound = form.const
    high: Bound = form.const
    for atom, k in form.terms.items():
        ends = [k * end for end in _limits(atom, facts)]
        low += min(ends)
        high += max(ends)
    return low, high
