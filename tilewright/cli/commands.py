"""The kinds of commands that the command line is made of, and their exit statuses."""

from __future__ import annotations

import re
from typing import Any

from typer.core import TyperCommand, TyperGroup

FINE, FAILED, INTERRUPTED = 0, 1, 130
"""Exit statuses: all is well; a candidate failed, or the best is wrong; Ctrl-C."""


class _HelpWithoutType:
    """Without this, the line of --help says that it takes a <bool>."""

    def get_help_option(self, ctx: Any) -> Any:
        """The option --help, which takes nothing."""
        option = super().get_help_option(ctx)  # type: ignore[misc]  # the other base is click's command
        if option is not None:
            option.metavar = ""
        return option


class Command(_HelpWithoutType, TyperCommand):
    """A command."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The words after the command: LOG..., which newer versions of Typer write {LOG...}..."""
        return [re.sub(r"\{(.+?)(?:\.\.\.)?\}", r"\1", piece) for piece in super().collect_usage_pieces(ctx)]


class CommandGroup(_HelpWithoutType, TyperGroup):
    """A command with subcommands."""
