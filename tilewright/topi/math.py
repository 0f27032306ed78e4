"""Element-wise operators, one row of a table each."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..core.dtype import DType
from ..core.errors import UserError
from ..core.refusals import old_name as _old_name
from ..expr import bits
from ..expr import operators as o
from ..expr.intrinsics import TABLE
from ..expr.nodes import Expr
from ..tensor.reduction import max_value, min_value
from ..tensor.tensor import Tensor, compute
from .argument_checks import element_type, integer, tensor
from .tag import ELEMWISE

Unary = Callable[[Tensor], Tensor]


def elementwise(x: Tensor, value: Callable[[Expr], Any], name: str) -> Tensor:
    """Return a tensor of the shape of `x`; `value` computes each element from that of `x`."""
    names = [f"ax{i}" for i in range(x.ndim)]
    made: Tensor = compute(x.shape, lambda *i: value(x(*i)), f"T_{name}", ELEMWISE, varargs_names=names)
    return made


def _unary(name: str, value: Callable[[Expr], Any], doc: str) -> Unary:
    def operator(x: Tensor) -> Tensor:
        return elementwise(tensor(x, "x", name), value, name)

    operator.__name__ = operator.__qualname__ = name
    operator.__doc__ = f"""{doc}

    Parameters
    ----------
    x
        A tensor of any shape.

    Returns
    -------
    A tensor of the shape of `x`.
    """
    return operator


def _intrinsic(name: str, doc: str) -> Unary:
    return _unary(name, TABLE[name], f"{doc}; integers are taken as float32.")


exp = _intrinsic("exp", "Compute e to the power of each element")
exp2 = _intrinsic("exp2", "Compute 2 to the power of each element")
log = _intrinsic("log", "Compute the natural logarithm of each element")
log2 = _intrinsic("log2", "Compute the logarithm to base 2 of each element")
log10 = _intrinsic("log10", "Compute the logarithm to base 10 of each element")
log1p = _intrinsic("log1p", "Compute the logarithm of 1 + x for each element x")
sqrt = _intrinsic("sqrt", "Compute the square root of each element")
rsqrt = _intrinsic("rsqrt", "Compute the reciprocal of the square root of each element")
sigmoid = _intrinsic("sigmoid", "Compute 1 / (1 + exp(-x)) for each element x")
erf = _intrinsic("erf", "Compute the error function of each element")
sin = _intrinsic("sin", "Compute the sine of each element")
cos = _intrinsic("cos", "Compute the cosine of each element")
tan = _intrinsic("tan", "Compute the tangent of each element")
asin = _intrinsic("asin", "Compute the inverse sine of each element")
acos = _intrinsic("acos", "Compute the inverse cosine of each element")
atan = _intrinsic("atan", "Compute the inverse tangent of each element")
sinh = _intrinsic("sinh", "Compute the hyperbolic sine of each element")
cosh = _intrinsic("cosh", "Compute the hyperbolic cosine of each element")
tanh = _intrinsic("tanh", "Compute the hyperbolic tangent of each element")
asinh = _intrinsic("asinh", "Compute the inverse hyperbolic sine of each element")
acosh = _intrinsic("acosh", "Compute the inverse hyperbolic cosine of each element")
atanh = _intrinsic("atanh", "Compute the inverse hyperbolic tangent of each element")
# The legacy names of approximations. These functions are exact; options of back ends select faster math.
fast_exp = _unary("fast_exp", TABLE["exp"], "Compute e to the power of each element, as `exp` does.")
fast_tanh = _unary("fast_tanh", TABLE["tanh"], "Compute the hyperbolic tangent of each element, as `tanh` does.")
fast_erf = _unary("fast_erf", TABLE["erf"], "Compute the error function of each element, as `erf` does.")

floor = _unary("floor", TABLE["floor"], "Round each element down.")
ceil = _unary("ceil", TABLE["ceil"], "Round each element up.")
trunc = _unary("trunc", TABLE["trunc"], "Round each element towards zero.")
round = _unary("round", TABLE["round"], "Round each element to the nearest whole number, halves away from zero.")
isnan = _unary("isnan", TABLE["isnan"], "Tell which elements are NaN, as bool.")
isinf = _unary("isinf", TABLE["isinf"], "Tell which elements are infinite, as bool.")
isfinite = _unary("isfinite", TABLE["isfinite"], "Tell which elements are neither infinite nor NaN, as bool.")
abs = _unary("abs", TABLE["abs"], "Compute the magnitude of each element.")
identity = _unary("identity", lambda x: x, "Copy a tensor.")
negative = _unary("negative", o.negate, "Negate each element.")
logical_not = _unary("logical_not", o.logical_not, "Negate each element of a tensor of type bool.")
bitwise_not = _unary("bitwise_not", o.bitwise_not, "Invert each bit of the elements of a tensor of integers.")
sign = _unary(
    "sign",
    lambda x: o.select(
        o.less(x, o.const(0, x.dtype)),
        o.const(-1, x.dtype) if x.dtype.kind != "uint" else o.const(0, x.dtype),
        o.select(o.greater(x, o.const(0, x.dtype)), o.const(1, x.dtype), o.cast(x.dtype, x)),
    ),
    "Compute -1, 0 or 1 by the sign of each element; NaN stays NaN.",
)


def ceil_log2(x: Tensor) -> Tensor:
    """Compute the logarithm to base 2 of each element, rounded up.

    Parameters
    ----------
    x
        A tensor of any shape; integers must be positive.

    Returns
    -------
    A tensor of the shape and type of `x`.
    """
    data = tensor(x, "x", "ceil_log2")
    if not data.dtype.is_int:
        # The logarithm of a 16-bit number may be rounded to a whole one.
        wide = "float32" if data.dtype.bits < 32 else data.dtype

        def rounded(e: Expr) -> Expr:
            return o.cast(data.dtype, TABLE["ceil"](TABLE["log2"](o.cast(wide, e))))

        return elementwise(data, rounded, "ceil_log2")
    bits = data.dtype.bits
    # The number of bits that x - 1 takes; none if x is 1.
    return elementwise(data, lambda e: o.cast(data.dtype, bits - TABLE["clz"](e - 1)), "ceil_log2")


def cast(x: Tensor, dtype: Any, span: Any = None) -> Tensor:
    """Convert a tensor to another type.

    Parameters
    ----------
    x
        A tensor of any shape.
    dtype
        The type of the result, such as "float16".
    span
        Accepted for old scripts, without effect.

    Returns
    -------
    A tensor of the shape of `x`.

    Raises
    ------
    UserError
        If it is not a type.
    """
    kind = element_type(dtype, "cast")
    return elementwise(tensor(x, "x", "cast"), lambda e: o.cast(kind, e), "cast")


def clip(x: Tensor, a_min: Any, a_max: Any) -> Tensor:
    """Hold each element between two bounds; NaN stays NaN.

    Parameters
    ----------
    x
        A tensor of any shape.
    a_min, a_max
        The bounds: numbers or scalar expressions. They are converted to the type of `x`.

    Returns
    -------
    A tensor of the shape and type of `x`.
    """
    data = tensor(x, "x", "clip")
    low, high = _bound(a_min, data.dtype), _bound(a_max, data.dtype)
    return elementwise(data, lambda e: o.minimum(o.maximum(e, low), high), "clip")


def _bound(given: Any, kind: DType) -> Expr:
    """Return a bound of `clip`; a bound beyond the range of an integer type becomes the end of the range."""
    if isinstance(given, (int, float)) and not isinstance(given, bool) and kind.is_int:
        return o.const(min(max(given, min_value(kind).value), max_value(kind).value), kind)  # type: ignore[attr-defined]
    return o.cast(kind, o.as_expr(given))


def reinterpret(x: Tensor, dtype: Any) -> Tensor:
    """Read the bits of each element as a value of another type.

    Parameters
    ----------
    x
        A tensor of any shape.
    dtype
        An integer or floating-point type of as many bits.

    Returns
    -------
    A tensor of the shape of `x`, of type `dtype`.

    Raises
    ------
    UserError
        For a type of another size, and for bool.
    """
    data, kind = tensor(x, "x", "reinterpret"), element_type(dtype, "reinterpret")
    return elementwise(data, lambda e: bits.reinterpret(kind, e), "reinterpret")


def fixed_point_multiply(x: Tensor, multiplier: int, shift: int) -> Tensor:
    """Multiply each element by a number between 0 and 1 in fixed point, and by a power of two.

    Computes round(x * multiplier * 2 ** (shift - 31)), halves up.

    Parameters
    ----------
    x
        A tensor of type int32.
    multiplier
        The number times 2 ** 31: an int from 0 to 2 ** 31 - 1.
    shift
        The exponent of the power of two, from -31 to 30.

    Returns
    -------
    A tensor of the shape of `x`, of type int32.

    Raises
    ------
    UserError
        For another type of elements, and for numbers out of range.
    """
    data = tensor(x, "x", "fixed_point_multiply")
    factor = integer(multiplier, "multiplier", "fixed_point_multiply", 0)
    exponent = integer(shift, "shift", "fixed_point_multiply", -31)
    if factor >= 1 << 31 or exponent > 30:
        raise UserError(
            f"multiplier={factor} and shift={exponent} are out of range",
            primitive="fixed_point_multiply",
            fix="give a multiplier below 2 ** 31, and a shift from -31 to 30",
        )
    if data.dtype != "int32":
        raise UserError(
            f"x {data.name!r} has type {data.dtype}, but fixed-point numbers are int32",
            primitive="fixed_point_multiply",
            fix='give a tensor of int32: topi.cast(x, "int32")',
        )
    down = 31 - exponent
    half = o.const(1 << (down - 1), "int64")
    return elementwise(
        data,
        lambda e: o.cast("int32", (o.cast("int64", e) * o.const(factor, "int64") + half) >> o.const(down, "int64")),
        "fixed_point_multiply",
    )


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        return _old_name(__name__, name, globals())
