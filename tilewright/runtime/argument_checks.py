"""What callers give for the values, extents and strides of arrays, checked."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ..core.errors import UserError

Shape = tuple[int, ...]


def whole_numbers(given: Any, what: str, primitive: str) -> Shape:
    """Extents or strides as ints; a float such as 8.0, from a division, is one."""
    if not isinstance(given, Iterable) or isinstance(given, str):
        raise UserError(
            f"{what}={given!r} is no tuple of whole numbers", primitive=primitive, fix="give whole numbers: (16, 32)"
        )
    values = []
    for each in given:
        known = getattr(each, "value", each)  # the constant extents of a tensor's shape
        if isinstance(known, (float, np.floating)) and float(known).is_integer():
            known = int(known)
        if isinstance(known, bool) or not isinstance(known, (int, np.integer)):
            raise UserError(
                f"{each!r} in {what}={given!r} is no whole number",
                primitive=primitive,
                fix="give whole numbers: (16, 32); an array has a size, a variable such as n has none",
            )
        values.append(int(known))
    return tuple(values)


def host_values(data: Any, primitive: str) -> np.ndarray:
    """Numbers as a NumPy array; UserError for what holds none."""
    try:
        values = np.asarray(data)
    except UserError:
        raise
    except (ValueError, RuntimeError, TypeError) as error:
        raise UserError(
            f"the values are no array: {error}", primitive=primitive, fix="give rows of one length, or a NumPy array"
        ) from error
    if values.dtype.kind in "OSUMm":
        raise UserError(
            f"the values are of type {values.dtype}, which are no numbers: {_short(data)}",
            primitive=primitive,
            fix="give numbers, or a NumPy array of numbers",
        )
    return values


def _short(data: Any) -> str:
    text = repr(data)
    return text if len(text) <= 60 else text[:57] + "..."
