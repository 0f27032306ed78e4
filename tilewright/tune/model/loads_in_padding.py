"""Detection of accesses that lie in the padding in every block, so that no load remains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...expr import nodes as n
from ...expr.arrays import evaluated
from ...expr.nodes import Expr, Var
from ...expr.traverse import post_order, variables


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
    if not isinstance(condition, n.Compare):
        return np.False_
    used = variables(condition)
    if not all(var in axes for var in used):
        return np.False_
    holds = evaluated(condition, axes, unknown=0)
    sure = np.logical_and.reduce([known[var] for var in used]) if used else np.True_
    return sure & ~np.asarray(holds).any(axis=-1)
