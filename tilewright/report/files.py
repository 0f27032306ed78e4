"""Files that are complete or absent: each is written to a temporary path, and moved when complete."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from ..core.errors import UserError

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
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}", fix=_ELSEWHERE, where="") from error
    try:
        with os.fdopen(handle, "wb") as file:
            fill(file)
        os.chmod(name, 0o666 & ~_umask())  # mkstemp's files are for their owner alone
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
    return path


def write_text(path: Path, text: str) -> Path:
    """Make a file of a text."""
    return write(path, lambda file: file.write(text.encode()))


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
