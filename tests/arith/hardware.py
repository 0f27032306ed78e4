"""Integers as hardware has them: expressions evaluated in NumPy's fixed-width arithmetic, on many values at once.

Shares nothing with the package's own evaluators. A value is *defined* unless the source leaves it open, as
`arith/simplify.py` says: a sum, difference, product or quotient of signed integers of 32 or 64 bits that does not fit
its type, a division by zero, a shift beyond the word. Everything else has one value, which rewriting must keep.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from tilewright.core.dtype import DType
from tilewright.expr import nodes as n

Array = Any


class Values(NamedTuple):
    """One value per case, and whether the source defines it."""

    value: Array
    defined: Array


class Evaluation:
    """Values of expressions if the variables have the values of `env`: arrays of one length, of the variables' types.

    With `wraps`, integers of every type wrap: what a result computes on its way may, if it is right in the end.
    """

    def __init__(self, env: Mapping[n.Var, Array], wraps: bool = False) -> None:
        self.env = env
        self.wraps = wraps
        (self.count,) = {len(values) for values in env.values()}
        self.always = np.ones(self.count, bool)
        self.known: dict[n.Expr, Values] = {}

    def __call__(self, e: n.Expr) -> Values:
        found = self.known.get(e)
        if found is None:
            with np.errstate(all="ignore"):
                found = self.known[e] = self._compute(e)
            assert found.value.dtype == e.dtype.numpy, f"{e} is of type {e.dtype}, not {found.value.dtype}"
        return found

    def _compute(self, e: Any) -> Values:
        if isinstance(e, n.Var):
            return Values(self.env[e], self.always)
        if isinstance(e, n.IntImm):
            assert e.dtype.min_value <= e.value <= e.dtype.max_value, f"{e.value} is not a value of {e.dtype}"
            return Values(np.full(self.count, e.value, e.dtype.numpy), self.always)
        if isinstance(e, n.Select | n.IfThenElse):
            cond, yes, no = self(e.condition), self(e.true_value), self(e.false_value)
            chosen = np.where(cond.value, yes.defined, no.defined)
            return Values(np.where(cond.value, yes.value, no.value), cond.defined & chosen)
        if isinstance(e, n.And | n.Or):
            a, b = self(e.a), self(e.b)
            if isinstance(e, n.And):
                return Values(a.value & b.value, a.defined & (b.defined | ~a.value))
            return Values(a.value | b.value, a.defined & (b.defined | a.value))
        if isinstance(e, n.Not):
            a = self(e.a)
            return Values(~a.value, a.defined)
        if isinstance(e, n.Cast):
            a = self(e.value)
            return Values(a.value != 0 if e.dtype.is_bool else a.value.astype(e.dtype.numpy), a.defined)
        if isinstance(e, n.Call):
            return self._call(e)
        a, b = self(e.a), self(e.b)
        value, valid = _BINARY[type(e)](a.value, b.value)
        defined = a.defined & b.defined
        if self.wraps:
            valid = b.value != 0 if isinstance(e, _DIVISIONS) else None
        return Values(value, defined if valid is None else defined & valid)

    def _call(self, e: n.Call) -> Values:
        parts = [self(arg) for arg in e.args]
        if e.name == "likely":
            return parts[0]
        defined = np.logical_and.reduce([part.defined for part in parts])
        a, b = parts[0].value, parts[-1].value
        if e.name == "bitwise_not":
            return Values(~a, defined)
        if e.name in ("shift_left", "shift_right"):
            within = (b >= 0) & (b < e.dtype.bits)
            by = np.where(within, b, 0).astype(b.dtype)
            return Values(a << by if e.name == "shift_left" else a >> by, defined & within)
        made = {"bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor}
        return Values(made[e.name](a, b), defined)


def _is_index(a: Array) -> bool:
    return bool(a.dtype.kind == "i" and a.dtype.itemsize >= 4)


def _add(a: Array, b: Array) -> tuple[Array, Array]:
    made = a + b
    return made, ((a ^ made) & (b ^ made)) >= 0 if _is_index(a) else None


def _subtract(a: Array, b: Array) -> tuple[Array, Array]:
    made = a - b
    return made, ((a ^ b) & (a ^ made)) >= 0 if _is_index(a) else None


def _multiply(a: Array, b: Array) -> tuple[Array, Array]:
    made = a * b
    if not _is_index(a):
        return made, None
    if a.dtype.itemsize == 4:
        return made, a.astype(np.int64) * b.astype(np.int64) == made
    size = np.abs(a.astype(np.longdouble) * b.astype(np.longdouble))  # beside the limit, cases are left out
    return made, size < np.longdouble(2**63) * (1 - 1e-15)


def _divided(divide: Callable[[Array, Array], Array], remainder: bool) -> Callable[[Array, Array], tuple[Array, Array]]:
    def apply(a: Array, b: Array) -> tuple[Array, Array]:
        valid = b != 0
        if _is_index(a) and not remainder:
            valid = valid & ((b != -1) | (a != np.iinfo(a.dtype).min))
        return divide(a, np.where(b == 0, 1, b).astype(b.dtype)), valid

    return apply


def _truncated(a: Array, b: Array) -> Array:
    floor = a // b
    up = (np.fmod(a, b) != 0) & ((a < 0) != (b < 0))
    return floor + up.astype(a.dtype)


def _plain(compute: Any) -> Callable[[Array, Array], tuple[Array, Array]]:
    return lambda a, b: (compute(a, b), None)


_DIVISIONS = (n.FloorDiv, n.FloorMod, n.Div, n.Mod)
_BINARY: dict[type, Callable[[Array, Array], tuple[Array, Array]]] = {
    n.Add: _add,
    n.Sub: _subtract,
    n.Mul: _multiply,
    n.FloorDiv: _divided(np.floor_divide, False),
    n.FloorMod: _divided(np.mod, True),
    n.Div: _divided(_truncated, False),
    n.Mod: _divided(np.fmod, True),
    n.Min: _plain(np.minimum),
    n.Max: _plain(np.maximum),
    n.LT: _plain(np.less),
    n.LE: _plain(np.less_equal),
    n.GT: _plain(np.greater),
    n.GE: _plain(np.greater_equal),
    n.EQ: _plain(np.equal),
    n.NE: _plain(np.not_equal),
}


def every_pair(x: DType, y: DType) -> tuple[Array, Array]:
    """All pairs of values of two types of 8 bits."""
    first, second = (np.arange(t.min_value, t.max_value + 1).astype(t.numpy) for t in (x, y))
    return np.repeat(first, 256), np.tile(second, 256)
