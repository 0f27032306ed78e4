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


def of_each(function: Callable[[Any], Any], value: Number) -> Number:
    """Apply a function of one number, once for each different number."""
    if not is_array(value):
        return function(value)
    different, where = np.unique(value, return_inverse=True)
    return np.array([function(one) for one in different.tolist()])[where.reshape(value.shape)]


def is_array(*values: Number) -> bool:
    """Return whether any of some numbers is an array."""
    return any(isinstance(value, np.ndarray) for value in values)
