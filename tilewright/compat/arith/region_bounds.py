"""Regions that indices sweep while variables take all of their values: exactly, or by an inner or outer bound."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...arith.facts import EMPTY
from ...arith.iter_map import detect_iter_map
from ...arith.iter_marks import IterMapLevel, IterSumExpr
from ...arith.simplify import simplify
from ...arith.sizes import number
from ...core.errors import UserError
from ...expr.nodes import Expr, IntImm, Var
from ...expr.operators import add, as_expr, const, multiply, subtract
from ...expr.ranges import Range
from ...expr.traverse import uses_any
from .int_set import IntervalSet, as_domains, facts_of, swept


def estimate_region_lower_bound(region: Any, var_dom: Any, predicate: Any) -> list[IntervalSet] | None:
    """Return a region that is swept completely: one interval per dimension, or None if none is found.

    Parameters
    ----------
    region
        The range of each dimension, in terms of the variables.
    var_dom
        The range of each variable: {variable: te.Range(begin, end)}.
    predicate
        A condition on the variables; if it does not hold, nothing is swept.

    Returns
    -------
    list of IntervalSet, or None
        None if the dimensions depend on each other, if steps leave gaps, or if indices are not made of the variables'
        digits.
    """
    spans, iters = _checked(region, var_dom, "estimate_region_lower_bound")
    return _covered(spans, iters, predicate, IterMapLevel.Surjective)


def estimate_region_strict_bound(region: Any, var_dom: Any, predicate: Any) -> list[IntervalSet] | None:
    """Return the region that is swept, or None if it is not one interval per dimension.

    Parameters
    ----------
    region, var_dom, predicate
        As for `estimate_region_lower_bound`.
    """
    spans, iters = _checked(region, var_dom, "estimate_region_strict_bound")
    return _covered(spans, iters, predicate, IterMapLevel.Surjective)


def estimate_region_upper_bound(region: Any, var_dom: Any, predicate: Any) -> list[IntervalSet]:
    """Return a region that contains everything swept: one interval per dimension.

    Parameters
    ----------
    region, var_dom, predicate
        As for `estimate_region_lower_bound`.
    """
    spans, iters = _checked(region, var_dom, "estimate_region_upper_bound")
    exact = _covered(spans, iters, predicate, IterMapLevel.Surjective)
    if exact is not None:
        return exact
    domains = as_domains(iters, "estimate_region_upper_bound")
    facts = facts_of(domains, EMPTY)
    found = []
    for span in spans:
        first = swept(span.min, domains, facts)
        last = swept(simplify(subtract(add(span.min, span.extent), 1), facts), domains, facts)
        found.append(IntervalSet(first.min_value, last.max_value))
    return found


def _checked(region: Any, var_dom: Any, primitive: str) -> tuple[list[Range], dict[Var, Range]]:
    if not isinstance(region, (list, tuple)) or not all(isinstance(each, Range) for each in region):
        raise UserError(
            f"region={region!r} is not a list of ranges", primitive=primitive, fix="give [te.Range(i, i + 4)]"
        )
    if not isinstance(var_dom, Mapping) or not all(isinstance(each, Range) for each in var_dom.values()):
        raise UserError(
            f"var_dom={var_dom!r} does not map variables to ranges", primitive=primitive, fix="give {i: te.Range(0, 8)}"
        )
    iters: dict[Var, Range] = {}
    for key, held in var_dom.items():
        var = as_expr(key)
        if not isinstance(var, Var):
            raise UserError(f"`{var}` is not a variable", primitive=primitive, fix="give {i: te.Range(0, 8)}")
        iters[var] = held
    return list(region), iters


def _covered(
    spans: list[Range], iters: dict[Var, Range], predicate: Any, level: IterMapLevel
) -> list[IntervalSet] | None:
    """The region as intervals, by the digits of each first index."""
    extents = [simplify(span.extent) for span in spans]
    if any(uses_any(extent, iters) for extent in extents):
        return None
    if not all(isinstance(simplify(held.extent), IntImm) for held in iters.values()):
        return None
    condition = const(True, "bool") if predicate is True else predicate
    found = detect_iter_map([span.min for span in spans], iters, condition, level)
    if len(found.indices) != len(spans):
        return None
    made = [_interval(index, extent) for index, extent in zip(found.indices, extents, strict=True)]
    return None if None in made else [each for each in made if each is not None]


def _interval(index: IterSumExpr, extent: Expr) -> IntervalSet | None:
    """The interval that a window covers while an index runs; None if its steps leave gaps."""
    low = high = index.base
    if len(index.args) > 1:
        return None
    for digits in index.args:
        step, count = number(digits.scale), number(digits.extent)
        if not isinstance(step, int) or not isinstance(count, int):
            return None
        if not isinstance(extent, IntImm) or abs(step) > extent.value:
            return None
        reach = multiply(const(count - 1, index.base.dtype), step)
        low, high = (add(low, reach), high) if step < 0 else (low, add(high, reach))
    return IntervalSet(simplify(low), simplify(subtract(add(high, extent), 1)))
