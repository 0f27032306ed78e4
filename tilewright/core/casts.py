"""Parameters in another type: descriptions of the programs that convert one or two tensors at once."""

from __future__ import annotations

from typing import Any, NamedTuple


class Casts(NamedTuple):
    """A program that converts one or two rows of numbers, of any lengths, into one row.

    The second row begins at a place that the caller names, behind the first.
    """

    given: str
    made: str
    rows: int

    def description(self) -> dict[str, Any]:
        """The fields as JSON has them, and the name of the program."""
        return {"casts": self.rows, **self._asdict()}
