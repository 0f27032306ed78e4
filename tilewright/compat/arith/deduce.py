"""`deduce_bound`: the values of a variable for which a condition holds, for all values of some others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...arith.coefficients import coefficients, exactly
from ...arith.facts import Facts, is_index
from ...arith.simplify import prove, simplify
from ...core.errors import UserError
from ...expr import nodes as n
from ...expr.nodes import Expr, IntImm, Var
from ...expr.operators import add, as_expr, const, floordiv, floormod, multiply, subtract
from ...expr.traverse import post_order, uses_any, variables
from .int_set import (
    EVERYTHING,
    INFINITIES,
    NEGATIVE_INFINITY,
    NOTHING,
    POSITIVE_INFINITY,
    IntervalSet,
    as_domains,
    facts_of,
    swept,
)


def deduce_bound(var: Any, cond: Any, hint_map: Any, relax_map: Any) -> IntervalSet:
    """Return values of `var` for which a condition holds.

    Parameters
    ----------
    var
        The variable.
    cond
        A comparison of integers.
    hint_map
        The ranges of other variables, as {variable: IntervalSet}; they determine signs.
    relax_map
        Ranges of variables, as `hint_map`. The condition must hold for all their values; the ends do not use them.

    Returns
    -------
    IntervalSet
        Values for which the condition holds. The empty set if none are found, as for a condition that is no comparison.
    """
    target = as_expr(var)
    if not isinstance(target, Var):
        raise UserError(f"`{target}` is not a variable", primitive="deduce_bound", fix='give one: te.var("i")')
    relaxed = as_domains(relax_map, "deduce_bound")
    hints = {**as_domains(hint_map, "deduce_bound"), **relaxed}
    hints.pop(target, None)
    test = as_expr(cond)
    if not isinstance(test, n.Compare) or not test.a.dtype.is_int or isinstance(test, n.NE):
        return NOTHING
    search = _Search(target, relaxed, facts_of(hints))
    if not uses_any(test, [target]):
        return EVERYTHING if prove(test, search.facts) else NOTHING
    try:
        return _deduced(search, test)
    except OverflowError:  # an end does not fit its type
        return NOTHING


def _deduced(search: _Search, test: n.Compare) -> IntervalSet:
    target = search.target
    alone = sum(1 for side in (test.a, test.b) if uses_any(side, [target])) == 1
    if not is_index(test.a.dtype):
        if not alone:  # the difference of the sides wraps
            return NOTHING
        gap = test.a if uses_any(test.a, [target]) else test.b
    else:
        gap = n.Sub(test.a, test.b)
    if isinstance(test, n.EQ):
        rest = const(0, gap.dtype) if is_index(gap.dtype) else test.b if gap is test.a else test.a
        return _both(search.at_least(gap, rest), search.at_most(gap, rest), search.facts)
    if alone:  # a quotient or a max in its written form
        gap, rest = (test.a, test.b) if uses_any(test.a, [target]) else (test.b, test.a)
        greater = isinstance(test, (n.GT, n.GE)) is (gap is test.a)
    else:
        gap, rest = simplify(gap), const(0, gap.dtype)
        greater = isinstance(test, (n.GT, n.GE))
    if isinstance(test, (n.GT, n.LT)):
        if not is_index(rest.dtype) and not isinstance(rest, IntImm):
            return NOTHING  # the next value may wrap
        rest = exactly(add if greater else subtract, rest, 1)
    return search.at_least(gap, rest) if greater else search.at_most(gap, rest)


def _both(a: IntervalSet, b: IntervalSet, facts: Facts) -> IntervalSet:
    """The intersection of two sets; each end is an end of one of the sets."""
    if a.is_nothing() or b.is_nothing():
        return NOTHING
    ends = []
    for mine, theirs, pick in ((a.min_value, b.min_value, n.Max), (a.max_value, b.max_value, n.Min)):
        there = [end for end in (mine, theirs) if end not in INFINITIES]
        ends.append(simplify(pick(*there)) if len(there) == 2 else there[0] if there else mine)
    if INFINITIES.isdisjoint(ends) and prove(ends[0] > ends[1], facts):
        return NOTHING
    return IntervalSet(ends[0], ends[1])


class _Search:
    """Finds ends for a variable under facts about other variables."""

    def __init__(self, target: Var, relaxed: Mapping[Var, IntervalSet], facts: Facts) -> None:
        self.target = target
        self.relaxed = relaxed
        self.facts = facts

    def at_least(self, e: Expr, value: Expr) -> IntervalSet:
        """The values for which e >= value."""
        return self._solve(e, value, True)

    def at_most(self, e: Expr, value: Expr) -> IntervalSet:
        """The values for which e <= value."""
        return self._solve(e, value, False)

    def _solve(self, e: Expr, value: Expr, greater: bool) -> IntervalSet:
        if e is self.target:
            return self._end(value, greater)
        if not uses_any(e, [self.target]):
            return EVERYTHING if prove(e >= value if greater else e <= value, self.facts) else NOTHING
        if not is_index(e.dtype) and not isinstance(e, (n.Min, n.Max)):  # the expression may wrap
            return NOTHING
        found = coefficients(e, [self.target])
        if found is not None:
            return self._linear(found[0][self.target], found[1], value, greater)
        if isinstance(e, (n.Add, n.Sub, n.Mul)):
            return self._outer(e, value, greater)
        if isinstance(e, n.FloorDiv) and isinstance(e.b, IntImm) and e.b.value > 0:
            edge = exactly(multiply, value if greater else exactly(add, value, 1), e.b)
            return self._solve(e.a, edge if greater else exactly(subtract, edge, 1), greater)
        if isinstance(e, n.FloorDiv) and isinstance(e.b, IntImm) and e.b.value < 0:
            edge = exactly(multiply, value if greater else exactly(add, value, 1), e.b)
            return self._solve(e.a, edge if greater else exactly(add, edge, 1), not greater)
        if isinstance(e, (n.Min, n.Max)):
            a, b = self._solve(e.a, value, greater), self._solve(e.b, value, greater)
            if isinstance(e, n.Max) is greater:  # one side is enough
                return next((each for each in (a, b) if each.is_everything()), b if a.is_nothing() else a)
            return _both(a, b, self.facts)
        return NOTHING

    def _outer(self, e: Any, value: Expr, greater: bool) -> IntervalSet:
        """A sum or a product with the variable on one side, inside a nonlinear expression."""
        inside, outside = (e.a, e.b) if uses_any(e.a, [self.target]) else (e.b, e.a)
        if uses_any(outside, [self.target]):
            return NOTHING
        if isinstance(e, n.Add):
            return self._solve(inside, exactly(subtract, value, outside), greater)
        if isinstance(e, n.Sub):
            if inside is e.a:
                return self._solve(inside, exactly(add, value, outside), greater)
            return self._solve(inside, exactly(subtract, outside, value), not greater)
        quotient = self._quotient(value, outside, greater)
        if quotient is None:
            return NOTHING
        return self._solve(inside, quotient[0], quotient[1])

    def _linear(self, k: Expr, rest: Expr, value: Expr, greater: bool) -> IntervalSet:
        """The values for which k * target + rest >= value, or <=."""
        factor = simplify(k, self.facts)
        bound = simplify(exactly(subtract, value, rest), self.facts)
        if not (self._uses_relaxed(factor)):
            held = swept(bound, self.relaxed, self.facts)
            bound = held.max_value if greater else held.min_value
            if bound in INFINITIES:
                return NOTHING
        quotient = self._quotient(bound, factor, greater)
        return NOTHING if quotient is None else self._end(*quotient)

    def _quotient(self, value: Expr, factor: Expr, greater: bool) -> tuple[Expr, bool] | None:
        """Return (q, up): `x * factor >= value`, or `<=`, is `x >= q` if `up`, else `x <= q`. Return None for a factor
        of unknown sign."""
        positive = prove(factor > const(0, factor.dtype), self.facts)
        if not positive and not prove(factor < const(0, factor.dtype), self.facts):
            return None
        up = greater if positive else not greater
        whole = exactly(floordiv, value, factor)
        if up and not prove(floormod(value, factor).equal(0), self.facts):
            whole = exactly(add, whole, 1)
        return simplify(whole), up

    def _end(self, bound: Expr, greater: bool) -> IntervalSet:
        """The values from a bound on, or up to it, that are valid for all relaxed values."""
        if self._uses_relaxed(bound):
            held = swept(bound, self.relaxed, self.facts)
            bound = held.max_value if greater else held.min_value
            if bound in INFINITIES:
                return NOTHING
        bound = simplify(bound)
        if not isinstance(bound, IntImm) and not variables(bound):  # an end beyond the type's range
            return NOTHING
        return IntervalSet(bound, POSITIVE_INFINITY) if greater else IntervalSet(NEGATIVE_INFINITY, bound)

    def _uses_relaxed(self, e: Expr) -> bool:
        return any(v in self.relaxed for v in post_order(e))
