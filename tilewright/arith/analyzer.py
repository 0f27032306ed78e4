"""Simplifying and proving under the legacy API's names, for expressions that users hold."""

from __future__ import annotations

from typing import Any, NoReturn

from ..core.errors import UserError
from ..core.refusals import missing
from ..expr.nodes import Expr, Var
from ..expr.operators import as_expr, condition, const
from ..expr.traverse import substitute
from .facts import EMPTY
from .simplify import prove, prove_equal, simplify


class Analyzer:
    """What is known of variables, and what follows from it.

    analyzer.bind(i, te.Range(0, 8)); analyzer.simplify(i // 8); analyzer.can_prove(i < 8)
    """

    def __init__(self) -> None:
        self._facts = EMPTY
        self._values: dict[Var, Expr] = {}

    def bind(self, var: Any, expr: Any) -> None:
        """`var`, a variable or an axis, is in the range `expr`, or is the value `expr`."""
        bound = as_expr(var)
        if not isinstance(bound, Var):
            raise UserError(f"`{bound}` is not a variable", primitive="bind", fix='give one: te.var("n"), or an axis')
        low, extent = getattr(expr, "min", None), getattr(expr, "extent", None)
        if low is None or extent is None:
            self._values[bound] = self._known(expr)
        else:
            self._facts = self._facts.bind(bound, self._known(low), self._known(extent))

    def simplify(self, expr: Any, steps: int = 2) -> Expr:
        """The simplest expression found of the same value; `steps` is accepted for old scripts."""
        return simplify(self._known(expr), self._facts)

    rewrite_simplify = canonical_simplify = simplify

    def can_prove(self, expr: Any, strength: int = 0) -> bool:
        """Whether the condition provably holds; `strength` is accepted for old scripts."""
        return prove(self._known(condition(expr, "can_prove")), self._facts)

    def can_prove_equal(self, lhs: Any, rhs: Any) -> bool:
        """Whether two expressions provably have one value."""
        return prove_equal(self._known(lhs), self._known(rhs), self._facts)

    def can_prove_greater_equal(self, expr: Any, lower_bound: int) -> bool:
        """Whether an expression is provably at least that number."""
        known = self._known(expr)
        return prove(known >= const(lower_bound, known.dtype), self._facts)

    def can_prove_less(self, expr: Any, upper_bound: int) -> bool:
        """Whether an expression is provably less than that number."""
        known = self._known(expr)
        return prove(known < const(upper_bound, known.dtype), self._facts)

    def _known(self, expr: Any) -> Expr:
        known: Expr = substitute(as_expr(expr), self._values)
        return known

    def __getattr__(self, name: str) -> NoReturn:
        raise missing("the analyzer", name, dir(type(self)), self)
