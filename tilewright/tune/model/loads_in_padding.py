"""Detection of accesses that lie in the padding in every block, so that no load remains."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...expr import nodes as n
from ...expr.nodes import Expr, Var
from ...expr.traverse import post_order, variables
from .lanes import value_of

_COMPARE: Mapping[type, Callable[[Any, Any], Any]] = {
    n.LT: operator.lt, n.LE: operator.le, n.GT: operator.gt, n.GE: operator.ge, n.EQ: operator.eq,
}  # fmt: skip


def never_loads(body: Sequence[Expr], axes: Mapping[Var, np.ndarray], known: Mapping[Var, np.ndarray]) -> np.ndarray:
    """Return, for each configuration, whether the conditions of a body fail in all lanes.

    `axes` has the values of axes per lane; `known` has the configurations in which these values hold for every block.
    """
    found: np.ndarray = np.False_  # type: ignore[assignment]
    for e in post_order(*body):
        if isinstance(e, (n.Select, n.IfThenElse)):
            found = found | _never(e.condition, axes, known)
    return found


def _never(condition: Expr, axes: Mapping[Var, np.ndarray], known: Mapping[Var, np.ndarray]) -> Any:
    if isinstance(condition, n.And):
        return _never(condition.a, axes, known) | _never(condition.b, axes, known)
    compare = _COMPARE.get(type(condition))
    if compare is None or not isinstance(condition, n.Compare):
        return np.False_
    used = variables(condition)
    if not all(var in axes for var in used):
        return np.False_
    holds = compare(value_of(condition.a, axes), value_of(condition.b, axes))
    sure = np.logical_and.reduce([known[var] for var in used]) if used else np.True_
    return sure & ~np.asarray(holds).any(axis=-1)
