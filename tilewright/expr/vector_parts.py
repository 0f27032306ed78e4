"""Parts of vectors under the legacy API's names: halves, and the dot product of four bytes."""

from __future__ import annotations

from typing import Any

from ..core.dtype import DType
from ..core.errors import UserError
from . import nodes as n
from .operators import add, as_expr, cast, multiply
from .shuffle import lane, shuffle


def vectorlow(dtype: Any, vec: Any) -> n.Expr:
    """The first half of a vector; `dtype` is the type of the half."""
    return _half("vectorlow", dtype, vec, 0)


def vectorhigh(dtype: Any, vec: Any) -> n.Expr:
    """The second half of a vector; `dtype` is the type of the half."""
    return _half("vectorhigh", dtype, vec, 1)


def vectorcombine(dtype: Any, vec1: Any, vec2: Any) -> n.Expr:
    """The lanes of two vectors as one vector of type `dtype`."""
    first, second = as_expr(vec1), as_expr(vec2)
    made = shuffle([first, second], list(range(first.dtype.lanes + second.dtype.lanes)))
    return _checked("vectorcombine", dtype, made)


def dp4a(vec1: Any, vec2: Any, acc: Any = 0) -> n.Expr:
    """The sum of the products of four bytes by four bytes and of `acc`, in 32 bits.

    Parameters
    ----------
    vec1, vec2
        int8x4 or uint8x4.
    acc
        The addend: an int32, or a uint32 if both vectors are of uint8.

    Raises
    ------
    UserError
        For other types.
    """
    a, b = as_expr(vec1), as_expr(vec2)
    kinds = {str(a.dtype), str(b.dtype)}
    if not kinds <= {"int8x4", "uint8x4"}:
        raise UserError(
            f"the vectors are of types {a.dtype} and {b.dtype}", primitive="dp4a", fix="give int8x4 or uint8x4"
        )
    wide = "uint32" if kinds == {"uint8x4"} else "int32"
    total = cast(wide, as_expr(acc))
    for k in range(4):
        total = add(total, multiply(cast(wide, lane(a, k)), cast(wide, lane(b, k))))
    return total


def _half(primitive: str, dtype: Any, vec: Any, which: int) -> n.Expr:
    e = as_expr(vec)
    lanes = e.dtype.lanes // 2
    if e.dtype.lanes % 2:
        raise UserError(f"`{e}`, of type {e.dtype}, has no halves", primitive=primitive, fix="give a vector")
    return _checked(primitive, dtype, shuffle([e], list(range(which * lanes, (which + 1) * lanes))))


def _checked(primitive: str, dtype: Any, made: n.Expr) -> n.Expr:
    if DType(dtype) != made.dtype:
        raise UserError(
            f"dtype={dtype!r}, but the result is of type {made.dtype}", primitive=primitive, fix=f'give "{made.dtype}"'
        )
    return made
