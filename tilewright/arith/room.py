"""Whether a sum can be computed in its type: what a rewritten expression computes on its way may not overflow.

Quotients, remainders and comparisons see a value that has wrapped, and their result is then another. So a rewrite that
makes a dividend or a side of a comparison larger than it was is done only where its value leaves room below the limits
of the type. Sums themselves need no such care: where their value fits, it is right whatever their order.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

from ..core.dtype import DType
from ..expr.nodes import Expr, FloorDiv, IntImm, Var
from .affine import Affine
from .facts import Bound, Facts
from .interval import bounds

MARGIN = 1 << 16
"""Variables without bounds, such as sizes, are taken to stay so far below the limits of their type."""


def has_room(form: Affine, facts: Facts) -> bool:
    """Whether no partial sum of a form, in whatever order, exceeds its type."""
    return terms_have_room(form.terms.items(), form.const, form.dtype, facts)


def terms_have_room(items: Iterable[tuple[Expr, int]], const: int, dtype: DType, facts: Facts) -> bool:
    """Whether no partial sum of (atom, coefficient) items and a constant exceeds `dtype`."""
    least: Bound = min(const, 0)
    most: Bound = max(const, 0)
    table = facts.bounds
    for atom, k in items:
        low, high = table.get(atom) or bounds(atom, facts)
        if low == -inf or high == inf:
            low, high = _within_type(atom, low, high)
        if k < 0:
            low, high = high, low
        if (first := k * low) < 0:
            least += first
        if (last := k * high) > 0:
            most += last
    return dtype.min_value <= least and most <= dtype.max_value


def _within_type(e: Expr, low: Bound, high: Bound) -> tuple[Bound, Bound]:
    """Bounds of an atom, where it has none, by what its type holds; sizes and other variables leave `MARGIN`."""
    scale = e.b.value if isinstance(e, FloorDiv) and isinstance(e.b, IntImm) and e.b.value > 0 else 1
    margin = MARGIN if isinstance(e, Var) else 0
    return max(low, (e.dtype.min_value + margin) // scale), min(high, (e.dtype.max_value - margin) // scale)
