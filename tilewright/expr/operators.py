"""Typed operators, from which users build expressions.

Each brings its arguments to a common type (`convert.py`), folds constants and identities, and builds the node.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.dtype import BOOL, DType
from ..core.errors import UserError, UserValueError, caller_location, warn_caller
from . import nodes as n
from .convert import ExprLike as ExprLike
from .convert import as_expr as as_expr
from .convert import cast as cast
from .convert import const as const
from .convert import match_types as match_types
from .effects import SEEN, contains_effects
from .operand import BUILD, Operand


def _wrap(value: int, kind: DType) -> n.Expr:
    """A folded integer, wrapped to its type as the hardware would."""
    if kind.min_value <= value <= kind.max_value:
        return n.IntImm(value, kind)
    span = kind.max_value - kind.min_value + 1
    return n.IntImm((value - kind.min_value) % span + kind.min_value, kind)


def _numbers(a: ExprLike, b: ExprLike, name: str) -> tuple[n.Expr, n.Expr]:
    """Both values as numbers of one type, True as 1; raises UserError if they are conditions or pointers."""
    x, y = match_types(a, b)
    if x.dtype is BOOL and isinstance(x, n.IntImm) and isinstance(y, n.IntImm):
        return const(x.value, "int32"), const(y.value, "int32")
    if x.dtype.kind in ("bool", "handle"):
        which = "is a condition: it" if x.dtype.is_bool else f"of type {x.dtype}"
        fix = "use te.if_then_else or .astype" if x.dtype.is_bool else "give a number"
        raise UserError(f"`{x}` {which} has no arithmetic (`{name}`)", fix=fix)
    return x, y


def _contains_effects(e: n.Expr) -> bool:
    """Whether an expression has an effect, so that folding must keep it."""
    return bool(SEEN) and contains_effects(e)


def add(a: ExprLike, b: ExprLike) -> n.Expr:
    """a + b"""
    x, y = _numbers(a, b, "+")
    if isinstance(x, n.IntImm) and isinstance(y, n.IntImm):
        return _wrap(x.value + y.value, x.dtype)
    if isinstance(x, n.FloatImm) and isinstance(y, n.FloatImm):
        return const(x.value + y.value, x.dtype)
    if is_const(x, 0) and not x.dtype.is_float:
        return y
    if is_const(y, 0) and not x.dtype.is_float:
        return x
    return n.Add(x, y)


def subtract(a: ExprLike, b: ExprLike) -> n.Expr:
    """a - b"""
    x, y = _numbers(a, b, "-")
    if isinstance(x, n.IntImm) and isinstance(y, n.IntImm):
        return _wrap(x.value - y.value, x.dtype)
    if isinstance(x, n.FloatImm) and isinstance(y, n.FloatImm):
        return const(x.value - y.value, x.dtype)
    if is_const(y, 0) and not x.dtype.is_float:
        return x
    return n.Sub(x, y)


def multiply(a: ExprLike, b: ExprLike) -> n.Expr:
    """a * b"""
    x, y = _numbers(a, b, "*")
    if isinstance(x, n.IntImm) and isinstance(y, n.IntImm):
        return _wrap(x.value * y.value, x.dtype)
    if isinstance(x, n.FloatImm) and isinstance(y, n.FloatImm):
        return const(x.value * y.value, x.dtype)
    for one, other in ((x, y), (y, x)):
        if is_const(one, 1):
            return other
        if is_const(one, 0) and one.dtype.is_int and not _contains_effects(other):
            return one
    return n.Mul(x, y)


def negate(a: ExprLike) -> n.Expr:
    """-a"""
    x, _ = _numbers(a, a, "-")
    return subtract(const(-0.0 if x.dtype.is_float else 0, x.dtype), x)


def _integer_division(
    name: str,
    node: Callable[[n.Expr, n.Expr], n.Expr],
    fold: Callable[[int, int], int],
    remainder: bool,
    doc: str,
) -> Callable[[ExprLike, ExprLike], n.Expr]:
    def build(a: ExprLike, b: ExprLike) -> n.Expr:
        x, y = _numbers(a, b, name)
        if is_const(y, 0) and not x.dtype.is_float:
            raise UserError(
                f"division by zero in `{x} {name} {y}`",
                primitive=name,
                fix="divide by something else; if a divisor may be 0, guard it: te.if_then_else(d != 0, n // d, 0)",
            )
        if isinstance(x, n.IntImm) and isinstance(y, n.IntImm):
            return _wrap(fold(x.value, y.value), x.dtype)
        if is_const(y, 1) and x.dtype.is_int:
            if not remainder:
                return x
            if not _contains_effects(x):
                return const(0, x.dtype)
        if x.dtype.is_float:
            return _float_remainder(x, y, node) if remainder else _whole_quotient(x, y, node)
        return node(x, y)

    build.__name__ = name
    build.__doc__ = doc
    return build


def _whole_quotient(x: n.Expr, y: n.Expr, node: Any) -> n.Expr:
    return call_of("floor" if node is n.FloorDiv else "trunc", divide(x, y))


def _float_remainder(x: n.Expr, y: n.Expr, node: Any) -> n.Expr:
    """The exact remainder of a division: `x - floor(x / y) * y` is NaN for an infinite y, and loses digits of a large
    x."""
    rest = n.Call("fmod", (x, y), x.dtype)
    if node is not n.FloorMod:
        return rest
    zero = const(0.0, rest.dtype)
    turns = logical_and(not_equal(rest, zero), not_equal(less(rest, zero), less(y, zero)))
    return select(turns, add(rest, y), rest)


def _trunc_div(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _trunc_mod(a: int, b: int) -> int:
    return a - _trunc_div(a, b) * b


floordiv = _integer_division("floordiv", n.FloorDiv, lambda a, b: a // b, False, "a // b, rounded down")
floormod = _integer_division("floormod", n.FloorMod, lambda a, b: a % b, True, "a % b, with the sign of b")
truncdiv = _integer_division("truncdiv", n.Div, _trunc_div, False, "a / b on integers, rounded towards zero")
truncmod = _integer_division("truncmod", n.Mod, _trunc_mod, True, "the remainder of truncdiv, with the sign of a")


_warned: set[str] = set()


def divide(a: ExprLike, b: ExprLike) -> n.Expr:
    """a / b. On two integers it truncates, as the oldest scripts expect, and warns once a line."""
    x, y = match_types(a, b)
    if x.dtype.is_float:
        if is_const(y, 1):
            return x
        if isinstance(x, n.FloatImm) and isinstance(y, n.FloatImm) and y.value != 0:
            return const(x.value / y.value, x.dtype)
        return n.Div(x, y)
    where = caller_location()
    if where not in _warned:
        _warned.add(where)
        warn_caller(
            f"{where}: `/` on integers truncates, as in the oldest scripts; write // (rounds down) or "
            "tir.truncdiv to say which you mean",
            DeprecationWarning,
        )
    return truncdiv(x, y)


def minimum(a: ExprLike, b: ExprLike) -> n.Expr:
    """The smaller of a and b."""
    return _extreme(n.Min, min, a, b)


def maximum(a: ExprLike, b: ExprLike) -> n.Expr:
    """The larger of a and b."""
    return _extreme(n.Max, max, a, b)


def _extreme(
    node: Callable[[n.Expr, n.Expr], n.Expr], fold: Callable[[Any, Any], Any], a: ExprLike, b: ExprLike
) -> n.Expr:
    x, y = _numbers(a, b, "min and max")
    if isinstance(x, n.IntImm) and isinstance(y, n.IntImm):
        return const(fold(x.value, y.value), x.dtype)
    return x if x is y and not _contains_effects(x) else node(x, y)


def _comparison(
    node: Callable[[n.Expr, n.Expr], n.Expr], fold: Callable[[Any, Any], bool], doc: str
) -> Callable[[ExprLike, ExprLike], n.Expr]:
    def build(a: ExprLike, b: ExprLike) -> n.Expr:
        x, y = match_types(a, b)
        if isinstance(x, (n.IntImm, n.FloatImm)) and isinstance(y, (n.IntImm, n.FloatImm)):
            return const(bool(fold(x.value, y.value)), BOOL)
        return node(x, y)

    build.__doc__ = doc
    return build


less = _comparison(n.LT, lambda a, b: a < b, "a < b")
less_equal = _comparison(n.LE, lambda a, b: a <= b, "a <= b")
greater = _comparison(n.GT, lambda a, b: a > b, "a > b")
greater_equal = _comparison(n.GE, lambda a, b: a >= b, "a >= b")


def equal(a: ExprLike, b: ExprLike) -> n.Expr:
    """a == b; if b is not an operand (such as None), the constant False, so that `x == None` stays harmless."""
    if not isinstance(b, (Operand, bool, int, float, np.generic)):
        return n.FALSE
    x, y = match_types(a, b)
    if isinstance(x, (n.IntImm, n.FloatImm)) and isinstance(y, (n.IntImm, n.FloatImm)):
        return const(x.value == y.value, BOOL)
    return n.EQ(x, y)


def not_equal(a: ExprLike, b: ExprLike) -> n.Expr:
    """a != b; see `equal`."""
    if not isinstance(b, (Operand, bool, int, float, np.generic)):
        return n.TRUE
    x, y = match_types(a, b)
    if isinstance(x, (n.IntImm, n.FloatImm)) and isinstance(y, (n.IntImm, n.FloatImm)):
        return const(x.value != y.value, BOOL)
    return n.NE(x, y)


def condition(value: ExprLike, primitive: str) -> n.Expr:
    """`value` as a boolean expression; raises UserError if it is a number or of another type."""
    e = as_expr(value)
    if not e.dtype.is_bool:
        raise UserError(
            f"`{e}` has type {e.dtype}, but a condition has type bool",
            primitive=primitive,
            fix=f"compare it: {e} != 0",
        )
    return e


def logical_and(a: ExprLike, b: ExprLike) -> n.Expr:
    """a and b"""
    x, y = condition(a, "all"), condition(b, "all")
    if x is n.FALSE or y is n.TRUE:
        return x
    return y if x is n.TRUE or y is n.FALSE else n.And(x, y)


def logical_or(a: ExprLike, b: ExprLike) -> n.Expr:
    """a or b"""
    x, y = condition(a, "any"), condition(b, "any")
    if x is n.TRUE or y is n.FALSE:
        return x
    return y if x is n.FALSE or y is n.TRUE else n.Or(x, y)


def logical_not(a: ExprLike) -> n.Expr:
    """not a"""
    x = condition(a, "Not")
    return const(not x.value, BOOL) if isinstance(x, n.IntImm) else n.Not(x)


def all_of(*conditions: ExprLike) -> n.Expr:
    """Whether all conditions hold."""
    return _fold_conditions(conditions, logical_and, "all")


def any_of(*conditions: ExprLike) -> n.Expr:
    """Whether any condition holds."""
    return _fold_conditions(conditions, logical_or, "any")


def _fold_conditions(values: tuple[ExprLike, ...], join: Callable[[ExprLike, ExprLike], n.Expr], name: str) -> n.Expr:
    if not values:
        raise UserValueError(
            "needs at least one condition", primitive=name, fix=f"give conditions: te.{name}(i < n, j < m)"
        )
    if isinstance(values[0], (list, tuple)):
        raise UserError(
            f"the conditions are given as the list {values[0]!r}",
            primitive=name,
            fix=f"unpack it: te.{name}(*conditions)",
        )
    result = condition(values[0], name)
    for value in values[1:]:
        result = join(result, value)
    return result


def select(cond: ExprLike, true_value: ExprLike, false_value: ExprLike) -> n.Expr:
    """`true_value` if `cond` holds, else `false_value`; both are evaluated, so neither may fault."""
    return _choice(n.Select, cond, true_value, false_value, "Select")


def if_then_else(cond: ExprLike, true_value: ExprLike, false_value: ExprLike) -> n.Expr:
    """`true_value` if `cond` holds, else `false_value`; only that one is evaluated."""
    return _choice(n.IfThenElse, cond, true_value, false_value, "if_then_else")


def _choice(node: Any, cond: ExprLike, true_value: ExprLike, false_value: ExprLike, name: str) -> n.Expr:
    c = condition(cond, name)
    x, y = match_types(true_value, false_value)
    if x.dtype == "handle":
        raise UserError(f"chooses between {x} and {y}, which are not numbers", primitive=name, fix="give two numbers")
    if isinstance(c, n.IntImm):
        return x if c.value else y
    made: n.Expr = node(c, x, y)
    return made


def likely(cond: ExprLike) -> n.Expr:
    """`cond`, marked as nearly always true: the guard of a partial tile."""
    c = condition(cond, "likely")
    return c if isinstance(c, n.IntImm) else n.Call("likely", (c,), c.dtype)


def is_const(e: n.Expr, value: float) -> bool:
    """Whether e is the constant `value`."""
    return isinstance(e, (n.IntImm, n.FloatImm)) and e.value == value


def _bitwise(name: str, fold: Callable[[int, int], int], doc: str) -> Callable[[ExprLike, ExprLike], n.Expr]:
    def build(a: ExprLike, b: ExprLike) -> n.Expr:
        x, y = match_types(a, b)
        if x.dtype.is_bool and name in _LOGICAL:
            return _LOGICAL[name](x, y)
        if not x.dtype.is_int:
            raise UserError(
                f"needs integers, but `{x}` has type {x.dtype}",
                primitive=name,
                fix='convert it: x.astype("int32"); conditions such as x > 0 may be combined as well',
            )
        if name.startswith("shift") and isinstance(y, n.IntImm) and not 0 <= y.value < x.dtype.bits:
            raise UserError(f"cannot shift {x.dtype} by {y.value}", primitive=name, fix=f"0 to {x.dtype.bits - 1} bits")
        if isinstance(x, n.IntImm) and isinstance(y, n.IntImm):
            return _wrap(fold(x.value, y.value), x.dtype)
        return n.Call(name, (x, y), x.dtype)

    build.__doc__ = doc
    return build


_LOGICAL: dict[str, Callable[[ExprLike, ExprLike], n.Expr]] = {
    "bitwise_and": logical_and,
    "bitwise_or": logical_or,
    "bitwise_xor": not_equal,
}
bitwise_and = _bitwise("bitwise_and", lambda a, b: a & b, "a & b; on conditions, `all`")
bitwise_or = _bitwise("bitwise_or", lambda a, b: a | b, "a | b; on conditions, `any`")
bitwise_xor = _bitwise("bitwise_xor", lambda a, b: a ^ b, "a ^ b")
shift_left = _bitwise("shift_left", lambda a, b: a << b, "a << b")
shift_right = _bitwise("shift_right", lambda a, b: a >> b, "a >> b (arithmetic on signed integers)")


def bitwise_not(a: ExprLike) -> n.Expr:
    """~a; on a condition, `not a`."""
    x = as_expr(a)
    if x.dtype.is_bool:
        return logical_not(x)
    if not x.dtype.is_int:
        raise UserError(
            f"needs an integer, but `{x}` has type {x.dtype}",
            primitive="bitwise_not",
            fix='convert it: x.astype("int32"), or negate a condition such as x > 0',
        )
    return _wrap(~x.value, x.dtype) if isinstance(x, n.IntImm) else n.Call("bitwise_not", (x,), x.dtype)


def call_of(name: str, x: n.Expr) -> n.Expr:
    """Return the call of a one-argument intrinsic with a result of its argument's type."""
    return n.Call(name, (x,), x.dtype)


BUILD.update(
    add=add,
    subtract=subtract,
    multiply=multiply,
    divide=divide,
    negate=negate,
    floordiv=floordiv,
    floormod=floormod,
    less=less,
    less_equal=less_equal,
    greater=greater,
    greater_equal=greater_equal,
    equal=equal,
    not_equal=not_equal,
    bitwise_and=bitwise_and,
    bitwise_or=bitwise_or,
    bitwise_xor=bitwise_xor,
    bitwise_not=bitwise_not,
    shift_left=shift_left,
    shift_right=shift_right,
    cast=cast,
)
