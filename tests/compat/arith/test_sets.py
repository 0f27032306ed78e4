"""Sets and bounds under the legacy API's names; properties by counting through small boxes."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from tests.arith.exact import UndefinedError, evaluate, points
from tests.arith.generate import number
from tests.errors.refused import refused
from tilewright import arith, te, tir
from tilewright.compat.arith.int_set import neg_inf, pos_inf

a, b, c, d = (te.var(name) for name in "abcd")
x, y, z = (te.var(name) for name in "xyz")
Set = arith.IntervalSet


def same(found: Any, expected: Any) -> bool:
    """Whether two expressions provably have one value."""
    return arith.Analyzer().can_prove_equal(found, expected)


def within(held: arith.IntervalSet, value: int, env: dict[Any, int]) -> bool:
    """Whether a set holds a value where its other variables are as given."""
    low = held.min_value is neg_inf() or (held.min_value is not pos_inf() and evaluate(held.min_value, env) <= value)
    return low and (
        held.max_value is pos_inf() or (held.max_value is not neg_inf() and value <= evaluate(held.max_value, env))
    )


# The analyzer


def test_constant_bounds() -> None:
    analyzer = arith.Analyzer()
    analyzer.update(x, arith.ConstIntBound(-9, 4))
    analyzer.update(y, arith.ConstIntBound(4, 10))
    for e, low, high in (
        (x + y, -5, 14), (x - y, -19, 0), (x * 2 + 3, -15, 11), (x // 2, -5, 2), (te.truncmod(x, 3), -2, 2),
        (x % 3, 0, 2), (te.min(x, y), -9, 4), (te.max(x, y), 4, 10), (tir.Select(x > 1, y, x), -9, 10),
        (te.truncdiv(x, y), -2, 1), (x < 5, 1, 1),
    ):  # fmt: skip
        assert analyzer.const_int_bound(e) == arith.ConstIntBound(low, high), e
    wide = te.var("wide", "int64")
    assert analyzer.const_int_bound(wide) == arith.ConstIntBound(
        arith.ConstIntBound.NEG_INF, arith.ConstIntBound.POS_INF
    )
    assert analyzer.const_int_bound(te.var("i8", "int8")) == arith.ConstIntBound(-128, 127)
    assert analyzer.const_int_bound(te.var("u8", "uint8")) == arith.ConstIntBound(0, 255)
    assert analyzer.const_int_bound(te.size_var("n")).min_value == 0
    analyzer.update(x, arith.ConstIntBound(0, 4))
    assert analyzer.const_int_bound(x) == arith.ConstIntBound(0, 4)
    analyzer.update(x, arith.ConstIntBound(-90, 40), override=True)
    assert analyzer.const_int_bound(x) == arith.ConstIntBound(-90, 40)
    analyzer.update(wide, arith.ConstIntBound(3, arith.ConstIntBound.POS_INF))
    assert analyzer.const_int_bound(wide + 1).min_value == 4


def test_modular_sets() -> None:
    analyzer = arith.Analyzer()
    for e, coeff, base in (
        (te.const(11), 0, 11), (x * 4 + 5, 4, 1), (x * 4 + y * 6 + 3, 2, 1), (x * 12 // 4, 3, 0), (x * 8 % 6, 2, 0),
        (tir.Select(x > 0, y * 4 + 1, y * 8 + 5), 4, 1), (te.min(x * 3, y * 9), 3, 0), (x, 1, 0),
    ):  # fmt: skip
        assert analyzer.modular_set(e) == arith.ModularSet(coeff, base), e
    analyzer.update(x, arith.ModularSet(4, 3))
    assert analyzer.modular_set(x * 2 + 1) == arith.ModularSet(8, 7)
    analyzer.update(y, arith.ModularSet(0, 5))
    assert analyzer.simplify(y + 1).value == 6
    with analyzer.constraint_scope((z % 2).equal(0)):
        assert analyzer.modular_set(z) == arith.ModularSet(2, 0)
        assert analyzer.can_prove((z % 2).equal(0))
    assert analyzer.modular_set(z) == arith.ModularSet(1, 0)


def test_ends_that_were_said_to_be_infinite() -> None:
    analyzer, nowhere, anywhere = arith.Analyzer(), arith.ConstIntBound.NEG_INF, arith.ConstIntBound.POS_INF
    assert analyzer.const_int_bound(x).max_value == 2**31 - 1
    assert analyzer.const_int_bound(te.size_var("n")) == arith.ConstIntBound(0, anywhere)
    analyzer.update(x, arith.ConstIntBound(nowhere, 4))
    analyzer.update(y, arith.ConstIntBound(-8, 2))
    assert analyzer.const_int_bound(x * y) == arith.ConstIntBound(nowhere, anywhere)
    assert analyzer.const_int_bound(te.min(x, y)) == arith.ConstIntBound(nowhere, 2)
    analyzer.update(x, arith.ConstIntBound(0, 4), override=True)
    assert analyzer.const_int_bound(x * y) == arith.ConstIntBound(-32, 8)


@pytest.mark.parametrize("divisors", [(-2, 0), (0, 3), (-2, -1), (2, 3), (-3, 2)])
def test_bounds_of_quotients_by_what_is_not_zero(divisors: tuple[int, int]) -> None:
    """Neither bound is passed; they are reached if the divisor has one sign."""
    analyzer = arith.Analyzer()
    analyzer.update(x, arith.ConstIntBound(-9, 4))
    analyzer.update(y, arith.ConstIntBound(*divisors))
    for e in (te.truncdiv(x, y), x // y):
        pairs = [(i, j) for i in range(-9, 5) for j in range(divisors[0], divisors[1] + 1) if j]
        values = [evaluate(e, {x: i, y: j}) for i, j in pairs]
        bound = analyzer.const_int_bound(e)
        assert bound.min_value <= min(values)
        assert max(values) <= bound.max_value
        if divisors[0] * divisors[1] >= 0:
            assert bound == arith.ConstIntBound(min(values), max(values)), e


def test_remainders_that_round_towards_zero() -> None:
    """Each set holds all values that the conditions leave."""
    for cond, e, coeff, base in (
        (te.truncmod(x, 4).equal(2), x + 1, 4, 3),
        (te.truncmod(x, 4).equal(-2), x, 4, 2),
        (tir.all(te.truncmod(x, 3).equal(2), te.truncmod(x, 5).equal(3)), x, 15, 8),
        (tir.const(True, "bool"), (x * 4 + 2) >> 1, 2, 1),
        (tir.const(True, "bool"), te.truncdiv(x * 8, 4), 2, 0),
        (x >= 0, te.truncdiv(x * 6 + 3, 2), 3, 1),
        (x >= -5, te.truncdiv(x * 6 + 3, 2), 1, 0),
    ):
        analyzer = arith.Analyzer()
        with analyzer.constraint_scope(cond):
            assert analyzer.modular_set(e) == arith.ModularSet(coeff, base), (cond, e)
        for value in range(-40, 40):
            if evaluate(cond, {x: value}):
                assert evaluate(e, {x: value}) % coeff == base


def test_a_division_by_the_constant_zero_is_not_simplified() -> None:
    for kind in (tir.Div, tir.Mod, tir.FloorDiv, tir.FloorMod):
        for simplify in (arith.Analyzer().simplify, arith.Analyzer().canonical_simplify):
            with refused("simplify", "division by zero in", fix="te.if_then_else"):
                simplify(kind(tir.Ramp(1, 1, 2), tir.Broadcast(0, 2)) + 1)


def test_sets_of_values() -> None:
    analyzer = arith.Analyzer()
    analyzer.update(y, arith.ConstIntBound(1, 100))
    ten = {x: Set(0, 10)}
    for e, domains, low, high in (
        (x + y, ten, y, y + 10), (x - y, {x: Set(0, 10), y: Set(1, 11)}, -11, 9), (x * y, ten, 0, y * 10),
        (x * -2, {x: Set(1, 10)}, -20, -2), (te.truncdiv(x, y), ten, 0, te.truncdiv(10, y)), (x % y, ten, 0, y - 1),
        (x % 10, {x: Set(-10, 10)}, 0, 9), (x % 10, {x: Set(13, 15)}, 3, 5), (x % 10, {x: Set(3, 11)}, 0, 9),
        (te.max(x, x + 1), ten, 1, 11), (te.min(x - 1, x + 1), ten, -1, 9),
        (te.min(x, z), {}, te.min(x, z), te.min(x, z)),
        (tir.Select(x > 0, x - 1, x + 1), ten, -1, 11), (x + z, {x: Set(z, z + 3)}, z * 2, z * 2 + 3),
    ):  # fmt: skip
        found = analyzer.int_set(e, domains)
        assert analyzer.can_prove_equal(found.min_value, low), (e, found)
        assert analyzer.can_prove_equal(found.max_value, high), (e, found)
    assert analyzer.int_set(x * 2 + 3, {x: Set(neg_inf(), 10)}) == Set(neg_inf(), 23)
    assert analyzer.int_set(te.min(x, 5), {x: Set(0, pos_inf())}).max_value.value == 5
    assert analyzer.int_set(te.max(x, 5) - x // 2, {x: Set(0, pos_inf())}) == Set(neg_inf(), pos_inf())
    analyzer.bind(a, te.Range(0, 8))
    assert analyzer.int_set(a * 2 + 1) == Set(1, 15)
    assert arith.IntSet.single_point(2) == Set(2, 2)
    assert arith.IntSet.vector(tir.Ramp(10, 3, 2)) == Set(10, 13)
    assert arith.IntSet.vector(tir.Ramp(10, -3, 2)) == Set(7, 10)
    assert arith.IntSet.vector(x) == Set(x, x)
    assert Set(3, 2).is_nothing()
    assert Set(pos_inf(), neg_inf()).is_nothing()
    assert Set(neg_inf(), pos_inf()).is_everything()
    assert Set(2, 3) == Set(2, 3) != Set(2, 4)
    assert len({Set(2, 3), Set(2, 3)}) == 1
    assert str(Set(2, x)) == "IntervalSet[2, x]"
    assert Set(2, 3) != 4


@pytest.mark.parametrize("seed", range(60))
def test_values_lie_in_what_is_found(seed: int) -> None:
    r = Random(seed)
    names = [x, y, z]
    e = number(r, names, 3)
    box = {v: (low := r.randint(-5, 5), low + r.randint(0, 4)) for v in names}
    analyzer = arith.Analyzer()
    for v in (x, y):
        analyzer.bind(v, te.Range(box[v][0], box[v][1] + 1))
    bound, residue = analyzer.const_int_bound(e), analyzer.modular_set(e)
    swept = arith.Analyzer().int_set(e, {v: Set(*box[v]) for v in (x, y)})
    one_sided = arith.Analyzer().int_set(e, {x: Set(box[x][0], pos_inf()), y: Set(neg_inf(), box[y][1])})
    for env in points(box):
        try:
            value = evaluate(e, env)
            assert within(swept, value, env), (e, swept)
            assert within(one_sided, value, env), (e, one_sided)
        except UndefinedError:
            continue
        assert bound.min_value <= value <= bound.max_value, (e, bound)
        assert (value - residue.base) % residue.coeff == 0 if residue.coeff else value == residue.base, (e, residue)


# Linear parts


def test_linear_equations_are_detected() -> None:
    def found(e: Any, names: Any, *expected: Any) -> bool:
        parts = arith.detect_linear_equation(e, names)
        return len(parts) == len(expected) and all(map(same, parts, expected))

    assert found(a * 4 + b * 6 + 7, [a], 4, b * 6 + 7)
    assert found(a * 4 + (a + 1) + b * 6 + 7, [a], 5, b * 6 + 8)
    assert found(a * b + 7, [a], b, 7)
    assert found(b * 7, [a], 0, b * 7)
    assert found(b * 7, [], b * 7)
    assert found(b * (x + 4) + x + y * 8, [x, y, z], b + 1, 8, 0, b * 4)
    assert arith.detect_linear_equation(a * 4 * (a + 1) + 7, [a]) == []
    assert arith.detect_linear_equation(a // 2, [a]) == []


def test_bounds_of_conditions_are_detected() -> None:
    detect = arith.detect_clip_bound

    def found(cond: Any, names: Any, *expected: Any) -> bool:
        ends = detect(cond, names)
        return len(ends) == len(expected) and all(
            end is None if want is None else same(end, want) for end, want in zip(ends, expected, strict=True)
        )

    assert found(tir.all(a * 1 < b * 6, a - 1 > 0), [a], 2, b * 6 - 1)
    assert detect(tir.all(a * 1 < b * 6, a - 1 > 0), [a, b]) == []
    assert found(tir.all(a + 10 * c <= 20, b - 1 > 0), [a, b], None, 20 - 10 * c, 2, None)
    assert found(tir.all(tir.Not(a * 1 > b * 6), a - 1 > 0), [a], 2, b * 6)
    assert found(tir.all(te.min(a, b) > 3, te.max(a, 2) < 10), [a, b], 4, 9, 4, None) is False, "2 < 10 has no variable"
    assert found(te.min(a, b) > 3, [a, b], 4, None, 4, None)
    assert found(tir.all(a > 3, a > c, a * 2 < 9), [a], te.max(4, c + 1), 4)
    assert detect(tir.any(a > 3, a < 2), [a]) == []
    assert detect(a * a > 3, [a]) == []


@pytest.mark.parametrize("seed", range(40))
def test_detected_bounds_say_the_same(seed: int) -> None:
    r = Random(seed)
    parts = [r.choice((x, y)) * r.choice((1, 2, -1, -3)) + z * r.randint(-2, 2) + r.randint(-4, 4) for _ in range(4)]
    tests = [r.choice((tir.LT, tir.LE, tir.GT, tir.GE, tir.EQ))(part, r.randint(-6, 6)) for part in parts]
    cond = tir.all(*tests)
    ends = arith.detect_clip_bound(cond, [x, y])
    assert len(ends) == 4
    for env in points({x: (-8, 8), y: (-8, 8), z: (-2, 2)}):
        inside = all(
            (low is None or evaluate(low, env) <= env[v]) and (high is None or env[v] <= evaluate(high, env))
            for v, low, high in ((x, ends[0], ends[1]), (y, ends[2], ends[3]))
        )
        assert inside == bool(evaluate(cond, env)), cond


# deduce_bound


def test_bounds_are_deduced() -> None:
    hints = {b: Set(2, 3), c: Set(8, 15), d: Set(-3, -1)}
    deduce = arith.deduce_bound
    for cond in (-b * a + c - d >= 0, te.const(0) <= -b * a + c - d):
        assert same(deduce(a, cond, hints, {}).max_value, (d - c) // (b * -1))
    for cond in (a * 4 + b < c, c > a * 4 + b):
        assert same(deduce(a, cond, hints, {}).max_value, (c - b - 1) // 4)
    assert deduce(a, te.max(5, a * 4) < 0, hints, {}) == Set(pos_inf(), neg_inf())
    assert deduce(a, te.max(-5, a * 4) < 0, hints, {}) == Set(neg_inf(), -1)
    assert same(deduce(a, a * c - b - d >= 0, hints, {b: hints[b], d: hints[d]}).min_value, 2 // c + 1)
    assert deduce(a, a // 4 + b < 9, hints, {b: hints[b]}) == Set(neg_inf(), 23)
    assert deduce(a, (a + 1).equal(b), hints, {}) == Set(b - 1, b - 1)
    assert deduce(a, a * d < 5, {}, {}).is_nothing(), "the sign of d is not known"
    assert deduce(a, tir.NE(a, 3), {}, {}).is_nothing()
    assert deduce(a, b > 2, hints, {}).is_nothing()
    assert deduce(a, b > 1, hints, {}).is_everything()
    assert deduce(a, a * a < 4, hints, {}).is_nothing()
    assert deduce(a, te.if_then_else(a > 1, 3, 4) < 4, hints, {}).is_nothing()
    assert deduce(a, a * 2 - a > b, hints, {}) == Set(b + 1, pos_inf())


@pytest.mark.parametrize("seed", range(80))
def test_a_deduced_bound_is_enough(seed: int) -> None:
    """The condition holds for every value in the set, whatever the relaxed variables are."""
    r = Random(seed)
    box = {v: (low := r.randint(-4, 3), low + r.randint(0, 3)) for v in (b, c)}
    e = a * r.choice((1, 2, 3, -1, -4)) + r.choice((b, b * 2, b - c)) * r.choice((1, -3)) + r.randint(-5, 5)
    if r.random() < 0.5:
        e = r.choice((lambda e: e // 3, lambda e: te.max(e, c), lambda e: te.min(e, b + 2), lambda e: c - e))(e)
    cond = r.choice((tir.LT, tir.LE, tir.GT, tir.GE, tir.EQ))(e, r.choice((0, 7, -3, c)))
    domains = {v: Set(*box[v]) for v in (b, c)}
    relaxed = {v: domains[v] for v in r.choice(((b, c), (b,), ()))}
    found = arith.deduce_bound(a, cond, domains, relaxed)
    for env in points(box):
        for value in range(-12, 13):
            if within(found, value, env):
                assert evaluate(cond, {**env, a: value}), (cond, found, env, value)


def test_unions_from_within() -> None:
    union = arith.int_set.union_lower_bound
    none, all_ = arith.int_set.neg_inf(), arith.int_set.pos_inf()
    assert union([Set(none, 0), Set(1, all_)]).is_everything()
    assert str(union([Set(0, 3), Set(2, 9)])) == "IntervalSet[0, 9]"
    assert str(union([Set(5, 9), Set(-2, 4)])) == "IntervalSet[-2, 9]"
    assert str(union([Set(0, 3), Set(5, 9)])) == "IntervalSet[0, 3]"
    assert str(union([Set(x, x + 3), Set(x + 4, x + 5)])) == "IntervalSet[x, x + 5]"
    assert union([]).is_nothing()
    with refused("union_lower_bound", "3 is not a list", fix="arith.IntervalSet"):
        union(3)


def test_products_of_unknown_sign() -> None:
    held = arith.Analyzer().int_set(x * y, {x: Set(0, 10)})
    for value in (-3, 0, 7):
        products = [k * value for k in range(11)]
        found = [evaluate(end, {y: value}) for end in (held.min_value, held.max_value)]
        assert found == [min(products), max(products)]


def span(low: Any, extent: int) -> te.Range:
    return te.Range.from_min_extent(min_value=low, extent=extent)


def test_regions_that_are_swept() -> None:
    lower, strict, upper = (
        getattr(arith, f"estimate_region_{name}") for name in ("lower_bound", "strict_bound", "upper_bound")
    )
    box = {x: te.Range(0, 16), y: te.Range(0, 4)}
    assert lower([span(x, 2), span(x + 1, 3)], {x: te.Range(0, 64)}, True) is None  # they depend on each other
    assert strict([span(x * 4, 2)], {x: te.Range(0, 64)}, True) is None  # with gaps
    for each in (lower, strict, upper):
        assert str(each([span(x * 4, 8)], {x: te.Range(0, 64)}, True)) == "[IntervalSet[0, 259]]"
        assert str(each([span(5 - x, 2)], {x: te.Range(0, 4)}, True)) == "[IntervalSet[2, 6]]"
        assert str(each([span(x, 1), span(y, 3)], box, True)) == "[IntervalSet[0, 15], IntervalSet[0, 5]]"
        assert str(each([span(z, 2)], box, True)) == "[IntervalSet[z, z + 1]]"
    assert str(lower([span((x * 4 + y) * 4, 8)], box, x * 4 + y < 63)) == "[IntervalSet[0, 255]]"
    assert str(upper([span(x * 4, 2)], {x: te.Range(0, 64)}, True)) == "[IntervalSet[0, 253]]"
    assert str(upper([span(x * y, 1)], box, True)) == "[IntervalSet[0, 45]]"
    with refused("estimate_region_lower_bound", "region=3 is not a list of ranges", fix="te.Range"):
        lower(3, box, True)
    with refused("estimate_region_upper_bound", "var_dom=3 does not map variables", fix="te.Range"):
        upper([span(x, 1)], 3, True)
    with refused("estimate_region_strict_bound", "`x + 1` is not a variable", fix="te.Range"):
        strict([span(x, 1)], {x + 1: te.Range(0, 8)}, True)


def test_bounds_of_what_divides_by_a_negative_number_and_of_what_is_no_comparison() -> None:
    for e, low, high in ((x // -8 > 3, "neg_inf", "-32"), (x // -8 >= 3, "neg_inf", "-24"),
                         (x // -8 < 3, "-23", "pos_inf"), (x // -8 <= 3, "-31", "pos_inf")):  # fmt: skip
        found = arith.deduce_bound(x, e, {}, {})
        assert (str(found.min_value), str(found.max_value)) == (low, high)
    assert arith.deduce_bound(x, x + y, {}, {}).is_nothing()
    assert arith.deduce_bound(x, (x * 4).equal(y), {y: Set(2, 3)}, {}).is_nothing()


# Errors


def test_what_is_refused() -> None:
    with refused("IntervalSet", "max_value=1.5 is not an integer", fix="pos_inf"):
        Set(1, 1.5)
    with refused("int_set", "3 is not a mapping", fix="arith.IntervalSet"):
        arith.Analyzer().int_set(x, 3)
    with refused("int_set", "`x + 1` is not a variable", fix="arith.IntervalSet"):
        arith.Analyzer().int_set(x, {x + 1: Set(0, 1)})
    with refused("int_set", "5 is not a set of values for x", fix="arith.IntervalSet"):
        arith.Analyzer().int_set(x, {x: 5})
    with refused("const_int_bound", "is of type float32", fix="integers"):
        arith.Analyzer().const_int_bound(te.const(1.5))
    with refused("update", "`3` is not a variable", fix="te.var"):
        arith.Analyzer().update(3, arith.ConstIntBound(0, 1))
    with refused("deduce_bound", "`3` is not a variable", fix="te.var"):
        arith.deduce_bound(3, x > 1, {}, {})
    with refused("detect_linear_equation", "`x + 1` is not a variable", fix="te.var"):
        arith.detect_linear_equation(x, [x + 1])
