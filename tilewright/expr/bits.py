"""Functions of the bits of numbers: `reinterpret`, `nextafter`, `ldexp`, and combinations of such functions."""

from __future__ import annotations

from typing import Any

from ..core.dtype import INT32, DType
from ..core.errors import UserError
from ..core.text import quantity
from . import nodes as n
from .intrinsics import TABLE
from .operators import (
    add,
    any_of,
    as_expr,
    cast,
    const,
    equal,
    floordiv,
    greater,
    less,
    match_types,
    maximum,
    minimum,
    not_equal,
    select,
    subtract,
)

REINTERPRET = "reinterpret"


def reinterpret(dtype: Any, value: Any, span: Any = None) -> n.Expr:
    """Return the value of type `dtype` that has the bits of `value`.

    Parameters
    ----------
    dtype
        An integer or floating-point type of as many bits.
    value
        An expression.

    Raises
    ------
    UserError
        For types of different sizes, and for conditions and pointers.
    """
    e, to = as_expr(value), DType(dtype)
    if e.dtype.kind in ("bool", "handle") or to.kind in ("bool", "handle") or to.bits != e.dtype.bits:
        raise UserError(
            f"`{e}`, of type {e.dtype}, has no bits of type {to}",
            primitive=REINTERPRET,
            fix=f"give a number type of {e.dtype.bits} bits"
            if e.dtype.kind not in ("bool", "handle")
            else "convert it to a number first",
        )
    if to.lanes not in (1, e.dtype.lanes):
        raise UserError(
            f"`{e}` has {quantity(e.dtype.lanes, 'lane')}, but {to} has {to.lanes}",
            primitive=REINTERPRET,
            fix=f'give the type of one lane: "{to.scalar}"',
        )
    to = to.scalar.with_lanes(e.dtype.lanes)
    return e if to == e.dtype else n.Call(REINTERPRET, (e,), to)


def ldexp(x: Any, exponent: Any) -> n.Expr:
    """x * 2**exponent, exactly if that is a normal number; the exponent is taken as an int32."""
    e = as_expr(x)
    value = e if e.dtype.is_float else cast("float32", e)
    power = cast(INT32.with_lanes(value.dtype.lanes), as_expr(exponent))
    return n.Call("ldexp", (value, power), value.dtype)


def nextafter(x: Any, y: Any) -> n.Expr:
    """The next number of x's type from x in the direction of y; y if they are equal, NaN if one is NaN."""
    a, b = match_types(x, y)
    if not a.dtype.is_float:
        a, b = cast("float32", a), cast("float32", b)
    if a.dtype.bits != 16:
        return n.Call("nextafter", (a, b), a.dtype)
    # Kernels hold 16-bit floats as float32, which has another next number. Bits count away from 0 for both signs.
    word = DType("int16").with_lanes(a.dtype.lanes)
    bits, zero = reinterpret(word, a), const(0, a.dtype)
    away, back = add(bits, const(1, word)), subtract(bits, const(1, word))
    moved = select(less(a, b), select(greater(a, zero), away, back), select(greater(a, zero), back, away))
    least = select(greater(b, zero), const(1, word), const(-(2**15) + 1, word))
    found = reinterpret(a.dtype, select(equal(a, zero), least, moved))
    undefined = any_of(not_equal(a, a), not_equal(b, b))
    return select(undefined, add(a, b), select(equal(a, b), b, found))


def ceildiv(a: Any, b: Any, span: Any = None) -> n.Expr:
    """a / b of integers, rounded up."""
    x, y = match_types(a, b)
    if not x.dtype.is_int:
        raise UserError(
            f"needs integers, but `{x}` has type {x.dtype}", primitive="ceildiv", fix="use te.ceil(a / b) for floats"
        )
    return floordiv(subtract(add(x, y), const(1, x.dtype)), y)


def logaddexp(a: Any, b: Any, span: Any = None) -> n.Expr:
    """log(exp(a) + exp(b)), without overflow on the way."""
    x, y = match_types(a, b)
    if not x.dtype.is_float:
        x, y = cast("float32", x), cast("float32", y)
    high, low = maximum(x, y), minimum(x, y)
    gap = select(equal(x, y), const(0.0, x.dtype), subtract(low, high))  # infinities have no difference
    return add(high, TABLE["log1p"](TABLE["exp"](gap)))


def infinity(dtype: Any, span: Any = None) -> n.Expr:
    """The infinity of a floating-point type."""
    kind = DType(dtype)
    if not kind.is_float:
        raise UserError(
            f"{kind} has no infinity", primitive="infinity", fix='give a float type, or use te.max_value("int32")'
        )
    return const(float("inf"), kind)


TABLE |= {"ldexp": ldexp, "nextafter": nextafter, "ceildiv": ceildiv, "logaddexp": logaddexp}
