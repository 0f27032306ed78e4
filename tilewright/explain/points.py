"""A sample of the warps of a kernel: points in its grid and its loops, and the values of expressions there.

A point is one warp at one iteration of all loops around a statement. Every loop distributes its iterations evenly over
the points, in an order of its own. The weight of a point is the product of the extents that it saw. If extents are
constant and no guard depends on two loops at once, counts are exact.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..expr.arrays import evaluated
from ..expr.nodes import Expr, Var

POINTS = 192
"""The least number of warps in a sample."""
_THREADS = 6144
"""The least number of threads in a sample: if warps have few lanes, there are more warps, to meet narrow guards."""
Values = np.ndarray | None
"""The value of an expression at each point (rows) in each lane (columns, or one column); None if it is unknown."""


class Points:
    """The points of one kernel.

    `weights` are how many executions each point stands for; `active` tells which lanes take part. Both change inside
    the loops of the kernel, and are restored after them.
    """

    def __init__(self, lanes: int, sizes: Mapping[Var, int]) -> None:
        self.lanes = lanes
        self.count = max(POINTS, _THREADS // lanes)
        self.weights = np.full(self.count, 1.0 / self.count)
        self.active = np.ones((self.count, lanes), bool)
        self._values: dict[Var, Values] = {var: np.full((1, 1), size, np.int64) for var, size in sizes.items()}
        self._known: dict[Expr, Values] = {}
        self._random = np.random.default_rng(0)

    def define(self, var: Var, value: Values) -> None:
        """Give a variable its value."""
        if var in self._values:
            self._known.clear()
        self._values[var] = value

    def spread(self, extent: np.ndarray) -> np.ndarray:
        """Distribute the numbers below `extent` (one for each point) over the points, and weigh the points by it."""
        steps = (self._random.permutation(self.count) + 0.5) / self.count
        self.weights = self.weights * np.maximum(extent, 0)
        made: np.ndarray = np.minimum((steps * extent).astype(np.int64), np.maximum(extent - 1, 0))
        return made

    def loop(self, var: Var, least: Expr, extent: Expr) -> None:
        """Enter a loop: each point gets one iteration."""
        first, count = self.value(least), self.value(extent)
        first = np.zeros((1, 1), np.int64) if first is None else first
        count = np.ones((1, 1), np.int64) if count is None else count
        each = np.broadcast_to(count[:, :1], (self.count, 1))[:, 0]
        self.define(var, first + self.spread(each)[:, None])

    def where(self, condition: Expr, holds: bool = True) -> np.ndarray:
        """The active lanes in which a condition holds, or does not; all active lanes if it is unknown."""
        value = self.value(condition)
        if value is None:
            return self.active
        made: np.ndarray = self.active & (value.astype(bool) if holds else ~value.astype(bool))
        return made

    def value(self, e: Expr) -> Values:
        """The value of an expression of variables."""
        return values_at_points(e, self._values, self._known)


def values_at_points(e: Expr, values: Mapping[Var, Values], known: dict[Expr, Values] | None = None) -> Values:
    """Return the value of an expression with arrays as the values of variables; None if a value is unknown."""
    found = evaluated(e, values, known)
    return found if found is None or isinstance(found, np.ndarray) else np.full((1, 1), found)
