"""At the end of a run of these tests stands how many different mistakes they made."""

from __future__ import annotations

from typing import Any

from tests.errors.refused import SEEN


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """In one process: those of pytest-xdist do not tell each other."""
    if SEEN:
        count = len({primitive for primitive, _ in SEEN})
        terminalreporter.write_line(f"{len(SEEN)} different mistakes of users were refused, by {count} functions")
