"""The exact value of an expression: the oracle for everything that rewrites expressions.

Integers are Python integers, wrapped to their type after each operation; floats are NumPy scalars, so that
float32 rounds as float32. One lane of a vector is taken at a time, which makes laziness the same for scalars
and vectors. Shares no code with the simplifier.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..core.dtype import DType
from ..core.errors import InternalError
from ..core.recursion import deep
from . import nodes as n
from .bits import REINTERPRET
from .numerics import INTRINSICS, Value, bits_as, convert, wrap

LoadValue = Callable[[Any, tuple[int, ...]], Value]


class UndefinedValueError(InternalError):
    """The expression has no value: a division by zero, a variable or source that is not given."""


@deep
def evaluate(e: n.Expr, env: Mapping[n.Var, Value], load: LoadValue | None = None) -> Value:
    """The value of `e` with the variables' values in `env`; `load(source, indices)` reads elements.

    A bool or an int for boolean and integer types, a NumPy scalar for floats, an array for vectors. Raises
    UndefinedValueError if there is no value.
    """
    with np.errstate(all="ignore"):
        if e.dtype.lanes == 1:
            return _Lane(env, load, 0).value(e)
        lanes = [_Lane(env, load, lane).value(e) for lane in range(e.dtype.lanes)]
        return np.array(lanes, e.dtype.numpy)


class _Lane:
    """Evaluates one lane of every vector."""

    def __init__(self, env: Mapping[n.Var, Value], load: LoadValue | None, lane: int) -> None:
        self.env = env
        self.load = load
        self.lane = lane
        self.known: dict[n.Expr, Value] = {}

    def value(self, e: n.Expr) -> Value:
        """The value of `e`, each shared part evaluated once."""
        found = self.known.get(e)
        if found is None:
            found = self.known[e] = self._compute(e)
        return found

    def _compute(self, e: n.Expr) -> Value:
        if isinstance(e, (n.Arithmetic, n.Compare)):
            a, b = self.value(e.a), self.value(e.b)
            if isinstance(e, n.Compare):
                return bool(_COMPARE[type(e)](a, b))
            return self._arithmetic(e, a, b)
        if isinstance(e, n.Var):
            return self._variable(e)
        handler = _HANDLERS.get(type(e))
        if handler is None:
            raise InternalError(f"no rule evaluates {type(e).__name__} in `{e}`")
        return handler(self, e)

    def _arithmetic(self, e: n.Arithmetic, a: Value, b: Value) -> Value:
        kind = type(e)
        if e.dtype.is_float:
            return _FLOAT[kind](a, b)
        if not e.dtype.is_int:
            raise InternalError(f"arithmetic on {e.dtype} in `{e}`")
        if b == 0 and kind in _DIVISIONS:
            raise UndefinedValueError(f"division by zero in `{e}`")
        return wrap(_INTEGER[kind](a, b), e.dtype)

    def _variable(self, e: n.Var) -> Value:
        if e not in self.env:
            raise UndefinedValueError(f"variable {e.name} has no value")
        return self._given(self.env[e], e.dtype)

    def _given(self, value: Value, kind: DType) -> Value:
        """A value from outside, as one of type `kind`."""
        if np.ndim(value):
            value = value[self.lane]
        if kind.is_float:
            return kind.numpy.type(value)
        whole = int(value)
        if wrap(whole, kind) != whole:
            raise InternalError(f"{whole} is not a value of type {kind}")
        return bool(whole) if kind.is_bool else whole

    def _integer(self, e: n.IntImm) -> Value:
        return bool(e.value) if e.dtype.is_bool else int(e.value)

    def _float(self, e: n.FloatImm) -> Value:
        return e.dtype.numpy.type(e.value)

    def _string(self, e: n.StringImm) -> Value:
        return e.value

    def _cast(self, e: n.Cast) -> Value:
        value, to, source = self.value(e.value), e.dtype.scalar, e.value.dtype
        if source.is_float or to.is_float:
            value = convert(source.numpy.type(value), to)
            return value if to.is_float else _python(value, to)
        return value != 0 if to.is_bool else wrap(int(value), to)

    def _and(self, e: n.And) -> Value:
        return self.value(e.a) and self.value(e.b)

    def _or(self, e: n.Or) -> Value:
        return self.value(e.a) or self.value(e.b)

    def _not(self, e: n.Not) -> Value:
        return not self.value(e.a)

    def _select(self, e: n.Select) -> Value:
        condition, yes, no = self.value(e.condition), self.value(e.true_value), self.value(e.false_value)
        return yes if condition else no

    def _if_then_else(self, e: n.IfThenElse) -> Value:
        return self.value(e.true_value if self.value(e.condition) else e.false_value)

    def _load(self, e: n.Load) -> Value:
        if self.load is None:
            raise UndefinedValueError(f"`{e}` is read, but no source is given")
        return self._given(self.load(e.source, tuple(self.value(i) for i in e.indices)), e.dtype.scalar)

    def _call(self, e: n.Call) -> Value:
        if e.name == REINTERPRET:
            made = bits_as(e.args[0].dtype.numpy.type(self.value(e.args[0])), e.dtype.scalar)
            return made if e.dtype.is_float else _python(made, e.dtype)
        compute = INTRINSICS.get(e.name)
        if compute is None:
            raise InternalError(f"no rule evaluates the intrinsic {e.name} in `{e}`")
        args = [self.value(a) for a in e.args]
        if e.name == "likely":
            return args[0]
        typed = [a.dtype.numpy.type(x) for a, x in zip(e.args, args, strict=True)]
        result = compute(*typed)
        return result if e.dtype.is_float else _python(result, e.dtype)

    def _ramp(self, e: n.Ramp) -> Value:
        return wrap(self.value(e.base) + self.lane * self.value(e.stride), e.dtype)

    def _broadcast(self, e: n.Broadcast) -> Value:
        return self.value(e.value)


def _python(value: Value, kind: DType) -> Value:
    return bool(value) if kind.is_bool else int(value)


def _trunc_div(a: int, b: int) -> int:
    return abs(a) // abs(b) if (a < 0) == (b < 0) else -(abs(a) // abs(b))


_DIVISIONS = (n.Div, n.Mod, n.FloorDiv, n.FloorMod)
_INTEGER: dict[type, Callable[[int, int], int]] = {
    n.Add: lambda a, b: a + b,
    n.Sub: lambda a, b: a - b,
    n.Mul: lambda a, b: a * b,
    n.Div: _trunc_div,
    n.Mod: lambda a, b: a - b * _trunc_div(a, b),
    n.FloorDiv: lambda a, b: a // b,
    n.FloorMod: lambda a, b: a % b,
    n.Min: min,
    n.Max: max,
}
_FLOAT: dict[type, Callable[[Value, Value], Value]] = {
    n.Add: lambda a, b: a + b,
    n.Sub: lambda a, b: a - b,
    n.Mul: lambda a, b: a * b,
    n.Div: lambda a, b: a / b,
    n.Mod: np.fmod,
    n.FloorDiv: lambda a, b: np.floor(a / b),
    n.FloorMod: lambda a, b: a - np.floor(a / b) * b,
    n.Min: np.minimum,
    n.Max: np.maximum,
}
_COMPARE: dict[type, Callable[[Value, Value], Value]] = {
    n.EQ: lambda a, b: a == b,
    n.NE: lambda a, b: a != b,
    n.LT: lambda a, b: a < b,
    n.LE: lambda a, b: a <= b,
    n.GT: lambda a, b: a > b,
    n.GE: lambda a, b: a >= b,
}
_HANDLERS: dict[type, Callable[[_Lane, Any], Value]] = {
    n.IntImm: _Lane._integer,
    n.FloatImm: _Lane._float,
    n.StringImm: _Lane._string,
    n.Cast: _Lane._cast,
    n.And: _Lane._and,
    n.Or: _Lane._or,
    n.Not: _Lane._not,
    n.Select: _Lane._select,
    n.IfThenElse: _Lane._if_then_else,
    n.Load: _Lane._load,
    n.Call: _Lane._call,
    n.Ramp: _Lane._ramp,
    n.Broadcast: _Lane._broadcast,
}
