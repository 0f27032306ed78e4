"""Marks of tests in the legacy API's own suite that have no effect here."""

from __future__ import annotations

from typing import Any


def skip_if_wheel_test(*functions: Any) -> Any:
    """Return the test unchanged: nothing is left out of the wheel."""
    return functions[0] if functions else []


def skip_if_32bit(reason: str = "") -> Any:
    """Return a decorator that returns the test unchanged: processors have 64 bits here."""
    return lambda *given: given[0] if given else []
