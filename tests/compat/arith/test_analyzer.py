"""The legacy face of simplifying and proving."""

from __future__ import annotations

import pytest

from tests.errors.refused import refused
from tilewright import arith, te, tir
from tilewright.arith import Analyzer


def test_what_follows_from_ranges() -> None:
    i, n = te.var("i"), te.size_var("n")
    analyzer = Analyzer()
    assert not analyzer.can_prove(i < 8)
    analyzer.bind(i, te.Range(0, 8))
    assert analyzer.can_prove(i < 8)
    assert str(analyzer.simplify(i // 8 + 3)) == "3"
    assert analyzer.can_prove_equal(i * 2 % 2, 0)
    assert analyzer.can_prove_greater_equal(i + 1, 1)
    assert not analyzer.can_prove_less(i, 7)
    assert analyzer.can_prove_less(i + n * 0, 8)


def test_what_follows_from_values() -> None:
    i, n = te.var("i"), te.size_var("n")
    analyzer = Analyzer()
    analyzer.bind(n, 12)
    analyzer.bind(i, te.Range.from_min_extent(n, n))
    assert str(analyzer.simplify(n // 5)) == "2"
    assert analyzer.can_prove(tir.all(i >= 12, i < 24))
    assert analyzer.rewrite_simplify(n + 1).same_as(analyzer.canonical_simplify(n + 1))


def test_an_axis_stands_for_its_variable() -> None:
    k = te.reduce_axis((0, 4), name="k")
    analyzer = Analyzer()
    analyzer.bind(k, k.dom)
    assert analyzer.can_prove(k < 4)


@pytest.mark.parametrize("given", [3, te.var("i") + 1])
def test_what_is_no_variable(given: object) -> None:
    with refused("bind", "is not a variable", fix="te.var"):
        Analyzer().bind(given, te.Range(0, 8))


def test_bounds_of_bits() -> None:
    analyzer, x, y = arith.Analyzer(), te.var("x"), te.var("y")
    analyzer.update(x, arith.ConstIntBound(-9, 11))
    analyzer.update(y, arith.ConstIntBound(2, 10))

    def found(e: object) -> tuple[int, int]:
        bound = analyzer.const_int_bound(e)
        return bound.min_value, bound.max_value

    assert found(x >> y) == (-3, 2)
    assert found(x & y) == (0, 10)
    assert found((y + 1) << 2) == (12, 44)
    assert found(x << y) == found(y << x) == found(y >> x) == (-(2**31), 2**31 - 1), "the shift may be of any kind"
    assert found(x & -1) == (-(2**31), 2**31 - 1)


def test_remainders_by_several_divisors_are_known_together() -> None:
    analyzer, x = arith.Analyzer(), te.var("x")
    with analyzer.constraint_scope(tir.all(tir.floormod(x, 3).equal(1), tir.floormod(x, 2).equal(1))):
        known = analyzer.modular_set(x + 1)
        assert (known.coeff, known.base) == (6, 2)
        with analyzer.constraint_scope(tir.floormod(x, 4).equal(3)):
            known = analyzer.modular_set(x)
            assert (known.coeff, known.base) == (12, 7)
