"""Smaller cases that fail as a given one does: lines are left out, then numbers are made smaller."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.fuzz.cases import Case
from tests.fuzz.engines import Verdict

SECONDS = 60.0


def shrunk(
    case: Case, verdict: Verdict, judged: Callable[[Case], Verdict], seconds: float = SECONDS
) -> tuple[Case, Verdict]:
    """A smaller case with the same fault, and the verdict on it."""
    until = time.monotonic() + seconds
    changed = True
    while changed:
        changed = False
        for smaller in candidates(case):
            if time.monotonic() > until:
                return case, verdict
            if (found := judged(smaller)).like(verdict):
                case, verdict, changed = smaller, found, True
                break
    return case, verdict


def candidates(case: Case) -> Iterator[Case]:
    """Simpler cases than `case`: many lines fewer at first, then single lines, then smaller numbers."""
    count = len(case.lines)
    length = count // 2
    while length:
        for first in range(count - length, -1, -max(1, length // 2)):
            yield case.without(range(first, first + length))
        length //= 2
    if len(case.sizes) > 1:
        for pair in case.sizes:
            yield replace(case, sizes=(pair,))
    for i, line in enumerate(case.lines):
        if "comm_reducer" in line:  # with other numbers it would be none
            continue
        for number in re.finditer(r"(?<![\w.])\d+(?![\w.])", line):
            value = int(number[0])
            for less in sorted({1, value // 2, value - 1} & set(range(1, value))):
                changed = line[: number.start()] + str(less) + line[number.end() :]
                yield replace(case, lines=(*case.lines[:i], changed, *case.lines[i + 1 :]))
