"""Extents and scales of iterator maps: integers, or symbolic sizes with the same operators."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ..core.dtype import DType
from ..core.errors import UserError
from ..expr import operators as build
from ..expr.nodes import Expr, IntImm
from .prove import is_size
from .simplify import prove, simplify


@dataclass(frozen=True)
class Size:
    """A simplified expression of size variables. A comparison is true if it provably holds."""

    expr: Expr

    def __add__(self, other: Number) -> Number:
        return _result(build.add(self.expr, as_size(other)))

    def __sub__(self, other: Number) -> Number:
        return _result(build.subtract(self.expr, as_size(other)))

    def __mul__(self, other: Number) -> Number:
        return _result(build.multiply(self.expr, as_size(other)))

    def __floordiv__(self, other: Number) -> Number:
        return _result(build.floordiv(self.expr, as_size(other)))

    def __mod__(self, other: Number) -> Number:
        return _result(build.floormod(self.expr, as_size(other)))

    __radd__, __rmul__ = __add__, __mul__

    def __rfloordiv__(self, other: int) -> Number:
        return _result(build.floordiv(other, self.expr))

    def __rmod__(self, other: int) -> Number:
        return _result(build.floormod(other, self.expr))

    def __neg__(self) -> Number:
        return self * -1

    def __abs__(self) -> Number:
        return -self if self < 0 else self

    def __lt__(self, other: Number) -> bool:
        return prove(build.less(self.expr, as_size(other)))

    def __le__(self, other: Number) -> bool:
        return prove(build.less_equal(self.expr, as_size(other)))

    def __gt__(self, other: Number) -> bool:
        return prove(build.greater(self.expr, as_size(other)))

    def __ge__(self, other: Number) -> bool:
        return prove(build.greater_equal(self.expr, as_size(other)))


Number = int | Size


def _result(e: Expr) -> Number:
    found = simplify(e)
    return found.value if isinstance(found, IntImm) else Size(found)


def as_size(value: Number) -> Any:
    """The expression of a symbolic size; an integer as it is."""
    return value.expr if isinstance(value, Size) else value


def number(e: Expr) -> Number:
    """The value of a factor or an extent, which are constants or expressions of sizes."""
    if isinstance(e, IntImm):
        return e.value
    if not is_size(e):
        raise UserError(
            f"`{e}` of an iterator map is neither a constant nor a size",
            primitive="arith",
            fix='give ranges of constant extents, or of sizes: te.size_var("n")',
        )
    return _result(e)


def written(value: Number, dtype: DType) -> Expr:
    """The expression of a number."""
    return value.expr if isinstance(value, Size) else build.const(value, dtype)


def by_magnitude(value: Number) -> tuple[bool, float]:
    """The sort key of numbers: integers first, then sizes, products after their factors."""
    return (True, weight(value.expr)) if isinstance(value, Size) else (False, value)


def weight(e: Expr) -> float:
    """The size of an expression as a tree; a constant counts half."""
    return sum(0.5 if isinstance(part, IntImm) else 1.0 for part in _tree(e))


def _tree(e: Expr) -> Iterator[Expr]:
    stack = [e]
    while stack:
        at = stack.pop()
        yield at
        stack.extend(at.children())
