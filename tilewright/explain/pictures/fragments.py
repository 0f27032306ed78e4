"""The fragments of a matrix instruction: which lane holds which element of A, B and the sums, and in which register."""

from __future__ import annotations

from collections.abc import Callable

from ...core.atoms import Atom
from .svg import FONT, HUES, Picture

Place = Callable[[int, int], tuple[int, int]]
"""The lane and the register of an element, by its row and column."""


def fragments(atom: Atom) -> dict[str, tuple[int, int, Place]]:
    """For A, B and D: rows, columns, and the holder of each element (`core/atoms.py` has the rule).

    For D alone if the hardware itself reads both operands from shared memory.
    """
    per, halves = atom.per_word, atom.halves

    def a(row: int, column: int) -> tuple[int, int]:
        word = column // per
        register = row // 8 % halves + halves * (word // 4)
        return row % 8 * 4 + word % 4, register * per + column % per

    def b(row: int, column: int) -> tuple[int, int]:
        word = row // per
        return column * 4 + word % 4, word // 4 * per + row % per

    def d(row: int, column: int) -> tuple[int, int]:
        return row % 8 * 4 + column // 2, row // 8 * 2 + column % 2

    operands = {} if atom.by_warpgroup else {"A": (atom.m, atom.k, a), "B": (atom.k, atom.n, b)}
    return {**operands, "D": (atom.m, atom.n, d)}


def draw_fragments(atom: Atom, stage: str) -> Picture:
    """The three matrices as a product is written: B above the sums, A beside them; or the sums alone."""
    found = fragments(atom)
    made = Picture()
    made.text(0, FONT, f"{stage}: fragments of {atom.instruction}", 15, "title")
    made.text(
        0, FONT + 20, "each cell: lane.element; lanes of one color share a row of A and of the sums", FONT, "faint"
    )
    cell = 30.0
    top, d = FONT + 40.0, _matrix("D", *found["D"], cell)
    if len(found) == 1:
        made.add(d, 0, top)
        return made
    a, b = (_matrix(name, *found[name], cell) for name in ("A", "B"))
    made.add(b, a.width + 24, top)
    made.add(a, 0, top + b.height + 16)
    made.add(d, a.width + 24, top + b.height + 16)
    return made


def _matrix(name: str, rows: int, columns: int, place: Place, cell: float) -> Picture:
    made = Picture()
    what = {"A": "A, m × k", "B": "B, k × n", "D": "sums, m × n"}[name]
    made.text(0, FONT, f"{what}: {rows} × {columns}", FONT)
    high = 18.0
    for row in range(rows):
        for column in range(columns):
            lane, register = place(row, column)
            x, y = column * cell, 20 + row * high
            kind = "strong" if lane == 0 else f"h{lane // 4 % HUES}"
            made.rect(x, y, cell, high, f"{kind} apart", f"{name}[{row}, {column}]: lane {lane}, element {register}")
            made.text(x + cell / 2, y + 13, f"{lane}.{register}", 9, "inverse mono" if lane == 0 else "mono", "middle")
    return made
