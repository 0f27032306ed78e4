"""Tables that `tilewright doctor --calibrate` measured on this computer, kept as JSON in the cache folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .cache_folder import DIRECTORY_VARIABLE, cache_folder, private_folder
from .errors import UserError
from .files import replaced


def path_of(name: str) -> Path | None:
    """Return the path of a table; None if the cache is off."""
    folder = cache_folder()
    return None if folder is None else Path(folder, name)


def read(name: str) -> dict[str, Any]:
    """Return a table; an empty one if nothing was measured, or the file is damaged."""
    path = path_of(name)
    try:
        found = json.loads(path.read_text(encoding="utf-8")) if path is not None else {}
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def keep(name: str, entries: dict[str, Any]) -> Path | None:
    """Add entries to a table, and return its path; None if the cache is off."""
    path = path_of(name)
    if path is None:
        return None
    try:
        private_folder(str(path.parent))
        replaced(path, json.dumps({**read(name), **entries}, indent=2).encode())
    except OSError as error:
        raise UserError(
            f"cannot write {path}: {error.strerror}",
            primitive="calibrate",
            fix=f"set {DIRECTORY_VARIABLE} to a folder that can be written",
        ) from error
    return path
