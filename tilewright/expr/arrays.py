"""The value of an integer expression over arrays of the values of its variables.

Integers have 64 bits and are not wrapped to their types. A divisor of 0 counts as 1: the value there is arbitrary. The
exact oracle, with which this module shares no rules, is `tilewright.expr.evaluate`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from . import nodes as n
from .nodes import Expr, Var
from .numerics import INTRINSICS


def evaluated(e: Expr, values: Mapping[Var, Any], known: dict[Expr, Any] | None = None, unknown: Any = None) -> Any:
    """Return the value of an integer or boolean expression.

    Parameters
    ----------
    values : mapping
        Numbers, or arrays that broadcast against each other.
    known : dict, optional
        A cache of the values of parts.
    unknown : None or 0
        The value of absent variables, loads, calls and floats. With None, expressions of such parts are None as well;
        an unknown operand of And or Or is ignored. With 0, everything but arithmetic and comparisons is 0, as in the
        cost models: their quantities were fitted with selected indices at 0.
    """
    if isinstance(e, n.IntImm):
        return e.value
    if isinstance(e, Var):
        return values.get(e, unknown)
    if known is None:
        known = {}
    if e not in known:
        known[e] = _computed(e, values, known, unknown)
    return known[e]


def _computed(e: Any, values: Mapping[Var, Any], known: dict[Expr, Any], unknown: Any) -> Any:
    rule = _BINARY.get(type(e))
    if rule is not None:
        if not (e.a.dtype.is_int or e.a.dtype.is_bool):
            return unknown
        a, b = evaluated(e.a, values, known, unknown), evaluated(e.b, values, known, unknown)
        return None if a is None or b is None else rule(a, b)
    if unknown is not None:
        return unknown
    parts = [evaluated(child, values, known) for child in e.children()]
    if isinstance(e, (n.And, n.Or)):
        return _logical(e, *parts)
    if isinstance(e, (n.Select, n.IfThenElse)):
        return None if any(part is None for part in parts) else np.where(*parts)
    if isinstance(e, n.Not):
        return None if parts[0] is None else np.logical_not(parts[0])
    if isinstance(e, n.Cast) and e.dtype.is_int and e.value.dtype.is_int:
        return parts[0]
    if isinstance(e, n.Call) and e.name == "likely":
        return parts[0]
    if isinstance(e, n.Call) and e.name in _OF_BITS and e.dtype.is_int:
        return None if any(part is None for part in parts) else INTRINSICS[e.name](*map(np.asarray, parts))
    return unknown


def _logical(e: n.And | n.Or, a: Any, b: Any) -> Any:
    if a is None or b is None:
        return a if b is None else b
    return np.logical_and(a, b) if isinstance(e, n.And) else np.logical_or(a, b)


def _divisor(b: Any) -> Any:
    return np.where(b == 0, 1, b) if isinstance(b, np.ndarray) else b or 1


def _truncated(a: Any, b: Any) -> Any:
    b = _divisor(b)
    return (a - np.fmod(a, b)) // b


_BINARY: Mapping[type, Callable[[Any, Any], Any]] = {
    n.Add: operator.add,
    n.Sub: operator.sub,
    n.Mul: operator.mul,
    n.FloorDiv: lambda a, b: a // _divisor(b),
    n.FloorMod: lambda a, b: a % _divisor(b),
    n.Div: _truncated,
    n.Mod: lambda a, b: np.fmod(a, _divisor(b)),
    n.Min: np.minimum,
    n.Max: np.maximum,
    n.EQ: operator.eq,
    n.NE: operator.ne,
    n.LT: operator.lt,
    n.LE: operator.le,
    n.GT: operator.gt,
    n.GE: operator.ge,
}
_OF_BITS = frozenset("bitwise_and bitwise_or bitwise_xor bitwise_not shift_left shift_right".split())
"""Functions with a 64-bit result that equals the narrower result, if that fits."""
