"""Shared memory as a warp sees it: which lanes ask which bank, and for how many different words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...core.hardware import MemoryScope, WarpMemory
from ...core.warp_access import lanes_together
from ..counting import AccessCount
from ..explanation_data import ExplanationData
from .svg import FONT, Picture

_CELL_WIDTH = 23.0
_ROW_HEIGHT = 24.0
_NARROW = 4
"""Lanes that are listed in a cell; of more, their number is."""


@dataclass(frozen=True)
class Phase:
    """The lanes that are served together; `words[bank]` has, for each different word of a bank, the lanes that ask."""

    lanes: tuple[int, ...]
    words: tuple[tuple[tuple[int, ...], ...], ...]

    @property
    def cycles(self) -> int:
        """How long they take."""
        return max(len(words) for words in self.words)


def phases(sample: Sequence[tuple[int, int]], width: int, memory: WarpMemory, warp: int) -> list[Phase]:
    """The parts of a warp's access, each by the lanes that are served at a time."""
    each = max(1, width // memory.word)
    address, banks = dict(sample), memory.banks
    first = np.array([[address.get(lane, sample[0][1]) for lane in range(warp)]])  # the addresses of `AccessCount.note`
    group = int(lanes_together(first, width, memory)[0])
    found: list[Phase] = []
    for start in range(0, warp, group):
        lanes = tuple(lane for lane, _ in sample if start <= lane < start + group)
        asked: list[dict[int, list[int]]] = [{} for _ in range(banks)]
        for lane in lanes:
            for k in range(each):
                word = address[lane] // memory.word + k
                asked[word % banks].setdefault(word, []).append(lane)
        if lanes:
            found.append(Phase(lanes, tuple(tuple(tuple(who) for who in words.values()) for words in asked)))
    return found


def bank_pictures(found: ExplanationData) -> list[Picture]:
    """One picture for each access of shared memory."""
    return [
        draw_banks(access, found.target.hardware.warp_memory, kernel.warp)
        for kernel in found.kernels
        for access in kernel.counts.accesses.values()
        if access.scope is MemoryScope.SHARED and access.sample
    ]


def draw_banks(access: AccessCount, memory: WarpMemory, warp: int) -> Picture:
    """The banks side by side; accesses that wait for another word of their bank stand below it."""
    found = phases(access.sample, access.width, memory, warp)
    cycles, least = sum(phase.cycles for phase in found), len(found)
    made = Picture()
    what = "store to" if access.stores else "load from"
    made.text(0, FONT, f"{what} {access.buffer}, {access.width} bytes per lane", 15, "title")
    verdict = "no bank conflicts" if cycles == least else f"bank conflicts: {cycles / least:.3g} times as long"
    made.text(0, FONT + 20, f"one warp: {cycles} {'cycle' if cycles == 1 else 'cycles'}, {verdict}", FONT, "faint")
    y = FONT + 44.0
    made.text(0, y, "bank", 10, "faint")
    left = 66.0
    for bank in range(memory.banks):
        made.text(left + (bank + 0.5) * _CELL_WIDTH, y, str(bank), 9, "faint", "middle")
    y += 6
    for phase in found:
        name = "all lanes" if len(found) == 1 else f"lanes {phase.lanes[0]}–{phase.lanes[-1]}"
        made.text(0, y + 16, name, 10, "faint")
        y = _draw_phase(made, phase, left, y) + (8 if len(found) > 1 else 0)
    made.text(left, y + 14, "Each cell names the lanes that ask for one word; every row is a cycle.", 10, "faint")
    return made


def _draw_phase(made: Picture, phase: Phase, left: float, top: float) -> float:
    shown = min(phase.cycles, 8)
    for row in range(shown):
        for bank, words in enumerate(phase.words):
            x, y = left + bank * _CELL_WIDTH, top + row * _ROW_HEIGHT
            if row >= len(words):
                made.rect(x, y, _CELL_WIDTH, _ROW_HEIGHT, "box", stroke=0.5)
                continue
            who = words[row]
            kind = "h0" if row == 0 else "h1"
            lanes = ", ".join(map(str, who))
            made.rect(x, y, _CELL_WIDTH, _ROW_HEIGHT, f"{kind} apart", f"bank {bank}, cycle {row}: lanes {lanes}")
            _name_lanes(made, who, x + _CELL_WIDTH / 2, y)
    bottom = top + shown * _ROW_HEIGHT
    if phase.cycles > shown:
        made.text(left, bottom + 14, f"... {phase.cycles - shown} more rows", 10, "bad")
        bottom += 18
    return bottom


def _name_lanes(made: Picture, who: Sequence[int], middle: float, top: float) -> None:
    if len(who) > _NARROW:
        made.text(middle, top + _ROW_HEIGHT / 2 + 3, f"×{len(who)}", 9, "mono", "middle")
        return
    lines = [who[k : k + 2] for k in range(0, len(who), 2)] if len(who) > 1 else [who]
    for k, part in enumerate(lines):
        y = top + _ROW_HEIGHT / 2 + 3 + (k - (len(lines) - 1) / 2) * 9
        made.text(middle, y, " ".join(map(str, part)), 8 if len(who) > 1 else 9, "mono", "middle")
