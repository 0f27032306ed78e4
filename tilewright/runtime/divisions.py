"""The divisions of host code, with the meaning of divisions in kernels: an integer divided by 0 gives 0."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def floordiv(a: int, b: int) -> int:
    """Return a / b, rounded down."""
    return a // b if b else 0


def floormod(a: int, b: int) -> int:
    """Return the remainder of `floordiv`, with the sign of b."""
    return a % b if b else 0


def truncdiv(a: int, b: int) -> int:
    """Return a / b, rounded towards zero."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1) if b else 0


def truncmod(a: int, b: int) -> int:
    """Return the remainder of `truncdiv`, with the sign of a."""
    return a - truncdiv(a, b) * b if b else 0


def quotient(a: float, b: float) -> float:
    """Return a / b of floating-point numbers: infinity or NaN if b is 0."""
    if b:
        return a / b
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.float64(a) / np.float64(b))


DIVISIONS: dict[str, Callable[[Any, Any], Any]] = {
    each.__name__: each for each in (floordiv, floormod, truncdiv, truncmod, quotient)
}
"""The divisions by their names in host code."""
