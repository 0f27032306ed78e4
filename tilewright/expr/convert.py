"""Convert Python values to expressions of one type.

Type rules follow the legacy API. A Python number takes the other side's type, an integer meets a float as that float,
and the wider type wins.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..core.dtype import BOOL, FLOAT32, INT32, INT64, DType
from ..core.errors import UserError
from . import nodes as n
from .operand import Operand

ExprLike = Any  # Expr, Operand or a Python / NumPy number, the arguments of `as_expr`


def as_expr(value: ExprLike, dtype: str | None = None) -> n.Expr:
    """The expression for an operand or a Python number.

    Raises UserError for anything else.
    """
    if isinstance(value, Operand):
        return value.as_expr()
    if isinstance(value, (bool, np.bool_)):
        return const(value, dtype or BOOL)
    if isinstance(value, (int, float, np.integer, np.floating)):
        return const(value, dtype)
    if isinstance(value, str):
        return n.StringImm(value)
    raise UserError(
        f"cannot use {value!r} of type {type(value).__name__} in an expression",
        fix="give a number, a variable, an axis, or an element of a tensor such as A[i, j]",
    )


def const(value: ExprLike, dtype: str | None = None) -> n.Expr:
    """A constant of type `dtype`; without one, int32 (int64 if needed), float32 or bool by the value.

    Raises UserError if the value does not fit the type.
    """
    if type(value) is int and dtype is INT32 and INT32.min_value <= value <= INT32.max_value:
        return n.IntImm(value, INT32)
    if isinstance(value, Operand):
        return value.as_expr() if dtype is None else cast(dtype, value)
    if isinstance(value, np.generic):
        dtype = str(value.dtype) if dtype is None else dtype
        value = value.item()
    if dtype is None:
        wide = isinstance(value, int) and not -(2**31) <= value < 2**31
        kind = BOOL if isinstance(value, bool) else FLOAT32 if isinstance(value, float) else INT64 if wide else INT32
    else:
        kind = DType(dtype)
    if kind.lanes > 1:
        return n.Broadcast(const(value, kind.scalar), kind.lanes)
    if not isinstance(value, (int, float)):
        raise UserError(
            f"{value!r}, of type {type(value).__name__}, cannot be a constant of type {kind}",
            primitive="const",
            fix='give a Python or NumPy number, such as tir.const(1, "float32")',
        )
    if kind.is_float:
        return n.FloatImm(_rounded(float(value), kind), kind)
    if not (isinstance(value, int) or value.is_integer()):
        raise UserError(
            f"{value!r} is not a whole number, so it cannot be a constant of type {kind}",
            primitive="const",
            fix=f'give a whole number, or take a float type: tir.const({value!r}, "float32")',
        )
    whole = int(value)
    if not kind.min_value <= whole <= kind.max_value and kind != "handle":
        raise UserError(
            f"{whole} does not fit {kind} ({kind.min_value} to {kind.max_value})",
            primitive="const",
            fix="give a wider dtype",
        )
    return n.IntImm(whole, kind)


def _rounded(value: float, kind: DType) -> float:
    if kind.bits == 64 or not math.isfinite(value):
        return value
    with np.errstate(over="ignore"):
        return float(kind.numpy.type(value))


def cast(dtype: str | None, value: ExprLike) -> n.Expr:
    """`value` converted to `dtype` (C rules: floats to integers truncate towards zero)."""
    kind = DType(dtype)
    e = as_expr(value)
    if (e.dtype == "handle") != (kind == "handle"):
        raise UserError(
            f"`{e}` of type {e.dtype} cannot be converted to {kind}",
            primitive="cast",
            fix="arithmetic does not apply to strings and pointers: give a number",
        )
    if e.dtype.lanes != kind.lanes and kind.lanes == 1:
        kind = kind.with_lanes(e.dtype.lanes)
    if e.dtype == kind:
        return e
    if e.dtype.lanes == 1 and kind.lanes > 1:
        return n.Broadcast(cast(kind.scalar, e), kind.lanes)
    if isinstance(e, n.IntImm) and _folds(e.value, kind):
        return const(bool(e.value) if kind.is_bool else e.value, kind)
    if isinstance(e, n.FloatImm) and kind.is_float:
        return const(e.value, kind)
    if isinstance(e, n.FloatImm) and kind.is_int and math.isfinite(e.value) and _folds(math.trunc(e.value), kind):
        return const(math.trunc(e.value), kind)
    if isinstance(e, n.Broadcast):
        return n.Broadcast(cast(kind.scalar, e.value), e.lanes)
    return n.Cast(kind, e)


def _folds(value: int, kind: DType) -> bool:
    """Whether a cast of an integer is a constant: the integer fits, or is rounded only once to the float."""
    if kind.is_float:
        return abs(value) <= 2**53
    return kind.is_bool or kind.min_value <= value <= kind.max_value


def match_types(a: ExprLike, b: ExprLike) -> tuple[n.Expr, n.Expr]:
    """Return both values as expressions of a common type."""
    if isinstance(a, n.Expr):  # nearly all calls of lowering: two expressions of a type, or one and an index
        if isinstance(b, n.Expr):
            if a.dtype is b.dtype:
                return a, b
        elif type(b) is int and a.dtype is INT32 and INT32.min_value <= b <= INT32.max_value:
            return a, n.IntImm(b, INT32)
    a_number, b_number = not isinstance(a, Operand), not isinstance(b, Operand)
    if a_number and not b_number:
        y = as_expr(b)
        x = as_expr(a, _number_type(a, y.dtype))
    elif b_number and not a_number:
        x = as_expr(a)
        y = as_expr(b, _number_type(b, x.dtype))
    else:
        x, y = as_expr(a), as_expr(b)
    if x.dtype == y.dtype:
        return x, y
    kind = _common(x.dtype, y.dtype)
    return cast(kind, x), cast(kind, y)


def _number_type(value: ExprLike, other: DType) -> str | None:
    """The type for a bare number in an operation with the type `other`: that type if the number fits."""
    scalar = other.scalar
    if scalar == "handle":
        return None
    if scalar.is_float:
        return scalar
    if isinstance(value, (bool, np.bool_)):
        return scalar
    if isinstance(value, (int, np.integer)) and scalar.is_int:
        return scalar if scalar.min_value <= int(value) <= scalar.max_value else None
    return None


def _common(x: DType, y: DType) -> DType:
    lanes = max(x.lanes, y.lanes)
    if x.lanes != y.lanes and min(x.lanes, y.lanes) != 1:
        raise UserError(
            f"cannot combine vectors of {x.lanes} and {y.lanes} lanes ({x} and {y})",
            fix="give both the same number of lanes, or one of them a single lane",
        )
    if "handle" in (x.kind, y.kind):
        raise UserError(f"cannot combine {x} and {y}", fix="arithmetic does not apply to strings and pointers")
    rank = {"bool": 0, "uint": 1, "int": 2, "float": 3, "bfloat": 3}
    if x.is_float and y.is_float and x.bits == y.bits and x.kind != y.kind:
        return FLOAT32.with_lanes(lanes)
    if rank[x.kind] == rank[y.kind]:
        wide = x if x.bits >= y.bits else y
    elif x.is_float or y.is_float or x.is_bool or y.is_bool:
        wide = x if rank[x.kind] > rank[y.kind] else y
    else:
        wide = x if (x.bits, -rank[x.kind]) > (y.bits, -rank[y.kind]) else y  # for one width, the unsigned type
    return wide.with_lanes(lanes)
