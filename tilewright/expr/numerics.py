"""The values of intrinsics and casts, on NumPy scalars and arrays of the operands' own type.

Used by the exact evaluator and the interpreter of loops. Results have the type of the arguments (float32 stays
float32), except for predicates and casts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.dtype import DType

Value = Any  # a value at run time: a bool, an int, a NumPy scalar, or an array of one lane type
Function = Callable[..., Value]


def _elementwise(scalar: Callable[[float], float]) -> Function:
    """A function of Python floats over arrays, computed in float64 and rounded to the argument's type."""
    over = np.frompyfunc(scalar, 1, 1)

    def apply(x: Value) -> Value:
        return np.asarray(over(np.asarray(x, np.float64)), np.float64).astype(x.dtype)[()]

    return apply


def _sigmoid(x: Value) -> Value:
    one = x.dtype.type(1)
    return one / (one + np.exp(-x))


def _round(x: Value) -> Value:
    """To the nearest integer, halves away from zero, as C's round (floor(x + 0.5) errs just below a half)."""
    whole = np.trunc(x)
    away = np.abs(x - whole) >= x.dtype.type(0.5)
    return whole + np.where(away, np.copysign(x.dtype.type(1), x), x.dtype.type(0)).astype(x.dtype)[()]


def _unsigned(x: Value) -> Value:
    return x.astype(np.dtype(f"uint{x.dtype.itemsize * 8}"))


def _popcount(x: Value) -> Value:
    rest, count = _unsigned(x), np.zeros_like(x)
    one = rest.dtype.type(1)
    for _ in range(x.dtype.itemsize * 8):
        count = count + (rest & one).astype(x.dtype)
        rest = rest >> one
    return count[()]


def _clz(x: Value) -> Value:
    """Leading zero bits; all of them for 0."""
    rest, count = _unsigned(x), np.full_like(x, x.dtype.itemsize * 8)
    one = rest.dtype.type(1)
    for _ in range(x.dtype.itemsize * 8):
        count = count - (rest != 0).astype(x.dtype)
        rest = rest >> one
    return count[()]


def _shift_left(x: Value, amount: Value) -> Value:
    """x << amount; 0 if the amount is negative or not below the number of bits."""
    within = _within_word(x, amount)
    none = np.zeros_like(x)
    return np.where(within, np.left_shift(x, np.where(within, amount, none)), none)[()]


def _shift_right(x: Value, amount: Value) -> Value:
    """x >> amount; if the amount is negative or not below the number of bits, only the sign is left."""
    within = _within_word(x, amount)
    none = np.zeros_like(x)
    sign = np.where(x < 0, ~none, none)
    return np.where(within, np.right_shift(x, np.where(within, amount, none)), sign)[()]


def _within_word(x: Value, amount: Value) -> Any:
    return (amount >= 0) & (amount < x.dtype.itemsize * 8)


INTRINSICS: dict[str, Function] = {
    **{
        name: getattr(np, name)
        for name in (
            "exp exp2 log log2 log10 log1p sqrt tanh sin cos tan sinh cosh floor ceil trunc fmod hypot "
            "copysign nextafter ldexp isnan isinf isfinite fabs bitwise_and bitwise_or bitwise_xor bitwise_not"
        ).split()
    },
    **{name: getattr(np, name.replace("a", "arc", 1)) for name in "asin acos atan asinh acosh atanh atan2".split()},
    "exp10": lambda x: np.power(x.dtype.type(10), x),
    "exp2_normal": np.exp2,
    "rsqrt": lambda x: x.dtype.type(1) / np.sqrt(x),
    "saturate": lambda x: np.minimum(np.maximum(x, x.dtype.type(0)), x.dtype.type(1)),
    "sigmoid": _sigmoid,
    "erf": _elementwise(math.erf),
    "round": _round,
    "nearbyint": np.rint,
    "pow": np.power,
    "popcount": _popcount,
    "clz": _clz,
    "shift_left": _shift_left,
    "shift_right": _shift_right,
    "likely": lambda x: x,
}


EXCHANGES = frozenset(("shuffle", "shuffle_down"))
"""Calls that read the value of another lane of a warp: (value, lane or distance, width)."""


def bits_as(x: Value, to: DType) -> Value:
    """The NumPy value of type `to` that has the bits of `x`."""
    return np.asarray(x).view(to.numpy)[()]


def convert(x: Value, to: DType) -> Value:
    """`x` as a NumPy value of type `to`: floats truncate and saturate, integers wrap.

    Cases that C leaves undefined are defined for all back ends. A float beyond the range of an integer type becomes the
    nearest end of it, and NaN becomes 0.
    """
    kind = to.numpy
    if to.is_bool:
        return x != x.dtype.type(0)
    if to.is_int and x.dtype.kind not in "iub":
        return _float_to_int(x, to)
    return x.astype(kind)


def _float_to_int(x: Value, to: DType) -> Value:
    whole = np.trunc(np.asarray(x, np.float64))
    high = whole >= float(to.max_value + 1)  # the end itself is exact as a float, the largest value is not
    low = whole < float(to.min_value)
    fits = ~(high | low | np.isnan(whole))
    result = np.where(fits, whole, 0.0).astype(to.numpy)
    result[high], result[low] = to.max_value, to.min_value
    return result[()]


def wrap(value: int, kind: DType) -> int:
    """A Python integer wrapped to the range of an integer type."""
    return (value - kind.min_value) % (1 << kind.bits) + kind.min_value
