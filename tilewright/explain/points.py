"""A sample of the warps of a kernel: points in its grid and its loops, and the values of expressions there.

A point is one warp at one iteration of all loops around a statement. Every loop distributes its iterations evenly over
the points, in an order of its own. The weight of a point is the product of the extents that it saw. If extents are
constant and no guard depends on two loops at once, counts are exact.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..expr import nodes as n
from ..expr.nodes import Expr, Var
from ..expr.numerics import INTRINSICS

POINTS = 192
"""The least number of warps in a sample."""
_THREADS = 6144
"""The least number of threads in a sample: if warps have few lanes, there are more warps, to meet narrow guards."""
Values = np.ndarray | None
"""The value of an expression at each point (rows) in each lane (columns, or one column); None if it is unknown."""


def _truncated(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    made: np.ndarray = np.trunc(a / b).astype(np.int64)
    return made


_BINARY: dict[type, Callable[[Any, Any], Any]] = {
    n.Add: operator.add,
    n.Sub: operator.sub,
    n.Mul: operator.mul,
    n.FloorDiv: operator.floordiv,
    n.FloorMod: operator.mod,
    n.Div: _truncated,
    n.Mod: np.fmod,
    n.Min: np.minimum,
    n.Max: np.maximum,
    n.EQ: operator.eq,
    n.NE: operator.ne,
    n.LT: operator.lt,
    n.LE: operator.le,
    n.GT: operator.gt,
    n.GE: operator.ge,
}
_DIVISIONS = (n.FloorDiv, n.FloorMod, n.Div, n.Mod)
_OF_BITS = frozenset("bitwise_and bitwise_or bitwise_xor bitwise_not shift_left shift_right".split())
"""Functions with a 64-bit result that equals the narrower result, if that fits."""


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
        return evaluated(e, self._values, self._known)


def evaluated(e: Expr, values: Mapping[Var, Values], known: dict[Expr, Values] | None = None) -> Values:
    """Return the value of an expression with arrays as the values of variables; None if a value is unknown."""
    memo = {} if known is None else known

    def visit(at: Expr) -> Values:
        if at not in memo:
            memo[at] = _evaluate(at, values, visit)
        return memo[at]

    return visit(e)


def _evaluate(e: Any, values: Mapping[Var, Values], visit: Callable[[Expr], Values]) -> Values:
    if isinstance(e, n.IntImm):
        return np.full((1, 1), e.value, np.int64)
    if isinstance(e, Var):
        return values.get(e)
    if type(e) in _BINARY and e.a.dtype.is_int:
        a, b = visit(e.a), visit(e.b)
        if a is None or b is None:
            return None
        if isinstance(e, _DIVISIONS):
            b = np.where(b == 0, 1, b)
        made: np.ndarray = _BINARY[type(e)](a, b)
        return made
    if isinstance(e, (n.And, n.Or)):
        return _logical(e, visit)
    parts = [visit(child) for child in e.children()]
    if isinstance(e, n.Not):
        return None if parts[0] is None else ~parts[0].astype(bool)
    if isinstance(e, (n.Select, n.IfThenElse)):
        found = [part for part in parts if part is not None]
        return np.where(*found) if len(found) == 3 else None
    if isinstance(e, n.Cast) and e.dtype.is_int and e.value.dtype.is_int:
        return parts[0]
    if isinstance(e, n.Call) and e.name == "likely":
        return parts[0]
    if isinstance(e, n.Call) and e.name in _OF_BITS and e.dtype.is_int:
        known = [part for part in parts if part is not None]
        return INTRINSICS[e.name](*known) if len(known) == len(parts) else None
    return None


def _logical(e: Any, visit: Callable[[Expr], Values]) -> Values:
    """Compute And or Or; an unknown operand decides nothing."""
    a, b = visit(e.a), visit(e.b)
    if a is None or b is None:
        return a if b is None else b
    made: np.ndarray = (a & b) if isinstance(e, n.And) else (a | b)
    return made
