"""Stored kernels in one file, for another machine of the same kind: a compressed tar archive of a store's entries."""

from __future__ import annotations

import errno
import gzip
import tarfile
import zlib
from io import BytesIO
from pathlib import Path
from typing import IO, cast

from ...core.errors import UserError
from .store import SIZE_VARIABLE, SUFFIX, KernelStore, StoredKernel

_LARGEST = 256 << 20
"""The most bytes of one entry: a compressed archive may inflate to any size."""
_LONGEST = 128
"""The most characters of an entry's name."""
_PART = 1 << 20


def _refuse_pipes(path: Path) -> None:
    """Raise OSError for anything except a regular file: opening a pipe blocks, and reading a device may never end."""
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "it is not a regular file")


def export(held: KernelStore, target: Path) -> int:
    """Write all entries of a store into one file, which `load` reads; return the number of entries."""
    number = 0
    try:
        _refuse_pipes(target)
        with tarfile.open(target, "w:gz") as archive:
            for key, entry, stat in held.read_all():
                data = entry.packed(key)
                member = tarfile.TarInfo(f"{key}{SUFFIX}")
                member.size, member.mtime = len(data), int(stat.st_mtime)
                archive.addfile(member, BytesIO(data))
                number += 1
    except OSError as error:
        raise UserError(
            f"cannot write {target}: {error.strerror}",
            primitive="cache export",
            fix="give a file that can be written",
        ) from error
    return number


class _Bounded:
    """Reads the inflated bytes of a compressed file; raises OSError beyond a limit, because the file may inflate
    endlessly."""

    def __init__(self, source: gzip.GzipFile, limit: int) -> None:
        self._source, self._left = source, limit

    def read(self, size: int) -> bytes:
        """Return the next bytes."""
        data = self._source.read(min(size, _PART))
        self._left -= len(data)
        if self._left < 0:
            raise OSError(errno.EFBIG, f"it inflates to more than the cache may hold ({SIZE_VARIABLE})")
        return data


def load(held: KernelStore, source: Path) -> tuple[int, int]:
    """Load a file written by `export`; return the numbers of accepted and rejected entries.

    Only regular files with the name of an entry are read. Nothing is unpacked to a path in the archive. The archive may
    inflate to the limit of the store, plus headers.
    """
    taken = refused = 0
    try:
        _refuse_pipes(source)
        with (
            gzip.open(source) as inflated,
            tarfile.open(fileobj=cast(IO[bytes], _Bounded(inflated, 2 * held.limit + _PART)), mode="r|") as archive,
        ):
            for member in archive:
                key = member.name.removesuffix(SUFFIX)
                named = key.isascii() and key.isalnum() and member.name == f"{key}{SUFFIX}" and len(key) <= _LONGEST
                file = archive.extractfile(member) if member.isreg() and not member.issparse() and named else None
                fits = file is not None and member.size <= min(_LARGEST, held.limit)
                entry = StoredKernel.unpacked(key, file.read()) if file is not None and fits else None
                if entry is not None and held.put(key, entry):
                    taken += 1
                else:
                    refused += 1
    except (OSError, EOFError, zlib.error, tarfile.TarError, ValueError) as error:
        raise UserError(
            f"cannot read {source}: {error}", primitive="cache import", fix="give a file that `cache export` wrote"
        ) from error
    return taken, refused
