"""The commands of `tilewright cache`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .commands import Command, CommandGroup

app = typer.Typer(
    name="cache", cls=CommandGroup, help="Manage kernels and decisions kept on disk.", no_args_is_help=True
)
FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="The file.", show_default=False)]


@app.command("show", cls=Command)
def show_command() -> None:
    """List the entries, the most recently used first."""
    from .cache import show

    raise typer.Exit(show())


@app.command("clear", cls=Command)
def clear_command() -> None:
    """Remove all entries."""
    from .cache import clear

    raise typer.Exit(clear())


@app.command("export", cls=Command)
def export_command(path: FileArgument) -> None:
    """Write all entries into one file, for another machine of the same kind."""
    from .cache import export

    raise typer.Exit(export(path))


@app.command("import", cls=Command)
def import_command(
    path: FileArgument,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Trust the file: ask nothing.")] = False,
) -> None:
    """Import a file that `cache export` wrote. It holds code, which later calls run: it asks first."""
    from .cache import load

    raise typer.Exit(load(path, yes))
