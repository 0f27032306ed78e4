"""Random index expressions, conditions and facts, driven by a `random.Random` (hypothesis can be that, too)."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import NamedTuple

from tests.arith.exact import UndefinedError, evaluate
from tilewright.arith.facts import EMPTY, Facts
from tilewright.core.dtype import BOOL, INT32, INT64
from tilewright.expr import nodes as n

COMPARES = (n.LT, n.LE, n.GT, n.GE, n.EQ, n.NE)
STEPS = (1, 2, 3, 4, 5, 6, 7, 8, 12, 16)


def const(value: int) -> n.Expr:
    """An int32 constant."""
    return n.IntImm(value, INT32)


def number(r: Random, names: Sequence[n.Expr], depth: int) -> n.Expr:
    """An index expression: mostly sums, products with constants, quotients and remainders."""
    if depth == 0 or r.random() < 0.1:
        return r.choice(names) if r.random() < 0.75 else const(r.randint(-12, 20))

    def part() -> n.Expr:
        return number(r, names, depth - 1)

    pick = r.random()
    if pick < 0.40:
        return (n.Add if pick < 0.25 else n.Sub)(part(), part())
    if pick < 0.58:
        return n.Mul(part(), const(r.choice((2, 3, 4, 6, 7, 8, 12, 16, -1, -2, -4))))
    if pick < 0.72:
        return n.FloorDiv(part(), const(r.choice((*STEPS, -3))))
    if pick < 0.85:
        return n.FloorMod(part(), const(r.choice(STEPS)))
    if pick < 0.91:
        return r.choice((n.Mul, n.Min, n.Max))(part(), part())
    if pick < 0.95:
        return r.choice((n.Select, n.IfThenElse))(condition(r, names, depth - 1), part(), part())
    if pick < 0.97:
        return r.choice((n.Div, n.Mod))(part(), const(r.choice((2, 3, 4, -2))))
    if pick < 0.99:
        return r.choice((n.FloorDiv, n.FloorMod))(part(), part())
    return n.Cast(INT32, n.Cast(INT64, part()))


def condition(r: Random, names: Sequence[n.Expr], depth: int) -> n.Expr:
    """A condition over index expressions."""
    pick = r.random()
    if depth > 0 and pick < 0.38:
        a = condition(r, names, depth - 1)
        if pick < 0.30:
            return (n.And if pick < 0.15 else n.Or)(a, condition(r, names, depth - 1))
        return n.Not(a) if pick < 0.36 else n.Call("likely", (a,), BOOL)
    return r.choice(COMPARES)(number(r, names, depth), number(r, names, depth))


class Scene(NamedTuple):
    """Variables, what is known of them, and how to draw values that agree with it."""

    names: list[n.Var]
    facts: Facts
    ranges: dict[n.Var, tuple[n.Expr, n.Expr]]
    conditions: list[n.Expr]

    def values(self, r: Random, count: int) -> list[dict[n.Var, int]]:
        """Up to `count` assignments that satisfy the facts."""
        drawn = [self._draw(r) for _ in range(count)]
        return [env for env in drawn if env is not None]

    def _draw(self, r: Random) -> dict[n.Var, int] | None:
        env: dict[n.Var, int] = {}
        try:
            for var in self.names:
                if isinstance(var, n.SizeVar):
                    env[var] = r.choice((r.randint(0, 20), 8 * r.randint(0, 2)))
                elif var not in self.ranges:
                    env[var] = r.randint(-60, 60)
                else:
                    low, extent = (evaluate(e, env) for e in self.ranges[var])
                    if extent < 1:
                        return None
                    env[var] = r.randrange(low, low + extent)
            return env if all(evaluate(c, env) for c in self.conditions) else None
        except UndefinedError:
            return None


def scene(r: Random, *, conditions: bool = True) -> Scene:
    """Up to four variables, most of them with constant ranges, and sometimes a condition."""
    names = [n.Var(name) for name in "abcd"[: r.randint(1, 4)]]
    ranges = {
        var: (const(r.choice((0, 0, 0, -3, 2))), const(r.choice((1, 2, 3, 4, 7, 8, 12, 16, 40))))
        for var in names
        if r.random() < 0.85
    }
    held = [condition(r, names, 1) for _ in range(r.choice((0, 0, 1, 2)))] if conditions else []
    return Scene(names, _facts(ranges, held), ranges, held)


def symbolic_scene(r: Random) -> Scene:
    """Sizes n and m, and three variables whose ranges depend on them and on each other."""
    size, other = n.SizeVar("n"), n.SizeVar("m")
    a, b, c = (n.Var(name) for name in "abc")
    ranges = {}
    for var in (a, b, c):
        lows = [const(0), const(0), size, const(0) if var is a else a]
        extents = [size, other, const(4), n.Mul(size, other), n.FloorDiv(n.Add(size, const(7)), const(8))]
        ranges[var] = r.choice(lows), r.choice(extents if var is a else [*extents, n.Sub(other, a)])
    names = [size, other, a, b, c]
    held: list[n.Expr] = []
    for _ in range(r.choice((0, 0, 1, 2))):
        if r.random() < 0.3:
            held.append(n.EQ(n.FloorMod(r.choice((size, other)), const(8)), const(r.choice((0, 0, 3)))))
        else:
            held.append(r.choice(COMPARES)(symbolic(r, names, r.randint(0, 2)), symbolic(r, names, 1)))
    return Scene(names, _facts(ranges, held), ranges, held)


def symbolic(r: Random, names: Sequence[n.Expr], depth: int) -> n.Expr:
    """An index expression with many products and divisions of variables by each other."""
    if depth == 0 or r.random() < 0.1:
        return r.choice(names) if r.random() < 0.8 else const(r.randint(-6, 12))
    a, b = symbolic(r, names, depth - 1), symbolic(r, names, depth - 1)
    pick = r.random()
    if pick < 0.72:
        return (n.Add if pick < 0.25 else n.Sub if pick < 0.4 else n.Mul)(a, b)
    if pick < 0.82:
        return r.choice((n.FloorDiv, n.FloorMod))(a, const(r.choice((2, 3, 4, 8))))
    if pick < 0.94:
        return r.choice((n.FloorDiv, n.FloorMod))(a, b)
    return r.choice((n.Min, n.Max))(a, b)


def _facts(ranges: dict[n.Var, tuple[n.Expr, n.Expr]], held: list[n.Expr]) -> Facts:
    facts = EMPTY.bind_all(ranges)
    for cond in held:
        facts = facts.assume(cond)
    return facts
