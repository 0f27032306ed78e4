"""Kernels and decisions on disk, so that the next process starts where this one ended.

One file per call: a check sum, a description in JSON, and the machine code. A file is written under another name and
then renamed, so readers see a whole one or none, however many processes write. A damaged file counts as absent. If the
disk is full or read-only, calls continue without the store, and one warning says so.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
import warnings
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from ..core.cache_folder import DIRECTORY_VARIABLE as DIRECTORY_VARIABLE
from ..core.cache_folder import cache_folder
from ..core.errors import UserError

SIZE_VARIABLE = "TILEWRIGHT_CACHE_BYTES"
USUAL_BYTES = 256 << 20
SUFFIX = ".kernel"
_MAGIC = b"TWK1"
_HEAD = len(_MAGIC) + 32
_STALE_SECONDS = 3600.0


class Entry(NamedTuple):
    """What one file holds: a description, and machine code that may be empty."""

    description: dict[str, Any]
    binary: bytes

    def packed(self) -> bytes:
        """The bytes of the file."""
        text = json.dumps(self.description, sort_keys=True).encode()
        body = len(text).to_bytes(8, "little") + text + self.binary
        return _MAGIC + hashlib.sha256(body).digest() + body

    @classmethod
    def unpacked(cls, data: bytes) -> Entry | None:
        """The entry in such bytes; None where they are damaged or something else."""
        body = data[_HEAD:]
        if data[: len(_MAGIC)] != _MAGIC or data[len(_MAGIC) : _HEAD] != hashlib.sha256(body).digest():
            return None
        size = int.from_bytes(body[:8], "little")
        return cls(json.loads(body[8 : 8 + size]), body[8 + size :])


class Store:
    """A folder of entries, bounded in size: the least recently used ones are removed first."""

    def __init__(self, folder: str | os.PathLike[str] | None, limit: int = USUAL_BYTES) -> None:
        self.folder = None if folder is None else os.fspath(folder)
        self.limit = limit
        self._complained = False

    def path(self, key: str) -> str | None:
        """Return the path of the entry of that key; None if nothing is kept."""
        return None if self.folder is None else os.path.join(self.folder, f"{key}{SUFFIX}")

    def get(self, key: str) -> Entry | None:
        """The entry of that key, or None."""
        path = self.path(key)
        if path is None:
            return None
        try:
            found = Entry.unpacked(_bytes_of(path))
        except OSError:
            return None
        if found is not None:
            with suppress(OSError):  # a read-only folder serves all the same
                os.utime(path)
        return found

    def put(self, key: str, entry: Entry) -> bool:
        """Keep an entry, replacing an earlier one; returns whether that worked."""
        path = self.path(key)
        if path is None:
            return False
        data = entry.packed()
        if len(data) > self.limit:
            return False
        folder, name = os.path.split(path)
        draft = os.path.join(folder, f".{name}.{os.getpid()}.{time.monotonic_ns()}")
        try:
            os.makedirs(folder, exist_ok=True)
            with open(draft, "wb") as file:
                file.write(data)
            os.replace(draft, path)
        except OSError as error:
            with suppress(OSError):
                os.unlink(draft)
            self._complain(error)
            return False
        self._shrink()
        return True

    def _complain(self, error: OSError) -> None:
        if not self._complained:
            self._complained = True
            warnings.warn(
                f"tilewright keeps no kernels in {self.folder}: {error.strerror or error}. Each process compiles its "
                f"own; set {DIRECTORY_VARIABLE} to a folder that can be written, or to 0 to keep none",
                RuntimeWarning,
                stacklevel=2,
            )

    def entries(self) -> list[tuple[str, os.stat_result]]:
        """Return all files, the least recently used first."""
        found = []
        with suppress(OSError):
            for one in os.scandir(self.folder) if self.folder is not None else ():
                if one.name.endswith(SUFFIX):
                    with suppress(OSError):  # another process may have removed it
                        found.append((one.path, one.stat()))
        return sorted(found, key=lambda pair: pair[1].st_mtime_ns)

    def _shrink(self) -> None:
        held = self.entries()
        size = sum(stat.st_size for _, stat in held)
        for path, stat in held:
            if size <= self.limit:
                break
            with suppress(OSError):
                os.unlink(path)
            size -= stat.st_size

    def read_all(self) -> Iterator[tuple[str, Entry, os.stat_result]]:
        """Every entry that is whole: key, entry, status of its file."""
        for path, stat in self.entries():
            with suppress(OSError):
                found = Entry.unpacked(_bytes_of(path))
                if found is not None:
                    yield os.path.basename(path).removesuffix(SUFFIX), found, stat

    def clear(self) -> int:
        """Remove all entries, and drafts that a killed process left; returns how many entries there were."""
        held = self.entries()
        for path, _ in held:
            with suppress(OSError):
                os.unlink(path)
        with suppress(OSError):
            for one in os.scandir(self.folder) if self.folder is not None else ():
                if (
                    one.name.startswith(".")
                    and SUFFIX in one.name
                    and time.time() - one.stat().st_mtime > _STALE_SECONDS
                ):
                    os.unlink(one.path)
        return len(held)


def _bytes_of(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def usual_folder() -> str | None:
    """Return the folder that the environment names, or the usual one; None if nothing is to be kept."""
    return cache_folder()


def usual_limit() -> int:
    """How many bytes the environment allows; UserError where that is not a number."""
    text = os.environ.get(SIZE_VARIABLE, "")
    if not text:
        return USUAL_BYTES
    if not text.isdecimal():
        raise UserError(f"{SIZE_VARIABLE}={text!r} is not a number of bytes", fix=f"give one, such as {USUAL_BYTES}")
    return int(text)


_stores: dict[tuple[str | None, int], Store] = {}


def store() -> Store:
    """Return the store that the environment currently selects; one object per folder, so that it warns once."""
    key = (usual_folder(), usual_limit())
    return _stores.setdefault(key, Store(*key))
