"""An exact evaluator in plain Python integers, sharing nothing with the arithmetic that it checks."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

from tilewright.expr import nodes as n


class UndefinedError(Exception):
    """The expression has no value: a division by zero."""


def _divide(f: Any) -> Any:
    def apply(a: int, b: int) -> int:
        if b == 0:
            raise UndefinedError
        return f(a, b)

    return apply


def _trunc(a: int, b: int) -> int:
    whole = abs(a) // abs(b)
    return whole if (a < 0) == (b < 0) else -whole


_BINARY = {
    n.Add: operator.add,
    n.Sub: operator.sub,
    n.Mul: operator.mul,
    n.FloorDiv: _divide(operator.floordiv),
    n.FloorMod: _divide(operator.mod),
    n.Div: _divide(_trunc),
    n.Mod: _divide(lambda a, b: a - _trunc(a, b) * b),
    n.Min: min,
    n.Max: max,
    n.LT: operator.lt,
    n.LE: operator.le,
    n.GT: operator.gt,
    n.GE: operator.ge,
    n.EQ: operator.eq,
    n.NE: operator.ne,
}


def evaluate(e: Any, env: Mapping[n.Var, int]) -> Any:
    """The value of an integer or boolean expression (a list for a vector); UndefinedError where it has none."""
    kind = type(e)
    if kind is n.IntImm:
        return e.value
    if isinstance(e, n.Var):
        return env[e]
    if kind in _BINARY:
        return _lanes(_BINARY[kind], evaluate(e.a, env), evaluate(e.b, env))
    if kind in (n.And, n.Or):
        a = evaluate(e.a, env)
        if isinstance(a, list):
            return _lanes(operator.and_ if kind is n.And else operator.or_, a, evaluate(e.b, env))
        return int(bool(evaluate(e.b, env))) if bool(a) is (kind is n.And) else int(bool(a))
    if kind is n.Not:
        a = evaluate(e.a, env)
        return [int(not lane) for lane in a] if isinstance(a, list) else int(not a)
    if kind is n.Select:
        both = evaluate(e.true_value, env), evaluate(e.false_value, env)
        chosen = evaluate(e.condition, env)
        if isinstance(chosen, list):
            return [a if flag else b for flag, a, b in zip(chosen, *both, strict=True)]
        return both[0] if chosen else both[1]
    if kind is n.IfThenElse:
        return evaluate(e.true_value if evaluate(e.condition, env) else e.false_value, env)
    if kind is n.Cast:
        value = evaluate(e.value, env)
        low, high = e.dtype.min_value, e.dtype.max_value
        if isinstance(value, list):
            return [(lane - low) % (high - low + 1) + low for lane in value]
        return bool(value) if e.dtype.is_bool else (value - low) % (high - low + 1) + low
    if kind is n.Call and e.name == "likely":
        return evaluate(e.args[0], env)
    if kind is n.Call and e.name == "shift_right":
        return evaluate(e.args[0], env) >> evaluate(e.args[1], env)
    if kind is n.Ramp:
        base, stride = evaluate(e.base, env), evaluate(e.stride, env)
        return [base + stride * lane for lane in range(e.lanes)]
    if kind is n.Broadcast:
        return [evaluate(e.value, env)] * e.lanes
    raise NotImplementedError(kind.__name__)


def _lanes(f: Any, a: Any, b: Any) -> Any:
    if isinstance(a, list):
        return [f(x, y) for x, y in zip(a, b, strict=True)]
    return f(a, b)


def size(e: n.Expr) -> int:
    """How many nodes the expression has as a tree."""
    return 1 + sum(size(child) for child in e.children())


def points(box: dict[Any, tuple[int, int]]) -> Iterator[dict[Any, int]]:
    """All values of some variables, the ends of their ranges included."""
    for values in product(*(range(low, high + 1) for low, high in box.values())):
        yield dict(zip(box, values, strict=True))
