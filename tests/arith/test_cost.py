"""No exponential or quadratic blow-up, and what a lowering pays for its index expressions (`pytest -s` prints it).

Costs are function calls; a million take half a second.
"""

from __future__ import annotations

from tests.arith.generate import const
from tests.counting import function_calls
from tilewright.arith import Analyzer
from tilewright.arith.facts import EMPTY
from tilewright.arith.region import extremes
from tilewright.arith.simplify import simplify
from tilewright.expr import nodes as n
from tilewright.expr import operators as op


def test_deep_sums_take_linear_time() -> None:
    names = [n.Var(f"v{i}") for i in range(500)]
    left: n.Expr = const(0)
    right: n.Expr = const(0)
    for i in range(4000):
        left = n.Add(left, n.Mul(names[i % 500], const(i % 7)))
        right = n.Sub(n.Mul(names[i % 500], const(i % 7)), right)
    assert function_calls(lambda: simplify(left)) < 1_000_000
    assert function_calls(lambda: simplify(right)) < 1_000_000


def test_shared_sums_are_walked_once() -> None:
    e: n.Expr = n.Var("x")
    for _ in range(28):
        e = n.Add(e, e)
    assert str(simplify(e)) == "x * 268435456"
    x = n.Var("x")
    e = x
    for i in range(40):
        e = n.Sub(n.Add(n.FloorDiv(e, const(3)), e), n.FloorMod(e, const(i + 2)))
    assert function_calls(lambda: simplify(e)) < 1_000_000


def test_many_conjuncts() -> None:
    names = [n.Var(f"v{i}") for i in range(60)]
    guards = op.all_of(*(name + i < 10 * i for i, name in enumerate(names, 1)))
    assert function_calls(lambda: simplify(guards)) < 200_000
    assert function_calls(lambda: simplify(names[0] + names[1] < 40, EMPTY.assume(guards))) < 200_000


def test_wide_maxima_take_linear_time() -> None:
    def calls(count: int) -> int:
        e: n.Expr = n.Var("v")
        for i in range(count):
            e = op.maximum(e, n.Var(f"v{i}") + 1)
        return function_calls(lambda: Analyzer().simplify(e))

    assert calls(400) < 5 * calls(100) < 500_000


def test_nested_minima() -> None:
    e: n.Expr = n.Var("x")
    for i in range(24):
        e = n.Max(n.Min(e, n.Add(n.Var(f"v{i}"), const(i))), const(-i))
    assert function_calls(lambda: simplify(e)) < 300_000


def test_the_cost_of_the_index_expressions_of_a_kernel() -> None:
    names = [n.Var(name) for name in "bz by bx tz ty tx f rc ry rx i y x".split()]
    bz, by, bx, tz, ty, tx, f, rc, ry, rx, i, y, x = names
    extents = [64, 4, 2, 4, 8, 16, 252, 32, 3, 3, 2, 4, 7]
    facts = EMPTY.bind_all({v: (const(0), const(extent)) for v, extent in zip(names, extents, strict=True)})
    fused = (tz * 8 + ty) * 252 + f
    row, column, channel = fused // 7 % 9, fused % 7, fused // 63 % 16
    h, w = ry + row - 1, rx + column - 1
    work = [
        op.all_of(h >= 0, h < 7, w >= 0, w < 7),
        ((fused // 1008 * 512 + (rc * 16 + channel)) * 7 + h) * 7 + w,
        op.likely(fused < 4032),
        (((bz * 8 + tz * 2 + i) * 16) + by * 4 + y) * 14 + bx * 7 + x,
        ((rc * 16) * 3 + ry) * 3 + rx + (bz * 8 + tz) * 4608,
        op.all_of(bx * 32 + ty * 4 + tx - rx * 8 >= 0, bx * 32 + ty * 4 + tx - rx * 8 < 16384),
    ]
    cold = function_calls(lambda: [simplify(e, facts) for e in work]) / len(work)
    warm = function_calls(lambda: [simplify(e, facts) for _ in range(1000) for e in work]) / len(work) / 1000
    relaxed = {v: facts.ranges[v] for v in (f, rx, ry)}
    region = function_calls(lambda: [extremes(e, relaxed, facts) for e in (h, w, fused, work[3])]) / 4
    print(f"\nfunction calls: cold {cold:.0f}, memoised {warm:.1f}, extremes {region:.0f}")
    assert cold < 5_000
    assert warm < 5
