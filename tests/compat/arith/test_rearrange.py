"""What the analyzer makes of sums of minima, maxima and choices: shorter forms, of equal values."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from tests.arith import generate
from tests.arith.exact import UndefinedError, evaluate
from tilewright import arith, te, tir
from tilewright.arith.simplify import simplify
from tilewright.arith.sizes import weight
from tilewright.compat.arith.rearrange import rearrange
from tilewright.expr import nodes as n

x, y, z = te.var("x"), te.var("y"), te.var("z")
least, most, select = te.min, te.max, tir.Select
div, mod, trunc, rest = tir.floordiv, tir.floormod, tir.truncdiv, tir.truncmod
low = x < 0
vector = tir.Ramp(x, 1, 4)

SUMS: list[tuple[Any, Any]] = [
    (least(x, y - z) + z, least(x + z, y)),
    (least(x - z, y) + z, least(x, y + z)),
    (most(x, y - 10) + 10, most(x + 10, y)),
    (2 * z + least(x, y - 2 * z), least(z * 2 + x, y)),
    (most(x, y) + least(x, y), x + y),
    (least(x, y) + most(y, x), x + y),
    (least(x, y) - x, least(y - x, 0)),
    (x - least(x, y), most(x - y, 0)),
    (x - most(x + y, 0), least(y * -1, x)),
    (least(x + y, z) - x, least(y, z - x)),
    (least(x, y) - least(y, x), 0),
    (least(x, y) - least(x + 10, y + 10), -10),
    (least(x + 10, y + 1) - least(x, y - 9), 10),
    (least(y + x, z + x), least(y, z) + x),
    (least(x - y, x - z), x - most(y, z)),
    (least(y - x, z - x), least(y, z) - x),
    (least(x * 3, 9), least(x, 3) * 3),
    (least(3 - x, 2), 3 - most(x, 1)),
    (least(most(x, y), most(z, x)), most(least(y, z), x)),
    (most(least(y, x), least(x, z)), least(most(y, z), x)),
    (least(x, y) * most(y, x), x * y),
    (select(low, y, 0) + select(low, 1, z), select(low, y + 1, z)),
    (select(low, y, 1) - select(low, 1, z), select(low, y - 1, z * -1 + 1)),
    (select(low, y, z) - y, select(low, 0, z - y)),
    (least(select(low, y, 0), select(low, 1, z)), select(low, least(y, 1), least(z, 0))),
    (div(x + 5, 3) - div(x, 3), div(mod(x, 3) + 5, 3)),
    (trunc(x, 8) * 8 + rest(x, 8), x),
    (div(least(x * 6, y), 2), least(x * 3, div(y, 2))),
    (x - y < 0, x < y),
    (x - y >= 0, y <= x),
    (least(x, 11) < 10, x < 10),
    (least(x, 8) < 10, True),
    (most(8, x) > 10, x >= 11),
    (most(x, 12) > 10, True),
    (tir.And(x.equal(y), x != y), False),
    (tir.Or(x != y, x.equal(y)), True),
    (tir.And(x.equal(3), x != 5), x.equal(3)),
    (tir.Or(x.equal(5), x != 3), x != 3),
    ((x - y) * -2, (y - x) * 2),
    (most(y, most(x, y)), most(x, y)),
    (most(x + y, x + z), most(y, z) + x),
    (most(div(x, 10), div(y, 10)), div(most(x, y), 10)),
    (least(trunc(x, -10), trunc(y, -10)), trunc(most(x, y), -10)),
    (most(trunc(x + 3, 4) * 4, x), trunc(x + 3, 4) * 4),
    (trunc(z * 6 + 12, 6), z + 2),
    (rest(z * 6, 4), rest(z * 3, 2) * 2),
    (rest(x * 10, -2), 0),
    (trunc(trunc(x, 2) * 2, 6), trunc(x, 6)),
    (trunc(x, 6) * 6 + rest(trunc(x, 3), 2) * 3 + rest(x, 3), x),
    (x - trunc(x, 3) * 3, rest(x, 3)),
    (trunc(rest(x, 7), 8), 0),
    (trunc(x * y, x * y), 1),
    (tir.Ramp(x, 4, 4) * tir.Broadcast(y, 4), tir.Ramp(x * y, y * 4, 4)),
    (tir.clz(te.const(8, "int32")), 28),
]


@pytest.mark.parametrize(("given", "wanted"), SUMS, ids=[str(pair[0]) for pair in SUMS])
def test_the_analyzer_finds_the_shorter_form(given: Any, wanted: Any) -> None:
    analyzer = arith.Analyzer()
    for var in (x, y, z):
        analyzer.update(var, arith.ConstIntBound(-1000, 1000))
    found = analyzer.rewrite_simplify(given)
    assert str(found) in (str(wanted), str(analyzer.canonical_simplify(wanted)))
    assert analyzer.simplify(found) is found


@pytest.mark.parametrize(
    "given", [least(x, y) - x, least(x, y - z) + z, most(x, y - 10) + 10, least(x + 5, y - z + 5)], ids=str
)
def test_sums_that_may_overflow_are_not_compared(given: Any) -> None:
    assert str(arith.Analyzer().simplify(given)) == str(arith.Analyzer().canonical_simplify(given))


def test_divisions_are_written_as_in_the_source() -> None:
    analyzer = arith.Analyzer()
    analyzer.bind(x, te.Range(0, 100))
    assert str(analyzer.simplify(trunc(trunc(x, 2), 3))) == "T.truncdiv(x, 6)"
    assert str(analyzer.simplify(rest(x + 10, 2))) == "T.truncmod(x, 2)"
    assert str(analyzer.simplify(div(trunc(x, 2), 3))) == "x // 6"


def test_narrowing_casts_of_sums_have_their_parts_in_common() -> None:
    i, j = te.var("i", "int64"), te.var("j", "int64")
    analyzer, cast = arith.Analyzer(), tir.Cast
    analyzer.bind(i, te.Range(0, 11))
    given = cast("int32", i + j + 1) - cast("int32", i)
    assert str(analyzer.simplify(given)) == str(given)  # j may be as large as its type allows
    analyzer.bind(j, te.Range(0, 11))
    for simplify_ in (analyzer.simplify, analyzer.canonical_simplify):
        assert str(simplify_(given)) == "T.Cast('int32', j) + 1"
    assert str(analyzer.simplify(cast("int32", i + j))) == "T.Cast('int32', i + j)"


def test_lowering_keeps_the_form_in_which_it_is_written() -> None:
    assert str(arith.Analyzer().canonical_simplify(least(x, y) - x)) == "T.min(x, y) - x"


def test_what_only_the_shorter_form_shows_is_proven() -> None:
    assert arith.Analyzer().can_prove(least(x + 10, y + 1) - least(x, y - 9) >= 10)
    assert not arith.Analyzer().can_prove(least(x, y) - x < 0)


def choices(r: Random, names: Any, depth: int) -> n.Expr:
    """Mostly sums of minima, maxima and choices."""
    if depth == 0:
        return r.choice((*names, generate.const(r.randint(-6, 6))))
    a, b = choices(r, names, depth - 1), choices(r, names, depth - 1)
    pick = r.random()
    if pick < 0.5:
        return r.choice((n.Add, n.Sub))(a, b)
    if pick < 0.8:
        return r.choice((n.Min, n.Max))(a, b)
    if pick < 0.9:
        return r.choice((n.Select, n.IfThenElse))(r.choice(generate.COMPARES)(r.choice(names), generate.const(2)), a, b)
    return r.choice((n.Mul, n.FloorDiv, n.FloorMod, n.Div, n.Mod))(a, generate.const(r.choice((2, 3, 4))))


@pytest.mark.parametrize("seed", range(4))
def test_rearranging_keeps_values(seed: int) -> None:
    r = Random(seed)
    shorter = 0
    for _ in range(120):
        scene = generate.scene(r)
        e = choices(r, scene.names, r.randint(2, 4))
        if r.random() < 0.3:
            e = r.choice(generate.COMPARES)(e, choices(r, scene.names, 1))
        before = simplify(e, scene.facts)
        after = rearrange(before, scene.facts)
        assert after.dtype == e.dtype
        assert weight(after) <= weight(before) + 2
        shorter += weight(after) < weight(before)
        for env in scene.values(r, 12):
            try:
                value = evaluate(e, env)
            except UndefinedError:
                continue
            assert evaluate(after, env) == value, f"{e}  ->  {before}  ->  {after} at {env}"
    assert shorter
