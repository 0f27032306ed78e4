"""Math intrinsics such as `exp(x)` and `sqrt(x)`, as calls that each back end spells in its own way."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, copysign, floor, isfinite, trunc
from typing import Any, TypeVar

from ..core.dtype import BOOL, DType
from ..core.errors import UserError
from . import nodes as n
from .effects import contains_effects
from .operators import as_expr, cast, const, match_types, maximum, negate, select

FLOAT_UNARY = (
    "exp exp2 exp10 log log2 log10 log1p sqrt rsqrt tanh sigmoid sin cos tan asin acos atan sinh cosh asinh acosh "
    "atanh erf exp2_normal saturate"
).split()
"""`exp2_normal(x)` is 2**x if that is a normal number; if it is less, the result may be 0. `saturate(x)` is x clamped
to 0 .. 1; of NaN, it may be any of them, or NaN."""
ROUNDING = "floor ceil trunc round nearbyint".split()
_ROUNDED: dict[str, Callable[[float], float]] = {
    "floor": lambda x: copysign(floor(x), x),
    "ceil": lambda x: copysign(ceil(x), x),
    "trunc": lambda x: copysign(trunc(x), x),
    "round": lambda x: copysign(trunc(abs(x)) + (abs(x) - trunc(abs(x)) >= 0.5), x),  # halves away from zero
    "nearbyint": lambda x: copysign(round(x), x),
}
FLOAT_BINARY = "pow fmod atan2 hypot copysign".split()
PREDICATES = "isnan isinf isfinite".split()
INTEGER_UNARY = "popcount clz".split()

F = TypeVar("F", bound=Callable[..., n.Expr])
Unary = Callable[[Any], n.Expr]
Bi = Callable[[Any, Any], n.Expr]


def _float_unary(name: str) -> Unary:
    def build(x: Any) -> n.Expr:
        e = as_expr(x)
        if not e.dtype.is_float:
            e = cast("float32", e)
        return n.Call(name, (e,), e.dtype)

    return _named(build, name, f"{name}(x), element by element; integers are taken as float32.")


def _rounding(name: str) -> Unary:
    def build(x: Any) -> n.Expr:
        e = as_expr(x)
        if isinstance(e, n.FloatImm) and isfinite(e.value):
            return const(_ROUNDED[name](e.value), e.dtype)
        return n.Call(name, (e,), e.dtype) if e.dtype.is_float else _number(e, name)

    return _named(build, name, f"{name}(x); integers come back unchanged.")


def _float_binary(name: str) -> Bi:
    def build(x: Any, y: Any) -> n.Expr:
        a, b = match_types(x, y)
        if not a.dtype.is_float:
            a, b = cast("float32", a), cast("float32", b)
        return n.Call(name, (a, b), a.dtype)

    return _named(build, name, f"{name}(x, y), element by element.")


def _predicate(name: str) -> Unary:
    def build(x: Any) -> n.Expr:
        e = as_expr(x)
        if not e.dtype.is_float:
            return const(name == "isfinite", BOOL.with_lanes(_number(e, name).dtype.lanes))
        return n.Call(name, (e,), BOOL.with_lanes(e.dtype.lanes))

    return _named(build, name, f"{name}(x), of type bool.")


def _integer_unary(name: str) -> Unary:
    def build(x: Any) -> n.Expr:
        e = as_expr(x)
        if not e.dtype.is_int:
            raise UserError(
                f"needs an integer, but `{e}` has type {e.dtype}",
                primitive=name,
                fix='convert it: x.astype("int32"), or x.astype("uint32")',
            )
        return n.Call(name, (e,), e.dtype)

    return _named(build, name, f"{name}(x) of an integer.")


def _number(e: n.Expr, name: str) -> n.Expr:
    if e.dtype == "handle":
        raise UserError(f"{name} of {e}, which is not a number", primitive=name, fix="give a number or an expression")
    return e


def _named(f: F, name: str, doc: str) -> F:
    f.__name__, f.__qualname__, f.__doc__ = name, name, doc
    return f


def absolute(x: Any) -> n.Expr:
    """The magnitude of x, of x's type."""
    e = as_expr(x)
    if e.dtype.is_float:
        return n.Call("fabs", (e,), e.dtype)
    if contains_effects(e):  # an expression written twice would be called twice
        return _of_call(e)
    return _number(e, "abs") if e.dtype.kind in ("uint", "handle") else select(e >= 0, e, negate(e))


def _of_call(e: n.Expr) -> n.Expr:
    """The magnitude of an integer that a call with an effect computes."""
    if e.dtype.kind in ("uint", "handle"):
        return _number(e, "abs")
    if e.dtype.bits > 32:
        raise UserError(
            f"abs of `{e}`, of type {e.dtype}, which calls a function with an effect",
            primitive="abs",
            fix="give the value a name first, x = ib.let('x', call), or declare the function pure: call_pure_extern",
        )
    wide = DType("float64").with_lanes(e.dtype.lanes)  # holds each of these integers
    return cast(e.dtype, n.Call("fabs", (cast(wide, e),), wide))


def clip(x: Any, low: Any, high: Any) -> n.Expr:
    """x held between low and high."""
    from_below = maximum(x, low)
    a, b = match_types(from_below, high)
    return n.Min(a, b)


def clz(x: Any) -> n.Expr:
    """The number of zero bits before the first 1 of an integer, as int32."""
    zeros = TABLE["clz"](x)
    return cast(DType("int32").with_lanes(zeros.dtype.lanes), zeros)


def power(x: Any, y: Any) -> n.Expr:
    """x to the power y; x or y must be a floating-point number."""
    a, b = match_types(x, y)
    if not a.dtype.is_float:
        raise UserError(
            f"`{a}` to the power `{b}`, both integers",
            primitive="power",
            fix='convert one: te.power(x.astype("float32"), 2), or multiply: x * x',
        )
    return TABLE["pow"](a, b)


TABLE: dict[str, Callable[..., n.Expr]] = {
    **{name: _float_unary(name) for name in FLOAT_UNARY},
    **{name: _rounding(name) for name in ROUNDING},
    **{name: _float_binary(name) for name in FLOAT_BINARY},
    **{name: _predicate(name) for name in PREDICATES},
    **{name: _integer_unary(name) for name in INTEGER_UNARY},
    "abs": absolute,
    "power": power,
    "clip": clip,
}
