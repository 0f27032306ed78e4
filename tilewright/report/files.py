"""Folders and files of reports: a file is whole or absent, as `core/files.py` writes it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO

from ..core.errors import UserError
from ..core.files import replacing

_ELSEWHERE = "give a place that can be written, such as a folder below your own"


def folder(path: Path) -> Path:
    """The folder, created if missing; raises UserError if that fails."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise UserError(f"cannot write to {path}: it is a file, not a folder", fix="give a folder", where="") from None
    except OSError as error:
        raise UserError(f"cannot write to {path}: {error.strerror}", fix=_ELSEWHERE, where="") from error
    return path


def write(path: Path, fill: Callable[[BinaryIO], Any]) -> Path:
    """Create a file with the output of `fill`; an interruption leaves the previous file, or nothing."""
    with ExitStack() as opened:
        try:
            file = opened.enter_context(replacing(path))
        except OSError as error:
            raise UserError(f"cannot write {path}: {error.strerror}", fix=_ELSEWHERE, where="") from error
        fill(file)
    return path


def write_text(path: Path, text: str) -> Path:
    """Make a file of a text."""
    return write(path, lambda file: file.write(text.encode()))
