"""Paths of files, as callers give them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from .errors import UserError


def file_path(given: Any, primitive: str, example: str) -> Path:
    """Return `given` as a path; raise UserError if no file can have that name. `example` is one that can."""
    if not isinstance(given, (str, bytes, os.PathLike)):
        raise UserError(f"{given!r} is not a file path", primitive=primitive, fix=f'give one, such as "{example}"')
    text = os.fspath(given)
    why = "it is empty" if not text else "it holds a NUL" if "\0" in os.fsdecode(text) else _why_not_encoded(text)
    if why:
        raise UserError(
            f"{given!r} is not a file path: {why}", primitive=primitive, fix=f'give one, such as "{example}"'
        )
    path = Path(os.fsdecode(text))
    if not path.name:
        raise UserError(f"{given!r} is a folder", primitive=primitive, fix=f'name a file in it, such as "{example}"')
    return path


def _why_not_encoded(text: str | bytes) -> str:
    try:
        os.fsencode(text)
    except UnicodeEncodeError as error:
        return f"the file system cannot write it ({error.reason})"
    return ""


def package_path() -> str:
    """The PYTHONPATH of our processes that are started fresh, in any working folder."""
    return os.pathsep.join(filter(None, [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]))
