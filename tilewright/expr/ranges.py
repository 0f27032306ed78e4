"""Ranges of integers, as the legacy API has them."""

from __future__ import annotations

from typing import Any

from .nodes import Expr
from .operators import as_expr, const, subtract


class Range:
    """The integers min, min + 1, ..., min + extent - 1."""

    __slots__ = ("extent", "min")

    def __init__(self, begin: Any, end: Any = None) -> None:
        """`Range(extent)` starts at 0, `Range(begin, end)` excludes `end`, as the legacy API has it."""
        self.min: Expr = const(0, "int32") if end is None else as_expr(begin)
        self.extent: Expr = as_expr(begin) if end is None else subtract(end, begin)

    @classmethod
    def from_min_extent(cls, min_value: Any, extent: Any, span: Any = None) -> Range:
        """Return the range of `extent` values that starts at `min_value`; `span` is accepted for old scripts."""
        made = cls(extent)
        made.min = as_expr(min_value)
        return made

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Range) and self.min is other.min and self.extent is other.extent

    def __hash__(self) -> int:
        return hash((self.min, self.extent))

    def __repr__(self) -> str:
        return f"Range(min={self.min}, extent={self.extent})"
