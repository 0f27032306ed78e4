"""Systems of linear inequalities over the integers, solved by Fourier-Motzkin elimination.

One variable after the other gets bounds in terms of the later ones (A. Schrijver, "Theory of Linear and Integer
Programming", Wiley, 1986). From the last variable on, each then gets the range of one lower and one upper bound with a
constant extent if possible. Other bounds stay as relations.
"""

from __future__ import annotations

from itertools import product
from math import inf
from typing import Any

from ...arith.coefficients import coefficients
from ...arith.facts import Facts
from ...arith.interval import bounds
from ...arith.simplify import prove, simplify
from ...core.errors import UserError
from ...expr.nodes import FALSE, TRUE, Expr, IntImm, Var
from ...expr.operators import add, const, floordiv, maximum, minimum, multiply, subtract
from ...expr.ranges import Range
from ...expr.traverse import substitute, uses_any
from .int_set import as_domains, facts_of
from .integer_systems import IntConstraints, IntConstraintsTransform, known_of_parameters, problem
from .linear_equations import nonnegative_forms


class _Bounds:
    """Bounds of one variable: `low` and `high` hold an expression of later variables for each inequality."""

    def __init__(self) -> None:
        self.low: list[Expr] = []
        self.high: list[Expr] = []


def solve_linear_inequalities(
    equations: Any, variables: Any = None, ranges: Any = None, deskew_range: bool = False
) -> IntConstraints | IntConstraintsTransform:
    """Solve comparisons that are linear in integer variables.

    Parameters
    ----------
    equations
        Comparisons. Nonlinear ones stay as relations.
    variables
        The variables to solve for; the range of each is in terms of the later ones.
    ranges
        Ranges of variables: {variable: te.Range(begin, end)}.
    deskew_range
        Whether to return new variables instead, with ranges from 0.

    Returns
    -------
    IntConstraints or IntConstraintsTransform
        The same solutions: a range for each variable that has both ends, of constant extent if one is found, and the
        remaining relations. Without a solution, no variable and the relation False.

    Raises
    ------
    UserError
        If a relation is not an ordering or an equation of integers.
    """
    src = problem(equations, variables, ranges, "solve_linear_inequalities")
    found, rest = _eliminated(src)
    relations = [each for each in rest if each is not TRUE]
    solved: dict[Var, Range] = {}
    known = known_of_parameters(src)
    for v in reversed(src.variables):
        span, more = _span(v, found[v], known, src)
        relations += [each for each in more if each is not TRUE]
        if span is not None:
            solved[v] = span
            known = facts_of(as_domains({v: span}, "ranges"), known)
    others = {v: r for v, r in src.ranges.items() if v not in src.variables}
    if any(each is FALSE for each in relations):
        nothing = IntConstraints([], {}, [FALSE])
        return IntConstraintsTransform(src, nothing, {}, {}) if deskew_range else nothing
    inner = {v: solved[v] for v in src.variables if v in solved}
    dst = IntConstraints(src.variables, {**others, **inner}, list(dict.fromkeys(relations)))
    return _deskewed(src, dst) if deskew_range else dst


def _span(v: Var, held: _Bounds, facts: Facts, src: IntConstraints) -> tuple[Range | None, list[Expr]]:
    """The range of a variable, by the ranges of later variables; and its other bounds as relations."""
    low, high = ([simplify(end, facts) for end in dict.fromkeys(ends)] for ends in (held.low, held.high))
    gaps = [(a, b, simplify(add(subtract(b, a), 1), facts)) for a, b in product(low, high)]
    most = {gap: bounds(gap, facts)[1] for _, _, gap in gaps}
    if any(size <= 0 for size in most.values()):
        return None, [FALSE]
    finite = [each for each in gaps if most[each[2]] < inf]
    if not finite:
        return _symbolic(v, low, high, facts)
    start, end, gap = min(finite, key=lambda each: most[each[2]])
    exact = isinstance(gap, IntImm) or not uses_any(gap, src.variables)
    extent = gap if exact else const(int(most[gap]), gap.dtype)
    last = subtract(add(start, extent), 1)
    relations = [v >= each for each in low if each is not start and not prove(each <= start, facts)]
    relations += [v <= each for each in high if not (exact and each is end) and not prove(last <= each, facts)]
    span = Range.from_min_extent(start, extent)
    inside = facts_of(as_domains({v: span}, "ranges"), facts)
    return span, [simplify(each, inside) for each in relations]


def _symbolic(v: Var, low: list[Expr], high: list[Expr], facts: Facts) -> tuple[Range | None, list[Expr]]:
    """The range of a variable that has no constant extent: from the largest lower to the smallest upper bound."""
    first, last = _joined(low, maximum, facts), _joined(high, minimum, facts)
    if first is not None and last is not None:
        return Range.from_min_extent(first, simplify(add(subtract(last, first), 1), facts)), []
    one_sided = [v >= first] if first is not None else [v <= last] if last is not None else []
    return None, [simplify(each, facts) for each in one_sided]


def _joined(ends: list[Expr], pick: Any, facts: Facts) -> Expr | None:
    made: Expr | None = None
    for end in dict.fromkeys(ends):
        made = end if made is None else simplify(pick(made, end), facts)
    return made


def _eliminated(src: IntConstraints) -> tuple[dict[Var, _Bounds], list[Expr]]:
    """The bounds of each variable in terms of later variables and parameters, and conditions on parameters alone."""
    facts = known_of_parameters(src)
    forms = _forms(src, facts)
    found: dict[Var, _Bounds] = {}
    products: dict[Expr, None] = {}  # products of variables stay as conditions
    for v in src.variables:
        here = found[v] = _Bounds()
        lower: list[tuple[int, Expr]] = []
        upper: list[tuple[int, Expr]] = []
        left: dict[Expr, None] = {}
        for form in forms:
            parts = coefficients(form, [v])
            factor = simplify(parts[0].get(v, const(0, v.dtype))) if parts else None
            if parts is None or not isinstance(factor, IntImm):
                products[form] = None
                continue
            if factor.value == 0:
                left[form] = None
            elif factor.value > 0:
                lower.append((factor.value, simplify(parts[1], facts)))
            else:
                upper.append((-factor.value, simplify(parts[1], facts)))
        # k * v + rest >= 0
        here.low = [simplify(multiply(floordiv(rest, k), -1), facts) for k, rest in lower]
        here.high = [simplify(floordiv(rest, k), facts) for k, rest in upper]
        for k, rest in lower:
            for j, other in upper:
                both = simplify(add(multiply(rest, j), multiply(other, k)), facts)
                if simplify(both >= const(0, both.dtype), facts) is not TRUE:
                    left[both] = None
        forms = list(left)
    return found, [simplify(form >= const(0, form.dtype), facts) for form in (*products, *forms)]


def _not_linear(form: Any, src: IntConstraints) -> UserError:
    return UserError(
        f"`{form}` is not an ordering or an equation of {', '.join(v.name for v in src.variables)}",
        primitive="solve_linear_inequalities",
        fix="give comparisons of sums of multiples of the variables: x + y * 2 < 8",
    )


def _forms(src: IntConstraints, facts: Facts) -> list[Expr]:
    """The expressions that are at least 0."""
    conditions = list(src.relations)
    for v in src.variables:
        if v in src.ranges:
            held = src.ranges[v]
            conditions += [v >= held.min, v < add(held.min, held.extent)]
    forms: dict[Expr, None] = {}
    for each in conditions:
        parts = nonnegative_forms(each)
        if parts is None:
            raise _not_linear(each, src)
        for part in parts:
            form = simplify(part, facts)
            if simplify(form >= const(0, form.dtype), facts) is not TRUE:
                forms[form] = None
    return list(forms)


def _deskewed(src: IntConstraints, dst: IntConstraints) -> IntConstraintsTransform:
    """Variables that count from the lower end of each range."""
    fresh: list[Var] = []
    to_src: dict[Var, Expr] = {}
    to_dst: dict[Var, Expr] = {}
    ranges: dict[Var, Range] = {v: r for v, r in dst.ranges.items() if v not in dst.variables}
    for v in reversed(dst.variables):  # the last variable's range uses no other variable
        held = dst.ranges.get(v)
        if held is None:
            made, low = Var(f"{v.name}_shifted", v.dtype), const(0, v.dtype)
        else:
            low, extent = (simplify(substitute(e, to_src)) for e in (held.min, held.extent))
            if isinstance(extent, IntImm) and extent.value == 1:
                to_src[v] = low
                continue
            made = Var(f"{v.name}_shifted", v.dtype)
            ranges[made] = Range.from_min_extent(const(0, v.dtype), extent)
        fresh.insert(0, made)
        to_src[v] = simplify(add(made, low))
        to_dst[made] = simplify(subtract(v, held.min)) if held is not None else v
    relations = [simplify(substitute(each, to_src)) for each in dst.relations]
    return IntConstraintsTransform(src, IntConstraints(fresh, ranges, relations), to_src, to_dst)
