"""Tables of text: columns of one width each, the same on a terminal and in a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from unicodedata import combining, east_asian_width

from ..core.text import one_line


@dataclass(frozen=True)
class Column:
    """The head of a column, and whether its cells are aligned to the right (numbers) or to the left (words)."""

    title: str
    right: bool = True


def width(text: str) -> int:
    """How many character cells a text takes."""
    return sum(0 if combining(c) else 2 if east_asian_width(c) in "WF" else 1 for c in text)


def table(columns: Sequence[Column], rows: Sequence[Sequence[str]], least: int = 0) -> list[str]:
    """The lines of a table: heads, a rule, the rows; `least` cells wide, the first column of words stretched.

    An empty row becomes a rule. Every other row has one cell for each column.
    """
    rows = [[one_line(cell) for cell in row] for row in rows]
    widths = [max(width(column.title), *(width(row[i]) for row in rows if row), 0) for i, column in enumerate(columns)]
    missing = least - (sum(widths) + 2 * (len(widths) - 1))
    if missing > 0:
        widths[max((i for i, column in enumerate(columns) if not column.right), default=0)] += missing

    def line(cells: Sequence[str]) -> str:
        padded = (
            " " * (w - width(cell)) + cell if column.right else cell + " " * (w - width(cell))
            for cell, column, w in zip(cells, columns, widths, strict=True)
        )
        return "  ".join(padded).rstrip()

    rule = "  ".join("─" * w for w in widths)
    return [line([c.title for c in columns]), rule, *(line(row) if row else rule for row in rows)]
