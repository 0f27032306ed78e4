"""Talking to the person at the terminal: lines, headings and errors."""

from __future__ import annotations

import os
import shutil
import sys
from typing import Any

import typer

from ..core.errors import UserError
from ..core.log import is_terminal
from ..core.text import one_line, printable
from ..report.table import width


class Styled(str):
    """A line that is safe to print unchanged: its escapes are for the terminal."""


def complain(error: UserError) -> None:
    """Print an error and its fix to stderr, without the line that raised it, which is the package's own."""
    head = _styled("error:", fg="red", bold=True)
    message = f"{error.primitive}: {error.message}" if error.primitive else error.message
    typer.echo(f"{head} {message}", err=True)
    if error.fix:
        typer.echo(f"  fix: {error.fix}", err=True)


def print_lines(lines: list[str]) -> None:
    """Lines on stdout, with control characters escaped; nothing for an empty list."""
    if lines:
        typer.echo("\n".join(line if isinstance(line, Styled) else printable(line) for line in lines))


def heading(text: str) -> str:
    """A line that stands out on a terminal."""
    return Styled(_styled(one_line(text), bold=True))


def _styled(text: str, **how: Any) -> str:
    """Return the text with escape sequences if the output is a terminal that supports them, else without."""
    return text if os.environ.get("TERM") == "dumb" else typer.style(text, **how)


def fitted(line: str) -> str:
    """The line cut to the width of the terminal; the whole line if stdout is no terminal."""
    line = one_line(line)
    if not is_terminal(sys.stdout):
        return line
    columns = shutil.get_terminal_size().columns
    return line if width(line) <= columns else line[: max(columns - 1, 1)] + "…"
