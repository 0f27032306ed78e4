"""Systems of linear equations and inequalities; properties by counting through small boxes."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from tests.arith.exact import evaluate, points
from tests.errors.refused import refused
from tilewright import arith, te, testing, tir
from tilewright.compat.arith.smith import smith_normal_form

a = te.var("a")
x, y, z = (te.var(name) for name in "xyz")


@pytest.mark.parametrize("seed", range(60))
def test_smith_normal_forms(seed: int) -> None:
    r = Random(seed)
    rows, width = r.randint(1, 4), r.randint(1, 4)
    matrix = [[r.randint(-6, 6) for _ in range(width)] for _ in range(rows)]
    diagonal, left, right, back = smith_normal_form(matrix, width)

    def times(m: Any, n: Any) -> Any:
        return [[sum(p * q for p, q in zip(row, column, strict=True)) for column in zip(*n, strict=True)] for row in m]

    expected = [[diagonal[i] if i == j and i < len(diagonal) else 0 for j in range(width)] for i in range(rows)]
    assert times(times(left, matrix), right) == expected
    assert times(right, back) == [[int(i == j) for j in range(width)] for i in range(width)]
    assert all(value > 0 for value in diagonal)


def test_equations_of_one_solution_and_of_none() -> None:
    solve = arith.solve_linear_equations
    found = solve([(x + y).equal(20), (x - y).equal(10)], [x, y])
    assert (found.dst.variables, found.dst_to_src) == ([], {})
    assert (found.src_to_dst[x].value, found.src_to_dst[y].value) == (15, 5)
    none = solve([(x + y).equal(0), (x - y).equal(0), x.equal(5)], [x, y], {})
    assert [each.value for each in none.dst.relations] == [0]
    assert solve([(x * 2).equal(5)], [x]).dst.relations[0].value == 0


def test_equations_of_many_solutions() -> None:
    found = arith.solve_linear_equations([(x + y + z).equal(15), (x + y).equal(10)], [x, y, z])
    (n0,) = found.dst.variables
    testing.assert_prim_expr_equal(found.src_to_dst[x], n0 + 10)
    testing.assert_prim_expr_equal(found.src_to_dst[y], -n0)
    assert found.src_to_dst[z].value == 5
    ranged = arith.solve_linear_equations([(x + y).equal(0)], [x, y], {x: te.Range(-5, 5), y: te.Range(0, 10)})
    (n0,) = ranged.dst.variables
    assert (ranged.dst.ranges[n0].min.value, ranged.dst.ranges[n0].extent.value) == (-9, 10)
    parameter = arith.solve_linear_equations([(x * 2).equal(a)], [x])
    testing.assert_prim_expr_equal(parameter.src_to_dst[x], a // 2)
    assert str(parameter.dst.relations) == "[a % 2 == 0]"


def system(r: Random, relations: Any) -> tuple[list[Any], dict[Any, Any], dict[Any, tuple[int, int]]]:
    """Random relations of x, y, z with small coefficients, and a box."""
    box = {v: (low := r.randint(-4, 1), low + r.randint(0, 5)) for v in (x, y, z)}
    given = [
        r.choice(relations)(x * r.randint(-3, 3) + y * r.randint(-3, 3) + z * r.choice((0, 1, -2)), r.randint(-5, 5))
        for _ in range(r.randint(1, 3))
    ]
    return given, {v: te.Range(low, high + 1) for v, (low, high) in box.items()}, box


@pytest.mark.parametrize("seed", range(60))
def test_solutions_of_equations_are_in_step(seed: int) -> None:
    """Each solution in the box is one value of the new variables, and the other way round."""
    given, ranges, box = system(Random(seed), [tir.EQ])
    found = arith.solve_linear_equations([each for each in given if not isinstance(each, bool)], [x, y, z], ranges)
    solutions = [env for env in points(box) if all(evaluate(tir.all(each), env) for each in given)]
    if [str(each) for each in found.dst.relations] == ["T.bool(False)"]:
        assert not solutions
        return
    seen = set()
    for env in solutions:
        new = {v: evaluate(found.dst_to_src[v], env) for v in found.dst.variables}
        assert {v: evaluate(e, new) for v, e in found.src_to_dst.items()} == env
        for v, held in found.dst.ranges.items():
            assert evaluate(held.min, new) <= new[v] < evaluate(held.min, new) + evaluate(held.extent, new)
        assert all(evaluate(each, new) for each in found.dst.relations)
        seen.add(tuple(new.values()))
    assert len(seen) == len(solutions)
    wide = dict.fromkeys(found.dst.variables, (-20, 20))
    if len(wide) < 3:
        inside = [
            new
            for new in points(wide)
            if all(
                evaluate(held.min, new) <= new[v] < evaluate(held.min, new) + evaluate(held.extent, new)
                for v, held in found.dst.ranges.items()
            )
            and all(evaluate(each, new) for each in found.dst.relations)
        ]
        assert {tuple(new.values()) for new in inside} == seen


def test_inequalities() -> None:
    found = arith.solve_linear_inequalities([x + y < 20, x - y >= 10], [x, y])
    testing.assert_prim_expr_equal(found.ranges[x].min, y + 10)
    testing.assert_prim_expr_equal(found.ranges[x].extent, 10 - y * 2)
    assert [str(each) for each in found.relations] == ["y < 5"]
    none = arith.solve_linear_inequalities([x < 2, x > 5], [x])
    assert (none.variables, none.ranges, str(none.relations)) == ([], {}, "[T.bool(False)]")
    moved = arith.solve_linear_inequalities([x < 2, x > 5], [x], {x: te.Range(-20, 21)}, deskew_range=True)
    assert (moved.dst.variables, moved.src_to_dst, moved.dst_to_src) == ([], {}, {})
    assert str(moved.dst.relations) == "[T.bool(False)]"
    shifted = arith.solve_linear_inequalities([x < n0 + 8 for n0 in [y]] + [x >= y], [x], deskew_range=True)
    assert len(shifted.dst.variables) == 1
    (new,) = shifted.dst.variables
    assert (shifted.dst.ranges[new].min.value, shifted.dst.ranges[new].extent.value) == (0, 8)
    testing.assert_prim_expr_equal(shifted.src_to_dst[x], new + y)


def test_ranges_of_inequalities_have_constant_extents() -> None:
    """Of several bounds the closest pair makes the range; the others are relations."""
    box = {x: te.Range(-100, 100), y: te.Range(0, 10)}
    found = arith.solve_linear_inequalities([x + y <= 20, x - y >= 10], [x, y], box)
    assert (found.ranges[y].min.value, found.ranges[y].extent.value) == (0, 6)
    testing.assert_prim_expr_equal(found.ranges[x].min, y + 10)
    assert found.ranges[x].extent.value == 11
    assert [str(each) for each in found.relations] == ["x + y < 21"]
    moved = arith.solve_linear_inequalities([x + y <= 20, x - y >= 10], [x, y], box, deskew_range=True)
    testing.check_int_constraints_trans_consistency(moved)
    point = arith.solve_linear_inequalities([x + y >= 10, x - y >= 2, x <= 6], [x, y])
    assert [(int(point.ranges[v].min), int(point.ranges[v].extent)) for v in (x, y)] == [(6, 1), (4, 1)]
    assert not point.relations
    kept = arith.solve_linear_inequalities([x <= 6, x >= 6, x - z * y >= 0, x - z * y <= 0], [x, y, z])
    assert (int(kept.ranges[x].min), int(kept.ranges[x].extent)) == (6, 1)
    assert {"y * z <= 6", "6 <= y * z"} <= set(map(str, kept.relations))


@pytest.mark.parametrize("deskew", [False, True])
@pytest.mark.parametrize("seed", range(40))
def test_solutions_of_inequalities_stay(seed: int, deskew: bool) -> None:
    given, ranges, box = system(Random(seed), [tir.LT, tir.LE, tir.GT, tir.GE, tir.EQ])
    found = arith.solve_linear_inequalities(given, [x, y, z], ranges, deskew_range=deskew)
    held = found.dst if isinstance(found, arith.IntConstraintsTransform) else found
    wide = {v: (low - 2, high + 2) for v, (low, high) in box.items()}
    for env in points(wide):
        expected = all(box[v][0] <= env[v] <= box[v][1] for v in box) and all(evaluate(tir.all(e), env) for e in given)
        here = dict(env)
        if isinstance(found, arith.IntConstraintsTransform):
            here |= {v: evaluate(found.dst_to_src[v], env) for v in found.dst.variables}
            same_point = all(evaluate(e, here) == env[v] for v, e in found.src_to_dst.items())
        else:
            same_point = True
        inside = same_point and all(evaluate(each, here) for each in held.relations)
        for v, span in held.ranges.items():
            low = evaluate(span.min, here)
            inside = inside and low <= here[v] < low + evaluate(span.extent, here)
        assert inside == expected, (given, held)


def test_what_is_refused() -> None:
    with refused("solve_linear_equations", "ranges=3 does not map variables to ranges", fix="te.Range"):
        arith.solve_linear_equations([x.equal(1)], [x], 3)
    with refused("solve_linear_equations", "`x * y == 3` is not a linear equation of x, y", fix="constant multiples"):
        arith.solve_linear_equations([(x * y).equal(3)], [x, y])
    with refused("solve_linear_equations", "no variable is given", fix="give the variables"):
        arith.solve_linear_equations([x.equal(3)], [])
    with refused("solve_linear_inequalities", "is not an ordering or an equation of x, y", fix="sums of multiples"):
        arith.solve_linear_inequalities([x != y], [x, y])
