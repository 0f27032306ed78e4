"""Windows that slide over dimensions: what a window shows, and which windows show an element.

Pooling and convolutions ask the first question, their gradients and transposed convolutions the second one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...expr import operators as o
from ...expr.nodes import Expr

Places = tuple[list[Any], list[Expr]]
"""An index for each dimension, and the conditions for such an index to exist."""


@dataclass(frozen=True)
class Sliding:
    """Numbers per dimension: the distance of windows, the overhang of the first one, the distance of elements."""

    strides: Sequence[Any]
    before: Sequence[Any]
    dilation: Sequence[Any]

    def start(self, d: int, number: Any) -> Any:
        """Where the window `number` begins along dimension `d`."""
        return number * self.strides[d] - self.before[d]

    def shown(self, numbers: Sequence[Any], taps: Sequence[Any], extents: Sequence[Any]) -> Places:
        """The elements that windows show at `taps`, of a tensor of these extents."""
        starts = [self.start(d, number) for d, number in enumerate(numbers)]
        places = [at + tap * step for at, tap, step in zip(starts, taps, self.dilation, strict=True)]
        conditions: list[Expr] = []
        for place, extent in zip(places, extents, strict=True):
            conditions += [o.greater_equal(place, 0), o.less(place, extent)]
        return places, conditions

    def showing(self, places: Sequence[Any], taps: Sequence[Any], counts: Sequence[Any]) -> Places:
        """The windows, of so many, that show elements at `taps`."""
        numbers, conditions = [], []
        for d, (place, tap, count) in enumerate(zip(places, taps, counts, strict=True)):
            reached, stride = place + self.before[d] - tap * self.dilation[d], self.strides[d]
            numbers.append(reached if stride == 1 else o.floordiv(reached, stride))
            conditions += [o.equal(o.floormod(reached, stride), 0)] if stride > 1 else []
            conditions += [o.greater_equal(reached, 0), o.less(numbers[-1], count)]
        return numbers, conditions
