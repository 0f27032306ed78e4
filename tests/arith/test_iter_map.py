"""`arith.detect_iter_map` and its kin, against what all values of the iterators say."""

from __future__ import annotations

import itertools
import random
from math import prod
from typing import Any

import pytest

from tests.errors.refused import refused
from tilewright import arith, ir, te, tir
from tilewright.arith import IterMapLevel
from tilewright.expr.evaluate import evaluate
from tilewright.expr.operators import as_expr

i, j, k = te.var("i"), te.var("j"), te.var("k")
ITERS = {i: ir.Range(0, 8), j: ir.Range(0, 4), k: ir.Range(0, 3)}
TWO = {i: ITERS[i], j: ITERS[j]}


def texts(indices: Any) -> list[str]:
    return [str(arith.normalize_iter_map_to_expr(index)) for index in indices]


def points(iters: dict[Any, Any]) -> list[dict[Any, int]]:
    ranges = [range(int(r.min), int(r.min) + int(r.extent)) for r in iters.values()]
    return [dict(zip(iters, values, strict=True)) for values in itertools.product(*ranges)]


@pytest.mark.parametrize(
    ("indices", "found"),
    [
        ([i * 4 + j], ["i * 4 + j"]),
        ([j, i], ["j", "i"]),
        ([(i * 4 + j) // 8, (i * 4 + j) % 8], ["(i * 4 + j) // 8", "(i * 4 + j) % 8"]),
        ([i // 2 * 2 + i % 2], ["i"]),
        ([(i // 4 * 4 + i % 4) // 2], ["i // 2"]),
        ([i * 2 + 5, j], ["i * 2 + 5", "j"]),
        ([i // 2], ["i // 2"]),
        ([((i * 4 + j) // 8 * 3 + k) // 3, k], ["(i * 4 + j) // 8", "k"]),
        ([(i * 4 + j + 8) // 4], ["i + 2"]),
    ],
)
def test_indices_as_digits(indices: list[Any], found: list[str]) -> None:
    result = arith.detect_iter_map(indices, ITERS)
    assert (texts(result.indices), result.errors) == (found, [])
    assert [str(e) for e in arith.iter_map_simplify(indices, ITERS)] == found


@pytest.mark.parametrize(
    ("indices", "reason"),
    [
        ([i + j], "the scale of `j` in `i + j` is not 8"),
        ([i, i], "the splits of `i` overlap"),
        ([i, i // 2], "the splits of `i` overlap"),
        ([i // 3], "divides 8 values of scale 1, which 3 does not divide evenly"),
        ([(i * 4 + j + 1) // 4], "it would need padding"),
        ([i * j], "`i * j` is not a sum, quotient or remainder by constants"),
        ([i - j], "the scale of `i` in `i - j` is not -4"),
    ],
)
def test_indices_that_are_no_digits(indices: list[Any], reason: str) -> None:
    result = arith.detect_iter_map(indices, ITERS)
    assert result.indices == []
    assert reason in result.errors[0]
    assert [str(e) for e in arith.iter_map_simplify(indices, ITERS)] == [str(e) for e in indices]


def test_the_result_is_the_list_of_its_indices() -> None:
    """As the releases up to v0.8 return it."""
    a, b = te.var("a"), te.var("b")
    result = arith.detect_iter_map([i * 4 + j, k], ITERS)
    assert len(result) == 2
    assert [*result] == result.indices == [result[0], result[1]]
    assert len(arith.detect_iter_map([i, i], ITERS)) == 0
    assert set(arith.inverse_affine_iter_map(result, [a, b])) == {i, j, k}


def test_what_a_bijective_map_is() -> None:
    assert arith.detect_iter_map([i * 4 + j], TWO, check_level=IterMapLevel.Bijective).errors == []
    assert "no index depends on j" in arith.detect_iter_map([i], TWO, check_level=IterMapLevel.Bijective).errors[0]
    assert "leave digits out" in arith.detect_iter_map([i // 2, j], TWO, check_level=IterMapLevel.Bijective).errors[0]
    assert arith.detect_iter_map([i, i], TWO, check_level=IterMapLevel.NoCheck).errors == []


def test_a_predicate_bounds_a_sum() -> None:
    bound = tir.all(i * 4 + j < 10, i * 4 + j >= 0)
    (index,) = arith.detect_iter_map([i * 4 + j], TWO, bound).indices
    assert int(index.args[0].extent) == 10
    assert texts(arith.detect_iter_map([(i * 4 + j) // 5, (i * 4 + j) % 5], TWO, bound).indices) == [
        "(i * 4 + j) // 5",
        "(i * 4 + j) % 5",
    ]
    assert "bounds `i * 4 + j`, which no index" in arith.detect_iter_map([i, j], TWO, bound).errors[0]
    assert "is not an upper bound" in arith.detect_iter_map([i, j], TWO, i.equal(j)).errors[0]
    assert "is not an upper bound" in arith.detect_iter_map([i, j], TWO, i > 2).errors[0]


def test_iterators_that_do_not_begin_at_zero_or_have_one_value() -> None:
    iters = {i: ir.Range(3, 11), j: ir.Range(5, 6)}
    result = arith.detect_iter_map([i // 1 + j], iters)
    assert [str(e) for e in arith.iter_map_simplify([i // 1 + j], iters)] == ["i + 5"]
    assert int(result.indices[0].base) == 8
    assert len(arith.detect_iter_map([i, j], iters, simplify_trivial_iterators=False).indices[1].args) == 1


def test_a_sum_as_it_stands() -> None:
    found = arith.normalize_to_iter_sum(j + i * 16 + 7, ITERS)
    assert [int(arg.scale) for arg in found.args] == [16, 1]
    assert int(found.base) == 7


def test_the_inverse_of_a_map() -> None:
    a, b = te.var("a"), te.var("b")
    indices = [(i * 4 + j) // 2 % 4, (i * 4 + j) // 8 * 2 + (i * 4 + j) % 2]
    result = arith.detect_iter_map(indices, TWO, check_level=IterMapLevel.Bijective)
    assert result.errors == []
    inverse = arith.inverse_affine_iter_map(result.indices, [a, b])
    for point in points(TWO):
        values = dict(zip((a, b), (int(evaluate(e, point)) for e in indices), strict=True))
        assert {var: int(evaluate(e, values)) for var, e in inverse.items()} == point


def test_bindings_in_parts() -> None:
    def shown(bindings: list[Any], inner: list[Any], predicate: Any = True) -> list[list[str]]:
        found = arith.subspace_divide(bindings, ITERS, inner, predicate)
        named = [[str(arith.normalize_iter_map_to_expr(mark.source)) for mark in parts] for parts in found[:-1]]
        return named + [[str(mark.extent) for mark in parts] for parts in found[-1:]]

    yes = "T.bool(True)"
    assert shown([i * 4 + j, k], [j, k]) == [["i", "j"], ["0", "k"], [yes, yes]]
    assert shown([j * 8 + i], [j]) == []
    assert shown([i * 12 + j * 3 + k], [k], i * 4 + j < 18) == [["i * 4 + j", "k"], ["i * 4 + j < 18", yes]]
    assert shown([i * 12 + j * 3 + k], [k, j], j * 3 + k < 7) == []
    assert shown([i * 7 + j * 3 + k], [k, j], j * 3 + k < 7) == [["i", "j * 3 + k"], [yes, "j * 3 + k < 7"]]
    assert shown([i * 12 + j * 3 + k], [k], j * 3 + k < 12) == [["i * 4 + j", "k"], [yes, yes]]
    assert shown([i * 7 + j * 3 + k], [k], j * 3 + k < 7) == []


def test_sums_within_sums_stay_as_they_are() -> None:
    """A digit of a bounded sum names the sum, as the bound does."""
    bound = tir.all(i * 4 + j < 30, (i * 4 + j) * 3 + k < 72)
    (index,) = arith.detect_iter_map([(i * 4 + j) * 3 + k], ITERS, bound).indices
    expected = (i * 4 + j) * 3 + k
    ir.assert_structural_equal(arith.normalize_iter_map_to_expr(index), expected)


def test_bounds_of_sums_within_sums() -> None:
    """Whatever the order of the conditions: every value below the bound is reached, once."""
    shorter, longer = j * 3 + k < 10, i * 10 + j * 3 + k < 73
    for bound in (tir.all(shorter, longer), tir.all(longer, shorter)):
        (index,) = arith.detect_iter_map([i * 10 + j * 3 + k], ITERS, bound).indices
        assert int(index.args[0].extent) == 73
        reached = [p[i] * 10 + p[j] * 3 + p[k] for p in points(ITERS) if p[j] * 3 + p[k] < 10]
        assert sorted(value for value in reached if value < 73) == list(range(73))
    assert arith.detect_iter_map([i * 10 + j * 3 + k], ITERS, tir.all(j * 3 + k < 7, longer)).indices == []
    assert arith.detect_iter_map([i * 10 + j * 3 + k], ITERS, tir.all(i * 4 + j < 20, longer)).indices == []


@pytest.mark.parametrize("seed", range(60))
def test_random_indices(seed: int) -> None:
    """What is found has the values of the indices, each index reaches all of its own, whatever the others are."""
    rng = random.Random(seed)

    def draw(depth: int) -> Any:
        if depth == 0:
            return rng.choice([i, j, k])
        how, by = rng.choice(["sum", "sum", "div", "mod", "leaf"]), rng.choice([2, 3, 4, 8])
        e = draw(depth - 1)
        return {"sum": lambda: e * by + draw(0), "div": lambda: e // by, "mod": lambda: e % by, "leaf": lambda: e}[
            how
        ]()

    indices = [draw(rng.choice([1, 2, 3])) for _ in range(rng.choice([1, 2]))]
    result = arith.detect_iter_map(indices, ITERS)
    if not result.indices:
        assert result.errors
        return
    seen = set()
    for point in points(ITERS):
        values = tuple(int(evaluate(as_expr(e), point)) for e in indices)
        assert tuple(int(evaluate(arith.normalize_iter_map_to_expr(e), point)) for e in result.indices) == values
        seen.add(values)
    extents = [int(arg.extent) for index in result.indices for arg in index.args]
    count = 1
    for extent in extents:
        count *= extent
    assert len(seen) == count


n, m = te.size_var("n"), te.size_var("m")


@pytest.mark.parametrize(
    ("indices", "iters", "found"),
    [
        ([(j + 1) * n + i], {i: n, j: 4}, ["j * n + i + n"]),
        ([i * 2 * n + j * 2], {i: 3, j: n}, None),
        ([i // n, i % n], {i: m * n}, ["i // n", "i % n"]),
        ([i % n, i // n % m, i // n // m], {i: m * n * 2}, None),
        ([i // n * n + i % n], {i: n * 8}, ["i"]),
        ([i // 4, i % 4], {i: n * 4}, ["i // 4", "i % 4"]),
        ([i * n + j], {i: 4, j: m}, []),
        ([j * n + i], {i: 4, j: 4}, []),
        ([i // n], {i: 8}, []),
        ([i // 4], {i: n}, []),
        ([i // n], {i: n + 1}, []),
        ([i, i % n], {i: n * 4}, []),
    ],
)
def test_symbolic_extents(indices: list[Any], iters: dict[Any, Any], found: list[str] | None) -> None:
    """For some sizes: the indices have their values, and together reach each combination of their digits once."""
    result = arith.detect_iter_map(indices, {var: ir.Range(0, extent) for var, extent in iters.items()})
    if found is not None:
        assert texts(result.indices) == found
    assert bool(result.indices) != bool(result.errors)
    for sizes in ({n: 1, m: 1}, {n: 3, m: 2}, {n: 4, m: 5}) if result.indices else ():
        ranges = {var: ir.Range(0, int(evaluate(as_expr(extent), sizes))) for var, extent in iters.items()}
        seen = set()
        for point in points(ranges):
            values = tuple(int(evaluate(as_expr(e), point | sizes)) for e in indices)
            made = (arith.normalize_iter_map_to_expr(index) for index in result.indices)
            assert tuple(int(evaluate(e, point | sizes)) for e in made) == values
            seen.add(values)
        digits = [int(evaluate(arg.extent, sizes)) for index in result.indices for arg in index.args]
        assert len(seen) == prod(digits)


def test_symbolic_maps_apart_and_inverted() -> None:
    extent = {i: ir.Range(0, n * 8)}
    level = IterMapLevel.Bijective
    made = arith.detect_iter_map([i // n, i % n], extent, check_level=level)
    assert str(arith.inverse_affine_iter_map(made, [j, k])[i]) == "j * n + k"
    assert arith.detect_iter_map([i // n], extent, check_level=level).indices == []
    assert arith.detect_iter_map([i], extent, i < 5).indices == []


def test_refused() -> None:
    with refused("detect_iter_map", "indices=3 is not a list", fix="indices=[...]"):
        arith.detect_iter_map(3, {})  # type: ignore[arg-type]
    with refused("detect_iter_map", "check_level=2 is not a level", fix="arith.IterMapLevel.Surjective"):
        arith.detect_iter_map([], {}, check_level=2)  # type: ignore[arg-type]
    with refused("inverse_affine_iter_map", "iter_map=[] is not a sum for each of 1 outputs", fix="detect_iter_map"):
        arith.inverse_affine_iter_map([], [1])
    with refused("IterSumExpr", "", fix="a list of IterSplitExpr"):
        arith.IterSumExpr(3, 4)  # type: ignore[arg-type]
    with refused("detect_iter_map", "not a range for each variable", fix="tvm.ir.Range"):
        arith.detect_iter_map([i], [i])
    with refused("arith", "`n` of an iterator map is neither a constant nor a size", fix="constant extents"):
        arith.detect_iter_map([i], {i: ir.Range(0, te.var("n"))})
    with refused("normalize_to_iter_sum", "`i * j` is not a sum, quotient or remainder", fix="quotients"):
        arith.normalize_to_iter_sum(i * j, ITERS)
