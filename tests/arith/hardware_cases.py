"""Random expressions of integers of every width, with facts, and values at the ends of their types."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np

from tests.arith.hardware import Evaluation, every_pair
from tilewright.core.dtype import BOOL, DType
from tilewright.expr import nodes as n

BYTES = (DType("int8"), DType("uint8"))
WIDE = tuple(DType(name) for name in ("int16", "uint16", "int32", "uint32", "int64", "uint64"))
INDICES = (DType("int32"), DType("int64"))
COMPARES = (n.LT, n.LE, n.GT, n.GE, n.EQ, n.NE)
DIVISIONS = (n.FloorDiv, n.FloorMod, n.Div, n.Mod)
BITWISE = ("bitwise_and", "bitwise_or", "bitwise_xor", "shift_left", "shift_right")


def constant(r: Random, kind: DType, *, zero: bool = True) -> n.IntImm:
    """A constant: small, or at an end of its type, or beside a power of two, or any."""
    low, high = kind.min_value, kind.max_value
    bits = r.randint(1, kind.bits - 1)
    size = r.choice((high, low, (1 << bits), -(1 << bits), (low + high + 1) // 2))
    pick = r.random()
    value = r.randint(-9, 9) if pick < 0.55 else size + r.randint(-3, 3) if pick < 0.9 else r.randint(low, high)
    value = min(max(value, low), high)
    return n.IntImm(value if value or zero else 1, kind)


class Writer:
    """Draws expressions over some variables."""

    def __init__(self, r: Random, names: Sequence[n.Var], kinds: Sequence[DType]) -> None:
        self.r = r
        self.names = names
        self.kinds = kinds
        """Types that casts lead to."""

    def number(self, kind: DType, depth: int) -> n.Expr:
        """An expression of a type."""
        r = self.r
        if depth == 0 or r.random() < 0.08:
            return self.leaf(kind)
        a = self.number(kind, depth - 1)
        pick = r.random()
        if pick < 0.36:
            b = constant(r, kind) if r.random() < 0.5 else self.number(kind, depth - 1)
            return r.choice((n.Add, n.Sub))(*((a, b) if r.random() < 0.8 else (b, a)))
        if pick < 0.48:
            return n.Mul(a, constant(r, kind) if r.random() < 0.75 else self.number(kind, depth - 1))
        if pick < 0.66:
            by = constant(r, kind, zero=False) if r.random() < 0.75 else self.number(kind, depth - 1)
            if isinstance(by, n.IntImm) and by.value == 0:
                by = n.IntImm(2, kind)
            return r.choice(DIVISIONS)(a, by)
        if pick < 0.76:
            return r.choice((n.Min, n.Max))(a, self.number(kind, depth - 1))
        if pick < 0.84:
            choice = r.choice((n.Select, n.IfThenElse))
            return choice(self.condition(depth - 1), a, self.number(kind, depth - 1))
        if pick < 0.95:
            return n.Cast(kind, self.number(r.choice(self.kinds), depth - 1))
        name = r.choice((*BITWISE, "bitwise_not"))
        if name == "bitwise_not":
            return n.Call(name, (a,), kind)
        by = n.IntImm(r.randrange(kind.bits), kind) if name.startswith("shift") else self.number(kind, depth - 1)
        return n.Call(name, (a, by), kind)

    def leaf(self, kind: DType) -> n.Expr:
        r = self.r
        if r.random() < 0.2:
            return constant(r, kind)
        own = [name for name in self.names if name.dtype == kind]
        if own and r.random() < 0.9:
            return r.choice(own)
        other = r.choice(self.names)
        return other if other.dtype == kind else n.Cast(kind, other)

    def condition(self, depth: int) -> n.Expr:
        r = self.r
        pick = r.random()
        if depth > 0 and pick < 0.3:
            a = self.condition(depth - 1)
            if pick < 0.24:
                return (n.And if pick < 0.14 else n.Or)(a, self.condition(depth - 1))
            return n.Not(a) if pick < 0.28 else n.Call("likely", (a,), BOOL)
        kind = r.choice([*(name.dtype for name in self.names), *self.kinds])
        a = self.number(kind, depth)
        b = constant(r, kind) if r.random() < 0.45 else self.number(kind, depth)
        return r.choice(COMPARES)(*((a, b) if r.random() < 0.8 else (b, a)))


@dataclass
class Case:
    """An expression, what is known of its two variables, and all values on which it is checked."""

    expr: n.Expr
    names: tuple[n.Var, n.Var]
    spans: dict[n.Var, tuple[int, int]] = field(default_factory=dict)
    condition: n.Expr | None = None
    values: dict[n.Var, Any] = field(default_factory=dict)

    def evaluation(self) -> Evaluation:
        """The values of the variables that agree with what is known."""
        keep = np.ones(len(self.values[self.names[0]]), bool)
        for var, (low, high) in self.spans.items():
            keep &= (self.values[var] >= var.dtype.numpy.type(low)) & (self.values[var] <= var.dtype.numpy.type(high))
        if self.condition is not None:
            holds = Evaluation(self.values)(self.condition)
            keep &= holds.value & holds.defined
        return Evaluation({var: values[keep] for var, values in self.values.items()})

    def __str__(self) -> str:
        types = ", ".join(f"{v.name}: {v.dtype}{list(self.spans[v]) if v in self.spans else ''}" for v in self.names)
        return f"{self.expr} ({types}{'' if self.condition is None else f', where {self.condition}'})"


def _spans(r: Random, names: Sequence[n.Var]) -> dict[n.Var, tuple[int, int]]:
    found = {}
    for var in names:
        if r.random() < 0.35:
            a, b = constant(r, var.dtype).value, constant(r, var.dtype).value
            found[var] = min(a, b), max(a, b)
    return found


def _case(r: Random, kinds: Sequence[DType], casts: Sequence[DType]) -> Case:
    first = r.choice(kinds)
    second = first if r.random() < 0.7 else r.choice(kinds)
    names = n.Var("x", first), n.Var("y", second)
    writer = Writer(r, names, casts)
    spans = _spans(r, names) if r.random() < 0.6 else {}
    condition = writer.condition(1) if r.random() < 0.25 else None
    depth = r.randint(1, 4)
    kind = r.choice([first, second, *casts])
    e = writer.condition(depth) if r.random() < 0.45 else writer.number(kind, depth)
    return Case(e, names, spans, condition)


def byte_case(r: Random) -> Case:
    """An expression of bytes, on every pair of values; sums of up to 32 bits are made of them."""
    case = _case(r, BYTES, (*BYTES, DType("int32"), DType("int16"), DType("uint32")))
    x, y = case.names
    case.values = dict(zip(case.names, every_pair(x.dtype, y.dtype), strict=True))
    return case


def end_case(r: Random, count: int = 400) -> Case:
    """An expression of 16, 32 or 64 bits, on `count` pairs of values, most of them where something may overflow."""
    case = _case(r, WIDE, (*WIDE, DType("int8"), DType("uint8")))
    numbers = [part.value for part in _parts(case.expr, case.condition) if isinstance(part, n.IntImm)]
    for var in case.names:
        drawn = [end for span in case.spans.values() for end in span] + numbers
        case.values[var] = np.array([value_of(r, var.dtype, drawn) for _ in range(count)], var.dtype.numpy)
    return case


def value_of(r: Random, kind: DType, numbers: Sequence[int]) -> int:
    """A value of the type: at an end of it, beside a number that the expression holds, or any."""
    low, high = kind.min_value, kind.max_value
    pick = r.random()
    if numbers and pick < 0.4:
        base = r.choice(numbers)
        drawn = r.choice((base, -base, low - base, high - base, low + base, high + base)) + r.randint(-2, 2)
    elif pick < 0.75:
        drawn = r.choice((low, high, 0, (low + high) // 2)) + r.randint(-3, 3)
    elif pick < 0.9:
        drawn = r.randint(-20, 20)
    else:
        drawn = r.randint(low, high) >> r.choice((0, 0, 1, 2, 8))
    return (drawn - low) % (high - low + 1) + low


def _parts(*roots: n.Expr | None) -> Iterator[n.Expr]:
    stack = [root for root in roots if root is not None]
    while stack:
        at = stack.pop()
        yield at
        stack.extend(at.children())
