"""Temporary folders, under the legacy API's names."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from types import TracebackType

from ..core.errors import UserError


class TempDirectory:
    """A folder that goes when this object does, or at the end of its `with` block, or by `remove`."""

    def __init__(self, custom_path: str | os.PathLike[str] | None = None, keep_for_debug: bool = False) -> None:
        if custom_path is None:
            self.temp_dir = tempfile.mkdtemp(prefix="tilewright-")
        else:
            self.temp_dir = os.fspath(custom_path)
            os.makedirs(self.temp_dir, exist_ok=True)
        self._kept = keep_for_debug

    def remove(self) -> None:
        """Delete the folder and what is in it."""
        if not self._kept:
            shutil.rmtree(self.temp_dir, ignore_errors=True)

    @property
    def path(self) -> Path:
        """The folder."""
        return Path(self.temp_dir)

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    def relpath(self, name: str) -> str:
        """The path of a file of that name in the folder."""
        if not isinstance(name, str):
            raise UserError(f"{name!r} is not a name", primitive="relpath", fix='give some text: "lib.so"')
        return os.path.join(self.temp_dir, name)

    def listdir(self) -> list[str]:
        """The names of what is in the folder."""
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
        Where to make it; without it the system decides.
    keep_for_debug
        Whether it stays.
    """
    return TempDirectory(custom_path, keep_for_debug)


_SOURCES = (".c", ".cc", ".cpp", ".cu", ".cl", ".ll")


def is_source_path(path: str | os.PathLike[str]) -> bool:
    """Return whether a path is that of source code, by its ending: C, C++, CUDA, OpenCL, or LLVM's."""
    if not isinstance(path, (str, os.PathLike)):
        raise UserError(f"{path!r} is not a path", primitive="is_source_path", fix='give some text: "lib.cc"')
    return os.fspath(path).endswith(_SOURCES)


def which(exec_name: str) -> str | None:
    """Return the path of a command, or None where there is no such command."""
    if not isinstance(exec_name, str):
        raise UserError(f"{exec_name!r} is not a name", primitive="which", fix='give some text: "cc"')
    return shutil.which(exec_name)
