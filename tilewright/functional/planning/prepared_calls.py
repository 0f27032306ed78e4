"""Executors of calls, cached by shapes, types and options until a search or a measurement changes a plan."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from ...core.forking import new_reentrant_lock

MOST_CALLS = 4096
"""The most calls in a table; when there are more, all are dropped."""
_tables: list[PreparedCalls] = []


class PreparedCalls(dict[Any, Any]):
    """A table of calls. `version` counts the changes of plans."""

    def __init__(self) -> None:
        super().__init__()
        self.version = 0
        self._lock = new_reentrant_lock()
        _tables.append(self)

    def made(self, key: Any, prepare: Callable[[], Any]) -> Any:
        """Return the call of a key. A new call is prepared, and kept unless plans change meanwhile or the key has no
        hash."""
        try:
            found = self.get(key)
        except TypeError:
            found = None
        if found is not None:
            return found
        version = self.version
        call = prepare()
        with suppress(TypeError):  # an option is a list: the call works, but is not kept
            self.keep(key, call, version)
        return call

    def keep(self, key: Any, call: Any, version: int) -> None:
        """Keep a call unless plans have changed since `version`, which the caller read before preparing the call."""
        with self._lock:
            if version == self.version:
                if len(self) >= MOST_CALLS:
                    self.clear()
                self[key] = call

    def drop(self) -> None:
        """Drop all calls, including calls in preparation."""
        with self._lock:
            self.version += 1
            self.clear()


def drop_all() -> None:
    """Make every call look up its plan again, because plans have changed."""
    for table in _tables:
        table.drop()
