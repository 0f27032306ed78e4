"""The values of modules' attributes: a graph of a model is valid until one of them changes."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from functools import partial
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import torch

_MOST_OBJECTS = 4096
"""The most collections and objects to compare in each call."""
_MOST_BYTES = 1 << 20
"""The most bytes of a NumPy array to compare in each call."""
_OPAQUE = (torch.Tensor, type, FunctionType, BuiltinFunctionType, ModuleType, logging.Logger, str, int, float)
"""Types of values that are compared as a whole, not by their parts. A graph reads the present elements of tensors."""


class TooManyValues(Exception):  # noqa: N818  # a reason, which the report tells
    """Raised if there are too many values to compare in each call."""


class HeldValues:
    """Collections and attributes, with a copy of their initial values."""

    def __init__(self, held: Sequence[Any]) -> None:
        self._empty = [values for values in held if not values]
        self._full = [values for values in held if values]
        self._before = [copy(values) for values in self._full]

    def are_unchanged(self) -> bool:
        """Return whether all hold the same values. The comparison of a user's values may raise any exception."""
        return not any(self._empty) and self._full == self._before


class _Contents:
    """A view of the contents of an object that is no collection. `copy.copy` takes a snapshot of them."""

    def __init__(self, read: Callable[[], Any]) -> None:
        self._read = read

    def __copy__(self) -> Any:
        return self._read()

    def __eq__(self, before: object) -> bool:
        return bool(self._read() == before)

    __hash__ = None  # type: ignore[assignment]


def reachable(values: Iterable[Any], known: Iterable[Any]) -> list[Any]:
    """Return the collections, and the attributes of objects, that are reachable from values.

    Their contents may change although the values stay the same objects. Objects in `known` are left out. Raises
    TooManyValues.
    """
    found: list[Any] = []
    stack, seen = list(values), {id(each): each for each in known}
    while stack:
        value = stack.pop()
        if value is None or isinstance(value, _OPAQUE) or id(value) in seen:
            continue
        seen[id(value)] = value  # a live object keeps its `id`
        inside, comparable = _parts(value)
        found += [] if comparable is None else [comparable]
        stack += inside
        if len(seen) > _MOST_OBJECTS:
            raise TooManyValues(f"its attributes hold more than {_MOST_OBJECTS} objects")
    return found


def _parts(value: Any) -> tuple[Iterable[Any], Any]:
    """Return the values inside a value, and the object to compare; None if the object cannot change."""
    if isinstance(value, (tuple, frozenset)):
        return value, None
    if isinstance(value, dict):
        return value.values(), value
    if isinstance(value, (list, set, deque)):
        return value, value
    if isinstance(value, MethodType):
        return (value.__self__,), None
    if isinstance(value, (np.ndarray, bytearray)):
        return (), _Contents(_bytes_of(value))
    own = getattr(value, "__dict__", None)
    inside: list[Any] = [own] if isinstance(own, dict) else []
    slots = [name for kind in type(value).__mro__ for name in _slots(kind)]
    if not slots:
        return inside, None
    read = partial(_values_of, value, slots)
    return [*inside, *read()], _Contents(read)


def _values_of(value: Any, slots: Sequence[str]) -> list[Any]:
    return [getattr(value, name, None) for name in slots]


def _slots(kind: type) -> tuple[str, ...]:
    names = vars(kind).get("__slots__", ())
    names = (names,) if isinstance(names, str) else names
    return tuple(name for name in names if name not in ("__dict__", "__weakref__"))


def _bytes_of(value: Any) -> Callable[[], bytes]:
    if memoryview(value).nbytes > _MOST_BYTES:
        raise TooManyValues("an attribute is a large array of NumPy")
    return lambda: bytes(memoryview(value))
