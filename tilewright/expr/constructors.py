"""Node classes of the legacy API. Calling one checks and converts; `isinstance` treats it as the node class.

tir.Add(a, 1)               # what `a + 1` builds
isinstance(e, tir.Add)      # whether e is a sum
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.dtype import DType
from ..core.errors import UserError
from . import nodes as n
from . import operators as o


class Constructor(type):
    """The type of such a class: `node` is the class that `isinstance` tests for, `build` the function that a call
    runs."""

    node: type
    build: Callable[..., Any]
    holds: Callable[[Any], bool] | None
    """The condition on instances, if several constructors share a node class."""

    def __call__(cls, *args: Any, **named: Any) -> Any:
        return cls.build(*args, **named)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, cls.node) and (cls.holds is None or cls.holds(instance))

    def __repr__(cls) -> str:
        return f"<class tir.{cls.__name__}>"


def constructor(
    node: type, build: Callable[..., Any], name: str = "", holds: Callable[[Any], bool] | None = None
) -> Any:
    """Make a constructor class, called `name` if the legacy API's name differs."""
    parts = {"node": node, "build": staticmethod(build), "__doc__": node.__doc__}
    parts["holds"] = None if holds is None else staticmethod(holds)
    return Constructor(name or node.__name__, (), parts)


def _constant(dtype: Any, value: Any, name: str) -> n.Expr:
    if not isinstance(dtype, str) or isinstance(value, str):
        raise UserError(
            f"dtype is {dtype!r} and the value {value!r}",
            primitive=name,
            fix=f'the type comes first: {name}("int32", 3)',
        )
    return o.const(value, dtype)


def int_imm(dtype: Any, value: Any, span: Any = None) -> n.Expr:
    """The integer constant `value` of type `dtype`."""
    return _constant(dtype, value, "IntImm")


def float_imm(dtype: Any, value: Any, span: Any = None) -> n.Expr:
    """The floating-point constant `value` of type `dtype`."""
    if isinstance(dtype, str) and not DType(dtype).is_float:
        raise UserError(
            f"{dtype} is not a floating-point type", primitive="FloatImm", fix=f"IntImm({dtype!r}, {value!r})"
        )
    return _constant(dtype, value, "FloatImm")


def _lanes(lanes: Any, name: str) -> int:
    lanes = lanes.value if isinstance(lanes, n.IntImm) else lanes
    if isinstance(lanes, bool) or not isinstance(lanes, int) or lanes < 2:
        raise UserError(f"lanes={lanes!r} is not a number of lanes", primitive=name, fix="give an int of at least 2: 4")
    return lanes


def ramp(base: Any, stride: Any, lanes: Any, span: Any = None) -> n.Expr:
    """The vector base, base + stride, ..., of `lanes` elements."""
    first, step = o.match_types(base, stride)
    return n.Ramp(first, step, _lanes(lanes, "Ramp"))


def broadcast(value: Any, lanes: Any, span: Any = None) -> n.Expr:
    """`lanes` copies of `value`."""
    return n.Broadcast(o.as_expr(value), _lanes(lanes, "Broadcast"))


CONSTRUCTORS: dict[str, Any] = {
    node.__name__: constructor(node, build)
    for node, build in (
        (n.IntImm, int_imm), (n.FloatImm, float_imm), (n.Add, o.add), (n.Sub, o.subtract), (n.Mul, o.multiply),
        (n.Div, o.truncdiv), (n.Mod, o.truncmod), (n.FloorDiv, o.floordiv), (n.FloorMod, o.floormod),
        (n.Min, o.minimum), (n.Max, o.maximum), (n.EQ, o.equal), (n.NE, o.not_equal), (n.LT, o.less),
        (n.LE, o.less_equal), (n.GT, o.greater), (n.GE, o.greater_equal), (n.And, o.logical_and),
        (n.Or, o.logical_or), (n.Not, o.logical_not), (n.Select, o.select), (n.Cast, o.cast), (n.Ramp, ramp),
        (n.Broadcast, broadcast),
    )
}  # fmt: skip
