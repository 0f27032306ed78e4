"""The effect of each pass on a program, as text: its time, and the lines that it changed."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from ..loops.nodes import Function
from ..loops.printer import show_function
from .runner import PassRecord

LINES = 40


def explain(before: Function, records: Sequence[PassRecord], lines: int = LINES) -> str:
    """For each pass that changed something a heading and the changed lines, at most `lines`; then the times of all."""
    parts: list[str] = []
    text = show_function(before).splitlines()
    for record in records:
        if record.result is None:
            continue
        changed = show_function(record.result).splitlines()
        head = f"── {record.name}  {record.seconds * 1e3:.2f} ms"
        diff = _difference(text, changed)
        if not diff:
            head += "  (shows in no line)"
        hidden = len(diff) - lines
        parts += ["", head, *diff[:lines], *([f"… {hidden} more changed lines"] if hidden > 0 else [])]
        text = changed
    idle = [record.name for record in records if record.result is None]
    total = sum(record.seconds for record in records)
    parts += ["", f"{len(records)} passes, {total * 1e3:.2f} ms"]
    parts += [f"no change by {', '.join(idle)}"] if idle else []
    return "\n".join(parts[1:])


def _difference(before: list[str], after: list[str]) -> list[str]:
    """The changed lines, each stretch under the line above it that stays."""
    found = difflib.unified_diff(before, after, lineterm="", n=1)
    return [line for line in found if not line.startswith(("---", "+++", "@@"))]
