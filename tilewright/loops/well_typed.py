"""The type errors of an expression with well-formed parts, per type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..expr import nodes as e
from .storage import AddressOf


def fault_of(expr: e.Expr) -> str | None:
    """The type error of an expression; None if there is none."""
    kind = type(expr)
    if kind not in _known:
        _known[kind] = next((check for base, check in _EXPRESSIONS.items() if issubclass(kind, base)), None)
    check = _known[kind]
    return check(expr) if check is not None else None


def _binary(expr: e.Binary) -> str | None:
    if expr.a.dtype is not expr.b.dtype:
        return f"operands of types {expr.a.dtype} and {expr.b.dtype}"
    if isinstance(expr, e.Arithmetic) and not (expr.a.dtype.is_int or expr.a.dtype.is_float):
        return f"arithmetic on {expr.a.dtype}"
    if isinstance(expr, (e.And, e.Or)) and not expr.a.dtype.is_bool:
        return f"a condition of type {expr.a.dtype}, not bool"
    return None


def _not(expr: e.Not) -> str | None:
    return None if expr.a.dtype.is_bool else f"a condition of type {expr.a.dtype}, not bool"


def _choice(expr: e.Select | e.IfThenElse) -> str | None:
    if not expr.condition.dtype.is_bool or expr.condition.dtype.lanes not in (1, expr.dtype.lanes):
        return f"a condition of type {expr.condition.dtype}, not bool"
    if expr.true_value.dtype is not expr.false_value.dtype:
        return f"branches of types {expr.true_value.dtype} and {expr.false_value.dtype}"
    return None


def _ramp(expr: e.Ramp) -> str | None:
    if not expr.base.dtype.is_int or expr.base.dtype.lanes != 1 or expr.base.dtype is not expr.stride.dtype:
        return f"a ramp from {expr.base.dtype} by {expr.stride.dtype}, not scalars of one integer type"
    return None if expr.lanes > 1 else f"a vector of {expr.lanes} lanes"


def _broadcast(expr: e.Broadcast) -> str | None:
    if expr.value.dtype.lanes != 1:
        return f"a vector of vectors ({expr.value.dtype})"
    return None if expr.lanes > 1 else f"a vector of {expr.lanes} lanes"


def _cast(expr: e.Cast) -> str | None:
    same = expr.dtype.lanes == expr.value.dtype.lanes
    return None if same else f"a cast from {expr.value.dtype} to {expr.dtype}, of another length"


def _address(expr: AddressOf) -> str | None:
    if not isinstance(expr.place, e.Load) or expr.place.dtype.lanes != expr.buffer.dtype.lanes:
        return "the address of something other than one element"
    return None if expr.extent.dtype.is_int else f"{expr.extent} elements from an address on"


_EXPRESSIONS: dict[type, Callable[[Any], str | None]] = {
    e.Binary: _binary,
    e.Not: _not,
    e.Select: _choice,
    e.IfThenElse: _choice,
    e.Ramp: _ramp,
    e.Broadcast: _broadcast,
    e.Cast: _cast,
    AddressOf: _address,
}

_known: dict[type, Callable[[Any], str | None] | None] = {}
"""The check of each type of expression that has been asked about."""
