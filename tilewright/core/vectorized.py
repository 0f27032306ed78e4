"""Arithmetic on one number or on an array of numbers, so that one formula serves one configuration and thousands.

The elements of an array result equal the results of single numbers bit by bit, so that both rank alike.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

Number = Any
"""An int, a float or a bool; or an array of them."""


def least(*values: Number) -> Number:
    """Return the smallest of some numbers."""
    return reduce(lambda a, b: np.minimum(a, b) if is_array(a, b) else min(a, b), values)


def most(*values: Number) -> Number:
    """Return the largest of some numbers."""
    return reduce(lambda a, b: np.maximum(a, b) if is_array(a, b) else max(a, b), values)


def either(condition: Number, a: Number, b: Number) -> Number:
    """Return `a` if a condition holds, else `b`."""
    if is_array(condition):
        return np.where(condition, a, b)
    return a if condition else b


def ceiling(a: Number, b: Number) -> Number:
    """Return the quotient of whole numbers, rounded up."""
    return -(-a // b)


def upwards(value: Number) -> Number:
    """Return a number rounded up."""
    return np.ceil(value) if is_array(value) else -(-value // 1)


def of_each(function: Callable[..., Any], *values: Number) -> Number:
    """Apply a function of some numbers, once for each different combination of them."""
    if not is_array(*values):
        return function(*values)
    codes: Any = 0
    for value in values:
        different, where = np.unique(value, return_inverse=True)
        codes = codes * len(different) + where.reshape(np.shape(value))
    _, first, where = np.unique(codes, return_index=True, return_inverse=True)
    listed = [np.broadcast_to(value, codes.shape).reshape(-1)[first].tolist() for value in values]
    return np.array([function(*each) for each in zip(*listed, strict=True)])[where.reshape(codes.shape)]


def is_array(*values: Number) -> bool:
    """Return whether any of some numbers is an array."""
    return any(isinstance(value, np.ndarray) for value in values)
