"""`tilewright cache`: show, clear, export and import the kernels on disk."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from ..core.errors import UserError
from ..functional.arguments.problem import Problem
from ..functional.planning.decision import Decision, Side
from ..functional.programs import archive
from ..functional.programs.host_objects import host_store
from ..functional.programs.store import DIRECTORY_VARIABLE, StoredKernel, store
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
        used = time.strftime("%Y-%m-%d %H:%M", time.localtime(stat.st_mtime))
        rows.append([used, f"{stat.st_size:,}", *_described(entry)])
    print_lines([f"{held.folder}: {_entries(len(rows))}, {size:,} of at most {held.limit:,} bytes"])
    if rows:
        heads = [Column("last used", right=False), Column("bytes"), Column("device", right=False)]
        heads += [Column("runs", right=False), Column("problem", right=False)]
        print_lines(["", *table(heads, rows[::-1])])
    return 0


def _described(entry: StoredKernel) -> tuple[str, str, str]:
    """Return the device, the kernel and the problem of an entry; an imported entry may hold any text."""
    try:
        if "shown" in entry.description:  # a program of all sizes
            return entry.description["device"].split(" ")[0], "tilewright", str(entry.description["shown"])
        choice = Decision.read(entry.description["choice"])
        what = choice.template if choice.side == Side.OURS else entry.description["rival"]
        return entry.description["device"].split(" ")[0], str(what), str(Problem.read(entry.description["problem"]))
    except (KeyError, TypeError, ValueError, AttributeError, UserError):
        return "?", "?", "not an entry that Tilewright wrote"


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


def load(path: Path, agreed: bool) -> int:
    """Take in a file that `export` wrote, if the user agrees; return 1 if entries are damaged or could not be kept."""
    if not (agreed or _agrees(path)):
        print_lines(["nothing is taken in"])
        return 1
    taken, refused = archive.load(store(), path)
    print_lines([f"{_entries(taken)} taken in from {path}" + (f", {refused} refused" if refused else "")])
    return 1 if refused else 0


def _agrees(path: Path) -> bool:
    """Ask whether the code in a file may run; raise UserError if nobody can answer."""
    print_lines(
        [
            f"{path} holds machine code and Python code. Later calls run them with all rights of your account, "
            "unchecked.",
            "Import only files from people who may run any program here.",
        ]
    )
    if not sys.stdin.isatty():
        raise UserError(
            f"{path} holds code, and nobody can be asked whether it may run",
            primitive="cache import",
            fix="give --yes if you trust whoever made the file",
        )
    try:
        return input("Import it? [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False


def _entries(count: int) -> str:
    return f"{count} entr{'y' if count == 1 else 'ies'}"
