"""How a simplified linear form is printed."""

from __future__ import annotations

from ..expr import nodes as n
from ..expr.nodes import Expr
from .affine import Affine, immediate
from .facts import Facts


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
