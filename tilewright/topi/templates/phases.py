"""The phases of a transposed convolution: results at distances of a multiple of the step take the same taps.

A phase takes every `step`-th tap of the window, and its neighbours read neighbours of the input. If the loops over a
tile of whole steps are written out, each tap is a constant.
"""

from __future__ import annotations

from typing import Any

from ...expr.operators import floordiv, floormod
from .transposed import Transposed


def has_phases(of: Transposed) -> bool:
    """Whether the results of a phase take the same taps: the window is not dilated, or there is one phase."""
    return all(apart == 1 or step == 1 for apart, step in zip(of.dilation, of.stride, strict=True))


def taps_of(of: Transposed) -> tuple[int, int]:
    """How many taps of the window a result takes, along each dimension."""
    down, across = (-(-taps // step) for taps, step in zip(of.kernel, of.stride, strict=True))
    return down, across


def tap_and_place(of: Transposed, dim: int, at: Any, r: Any) -> tuple[Any, Any]:
    """Return, for a result and its `r`-th tap, the tap of the window, and the place in the bordered input."""
    step, moved = of.stride[dim], at + of.padding[dim]
    before = border_of(of, dim, of.places[dim])[0]
    return floormod(moved, step) + r * step, floordiv(moved, step) - r * of.dilation[dim] + before


def border_of(of: Transposed, dim: int, count: int) -> tuple[int, int]:
    """How many zeros stand before and behind the input, so that `count` results see them."""
    step, first, size = of.stride[dim], of.padding[dim], of.shape[2 + dim]
    reach = (taps_of(of)[dim] - 1) * of.dilation[dim]
    return max(0, reach - first // step), max(0, (first + count - 1) // step - (size - 1))
