"""Systems of linear equations and inequalities over the integers, solved.

Equations are brought to Smith normal form: the solutions are then one particular solution and all integer combinations
of some others. Inequalities are solved by Fourier-Motzkin elimination, one variable after the other: each gets bounds
in terms of those after it. Both are in A. Schrijver, "Theory of Linear and Integer Programming" (Wiley, 1986).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..core.errors import UserError
from ..core.refusals import not_made
from ..expr import nodes as n
from ..expr.nodes import FALSE, TRUE, Expr, IntImm, Var
from ..expr.operators import (
    add,
    as_expr,
    condition,
    const,
    floordiv,
    floormod,
    maximum,
    minimum,
    multiply,
    subtract,
)
from ..expr.ranges import Range
from ..expr.traverse import substitute
from .facts import EMPTY, Facts
from .int_set import as_domains, facts_of, swept
from .linear_equations import as_variables, coefficients, nonnegative_forms
from .simplify import simplify
from .smith import smith_normal_form


class IntConstraints:
    """Values of variables: those in the `ranges` for which all `relations` hold."""

    __slots__ = ("ranges", "relations", "variables")

    def __init__(self, variables: Any, ranges: Mapping[Var, Range], relations: Any) -> None:
        known = isinstance(ranges, Mapping) and all(isinstance(held, Range) for held in ranges.values())
        if not known or not all(isinstance(part, (list, tuple)) for part in (variables, relations)):
            raise not_made("IntConstraints", "give a list of variables, a dict of their ranges, a list of conditions")
        self.variables: list[Var] = list(variables)
        self.ranges = dict(ranges)
        self.relations: list[Expr] = list(relations)

    def __repr__(self) -> str:
        return f"IntConstraints({self.variables}, {self.ranges}, {self.relations})"


class IntConstraintsTransform:
    """The same values by other variables: each of `src` is an expression of those of `dst`, and the other way."""

    __slots__ = ("dst", "dst_to_src", "src", "src_to_dst")

    def __init__(
        self, src: IntConstraints, dst: IntConstraints, src_to_dst: Mapping[Var, Expr], dst_to_src: Mapping[Var, Expr]
    ) -> None:
        ends = isinstance(src, IntConstraints) and isinstance(dst, IntConstraints)
        if not ends or not isinstance(src_to_dst, Mapping) or not isinstance(dst_to_src, Mapping):
            raise not_made("IntConstraintsTransform", "arith.solve_linear_equations returns one")
        self.src = src
        self.dst = dst
        self.src_to_dst = dict(src_to_dst)
        """Each variable of `src` as an expression of those of `dst`."""
        self.dst_to_src = dict(dst_to_src)
        """Each variable of `dst` as an expression of those of `src`."""

    def __repr__(self) -> str:
        return f"IntConstraintsTransform({self.src}, {self.dst}, {self.src_to_dst}, {self.dst_to_src})"


def _problem(equations: Any, variables: Any, ranges: Any, primitive: str) -> IntConstraints:
    if isinstance(equations, IntConstraints):
        return equations
    given = [condition(e, primitive) for e in (equations if isinstance(equations, (tuple, list)) else [equations])]
    if ranges is not None and not (isinstance(ranges, Mapping) and all(isinstance(r, Range) for r in ranges.values())):
        raise UserError(
            f"ranges={ranges!r} does not map variables to ranges",
            primitive=primitive,
            fix="give {x: te.Range(0, 10)}, or leave it out",
        )
    found: dict[Any, Range] = {as_expr(var): held for var, held in (ranges or {}).items()}
    names = as_variables(list(found) if variables is None else variables, primitive)
    if not names:
        raise UserError("no variable is given", primitive=primitive, fix="give the variables to solve for: [x, y]")
    return IntConstraints(names, found, given)


def solve_linear_equations(equations: Any, variables: Any = None, ranges: Any = None) -> IntConstraintsTransform:
    """Solve equations that are linear in integer variables.

    Parameters
    ----------
    equations
        Comparisons by `tir.EQ(a, b)` (`a.equal(b)`); variables that are not solved for are parameters.
    variables
        The variables to solve for.
    ranges
        What is known of variables: {variable: te.Range(begin, end)}.

    Returns
    -------
    IntConstraintsTransform
        `dst` has one variable for each degree of freedom, its range, and the conditions that are left;
        `src_to_dst` says the solution. Conditions that cannot hold leave the relation False.

    Raises
    ------
    UserError
        For what is not an equation linear in the variables, with constant coefficients.
    """
    src = _problem(equations, variables, ranges, "solve_linear_equations")
    rows, right = _matrix(src)
    diagonal, left, columns, back = smith_normal_form(rows, len(src.variables))
    facts = _facts(src)
    values = [_combination(weights, right, facts) for weights in left]  # of each equation of the diagonal system
    relations: list[Expr] = []
    known: list[Expr] = []
    for i, value in enumerate(values):
        if i < len(diagonal):
            if diagonal[i] != 1:
                relations.append(simplify(floormod(value, diagonal[i]).equal(0), facts))
            known.append(simplify(floordiv(value, diagonal[i]), facts))
        else:
            relations.append(simplify(value.equal(0), facts))
    relations = [each for each in relations if each is not TRUE]
    free = [Var(f"n{i}", _dtype(src)) for i in range(len(src.variables) - len(diagonal))]
    if any(each is FALSE for each in relations):
        return IntConstraintsTransform(src, IntConstraints([], {}, [FALSE]), {}, {})
    parts = [*known, *free]
    src_to_dst = {v: _combination(columns[i], parts, facts) for i, v in enumerate(src.variables)}
    dst_to_src = {v: _combination(back[len(diagonal) + i], src.variables, facts) for i, v in enumerate(free)}
    dst = _target(src, free, src_to_dst, dst_to_src, relations, facts)
    return IntConstraintsTransform(src, dst, src_to_dst, dst_to_src)


def _dtype(src: IntConstraints) -> Any:
    return max((v.dtype for v in src.variables), key=lambda dtype: dtype.bits)


def _facts(src: IntConstraints) -> Facts:
    return facts_of(as_domains(src.ranges, "ranges"), EMPTY)


def _combination(weights: Sequence[int], parts: Sequence[Any], facts: Facts) -> Expr:
    total: Expr = const(0, parts[0].dtype if parts else "int32")
    for weight, part in zip(weights, parts, strict=True):
        if weight:
            total = add(total, multiply(part, weight))
    return simplify(total, facts)


def _matrix(src: IntConstraints) -> tuple[list[list[int]], list[Expr]]:
    """Coefficients and right-hand sides."""
    rows: list[list[int]] = []
    right: list[Expr] = []
    for relation in src.relations:
        found = None
        if isinstance(relation, n.EQ) and relation.a.dtype.is_int:
            found = coefficients(subtract(relation.a, relation.b), src.variables)
        elif isinstance(relation, IntImm):  # an equation that was found to hold, or not to
            found = {}, const(0 if relation.value else 1, "int32")
        numbers = None if found is None else [simplify(found[0].get(v, const(0, v.dtype))) for v in src.variables]
        if found is None or numbers is None or not all(isinstance(k, IntImm) for k in numbers):
            raise UserError(
                f"`{relation}` is not a linear equation of {', '.join(v.name for v in src.variables)}",
                primitive="solve_linear_equations",
                fix="give sums of constant multiples of the variables: (x + y * 2).equal(8)",
            )
        rows.append([int(k) for k in numbers])
        right.append(simplify(multiply(found[1], -1)))
    return rows, right


def _target(
    src: IntConstraints,
    free: list[Var],
    src_to_dst: Mapping[Var, Expr],
    dst_to_src: Mapping[Var, Expr],
    relations: list[Expr],
    facts: Facts,
) -> IntConstraints:
    """The new variables: what they range over, and what is left of the old ones' ranges as conditions."""
    domains = as_domains(src.ranges, "ranges")
    ranges: dict[Var, Range] = {}
    for v in free:
        held = swept(dst_to_src[v], {key: value for key, value in domains.items() if value.is_bounded}, EMPTY)
        if held.is_bounded and _used(held.min_value, held.max_value).isdisjoint(src.variables):
            ranges[v] = Range.from_min_extent(
                held.min_value, simplify(add(subtract(held.max_value, held.min_value), 1), facts)
            )
    inside = facts_of(as_domains(ranges, "ranges"), _others(src))
    for old, held_range in src.ranges.items():
        if old not in src_to_dst:
            continue
        value, low = src_to_dst[old], held_range.min
        past = add(low, held_range.extent)
        for bound in (value >= low, value < past):
            kept = simplify(substitute(bound, src_to_dst), inside)
            if kept is not TRUE:
                relations = [*relations, kept]
    others = {v: r for v, r in src.ranges.items() if v not in src_to_dst}
    return IntConstraints(free, {**others, **ranges}, list(dict.fromkeys(relations)))


def _others(src: IntConstraints) -> Facts:
    """What is known of the parameters."""
    return facts_of({v: held for v, held in as_domains(src.ranges, "ranges").items() if v not in src.variables}, EMPTY)


def _used(*parts: Expr) -> set[Expr]:
    from_all: set[Expr] = set()
    stack = list(parts)
    while stack:
        at = stack.pop()
        from_all.add(at)
        stack += at.children()
    return from_all


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
        Comparisons with constant coefficients of the variables.
    variables
        The variables to solve for; the range of each is in terms of those after it.
    ranges
        What is known of variables: {variable: te.Range(begin, end)}.
    deskew_range
        Whether to return new variables instead, whose ranges begin at 0.

    Returns
    -------
    IntConstraints or IntConstraintsTransform
        The same solutions: a range for each variable that has both ends, and the relations that are left. Where there
        are none, no variable and the relation False.

    Raises
    ------
    UserError
        For what is not a comparison linear in the variables, with constant coefficients.
    """
    src = _problem(equations, variables, ranges, "solve_linear_inequalities")
    found, rest = _eliminated(src)
    facts = _others(src)
    solved: dict[Var, Range] = {}
    relations = [each for each in rest if each is not TRUE]
    for v in src.variables:
        low = _joined(found[v].low, maximum, facts)
        high = _joined(found[v].high, minimum, facts)
        if low is not None and high is not None:
            solved[v] = Range.from_min_extent(low, simplify(add(subtract(high, low), 1), facts))
            continue
        relations += [simplify(each, facts) for each in ([v >= low] if low is not None else [])]
        relations += [simplify(each, facts) for each in ([v <= high] if high is not None else [])]
    others = {v: r for v, r in src.ranges.items() if v not in src.variables}
    if any(each is FALSE for each in relations):
        nothing = IntConstraints([], {}, [FALSE])
        return IntConstraintsTransform(src, nothing, {}, {}) if deskew_range else nothing
    dst = IntConstraints(src.variables, {**others, **solved}, relations)
    return _deskewed(src, dst) if deskew_range else dst


def _joined(ends: list[Expr], pick: Any, facts: Facts) -> Expr | None:
    made: Expr | None = None
    for end in dict.fromkeys(ends):
        made = end if made is None else simplify(pick(made, end), facts)
    return made


def _eliminated(src: IntConstraints) -> tuple[dict[Var, _Bounds], list[Expr]]:
    """For each variable, its bounds in terms of later ones and of parameters; and conditions on parameters alone."""
    facts = _others(src)
    forms = _forms(src, facts)
    found: dict[Var, _Bounds] = {}
    for v in src.variables:
        here = found[v] = _Bounds()
        lower: list[tuple[int, Expr]] = []
        upper: list[tuple[int, Expr]] = []
        left: dict[Expr, None] = {}
        for form in forms:
            parts = coefficients(form, [v])
            factor = simplify(parts[0].get(v, const(0, v.dtype))) if parts else None
            if parts is None or not isinstance(factor, IntImm):
                raise _not_linear(form, src)
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
    return found, [simplify(form >= const(0, form.dtype), facts) for form in forms]


def _not_linear(form: Any, src: IntConstraints) -> UserError:
    return UserError(
        f"`{form}` is not linear in {', '.join(v.name for v in src.variables)}",
        primitive="solve_linear_inequalities",
        fix="give comparisons of sums of constant multiples of the variables: x + y * 2 < 8",
    )


def _forms(src: IntConstraints, facts: Facts) -> list[Expr]:
    """What is at least 0."""
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
    for v in reversed(dst.variables):  # the last one's range uses none of the others
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
