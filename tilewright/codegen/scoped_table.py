"""A table with nested scopes: entries of a scope are forgotten at its end."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class ScopedTable(Generic[K, V]):
    """Maps keys to values; a look-up takes the same time however many scopes are open.

    A key that an outer scope holds keeps its value: within one scope and those inside it, a key is entered once.
    """

    def __init__(self) -> None:
        self._values: dict[K, V] = {}
        self._entered: list[K] = []
        """The keys in the order in which they were entered: a scope's keys are the last ones at its end."""

    def get(self, key: K) -> V | None:
        """The value of a key, None if it has none."""
        return self._values.get(key)

    def __contains__(self, key: object) -> bool:
        return key in self._values

    def __setitem__(self, key: K, value: V) -> None:
        if key not in self._values:
            self._entered.append(key)
        self._values[key] = value

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Remove the entries of the block when it ends."""
        before = len(self._entered)
        yield
        for key in self._entered[before:]:
            del self._values[key]
        del self._entered[before:]

    def clear(self) -> None:
        """Forget everything."""
        self._values.clear()
        self._entered.clear()
