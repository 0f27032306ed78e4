"""Runs of benchmarks, stored in benchmarks/data, and their tables in Markdown."""

from __future__ import annotations

import datetime
import json
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tilewright.report.table import width

DATA = Path(__file__).parent / "data"
MISSING = "–"
Row = Mapping[str, Any]


class Run(NamedTuple):
    """A run of a benchmark: how it was made, and its rows."""

    made: Row
    rows: list[Row]


def read(name: str) -> Run:
    """Return the run that benchmarks/data/`name`.jsonl holds."""
    first, *rows = map(json.loads, (DATA / f"{name}.jsonl").read_text(encoding="utf-8").splitlines())
    return Run(first["run"], rows)


def write(name: str, made: Row, rows: Sequence[Row]) -> None:
    """Store a run; it replaces the one that the file held."""
    keys = ("command", "commit", "device", "driver", "date")
    lines = [{"run": {key: made.get(key) for key in keys}}, *rows]
    text = "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines)
    (DATA / f"{name}.jsonl").write_text(text, encoding="utf-8")


def number(value: Any) -> str:
    """Return a number with three digits at least, thousands separated; a dash if it is missing."""
    if value is None:
        return MISSING
    if isinstance(value, str):
        return value
    if isinstance(value, int) or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1e}" if abs(value) < 1e-3 and value else f"{value:.2f}"


def ratio(above: str, below: str) -> Callable[[Row], str]:
    """Return a cell that divides two numbers of a row."""
    return lambda row: number(row[above] / row[below]) if row.get(above) and row.get(below) else MISSING


def lines_of(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a table of Markdown with aligned columns: words to the left, figures to the right."""
    widths = [max(map(width, column)) for column in zip(heads, *rows, strict=True)]
    rules = [f":{'-' * (widths[0] + 1)}", *(f"{'-' * (size + 1)}:" for size in widths[1:])]
    body = (
        f"| {cells[0]}{' ' * (widths[0] - width(cells[0]))} | "
        + " | ".join(" " * (size - width(cell)) + cell for size, cell in zip(widths[1:], cells[1:], strict=True))
        + " |"
        for cells in (heads, *rows)
    )
    first, *others = body
    return [first, f"|{'|'.join(rules)}|", *others]


def run_of(command: str, device: str) -> dict[str, Any]:
    """Return the description of a run that begins now."""
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    date = datetime.date.today().isoformat()
    return {"command": command, "commit": commit.stdout.strip(), "device": device, "driver": None, "date": date}
