"""Products of integers with numbers in fixed point, as quantised networks use them."""

from __future__ import annotations

from typing import Any

from ..core.dtype import DType
from ..core.errors import UserError
from . import nodes as n
from .intrinsics import TABLE
from .operators import add, as_expr, cast, const, greater, maximum, multiply, negate, select, shift_left, shift_right

HALF = 1 << 30
"""0.5 with 31 bits behind the point: a product with it is a shift."""


def q_multiply_shift(x: Any, y: Any, q: Any, s: Any) -> n.Expr:
    """x * y * 2**(s - q) of int32, rounded to the nearest, halves upwards.

    Parameters
    ----------
    x
        An int32, or a vector of them.
    y
        The multiplier, an int32 with `q` bits behind the point.
    q
        The number of these bits.
    s
        An int32: to the left if it is positive, to the right if it is negative.

    Raises
    ------
    UserError
        For arguments that are not int32.

    Notes
    -----
    The product is computed in int64. A constant y of 2**30, which is 0.5 for q = 31, is a shift in int32.
    """
    value, factor, bits, shift = _int32s("q_multiply_shift", x=x, y=y, q=q, s=s)
    if isinstance(factor, n.IntImm) and factor.value == HALF and isinstance(shift, n.IntImm):
        power = shift.value - 1
        if power > 0:
            return shift_left(value, const(power, value.dtype))
        if power == 0:
            return value
        return shift_right(add(value, const(1 << (-power - 1), value.dtype)), const(-power, value.dtype))
    left, right = maximum(shift, const(0, shift.dtype)), maximum(negate(shift), const(0, shift.dtype))
    return _rounded(value, factor, bits, left, right)


def q_multiply_shift_per_axis(
    x: Any, y: Any, ls: Any, rs: Any, q: Any, is_lshift_required: Any, is_rshift_required: Any
) -> n.Expr:
    """x * y * 2**(ls - rs - q) of int32, rounded to the nearest, halves upwards.

    Parameters
    ----------
    x, y, q
        As for `q_multiply_shift`.
    ls, rs
        How far to shift to the left and to the right, int32 that are not negative.
    is_lshift_required, is_rshift_required
        Whether `ls` and `rs` count.

    Raises
    ------
    UserError
        For numbers that are not int32.
    """
    value, factor, left, right, bits = _int32s("q_multiply_shift_per_axis", x=x, y=y, ls=ls, rs=rs, q=q)
    left = select(as_expr(is_lshift_required, "bool"), left, const(0, left.dtype))
    right = select(as_expr(is_rshift_required, "bool"), right, const(0, right.dtype))
    return _rounded(value, factor, bits, left, right)


def _rounded(value: n.Expr, factor: n.Expr, bits: n.Expr, left: n.Expr, right: n.Expr) -> n.Expr:
    """value * 2**left * factor / 2**(right + bits), rounded."""
    wide = DType("int64").with_lanes(max(value.dtype.lanes, factor.dtype.lanes))
    product = multiply(shift_left(cast(wide, value), cast(wide, left)), cast(wide, factor))
    total = cast(wide, add(right, bits))
    # A shift by no bit rounds nothing; by at least one, half of the last place is added before.
    half = shift_right(shift_left(const(1, wide), total), const(1, wide))
    rounded = select(greater(total, const(0, wide)), add(product, half), product)
    return cast(value.dtype, shift_right(rounded, total))


def _int32s(primitive: str, **given: Any) -> list[n.Expr]:
    made = [as_expr(value) for value in given.values()]
    for name, e in zip(given, made, strict=True):
        if e.dtype.scalar != "int32":
            raise UserError(
                f"{name} = `{e}` is of type {e.dtype}", primitive=primitive, fix="give int32: x.astype('int32')"
            )
    return made


TABLE |= {"q_multiply_shift": q_multiply_shift, "q_multiply_shift_per_axis": q_multiply_shift_per_axis}
