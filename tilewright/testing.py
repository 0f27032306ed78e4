"""Helpers for tests of numerical programs."""

from collections.abc import Mapping
from itertools import product
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any

import numpy as np

from .arith import Analyzer, IntConstraints, IntConstraintsTransform
from .core.refusals import missing_from_module as _missing
from .core.target import KINDS
from .expr.evaluate import evaluate
from .expr.operators import all_of, as_expr
from .expr.traverse import substitute
from .runtime.device import Device, device, enabled

device_enabled = enabled


def enabled_targets() -> list[tuple[str, Device]]:
    """The targets whose programs can run on this machine, each with its first device; without C, which LLVM is for."""
    return [(kind, device(kind)) for kind in KINDS if kind != "c" and enabled(kind)]


def assert_allclose(actual: Any, desired: Any, rtol: float = 1e-7, atol: float = 1e-7) -> None:
    """Raise AssertionError unless |actual - desired| <= atol + rtol * |desired| everywhere and the shapes agree."""
    got, wanted = np.asanyarray(actual), np.asanyarray(desired)
    np.testing.assert_equal(got.shape, wanted.shape)
    np.testing.assert_allclose(got, wanted, rtol=rtol, atol=atol, verbose=True)


def assert_prim_expr_equal(lhs: Any, rhs: Any) -> None:
    """Raise AssertionError unless two expressions provably have one value."""
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
        A further condition: where it does not hold, nothing is asked.
    """
    ranges: list[tuple[Any, range]] = [
        (as_expr(var), range(int(r.min), int(r.min) + int(r.extent))) for var, r in vranges.items()
    ]
    for values in product(*(span for _, span in ranges)):
        env = {var: value for (var, _), value in zip(ranges, values, strict=True)}
        if (cond is None or evaluate(as_expr(cond), env)) and not evaluate(as_expr(bool_expr), env):
            raise AssertionError(f"{bool_expr} does not hold for {env}")


def check_int_constraints_trans_consistency(
    constraints_trans: IntConstraintsTransform, vranges: Mapping[Any, Any] | None = None
) -> None:
    """Raise AssertionError unless the two sides of a transform of constraints say the same of constant ranges.

    Parameters
    ----------
    constraints_trans
        What `arith.solve_linear_equations` or `arith.solve_linear_inequalities` returned.
    vranges
        Ranges of the variables that have none in it.
    """
    given = dict(vranges or {})

    def check(one: IntConstraints, other: IntConstraints, forth: Mapping[Any, Any], back: Mapping[Any, Any]) -> None:
        known = {**given, **one.ranges}
        holds = all_of(True, *one.relations)
        inside = [substitute(e, forth) for e in (*other.relations, *_in_ranges(other))]
        returned = [substitute(e, forth).equal(var) for var, e in back.items() if var in one.variables]
        check_bool_expr_is_true(all_of(True, *inside, *returned), known, holds)

    check(constraints_trans.src, constraints_trans.dst, constraints_trans.src_to_dst, constraints_trans.dst_to_src)
    check(constraints_trans.dst, constraints_trans.src, constraints_trans.dst_to_src, constraints_trans.src_to_dst)


def _in_ranges(held: IntConstraints) -> list[Any]:
    return [test for var, r in held.ranges.items() for test in (var >= r.min, var < r.min + r.extent)]


if not _TYPE_CHECKING:  # type checkers see what is there

    def __getattr__(name: str) -> object:
        raise _missing(__name__, name, globals())
