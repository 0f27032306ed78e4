"""Linear parts of expressions under the legacy API's names: `detect_linear_equation`, `detect_clip_bound`."""

from __future__ import annotations

from typing import Any

from ...arith.coefficients import coefficients
from ...arith.facts import NEGATED, is_index
from ...arith.simplify import simplify
from ...core.errors import UserError
from ...expr import nodes as n
from ...expr.nodes import Expr, IntImm, Var
from ...expr.operators import as_expr, condition, const, floordiv, maximum, minimum, multiply, subtract


def as_variables(given: Any, primitive: str) -> list[Var]:
    """Variables and axes as variables."""
    found = [as_expr(v) for v in (given if isinstance(given, (tuple, list)) else [given])]
    wrong = next((v for v in found if not isinstance(v, Var)), None)
    if wrong is not None:
        raise UserError(f"`{wrong}` is not a variable", primitive=primitive, fix='give variables: [te.var("i")]')
    return found  # type: ignore[return-value]  # each is a Var


def detect_linear_equation(expr: Any, var_list: Any) -> list[Expr]:
    """Return the coefficients of `expr` as a linear equation of the variables.

    Parameters
    ----------
    expr
        An expression.
    var_list
        The variables v0, v1, ...

    Returns
    -------
    list of Expr
        `[k0, k1, ..., base]` with `expr == k0 * v0 + k1 * v1 + ... + base`, each free of the variables in the list. []
        if `expr` is not linear in them.
    """
    e, variables = as_expr(expr), as_variables(var_list, "detect_linear_equation")
    found = coefficients(e, variables)
    if found is None:
        return []
    zero = const(0, e.dtype)
    return [*(simplify(found[0].get(v, zero)) for v in variables), simplify(found[1])]


def _conjuncts(cond: Expr) -> list[Expr]:
    """The comparisons that must all hold; other conditions stay as they are."""
    if isinstance(cond, n.And):
        return [*_conjuncts(cond.a), *_conjuncts(cond.b)]
    if isinstance(cond, n.Not) and isinstance(cond.a, n.Compare):
        opposite: Any = NEGATED[type(cond.a)]
        return _conjuncts(opposite(cond.a.a, cond.a.b))
    if isinstance(cond, n.Not) and isinstance(cond.a, n.Or):
        return [*_conjuncts(n.Not(cond.a.a)), *_conjuncts(n.Not(cond.a.b))]
    if isinstance(cond, n.Call) and cond.name == "likely":
        return _conjuncts(cond.args[0])
    if isinstance(cond, (n.GT, n.GE)):
        return _conjuncts((n.LT if isinstance(cond, n.GT) else n.LE)(cond.b, cond.a))
    if isinstance(cond, (n.LT, n.LE)):  # max(p, q) < r and p < min(q, r) are two comparisons each
        if isinstance(cond.a, n.Max):
            return [*_conjuncts(type(cond)(cond.a.a, cond.b)), *_conjuncts(type(cond)(cond.a.b, cond.b))]
        if isinstance(cond.b, n.Min):
            return [*_conjuncts(type(cond)(cond.a, cond.b.a)), *_conjuncts(type(cond)(cond.a, cond.b.b))]
    return [cond]


def nonnegative_forms(cond: Expr) -> list[Expr] | None:
    """Expressions that are at least 0 exactly if the condition holds; None if there are none."""
    forms: list[Expr] = []
    for part in _conjuncts(cond):
        if isinstance(part, IntImm):
            forms.append(IntImm(part.value - 1, n.Var("x").dtype))
            continue
        if not isinstance(part, n.Compare) or not is_index(part.a.dtype) or isinstance(part, n.NE):
            return None  # differences of other types wrap
        gap = subtract(part.b, part.a)
        if isinstance(part, n.EQ):
            forms += [gap, subtract(part.a, part.b)]
        else:
            forms.append(subtract(gap, 1) if isinstance(part, n.LT) else gap)
    return forms


def detect_clip_bound(expr: Any, var_list: Any) -> list[Expr | None]:
    """Return the least and the greatest value of each variable for which a condition holds.

    Parameters
    ----------
    expr
        Comparisons that are linear in one variable each, joined by `tir.all`.
    var_list
        The variables v0, v1, ...

    Returns
    -------
    list
        `[min0, max0, min1, max1, ...]`; None for an end that the condition does not limit. [] if a part of the
        condition is not such a comparison.
    """
    variables = as_variables(var_list, "detect_clip_bound")
    forms = nonnegative_forms(condition(expr, "detect_clip_bound"))
    if forms is None:
        return []
    ends: dict[Var, list[Expr | None]] = {v: [None, None] for v in variables}
    for form in forms:
        found = coefficients(form, variables)
        if found is None:
            return []
        used = [(v, simplify(k)) for v, k in found[0].items()]
        used = [(v, k) for v, k in used if not (isinstance(k, IntImm) and k.value == 0)]
        v, k = used[0] if len(used) == 1 else (variables[0], form)
        if len(used) != 1 or not isinstance(k, IntImm):
            return []
        if k.value > 0:  # k * v + rest >= 0
            low = simplify(multiply(floordiv(found[1], k.value), -1))
            held = ends[v][0]
            ends[v][0] = low if held is None else simplify(maximum(held, low))
        else:
            high = simplify(floordiv(found[1], -k.value))
            held = ends[v][1]
            ends[v][1] = high if held is None else simplify(minimum(held, high))
    return [end for v in variables for end in ends[v]]
