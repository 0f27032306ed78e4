"""Files that are whole or absent: written beside their place and moved there when complete."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from typing import BinaryIO

_NUMBERS = count()
"""Numbers of drafts: two threads of a process never write the same draft."""


@contextmanager
def replacing(path: str | os.PathLike[str], mode: int = 0o666) -> Iterator[BinaryIO]:
    """Open a draft of a file, which replaces the file at the end; after an error, the earlier file stays.

    Parameters
    ----------
    path : str or path
        The file, in a folder that exists.
    mode : int
        The permissions of the file, from which the process's mask of permissions is removed.

    Raises
    ------
    OSError
        If the draft cannot be created, written or moved. It is removed then.
    """
    handle, draft = _draft(os.fspath(path), mode)
    try:
        with open(handle, "wb") as file:
            yield file
        os.replace(draft, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(draft)
        raise


def replaced(path: str | os.PathLike[str], data: bytes, mode: int = 0o666) -> None:
    """Write a file whole or not at all; see `replacing`."""
    with replacing(path, mode) as file:
        file.write(data)


def _draft(path: str, mode: int) -> tuple[int, str]:
    """A new file beside `path`: its handle and its name."""
    folder, name = os.path.split(path)
    while True:
        draft = os.path.join(folder, f".{name}.{os.getpid()}.{next(_NUMBERS)}")
        # A process of the same number may have left its draft, or be at work on another host.
        with suppress(FileExistsError):
            return os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), draft
