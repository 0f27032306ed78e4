"""What is said of an index that is checked when its access is made."""

from __future__ import annotations

from typing import NamedTuple

REPORT = "report_access"
"""The call that reports an index beyond the ends of a buffer: which of those that are checked, and its value."""


class CheckedIndex(NamedTuple):
    """An index that is checked when its access is made, as text: what is accessed, and the last index there is."""

    access: str
    buffer: str
    dimension: int
    last: str
