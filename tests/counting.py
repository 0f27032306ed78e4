"""How much Python something costs, as a count that no other process changes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def function_calls(work: Callable[[], object]) -> int:
    """Return how many functions `work` calls, those written in C included."""
    count = 0

    def note(frame: FrameType, event: str, arg: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count - 2  # `work` itself, and the last `setprofile`
