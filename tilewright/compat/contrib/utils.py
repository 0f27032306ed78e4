"""Temporary folders, under the legacy API's names."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from types import TracebackType

from ...core.errors import UserError
from ...core.paths import file_path


class TempDirectory:
    """A folder that goes when this object does, or at the end of its `with` block, or by `remove`.

    An existing one stays, with its contents; and a forked process deletes nothing of its parent's.
    """

    def __init__(self, custom_path: str | os.PathLike[str] | None = None, keep_for_debug: bool = False) -> None:
        self._owner: int | None = None  # the process that deletes the folder; None until the folder exists
        if custom_path is None:
            self.temp_dir = tempfile.mkdtemp(prefix="tilewright-")
            made = True
        else:
            self.temp_dir, made = _made(custom_path)
        if made and not keep_for_debug:
            self._owner = os.getpid()

    def remove(self) -> None:
        """Delete the folder and its contents."""
        if self._owner == os.getpid():
            shutil.rmtree(self.temp_dir, ignore_errors=True)

    @property
    def path(self) -> Path:
        """The folder."""
        return Path(self.temp_dir)

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    def relpath(self, name: str) -> str:
        """The path of the file `name` in the folder."""
        if not isinstance(name, str):
            raise UserError(f"{name!r} is not a name", primitive="relpath", fix='give some text: "lib.so"')
        return os.path.join(self.temp_dir, name)

    def listdir(self) -> list[str]:
        """The names of the folder's contents."""
        return os.listdir(self.temp_dir)

    def __enter__(self) -> TempDirectory:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.remove()

    def __del__(self) -> None:
        self.remove()


def tempdir(custom_path: str | os.PathLike[str] | None = None, keep_for_debug: bool = False) -> TempDirectory:
    """Make a temporary folder.

    Parameters
    ----------
    custom_path
        Its path; without it the system decides. A folder that is there is used, and stays.
    keep_for_debug
        Whether it stays.

    Raises
    ------
    UserError
        If `custom_path` cannot be made.
    """
    return TempDirectory(custom_path, keep_for_debug)


def _made(given: str | os.PathLike[str]) -> tuple[str, bool]:
    """The path of a folder, and whether this call created it."""
    place = file_path(given, "tempdir", "build")
    there = place.is_dir()
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"the folder {place} cannot be made: {error.strerror}",
            primitive="tempdir",
            fix="give a place that can be written, or none",
        ) from None
    return os.fspath(given), not there


_SOURCES = (".c", ".cc", ".cpp", ".cu", ".cl", ".ll")


def is_source_path(path: str | os.PathLike[str]) -> bool:
    """Return whether a path names source code, by its ending: C, C++, CUDA, OpenCL, or LLVM IR."""
    if not isinstance(path, (str, os.PathLike)):
        raise UserError(f"{path!r} is not a path", primitive="is_source_path", fix='give some text: "lib.cc"')
    return os.fspath(path).endswith(_SOURCES)


def which(exec_name: str) -> str | None:
    """Return the path of a command, or None if there is no such command."""
    if not isinstance(exec_name, str):
        raise UserError(f"{exec_name!r} is not a name", primitive="which", fix='give some text: "cc"')
    return shutil.which(exec_name)
