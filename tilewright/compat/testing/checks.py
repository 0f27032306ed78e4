"""Comparisons and proofs for tests of numerical programs, and the targets that can run."""

from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np

from ...arith import Analyzer, IntConstraints, IntConstraintsTransform
from ...core.errors import UserError
from ...core.target import KINDS
from ...expr.evaluate import UndefinedValueError, evaluate
from ...expr.operators import all_of, as_expr
from ...expr.traverse import substitute
from ...runtime.device import Device, device, enabled

device_enabled = enabled


def enabled_targets() -> list[tuple[str, Device]]:
    """Return the targets with programs that can run on this machine, each with its first device; without C, which LLVM
    replaces."""
    return [(kind, device(kind)) for kind in KINDS if kind != "c" and enabled(kind)]


def assert_allclose(actual: Any, desired: Any, rtol: float = 1e-7, atol: float = 1e-7) -> None:
    """Raise AssertionError unless |actual - desired| <= atol + rtol * |desired| everywhere and the shapes agree."""
    got, wanted = np.asanyarray(actual), np.asanyarray(desired)
    np.testing.assert_equal(got.shape, wanted.shape)
    try:
        np.testing.assert_allclose(got, wanted, rtol=float(rtol), atol=float(atol), verbose=True)
    except (TypeError, ValueError) as error:
        raise UserError(
            f"these cannot be compared: {error}",
            primitive="assert_allclose",
            fix="give arrays of numbers, and numbers as tolerances",
        ) from error


def assert_prim_expr_equal(lhs: Any, rhs: Any) -> None:
    """Raise AssertionError unless two expressions provably have one value."""
    lhs, rhs = as_expr(lhs), as_expr(rhs)
    if not Analyzer().can_prove_equal(lhs, rhs):
        raise AssertionError(f"{lhs} and {rhs} are not equal: simplified, {Analyzer().simplify(lhs - rhs)} is not 0")


def check_bool_expr_is_true(bool_expr: Any, vranges: Mapping[Any, Any], cond: Any = None) -> None:
    """Raise AssertionError unless a condition holds for all values of its variables in constant ranges.

    Parameters
    ----------
    bool_expr
        The condition.
    vranges
        The range of each variable.
    cond
        A further condition: if it does not hold, nothing is checked.
    """
    ranges: list[tuple[Any, range]] = [
        (as_expr(var), _span(r)) for var, r in _by_variable(vranges, "check_bool_expr_is_true").items()
    ]
    for values in product(*(span for _, span in ranges)):
        env = {var: value for (var, _), value in zip(ranges, values, strict=True)}
        try:
            holds = (cond is not None and not evaluate(as_expr(cond), env)) or evaluate(as_expr(bool_expr), env)
        except UndefinedValueError as error:
            raise UserError(
                f"{bool_expr} has no value: {error}",
                primitive="check_bool_expr_is_true",
                fix="give the range of each variable, within which every part has a value",
            ) from error
        if not holds:
            raise AssertionError(f"{bool_expr} does not hold for {env}")


def _by_variable(vranges: Any, who: str) -> dict[Any, Any]:
    try:
        return dict(vranges)
    except (TypeError, ValueError) as error:
        raise UserError(
            f"vranges={vranges!r} is not a mapping from variables to ranges",
            primitive=who,
            fix="give {x: tvm.ir.Range(0, 8)}",
        ) from error


def _span(given: Any) -> range:
    """Return the numbers of a range with constant ends."""
    try:
        return range(int(given.min), int(given.min) + int(given.extent))
    except (AttributeError, TypeError, ValueError) as error:
        raise UserError(
            f"{given!r} is not a range of constant ends",
            primitive="check_bool_expr_is_true",
            fix="give tvm.ir.Range(0, 8)",
        ) from error


def check_int_constraints_trans_consistency(
    constraints_trans: IntConstraintsTransform, vranges: Mapping[Any, Any] | None = None
) -> None:
    """Raise AssertionError unless the two sides of a transform of constraints say the same of constant ranges.

    Parameters
    ----------
    constraints_trans
        The result of `arith.solve_linear_equations` or `arith.solve_linear_inequalities`.
    vranges
        Ranges of the variables that have none in it.
    """
    who = "check_int_constraints_trans_consistency"
    given = _by_variable({} if vranges is None else vranges, who)
    if not isinstance(constraints_trans, IntConstraintsTransform):
        raise UserError(
            f"{constraints_trans!r} is not a transform of constraints",
            primitive=who,
            fix="give the result of arith.solve_linear_equations",
        )

    def check(one: IntConstraints, other: IntConstraints, forth: Mapping[Any, Any], back: Mapping[Any, Any]) -> None:
        known = {**given, **one.ranges}
        holds = all_of(True, *one.relations)
        inside = [substitute(e, forth) for e in (*other.relations, *_in_ranges(other))]
        returned = [substitute(e, forth).equal(var) for var, e in back.items() if var in one.variables]
        check_bool_expr_is_true(all_of(True, *inside, *returned), known, holds)

    check(constraints_trans.src, constraints_trans.dst, constraints_trans.dst_to_src, constraints_trans.src_to_dst)
    check(constraints_trans.dst, constraints_trans.src, constraints_trans.src_to_dst, constraints_trans.dst_to_src)


def _in_ranges(held: IntConstraints) -> list[Any]:
    return [test for var, r in held.ranges.items() for test in (var >= r.min, var < r.min + r.extent)]
