"""Operators outside index arithmetic: floats, narrow and unsigned integers. Only bit-exact folding is done."""

from __future__ import annotations

from typing import Any

from ..expr import nodes as n
from ..expr import operators as build
from ..expr.nodes import Expr, FloatImm, IntImm
from .engine import HANDLERS, visit, with_simple_children
from .facts import Facts
from .interval import bounds
from .rules import rewrite

_DIVISIONS = (n.Div, n.Mod, n.FloorDiv, n.FloorMod)
_FOLD: dict[type, Any] = {
    n.Add: build.add,
    n.Sub: build.subtract,
    n.Mul: build.multiply,
    n.Div: lambda a, b: build.divide(a, b) if a.dtype.is_float else build.truncdiv(a, b),
    n.Mod: build.truncmod,
    n.FloorDiv: build.floordiv,
    n.FloorMod: build.floormod,
    n.Min: build.minimum,
    n.Max: build.maximum,
    n.LT: build.less,
    n.LE: build.less_equal,
    n.GT: build.greater,
    n.GE: build.greater_equal,
    n.EQ: build.equal,
    n.NE: build.not_equal,
}


def binary(e: Any, facts: Facts) -> Expr:
    """An operator of two arguments: constants folded, identities dropped."""
    made: Any = with_simple_children(e, facts)
    a, b = made.a, made.b
    if isinstance(a, (IntImm, FloatImm)) and isinstance(b, (IntImm, FloatImm)):
        undefined = b.value == 0 and type(e) in _DIVISIONS
        folded: Expr = made if undefined else _FOLD[type(e)](a, b)
        return folded
    if isinstance(made, n.Compare) and a.dtype.is_int and a.dtype.lanes == 1:
        lo, hi = bounds(made, facts)
        if lo == hi:
            return n.TRUE if lo else n.FALSE
    return again(made, facts)


def again(made: Expr, facts: Facts) -> Expr:
    """Simplify a node with simple children by the rules of its operator."""
    found = rewrite(made)
    return made if found is None else visit(found, facts)


def call(e: n.Call, facts: Facts) -> Expr:
    """A call with simplified arguments; `likely` of a known condition is dropped."""
    made = with_simple_children(e, facts)
    if e.name == "likely" and isinstance(made.args[0], IntImm):
        return made.args[0]
    return made


def cast(e: n.Cast, facts: Facts) -> Expr:
    """A conversion to a type that is not an index."""
    value = visit(e.value, facts)
    if isinstance(value, FloatImm) and not e.dtype.is_float:
        return n.Cast(e.dtype, value)
    if isinstance(value, (IntImm, FloatImm)) or value.dtype == e.dtype:
        return build.cast(e.dtype, value)
    return again(n.Cast(e.dtype, value), facts)


def same(e: Expr, facts: Facts) -> Expr:
    """A leaf."""
    return e


HANDLERS.update(dict.fromkeys((IntImm, FloatImm, n.StringImm, n.Var, n.SizeVar), same))
HANDLERS.update(dict.fromkeys((n.Ramp, n.Broadcast), with_simple_children))
HANDLERS[n.Cast] = cast
HANDLERS[n.Call] = call
