"""What `testing` checks, and mistakes in what tests of the legacy API are marked with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.errors.refused import refused
from tilewright import arith, te, testing
from tilewright.error import UserError

x, y = te.var("x"), te.var("y")


@pytest.mark.parametrize(
    ("call", "primitive", "says"),
    [
        (lambda: testing.parameter(), "parameter", "no values are given"),
        (lambda: testing.parameter(8, ids=3), "parameter", "ids=3 is not a list of names"),
        (lambda: testing.parameter(by_dict=[8]), "parameter", "by_dict=[8] is not a mapping"),
        (lambda: testing.parameters(8, 16), "parameters", "a set of values is not a sequence"),
        (lambda: testing.parameters((8, 16), (4,)), "parameters", "the sets have 1, 2 values"),
        (lambda: testing.fixture(3), "fixture", "3 is not a function"),
        (lambda: testing.fixture(int), "fixture", "<class 'int'> is not a function"),
        (lambda: testing.exclude_targets(3), "exclude_targets", "3 is not the name of a target"),
        (lambda: testing.known_failing_targets(print), "known_failing_targets", "is not the name of a target"),
        (lambda: testing.requires_package(3), "requires_package", "3 is not the name of a package"),
        (lambda: testing.requires_llvm(3), "requires", "3 is not a test"),
    ],
)
def test_what_marks_refuse(call: Callable[[], Any], primitive: str, says: str) -> None:
    with refused(primitive, says):
        call()


def test_packages_that_cannot_be_looked_for_are_not_there() -> None:
    for name in ("tests_absent.part", "", "."):
        assert testing.requires_package(name).marks()
    assert not testing.requires_package("numpy").marks()


def test_helpers_of_tests() -> None:
    testing.assert_prim_expr_equal(x * 2 - x, x)
    with pytest.raises(AssertionError, match="are not equal"):
        testing.assert_prim_expr_equal(x, y)
    testing.check_bool_expr_is_true(x < 8, {x: te.Range(0, 8)})
    testing.check_bool_expr_is_true(x < 4, {x: te.Range(0, 8)}, cond=x % 4 < 4 - x)
    with pytest.raises(AssertionError, match="does not hold for"):
        testing.check_bool_expr_is_true(x < 7, {x: te.Range(0, 8)})
    box = {v: te.Range(-3, 6) for v in (x, y)}
    testing.check_int_constraints_trans_consistency(arith.solve_linear_equations([(x + y * 2).equal(3)], [x, y], box))
    wrong = arith.solve_linear_equations([(x + y).equal(2)], [x, y], box)
    wrong.src_to_dst[x] = wrong.src_to_dst[x] + 1
    with pytest.raises(AssertionError, match="does not hold for"):
        testing.check_int_constraints_trans_consistency(wrong)


def test_what_the_checks_of_testing_refuse() -> None:
    for wrong, said in (
        (lambda: testing.check_bool_expr_is_true(True, ...), "is not a mapping from variables"),
        (lambda: testing.check_bool_expr_is_true(te.var("x") < 8, {}), "x < 8 has no value: variable x"),
        (lambda: testing.check_bool_expr_is_true(True, {te.var("x"): 3}), "is not a range of constant ends"),
        (lambda: testing.check_int_constraints_trans_consistency(3), "is not a transform of constraints"),
        (lambda: testing.assert_allclose(["x"], [1.0]), "cannot be compared"),
    ):
        with pytest.raises(UserError, match=said):
            wrong()  # type: ignore[no-untyped-call]
