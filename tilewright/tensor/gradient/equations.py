"""Equations between the indices of a read and of a gradient, solved for the loops that they determine.

A tensor is read at `A[2 * y + r]`; the gradient at `A[h]` sums over all y and r with `2 * y + r == h`. Solved for y,
which has the most values: `y = (h - r) // 2`, if `(h - r) % 2 == 0` and y is in its range. The sum runs over r alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ...arith.facts import EMPTY, Facts
from ...arith.simplify import prove, simplify
from ...expr.nodes import Expr, FloorMod, IntImm, Var
from ...expr.operators import (
    add,
    cast,
    const,
    equal,
    floordiv,
    floormod,
    greater_equal,
    less,
    multiply,
    negate,
    subtract,
)
from ...expr.traverse import substitute, variables
from ..axis import Range

_UNKNOWN_EXTENT = 1 << 40


class Equation(NamedTuple):
    """`read` == `wanted`; unknowns stand on the left alone."""

    read: Expr
    wanted: Expr


@dataclass
class Solution:
    """The values of determined unknowns, the conditions for a solution to exist, and the other unknowns."""

    values: dict[Var, Expr] = field(default_factory=dict)
    conditions: list[Expr] = field(default_factory=list)
    free: dict[Var, Range] = field(default_factory=dict)


def solve(equations: Iterable[Equation], unknowns: Mapping[Var, Range], known: Mapping[Var, Range]) -> Solution:
    """Solve for as many unknowns as can be; the remaining equations are conditions."""
    return _Solver(equations, unknowns, known).solution()


class _Solver:
    def __init__(
        self, equations: Iterable[Equation], unknowns: Mapping[Var, Range], known: Mapping[Var, Range]
    ) -> None:
        self.known = known
        self.facts = _facts({**known, **unknowns})
        self.found = Solution(free=dict(unknowns))
        joined = _joined(list(equations), self.facts)
        self.left = [Equation(simplify(e.read, self.facts), e.wanted) for e in joined]

    def solution(self) -> Solution:
        """The solution, once nothing more can be solved."""
        while self._all_of_one() or self._one():
            pass
        for var, span in list(self.found.free.items()):
            if isinstance(span.extent, IntImm) and span.extent.value == 1:
                self._determine(var, span.min, within=1)
        found, facts = self.found, _facts({**self.known, **self.found.free})
        found.conditions += [equal(e.read, cast(e.read.dtype, e.wanted)) for e in self.left]
        shorter = (simplify(c, facts) for c in found.conditions)
        found.conditions = [c for c in dict.fromkeys(shorter) if not prove(c, facts)]
        found.values = {var: simplify(e, facts) for var, e in found.values.items()}
        return found

    def _all_of_one(self) -> bool:
        """Solve an equation for the digits of a number: 10 * a + b == w, with b from 0 to 9."""
        for equation in self.left:
            digits = _digits(equation.read, self.found.free, self.facts)
            if len(digits) < 2:
                continue
            self.left.remove(equation)
            number = self._distance(equation, [var for var, _ in digits])
            for position, (var, factor) in enumerate(digits):
                value = floordiv(number, factor) if factor != 1 else number
                number = floormod(number, factor)
                room = digits[position - 1][1] // factor if position else None
                self._determine(var, value, within=room)
            if digits[-1][1] != 1:
                self.found.conditions.append(equal(number, const(0, number.dtype)))
            return True
        return False

    def _one(self) -> bool:
        """Solve an equation for one unknown; False if none can be."""
        best = _best(self.left, self.found.free, self.facts)
        if best is None:
            return False
        position, var, factor = best
        distance = self._distance(self.left.pop(position), [var])
        if factor < 0:
            distance = negate(distance)
        size = abs(factor)
        if size != 1:
            self.found.conditions.append(equal(floormod(distance, size), const(0, var.dtype)))
        self._determine(var, floordiv(distance, size) if size != 1 else distance)
        return True

    def _distance(self, equation: Equation, solved: Sequence[Var]) -> Expr:
        """The wanted value, less the terms of the equation without solved unknowns."""
        dtype = solved[0].dtype
        rest = simplify(substitute(equation.read, {var: const(0, var.dtype) for var in solved}), self.facts)
        return subtract(cast(dtype, equation.wanted), cast(dtype, rest))

    def _determine(self, var: Var, value: Expr, within: int | None = None) -> None:
        """Replace an unknown by a value in its range. The value is known to be at most `within` from 0."""
        value, found = simplify(value, self.facts), self.found
        span = found.free.pop(var)
        if within is None:
            found.conditions.append(greater_equal(value, span.min))
        if within is None or not isinstance(span.extent, IntImm) or span.extent.value < within:
            found.conditions.append(less(value, add(span.min, span.extent)))
        found.values = {v: substitute(e, {var: value}) for v, e in found.values.items()} | {var: value}
        found.conditions = [substitute(c, {var: value}) for c in found.conditions]
        self.left = [Equation(simplify(substitute(e.read, {var: value}), self.facts), e.wanted) for e in self.left]


def _digits(e: Expr, unknowns: Mapping[Var, Range], facts: Facts) -> list[tuple[Var, int]]:
    """The unknowns of an expression and their factors, largest first, if each value determines the unknowns."""
    found = [(var, _factor(e, var, facts)) for var in variables(e) if var in unknowns]
    found.sort(key=lambda pair: -pair[1])
    spans = [unknowns[var] for var, _ in found]
    if not all(isinstance(s.extent, IntImm) and isinstance(s.min, IntImm) and s.min.value == 0 for s in spans):
        return []
    reach = 0  # the largest sum of the digits after this one
    for (_, factor), span in reversed(list(zip(found, spans, strict=True))):
        if factor <= reach:
            return []
        reach += factor * (getattr(span.extent, "value", 0) - 1)
    return found


def _facts(ranges: Mapping[Var, Range]) -> Facts:
    return EMPTY.bind_all({var: (span.min, span.extent) for var, span in ranges.items()})


def _best(equations: list[Equation], unknowns: Mapping[Var, Range], facts: Facts) -> tuple[int, Var, int] | None:
    """The equation and the unknown to solve it for: an unknown with the most values, preferably with factor 1."""
    choices = []
    for position, equation in enumerate(equations):
        for var in variables(equation.read):
            factor = _factor(equation.read, var, facts) if var in unknowns else 0
            if factor:
                extent = unknowns[var].extent
                size = extent.value if isinstance(extent, IntImm) else _UNKNOWN_EXTENT
                choices.append((-size, abs(factor), position, var.name, var, factor))
    if not choices:
        return None
    _, _, position, _, var, factor = min(choices, key=lambda choice: choice[:4])
    return position, var, factor


def _factor(e: Expr, var: Var, facts: Facts) -> int:
    """c if e is c * var plus terms independent of it; else 0."""
    step = simplify(subtract(substitute(e, {var: add(var, const(1, var.dtype))}), e), facts)
    if not isinstance(step, IntImm) or step.value == 0:
        return 0
    without = add(substitute(e, {var: const(0, var.dtype)}), cast(e.dtype, multiply(var, step.value)))
    is_linear = simplify(subtract(without, e), facts)
    return step.value if isinstance(is_linear, IntImm) and is_linear.value == 0 else 0


def _joined(equations: list[Equation], facts: Facts) -> list[Equation]:
    """Rewrite `x // m == a` and `x % m == b` to `x == a * m + b`, which is equivalent if `0 <= b < m`, as for
    indices."""
    for remainder in equations:
        if not isinstance(remainder.read, FloorMod):
            continue
        whole, by = remainder.read.a, remainder.read.b
        parts = simplify(floordiv(whole, by), facts)
        others = (e for e in equations if e is not remainder)
        quotient = next((e for e in others if simplify(e.read, facts) is parts), None)
        if quotient is not None:
            both = add(multiply(cast(whole.dtype, quotient.wanted), by), cast(whole.dtype, remainder.wanted))
            rest = [e for e in equations if e is not quotient and e is not remainder]
            return _joined([*rest, Equation(whole, both)], facts)
    return equations
