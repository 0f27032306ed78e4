"""What a simplified expression computes in 32 bits fits wherever everything that the original computes fits.

Sums may wrap on their way, as their result is then right all the same; what is divided or compared may not.
"""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.arith.exact import _BINARY, UndefinedError
from tests.arith.generate import const
from tilewright import te, tir
from tilewright.arith.facts import EMPTY
from tilewright.arith.simplify import simplify
from tilewright.expr import nodes as n

LEAST, MOST = -(2**31), 2**31 - 1
SUMS = (n.Add, n.Sub, n.Mul)


class TooLargeError(Exception):
    """A value does not fit 32 bits."""


def fitting(value: Any) -> Any:
    if not LEAST <= value <= MOST:
        raise TooLargeError
    return value


def evaluate(e: Any, env: dict[n.Expr, int], sums_wrap: bool) -> Any:
    """The exact value; TooLargeError where one on the way does not fit, sums apart if they may wrap."""
    if isinstance(e, n.IntImm):
        return e.value
    if isinstance(e, n.Var):
        return env[e]
    if isinstance(e, n.Select):
        return evaluate(e.true_value if evaluate(e.condition, env, sums_wrap) else e.false_value, env, sums_wrap)
    if isinstance(e, n.Not):
        return not evaluate(e.a, env, sums_wrap)
    if isinstance(e, (n.And, n.Or)):
        a, b = evaluate(e.a, env, sums_wrap), evaluate(e.b, env, sums_wrap)
        return bool(a and b) if isinstance(e, n.And) else bool(a or b)
    a, b = evaluate(e.a, env, sums_wrap), evaluate(e.b, env, sums_wrap)
    if sums_wrap and isinstance(e, SUMS):
        return _BINARY[type(e)](a, b)
    return fitting(_BINARY[type(e)](fitting(a), fitting(b)))


def constant(r: Random) -> n.Expr:
    """A constant of any size, often beside a power of two."""
    bits = r.choice((4, 8, 16, 24, 30, 31))
    near = r.choice((-1, 1)) * (2**bits - r.choice((1, 1, 2, 3)))
    return const(r.randint(-(2**bits), 2**bits - 1) if r.random() < 0.7 else near)


def divisor(r: Random) -> n.Expr:
    bits = r.choice((2, 3, 4, 8, 12, 16, 24, 30))
    return const(r.choice((2**bits, r.randint(2, 2**bits), 2, 3)))


def number(r: Random, names: list[n.Var], depth: int) -> n.Expr:
    if depth == 0 or r.random() < 0.1:
        return r.choice(names) if r.random() < 0.7 else constant(r)

    def part() -> n.Expr:
        return number(r, names, depth - 1)

    pick = r.random()
    if pick < 0.5:
        return r.choice((n.Add, n.Add, n.Sub))(part(), constant(r) if r.random() < 0.5 else part())
    if pick < 0.9:
        kind = n.Mul if pick < 0.62 else n.FloorDiv if pick < 0.8 else n.FloorMod
        return kind(part(), divisor(r))
    if pick < 0.97:
        return r.choice((n.Min, n.Max))(part(), part())
    return n.Select(r.choice((n.LT, n.LE, n.EQ))(part(), part()), part(), part())


def chain(r: Random, names: list[n.Var]) -> n.Expr:
    """Quotients of quotients: their constants add up."""
    e: n.Expr = r.choice(names)
    offset, step = constant(r), divisor(r)
    for _ in range(r.randint(2, 40)):
        if r.random() < 0.2:
            offset, step = constant(r), divisor(r)
        e = n.FloorDiv(n.Add(e, offset), step) if r.random() < 0.9 else n.Add(n.Mul(e, divisor(r)), offset)
    return e


def value(r: Random, known: tuple[n.Expr, n.Expr] | None) -> int:
    if known is not None:
        low, extent = (e.value for e in known)  # type: ignore[attr-defined]
        return r.choice((low, low + extent - 1, r.randrange(low, low + extent)))
    size = 2 ** r.choice((8, 16, 24, 31))
    return r.choice((r.randint(-size, size - 1), -size, size - 1))


@pytest.mark.parametrize("known", [0.0, 0.5, 1.0], ids=["free variables", "some ranges", "ranges"])
def test_nothing_overflows_that_did_not_before(known: float) -> None:
    for seed in range(1500):
        r = Random(seed)
        names = [n.Var(name) for name in "abc"[: r.randint(1, 3)]]
        ranges = {}
        for var in names:
            if r.random() < known:
                size = 2 ** r.choice((3, 8, 16, 24, 30))
                ranges[var] = const(r.choice((0, 0, -size, r.randint(-size, size)))), const(r.randint(1, size))
        e = chain(r, names) if r.random() < 0.3 else number(r, names, r.randint(1, 4))
        if r.random() < 0.3:
            e = r.choice((n.LT, n.LE, n.GE, n.EQ))(e, number(r, names, r.randint(0, 3)))
        simple = simplify(e, EMPTY.bind_all(ranges))
        for _ in range(8 if simple is not e else 0):
            env: dict[n.Expr, int] = {var: value(r, ranges.get(var)) for var in names}
            try:
                expected = evaluate(e, env, sums_wrap=False)
            except (TooLargeError, UndefinedError):
                continue
            assert fitting(evaluate(simple, env, sums_wrap=True)) == expected, f"{e} -> {simple} at {env} ({seed})"


def test_31_halves_that_round_up() -> None:
    x = te.var("x")
    e = x
    for _ in range(31):
        e = tir.floordiv(e + 1, 2)
    simple = simplify(e)
    for at in (LEAST, -1, 0, 1, 2, 12345, MOST - 1):
        assert evaluate(simple, {x: at}, sums_wrap=False) == evaluate(e, {x: at}, sums_wrap=False)


@pytest.mark.parametrize("target", ["llvm", pytest.param("opencl", marks=pytest.mark.opencl)])
def test_extreme_integers_are_compared_and_divided_as_they_are(target: str) -> None:
    """A difference of two elements, or one of them times a divisor, does not fit their type."""
    a = np.array([LEAST, MOST, 0, 5, MOST, LEAST, MOST - 3, 1_500_000_000], "int32")
    b = np.array([1, -1, MOST, LEAST, LEAST, MOST, MOST, 7], "int32")
    A, B = (te.placeholder((8,), "int32", name=name) for name in "AB")

    def row(k: n.Expr, i: n.Expr) -> n.Expr:
        halves = tir.floordiv(A[i] // 2 + B[i] // 8, 3)
        below = tir.Select(k == 2, tir.floordiv(A[i] - B[i] % 4, 4), halves)
        return tir.Select(
            k == 0, tir.Select(A[i] < B[i], 1, 0), tir.Select(k == 1, tir.Select(B[i] <= A[i], 1, 0), below)
        )

    C = te.compute((4, 8), row)
    s = te.create_schedule(C.op)
    if target == "opencl":
        s[C].bind(C.op.axis[0], te.thread_axis("blockIdx.x"))
    dev = tw.device(target)
    got = tw.nd.empty((4, 8), "int32", dev)
    a = np.where(a < LEAST + 4, LEAST + 4, a).astype("int32")
    tw.build(s, [A, B, C], target)(tw.nd.array(a, dev), tw.nd.array(b, dev), got)
    wide, other = a.astype("int64"), b.astype("int64")
    expected = np.stack([wide < other, other <= wide, (wide - other % 4) // 4, (wide // 2 + other // 8) // 3])
    np.testing.assert_array_equal(got.numpy(), expected)
