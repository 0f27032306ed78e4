"""Reports of indices that are checked when their access is made, and of assertions."""

from __future__ import annotations

from typing import NamedTuple

REPORT = "report_access"
"""The call that reports an index out of bounds, or a failed assertion. Its arguments are the number of the check and
the value of the index."""


class CheckedIndex(NamedTuple):
    """An index that is checked at its access: the text of the access, the buffer, and the buffer's last index."""

    access: str
    buffer: str
    dimension: int
    last: str


class Assertion(NamedTuple):
    """An assertion of a script: its message, and the line of the text."""

    message: str
    where: str
