"""Specialises the expressions of a loop body for constant values of its variables.

An index that is linear in the variables keeps its other terms. Only its constant is new, and the rest is split off
once. Other expressions that depend on them (a condition, a quotient) are substituted and simplified again. Results are
memoised by the values that an expression depends on, since copies of a body share many of them.
"""

from __future__ import annotations

from typing import Any

from ..arith.affine import Affine
from ..arith.facts import Facts, is_index
from ..arith.simplify import simplify
from ..expr.nodes import Call, Expr, FloorDiv, FloorMod, IfThenElse, IntImm, Load, Ramp, Select, Var
from ..expr.operators import add


class Specialiser:
    """Specialises expressions for values of the variables `chosen`."""

    def __init__(self, chosen: set[Var]) -> None:
        self.chosen = chosen
        self.used: dict[Expr, tuple[Var, ...]] = {}
        self.made: dict[tuple[Any, ...], Expr] = {}
        self.splits: dict[Expr, tuple[Affine, tuple[tuple[Var, int], ...]] | None] = {}

    def variables(self, e: Expr) -> tuple[Var, ...]:
        """The chosen variables that `e` depends on."""
        found = self.used.get(e)
        if found is None:
            if isinstance(e, Var):
                found = (e,) if e in self.chosen else ()
            else:
                found = tuple(dict.fromkeys([v for child in e.children() for v in self.variables(child)]))
            self.used[e] = found
        return found

    def expr(self, e: Expr, values: dict[Var, int], facts: Facts) -> Expr:
        """`e` with the values substituted, simplified if they occur."""
        used = self.variables(e)
        if not used:
            return e
        key = (e, *[values[v] for v in used])
        made = self.made.get(key)
        if made is None:
            made = self.made[key] = self._make(e, used, values, facts)
        return made

    def _make(self, e: Expr, used: tuple[Var, ...], values: dict[Var, int], facts: Facts) -> Expr:
        if is_index(e.dtype):
            split = self._split(e, used)
            if split is not None:
                rest, terms = split
                return rest.shift(sum(k * values[v] for v, k in terms)).wrapped().to_expr()
        elif isinstance(e, (IfThenElse, Select)):
            return self._choice(e, values, facts)
        elif e.dtype.is_float or isinstance(e, (Load, Ramp, Call)):
            made: Expr = e.map_children(lambda child: self.expr(child, values, facts))
            return made
        return simplify(self._fixed(e, values, facts), facts)

    def _fixed(self, e: Expr, values: dict[Var, int], facts: Facts) -> Expr:
        """`e` with the values put in. Quotients and remainders of a linear form keep only the constant's remainder
        inside. So copies that differ by a multiple of the divisor are simplified once.
        """
        if not self.variables(e):
            return e
        if is_index(e.dtype):
            split = self._split(e, self.variables(e))
            if split is not None:
                return self.expr(e, values, facts)
        if isinstance(e, (FloorDiv, FloorMod)) and isinstance(e.b, IntImm) and e.b.value > 0:
            split = self._split(e.a, self.variables(e.a)) if is_index(e.dtype) else None
            if split is not None:
                rest, terms = split
                whole, part = divmod(rest.const + sum(k * values[v] for v, k in terms), e.b.value)
                inside = Affine(rest.terms, part, rest.dtype).to_expr()
                if isinstance(e, FloorMod):
                    return FloorMod(inside, e.b)
                return add(simplify(FloorDiv(inside, e.b), facts), whole)
        made: Expr = e.map_children(lambda child: self._fixed(child, values, facts))
        return made

    def _choice(self, e: IfThenElse | Select, values: dict[Var, int], facts: Facts) -> Expr:
        condition = self.expr(e.condition, values, facts)
        if isinstance(condition, IntImm):
            return self.expr(e.true_value if condition.value else e.false_value, values, facts)
        return type(e)(condition, self.expr(e.true_value, values, facts), self.expr(e.false_value, values, facts))

    def _split(self, e: Expr, used: tuple[Var, ...]) -> tuple[Affine, tuple[tuple[Var, int], ...]] | None:
        """The part of an index without the chosen variables, and their coefficients; None if it is not linear."""
        if e in self.splits:
            return self.splits[e]
        form = Affine.of(e)
        own = tuple((v, form.terms[v]) for v in used if v in form.terms)
        rest = {atom: k for atom, k in form.terms.items() if atom not in used}
        linear = len(own) == len(used) and not any(self.variables(atom) for atom in rest)
        found = (Affine(rest, form.const, form.dtype), own) if linear else None
        self.splits[e] = found
        return found
