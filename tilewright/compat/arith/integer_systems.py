"""Solutions of systems of linear equations over the integers; common code with systems of inequalities.

Equations are brought to Smith normal form: the solutions are then one particular solution and all integer combinations
of some others (A. Schrijver, "Theory of Linear and Integer Programming", Wiley, 1986).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...arith.coefficients import coefficients
from ...arith.facts import EMPTY, Facts
from ...arith.simplify import simplify
from ...core.errors import UserError
from ...core.refusals import not_made
from ...expr import nodes as n
from ...expr.nodes import FALSE, TRUE, Expr, IntImm, Var
from ...expr.operators import (
    add,
    as_expr,
    condition,
    const,
    floordiv,
    floormod,
    multiply,
    subtract,
)
from ...expr.ranges import Range
from ...expr.traverse import substitute
from .int_set import as_domains, facts_of, swept
from .linear_equations import as_variables
from .smith import smith_normal_form


class IntConstraints:
    """Values of variables: the values in the `ranges` for which all `relations` hold."""

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
    """A change of variables: each variable of `src` is an expression of `dst`, and vice versa."""

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
        """Each variable of `src` as an expression of the variables of `dst`."""
        self.dst_to_src = dict(dst_to_src)
        """Each variable of `dst` as an expression of the variables of `src`."""

    def __repr__(self) -> str:
        return f"IntConstraintsTransform({self.src}, {self.dst}, {self.src_to_dst}, {self.dst_to_src})"


def problem(equations: Any, variables: Any, ranges: Any, primitive: str) -> IntConstraints:
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
        Ranges of variables: {variable: te.Range(begin, end)}.

    Returns
    -------
    IntConstraintsTransform
        `dst` has one variable for each degree of freedom, its range, and the conditions that are left;
        `src_to_dst` says the solution. Conditions that cannot hold leave the relation False.

    Raises
    ------
    UserError
        If an equation is not linear in the variables with constant coefficients.
    """
    src = problem(equations, variables, ranges, "solve_linear_equations")
    rows, right = _matrix(src)
    diagonal, left, columns, back = smith_normal_form(rows, len(src.variables))
    facts = _facts(src)
    values = [_combination(weights, right, facts) for weights in left]  # a value per equation of the diagonal system
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
    """The new variables: their ranges, and the remaining conditions from the old ones' ranges."""
    domains = as_domains(src.ranges, "ranges")
    ranges: dict[Var, Range] = {}
    for v in free:
        held = swept(dst_to_src[v], {key: value for key, value in domains.items() if value.is_bounded}, EMPTY)
        if held.is_bounded and _used(held.min_value, held.max_value).isdisjoint(src.variables):
            ranges[v] = Range.from_min_extent(
                held.min_value, simplify(add(subtract(held.max_value, held.min_value), 1), facts)
            )
    inside = facts_of(as_domains(ranges, "ranges"), known_of_parameters(src))
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


def known_of_parameters(src: IntConstraints) -> Facts:
    """The facts about the parameters."""
    return facts_of({v: held for v, held in as_domains(src.ranges, "ranges").items() if v not in src.variables}, EMPTY)


def _used(*parts: Expr) -> set[Expr]:
    from_all: set[Expr] = set()
    stack = list(parts)
    while stack:
        at = stack.pop()
        from_all.add(at)
        stack += at.children()
    return from_all
