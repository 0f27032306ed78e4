"""Iterators as digits of other iterators, under the legacy API's names: marks, splits of marks, sums of splits.

i in range(32), j in range(8): i // 4 * 8 + j is the sum of the split (i // 4) % 8, scaled by 8, and of j
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Any

from ..core.errors import UserError
from ..core.refusals import not_made
from ..expr.nodes import Expr
from ..expr.operators import add, as_expr, const, floordiv, floormod, multiply
from .sizes import Number, number, written


class IterMapLevel(enum.IntEnum):
    """The required kind of an iterator map: one to one and onto, onto, or anything that digits express."""

    Bijective = 0
    Surjective = 1
    NoCheck = 3


@dataclass(frozen=True)
class IterMark:
    """An iterator that begins at 0: a variable, or a sum of splits that takes each value below its extent.

    Parameters
    ----------
    source
        An expression of one variable, or an `IterSumExpr`.
    extent
        How many values it has.
    """

    source: Expr | IterSumExpr
    extent: Expr

    def __post_init__(self) -> None:
        object.__setattr__(self, "extent", as_expr(self.extent))


@dataclass(frozen=True)
class IterSplitExpr:
    """`source // lower_factor % extent * scale`: some digits of a mark."""

    source: IterMark
    lower_factor: Expr
    extent: Expr
    scale: Expr

    def __post_init__(self) -> None:
        for name in ("lower_factor", "extent", "scale"):
            object.__setattr__(self, name, as_expr(getattr(self, name)))


@dataclass(frozen=True)
class IterSumExpr:
    """The sum of some splits, the one with the largest scale first, and of a `base`."""

    args: tuple[IterSplitExpr, ...]
    base: Expr

    def __post_init__(self) -> None:
        if not isinstance(self.args, (list, tuple)) or not all(isinstance(arg, IterSplitExpr) for arg in self.args):
            raise not_made("IterSumExpr", "give a list of IterSplitExpr, and a base")
        object.__setattr__(self, "args", tuple(self.args))
        object.__setattr__(self, "base", as_expr(self.base))


@dataclass(frozen=True)
class IterMapResult:
    """The result of `detect_iter_map`: a sum for each index, or nothing and the reasons.

    It is also the list of its `indices`, as older releases returned it.
    """

    indices: list[IterSumExpr]
    errors: list[str]
    padding_predicate: Expr

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, place: int) -> IterSumExpr:
        return self.indices[place]

    def __iter__(self) -> Iterator[IterSumExpr]:
        return iter(self.indices)


IterMapExpr = IterSplitExpr | IterSumExpr


def checked_list(name: str, given: Any, primitive: str) -> list[Any]:
    """A list that a user gives."""
    if not isinstance(given, (list, tuple, IterMapResult)):
        raise UserError(f"{name}={given!r} is not a list", primitive=primitive, fix=f"give {name}=[...]")
    return list(given)


def checked_level(given: Any) -> IterMapLevel:
    """The required kind of an iterator map, by name or by number."""
    if isinstance(given, int) and given in list(IterMapLevel):
        return IterMapLevel(given)
    raise UserError(
        f"check_level={given!r} is not a level",
        primitive="detect_iter_map",
        fix="give arith.IterMapLevel.Surjective, .Bijective or .NoCheck",
    )


def split_of(source: IterMark, lower_factor: Number, extent: Number, scale: Number) -> IterSplitExpr:
    """A split of numbers of the mark's type."""
    dtype = source.extent.dtype
    return IterSplitExpr(source, *(written(value, dtype) for value in (lower_factor, extent, scale)))


def whole(source: IterMark, scale: Number = 1) -> IterSplitExpr:
    """All digits of a mark."""
    return split_of(source, 1, number(source.extent), scale)


def normalize_iter_map_to_expr(expr: IterMapExpr | Expr) -> Expr:
    """Return an iterator map as an expression of its variables.

    Parameters
    ----------
    expr
        A sum or a split that `detect_iter_map` or `normalize_to_iter_sum` has made; expressions stay as they are.
    """
    if isinstance(expr, IterSumExpr):
        parts = [normalize_iter_map_to_expr(arg) for arg in expr.args]
        return reduce(add, [*parts, expr.base]) if parts else expr.base
    if not isinstance(expr, IterSplitExpr):
        return expr
    mark = expr.source
    value = normalize_iter_map_to_expr(mark.source)
    if number(expr.extent) == 1 and number(mark.extent) != 1:
        return const(0, value.dtype)
    if number(expr.lower_factor) != 1:
        value = floordiv(value, expr.lower_factor)
    if number(expr.lower_factor) * number(expr.extent) != number(mark.extent):
        value = floormod(value, expr.extent)
    return multiply(value, expr.scale)
