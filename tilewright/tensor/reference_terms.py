"""The terms of a reduction in NumPy: the values of its axes, with ranges that may be read from tensors."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np

from ..core.errors import UserError
from ..expr.nodes import Expr, Var
from .axis import IterVar, Range
from .reduction import Reduce

Values = Mapping[Var, np.ndarray]


class Evaluator(Protocol):
    """Computes expressions for given values of the variables."""

    def value(self, e: Expr, where: np.ndarray | None = None) -> np.ndarray: ...


class Terms:
    """The terms of the elements of a reduction, numbered as if all ranges were as long as the longest.

    `extents` are these lengths. `data` are the values of the data axes; the values of the reduction axes lie along the
    last dimension. `evaluator` makes evaluators of expressions for given values of the variables.
    """

    def __init__(self, reduce: Reduce, data: Values, evaluator: Callable[[Values], Evaluator]) -> None:
        self.data = data
        self.evaluator = evaluator
        self.axes: list[tuple[IterVar, Range]] = []
        self.extents: tuple[int, ...] = ()
        for axis, span in zip(reduce.axes, reduce.ranges(), strict=True):
            if span is None:
                raise no_range(axis)
            before = math.prod(self.extents)
            env, inside = self.at(np.unravel_index(np.arange(before), self.extents) if self.extents else ())
            found = np.where(inside, evaluator(env).value(span.extent, inside), 0)
            self.axes.append((axis, span))
            self.extents = (*self.extents, max(0, int(found.max(initial=0))))

    def at(self, points: Sequence[np.ndarray]) -> tuple[Values, np.ndarray]:
        """The values of the axes at points counted from their starts, and whether they are within their ranges."""
        env, inside = dict(self.data), np.asarray(True)
        for (axis, span), at in zip(self.axes, points, strict=True):
            known = self.evaluator(env)
            low, extent = known.value(span.min, inside), known.value(span.extent, inside)
            env[axis.var] = np.asarray(low + at, axis.var.dtype.numpy)
            inside = np.logical_and(inside, at < extent)
        return env, inside


def no_range(axis: IterVar) -> UserError:
    return UserError(f"the axis {axis.name!r} has no range", primitive="reference", fix="give it one: te.Range(0, n)")
