"""Kernels and decisions on disk, for later processes.

One file per call: a check sum, a description in JSON, and the machine code. A file is written under another name and
then renamed, so readers see a whole one or none, however many processes write. The check sum covers the key: a damaged
file counts as absent, and so does a file under the name of another one. If the disk is full or read-only, calls
continue without the store, and one warning says so.

Calls run the code of entries. So files are readable by their owner only, and files that other users may have written
are ignored, with one warning: `core.cache_folder.distrust`.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from ...core.cache_folder import DIRECTORY_VARIABLE as DIRECTORY_VARIABLE
from ...core.cache_folder import cache_folder, distrust, private_folder, remedy
from ...core.errors import UserError, warn_caller
from ...core.files import replaced
from ...core.system import WITHOUT_WAITING

SIZE_VARIABLE = "TILEWRIGHT_CACHE_BYTES"
USUAL_BYTES = 256 << 20
SUFFIX = ".kernel"
_MAGIC = b"TWK2"
_HEAD = len(_MAGIC) + 32
_STALE_SECONDS = 3600.0


class StoredKernel(NamedTuple):
    """The contents of one file: a description, and machine code, which may be empty."""

    description: dict[str, Any]
    binary: bytes

    def packed(self, key: str) -> bytes:
        """Return the bytes of the file of that key."""
        text = json.dumps(self.description, sort_keys=True).encode()
        body = len(text).to_bytes(8, "little") + text + self.binary
        return _MAGIC + _check_sum(key, body) + body

    @classmethod
    def unpacked(cls, key: str, data: bytes) -> StoredKernel | None:
        """Return the entry in a file's bytes; None if they are damaged, or belong to another key."""
        body = data[_HEAD:]
        if data[: len(_MAGIC)] != _MAGIC or data[len(_MAGIC) : _HEAD] != _check_sum(key, body):
            return None
        size = int.from_bytes(body[:8], "little")
        try:
            description = json.loads(body[8 : 8 + size])
        except (ValueError, RecursionError):
            return None
        return cls(description, body[8 + size :]) if isinstance(description, dict) else None


def _check_sum(key: str, body: bytes) -> bytes:
    """Return the digest of an entry and of its key: the code of another key computes something else."""
    found = hashlib.sha256(os.fsencode(key) + b"\0")
    found.update(body)
    return found.digest()


class KernelStore:
    """A folder of entries, bounded in size: the least recently used entries are removed first.

    A store within the folder of another one, its `parent`, shares its warnings: each is printed once.
    """

    def __init__(
        self, folder: str | os.PathLike[str] | None, limit: int = USUAL_BYTES, parent: KernelStore | None = None
    ) -> None:
        self.folder = None if folder is None else os.fspath(folder)
        self.limit = limit
        self._parent = parent
        self._complaints: set[str] = set() if parent is None else parent._complaints

    def path(self, key: str) -> str | None:
        """Return the path of a key's entry; None if the store is off."""
        return None if self.folder is None else os.path.join(self.folder, f"{key}{SUFFIX}")

    def get(self, key: str) -> StoredKernel | None:
        """Return the entry of a key; None if there is none."""
        path = self.path(key)
        if path is None or not self._is_trusted():
            return None
        found = self._read(key, path)
        if found is not None:
            with suppress(OSError):  # reading from a read-only folder works
                os.utime(path)
        return found

    def put(self, key: str, entry: StoredKernel) -> bool:
        """Store an entry, replacing an earlier one; return whether that succeeded."""
        path = self.path(key)
        data = entry.packed(key)
        if path is None or len(data) > self.limit or not self._is_trusted():
            return False
        try:
            private_folder(os.path.dirname(path))
            replaced(path, data, 0o600)
        except OSError as error:
            self._complain(error)
            return False
        self._shrink()
        return True

    def _is_trusted(self) -> bool:
        """Return whether no other user can have put files into the folder; warn once otherwise."""
        if self.folder is None or (self._parent is not None and not self._parent._is_trusted()):
            return False
        try:
            found = os.stat(self.folder)
        except OSError:  # the folder is missing or unreadable: the code below notices
            return True
        why = distrust(found)
        if why:
            self._warn(
                "distrust",
                f"tilewright ignores the kernels in {self.folder}, which {why}: kept kernels are code. "
                f"Each process compiles its own; {remedy(self.folder, found)}",
            )
        return not why

    def _read(self, key: str, path: str) -> StoredKernel | None:
        """Return the entry in a file; None if it is missing, damaged or of another key, or if another user may have
        written it."""
        try:
            with open(os.open(path, os.O_RDONLY | WITHOUT_WAITING), "rb") as file:
                why = distrust(found := os.fstat(file.fileno()))
                if not why:
                    return StoredKernel.unpacked(key, file.read()) if stat.S_ISREG(found.st_mode) else None
        except OSError:
            return None
        self._warn(
            "distrust",
            f"tilewright ignores {path}, which {why}: kept kernels are code. "
            f"The kernel is compiled anew; {remedy(os.path.dirname(path), found)}",
        )
        return None

    def _complain(self, error: OSError) -> None:
        self._warn(
            "write",
            f"tilewright keeps no kernels in {self.folder}: {error.strerror or error}. Each process compiles its "
            f"own; set {DIRECTORY_VARIABLE} to a folder that can be written, or to 0 to keep none",
        )

    def _warn(self, about: str, message: str) -> None:
        if about not in self._complaints:
            self._complaints.add(about)
            warn_caller(message, RuntimeWarning)

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
        size = sum(status.st_size for _, status in held)
        for path, status in held:
            if size <= self.limit:
                break
            with suppress(OSError):
                os.unlink(path)
            size -= status.st_size

    def read_all(self) -> Iterator[tuple[str, StoredKernel, os.stat_result]]:
        """Yield the entries that `get` would return: key, entry, and status of the file."""
        for path, status in self.entries() if self._is_trusted() else ():
            key = os.path.basename(path).removesuffix(SUFFIX)
            found = self._read(key, path)
            if found is not None:
                yield key, found, status

    def clear(self) -> int:
        """Remove all entries, and drafts of killed processes; return the number of entries."""
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


def default_folder() -> str | None:
    """Return the folder named by the environment, or the default folder; None if the store is off."""
    return cache_folder()


def default_limit() -> int:
    """Return the environment's limit in bytes; raise UserError if its value is not a number."""
    text = os.environ.get(SIZE_VARIABLE, "")
    if not text:
        return USUAL_BYTES
    if not text.isdecimal():
        raise UserError(f"{SIZE_VARIABLE}={text!r} is not a number of bytes", fix=f"give one, such as {USUAL_BYTES}")
    return int(text)


_stores: dict[tuple[str | None, int], KernelStore] = {}


def store() -> KernelStore:
    """Return the store that the environment currently selects; one object per folder, so that it warns once."""
    key = (default_folder(), default_limit())
    return _stores.setdefault(key, KernelStore(*key))
