"""The derivative of an expression with respect to one of its parts.

Comparisons, conditions, indices, integers and roundings are piecewise constant: their derivative is zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ...core.errors import UserError
from ...expr import nodes as n
from ...expr.intrinsics import TABLE
from ...expr.nodes import Call, Expr
from ...expr.operators import add as plus
from ...expr.operators import (
    cast,
    const,
    divide,
    equal,
    greater_equal,
    if_then_else,
    less_equal,
    multiply,
    negate,
    select,
    subtract,
)

Part = Expr | None
"""A derivative; None for zero."""

_CONSTANT = frozenset("floor ceil trunc round nearbyint popcount clz isnan isinf isfinite likely bitwise_not".split())


def derivative(e: Expr, by: Expr) -> Part:
    """The derivative of `e` by the load or variable `by`; None if it is zero everywhere.

    Raises UserError for a function with an unknown derivative.
    """
    memo: dict[Expr, Part] = {}

    def visit(x: Expr) -> Part:
        if x is by:
            return const(1, x.dtype)
        if not x.dtype.is_float:
            return None
        if x not in memo:
            memo[x] = _rule(x, visit)
        return memo[x]

    return visit(e)


def _rule(e: Expr, d: Callable[[Expr], Part]) -> Part:
    if isinstance(e, (n.Var, n.FloatImm, n.Load)):
        return None
    rule = _RULES.get(type(e))
    if rule is None:
        raise _unknown(f"`{e}`")
    return rule(e, d)


def _unknown(what: str) -> UserError:
    return UserError(
        f"the derivative of {what} is not known",
        primitive="gradient",
        fix="write it by functions that have one: " + ", ".join(sorted([*_UNARY, *_BINARY])),
    )


def add(a: Part, b: Part) -> Part:
    """Return a + b; either may be zero."""
    return b if a is None else a if b is None else plus(a, b)


def _times(a: Part, factor: Expr) -> Part:
    if a is None:
        return None
    if isinstance(a, n.FloatImm) and a.value == 1 and a.dtype == factor.dtype:
        return factor
    return multiply(a, factor)


def _minus(a: Part, b: Part) -> Part:
    return a if b is None else negate(b) if a is None else subtract(a, b)


def _div(e: Any, d: Callable[[Expr], Part]) -> Part:
    top, below = d(e.a), d(e.b)
    first = None if top is None else divide(top, e.b)
    return _minus(first, None if below is None else divide(multiply(e, below), e.b))


def _either(condition: Expr, a: Part, b: Part, like: Expr, choose: Any = select) -> Part:
    if a is None and b is None:
        return None
    zero = const(0, like.dtype)
    made: Expr = choose(condition, zero if a is None else a, zero if b is None else b)
    return made


def _modulo(quotient: Callable[[Expr], Expr]) -> Callable[[Any, Callable[[Expr], Part]], Part]:
    def rule(e: Any, d: Callable[[Expr], Part]) -> Part:
        return _minus(d(e.a), _times(d(e.b), quotient(divide(e.a, e.b))))

    return rule


def _call(e: Any, d: Callable[[Expr], Part]) -> Part:
    if e.name in _CONSTANT:
        return None
    parts = [d(arg) for arg in e.args]
    if all(part is None for part in parts):
        return None
    if e.name in _UNARY and len(e.args) == 1:
        return _times(parts[0], _UNARY[e.name](e.args[0], e))
    if e.name in _BINARY and len(e.args) == 2:
        along_a, along_b = _BINARY[e.name]
        first = None if parts[0] is None else _times(parts[0], along_a(*e.args, e))
        second = None if parts[1] is None else _times(parts[1], along_b(*e.args, e))
        return add(first, second)
    raise _unknown(f"{e.name}(...) in `{e}`")


def _c(value: float, like: Expr) -> Expr:
    return const(value, like.dtype)


def _one_minus(e: Expr) -> Expr:
    return subtract(_c(1, e), e)


_UNARY: dict[str, Callable[[Expr, Expr], Expr]] = {
    "exp": lambda x, y: y,
    "exp2": lambda x, y: multiply(y, _c(math.log(2), y)),
    "exp2_normal": lambda x, y: multiply(y, _c(math.log(2), y)),
    "exp10": lambda x, y: multiply(y, _c(math.log(10), y)),
    "log": lambda x, y: divide(_c(1, y), x),
    "log2": lambda x, y: divide(_c(1 / math.log(2), y), x),
    "log10": lambda x, y: divide(_c(1 / math.log(10), y), x),
    "log1p": lambda x, y: divide(_c(1, y), plus(x, _c(1, x))),
    "sqrt": lambda x, y: divide(_c(0.5, y), y),
    "rsqrt": lambda x, y: divide(multiply(y, _c(-0.5, y)), x),
    "saturate": lambda x, y: select(equal(x, y), _c(1, y), _c(0, y)),
    "sigmoid": lambda x, y: multiply(y, _one_minus(y)),
    "tanh": lambda x, y: _one_minus(multiply(y, y)),
    "sin": lambda x, y: TABLE["cos"](x),
    "cos": lambda x, y: negate(TABLE["sin"](x)),
    "tan": lambda x, y: plus(multiply(y, y), _c(1, y)),
    "asin": lambda x, y: TABLE["rsqrt"](_one_minus(multiply(x, x))),
    "acos": lambda x, y: negate(TABLE["rsqrt"](_one_minus(multiply(x, x)))),
    "atan": lambda x, y: divide(_c(1, y), plus(multiply(x, x), _c(1, x))),
    "sinh": lambda x, y: TABLE["cosh"](x),
    "cosh": lambda x, y: TABLE["sinh"](x),
    "asinh": lambda x, y: TABLE["rsqrt"](plus(multiply(x, x), _c(1, x))),
    "acosh": lambda x, y: TABLE["rsqrt"](subtract(multiply(x, x), _c(1, x))),
    "atanh": lambda x, y: divide(_c(1, y), _one_minus(multiply(x, x))),
    "erf": lambda x, y: multiply(TABLE["exp"](negate(multiply(x, x))), _c(2 / math.sqrt(math.pi), y)),
    "fabs": lambda x, y: select(greater_equal(x, _c(0, x)), _c(1, y), _c(-1, y)),
}
"""The slope at x, with the value y of the function there, by the function's name."""

Slope = Callable[..., Expr]


def _signs(a: Expr, b: Expr, y: Expr) -> Expr:
    same = equal(cast("int32", greater_equal(a, _c(0, a))), cast("int32", greater_equal(b, _c(0, b))))
    return select(same, _c(1, y), _c(-1, y))


_BINARY: dict[str, tuple[Slope, Slope]] = {
    "pow": (
        lambda a, b, y: multiply(b, TABLE["power"](a, subtract(b, _c(1, b)))),
        lambda a, b, y: multiply(y, TABLE["log"](a)),
    ),
    "hypot": (lambda a, b, y: divide(a, y), lambda a, b, y: divide(b, y)),
    "atan2": (
        lambda a, b, y: divide(b, plus(multiply(a, a), multiply(b, b))),
        lambda a, b, y: negate(divide(a, plus(multiply(a, a), multiply(b, b)))),
    ),
    "fmod": (lambda a, b, y: _c(1, y), lambda a, b, y: negate(TABLE["trunc"](divide(a, b)))),
    "copysign": (_signs, lambda a, b, y: _c(0, y)),
}
"""The slopes along the two arguments, by the function's name."""

_RULES: dict[type, Callable[[Any, Callable[[Expr], Part]], Part]] = {
    n.Add: lambda e, d: add(d(e.a), d(e.b)),
    n.Sub: lambda e, d: _minus(d(e.a), d(e.b)),
    n.Mul: lambda e, d: add(_times(d(e.a), e.b), _times(d(e.b), e.a)),
    n.Div: _div,
    n.Mod: _modulo(TABLE["trunc"]),
    n.FloorMod: _modulo(TABLE["floor"]),
    n.FloorDiv: lambda e, d: None,
    n.Max: lambda e, d: _either(greater_equal(e.a, e.b), d(e.a), d(e.b), e),
    n.Min: lambda e, d: _either(less_equal(e.a, e.b), d(e.a), d(e.b), e),
    n.Select: lambda e, d: _either(e.condition, d(e.true_value), d(e.false_value), e),
    n.IfThenElse: lambda e, d: _either(e.condition, d(e.true_value), d(e.false_value), e, if_then_else),
    n.Cast: lambda e, d: None if (part := d(e.value)) is None else cast(e.dtype, part),
    Call: _call,
}
