"""`tilewright cache`: what is kept on disk, and what to do with it."""

from __future__ import annotations

import time
from pathlib import Path

from ..functional import archive
from ..functional.host_objects import host_store
from ..functional.problem import Problem
from ..functional.store import DIRECTORY_VARIABLE, store
from ..report.table import Column, table
from .console import print_lines


def show() -> int:
    """Print the folder, its size, and a line for each entry, the latest used first."""
    held = store()
    if held.folder is None:
        print_lines([f"nothing is kept: {DIRECTORY_VARIABLE} is set to keep nothing"])
        return 0
    rows, size = [], 0
    for _, entry, stat in held.read_all():
        size += stat.st_size
        choice = entry.description["choice"]
        what = choice["template"] if choice["how"] == "tilewright" else entry.description["rival"]
        used = time.strftime("%Y-%m-%d %H:%M", time.localtime(stat.st_mtime))
        device = entry.description["device"].split(" ")[0]
        problem = str(Problem.read(entry.description["problem"]))
        rows.append([used, f"{stat.st_size:,}", device, what, problem])
    print_lines([f"{held.folder}: {_entries(len(rows))}, {size:,} of at most {held.limit:,} bytes"])
    if rows:
        heads = [Column("last used", right=False), Column("bytes"), Column("device", right=False)]
        heads += [Column("runs", right=False), Column("problem", right=False)]
        print_lines(["", *table(heads, rows[::-1])])
    return 0


def clear() -> int:
    """Remove all entries."""
    held = store()
    host_store().clear()
    print_lines([f"{_entries(held.clear())} removed from {held.folder}" if held.folder else "nothing is kept"])
    return 0


def export(path: Path) -> int:
    """Write everything that is kept into one file."""
    print_lines([f"{_entries(archive.export(store(), path))} written to {path}"])
    return 0


def load(path: Path) -> int:
    """Take in a file that `export` wrote; 1 where some of its entries are damaged or could not be kept."""
    taken, refused = archive.load(store(), path)
    print_lines([f"{_entries(taken)} taken in from {path}" + (f", {refused} refused" if refused else "")])
    return 1 if refused else 0


def _entries(count: int) -> str:
    return f"{count} entr{'y' if count == 1 else 'ies'}"
