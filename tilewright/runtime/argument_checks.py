"""Checks of the values, extents and strides that callers give for arrays."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.errors import UserError
from ..core.own_code import calling

if TYPE_CHECKING:
    from ..core.dtype import DType

Shape = tuple[int, ...]


def whole_numbers(given: Any, what: str, primitive: str) -> Shape:
    """Extents or strides as ints; a whole float such as 8.0, from a division, is accepted."""
    if not isinstance(given, Iterable) or isinstance(given, str) or getattr(given, "ndim", 1) == 0:
        raise UserError(
            f"{what}={given!r} is not a tuple of whole numbers", primitive=primitive, fix="give whole numbers: (16, 32)"
        )
    values = []
    for each in given:
        known = getattr(each, "value", each)  # the constant extents of a tensor's shape
        if isinstance(known, (float, np.floating)) and float(known).is_integer():
            known = int(known)
        if isinstance(known, bool) or not isinstance(known, (int, np.integer)):
            raise UserError(
                f"{each!r} in {what}={given!r} is not a whole number",
                primitive=primitive,
                fix="give whole numbers: (16, 32); an array has a size, a variable such as n has none",
            )
        values.append(int(known))
    return tuple(values)


def flag(given: Any, argument: str, primitive: str, optional: bool = True) -> bool:
    """Return `given`, which must be True or False, or 1 or 0, as a bool; None is False if it is optional."""
    known = isinstance(given, (int, np.bool_)) and given in (0, 1)
    if not known and not (given is None and optional):
        raise UserError(
            f"argument {argument!r} is {given!r}, which is neither True nor False",
            primitive=primitive,
            fix="give True or False",
        )
    return bool(given)


def is_masked(data: Any) -> bool:
    """Whether `data` is one of NumPy's masked arrays: their values, taken alone, lose the mask."""
    masks = sys.modules.get("numpy.ma")  # importing it takes longer than many programs; without it, no array is masked
    return masks is not None and isinstance(data, masks.MaskedArray)


def host_values(data: Any, primitive: str) -> np.ndarray:
    """Numbers as a NumPy array; raises UserError for other objects."""
    if is_masked(data):
        raise UserError(
            "the values are a masked array, but arrays on devices have no masks",
            primitive=primitive,
            fix="give the masked places a value: x.filled(0)",
        )
    try:
        with calling("the values' own __array__"):
            values = np.asarray(data)
    except UserError:
        raise
    except (ValueError, RuntimeError, TypeError) as error:
        raise UserError(
            f"the values are not an array: {error}",
            primitive=primitive,
            fix="give rows of one length, or a NumPy array",
        ) from error
    if values.dtype.kind == "c":
        raise UserError(
            f"the values are complex numbers ({values.dtype}): {_short(data)}",
            primitive=primitive,
            fix="give the real and the imaginary parts as two arrays: x.real, x.imag",
        )
    if values.dtype.kind in "OSUMm":
        raise UserError(
            f"the values are of type {values.dtype}, which are not numbers: {_short(data)}",
            primitive=primitive,
            fix="give numbers, or a NumPy array of numbers",
        )
    return values


def converted(values: np.ndarray, dtype: DType, primitive: str) -> np.ndarray:
    """Convert values to a contiguous array of a type; raises UserError if an integer type cannot hold them."""
    kind = dtype.numpy
    if dtype.is_int and values.size and not np.can_cast(values.dtype, kind, "safe"):
        numbers = values.astype(np.float32) if values.dtype.kind == "V" else values  # bfloat16
        low, high = numbers.min().item(), numbers.max().item()
        if not (dtype.min_value - 1 < low and high < dtype.max_value + 1):  # a NaN is in no range
            found = low if not dtype.min_value - 1 < low else high
            raise UserError(
                f"the value {found} does not fit into {dtype}, which holds {dtype.min_value} to {dtype.max_value}",
                primitive=primitive,
                fix="give values in that range (x.clip(...)), or an array of a wider type",
            )
    return np.ascontiguousarray(values, dtype=kind)


def _short(data: Any) -> str:
    text = repr(data)
    return text if len(text) <= 60 else text[:57] + "..."
