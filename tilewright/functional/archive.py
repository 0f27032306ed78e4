"""Kept kernels in one file, for another machine of the same kind: a compressed tar archive of a store's entries."""

from __future__ import annotations

import errno
import tarfile
import zlib
from io import BytesIO
from pathlib import Path

from ..core.errors import UserError
from .store import SUFFIX, Entry, Store

_LARGEST = 256 << 20
"""Bytes of one entry: a compressed archive may inflate to any size."""


def _refuse_pipes(path: Path) -> None:
    """OSError for what is not a file on a disk: opening a pipe waits for its other end, and a device may never end."""
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "it is not a regular file")


def export(held: Store, target: Path) -> int:
    """Write all entries of a store into one file that `load` takes; returns how many."""
    number = 0
    try:
        _refuse_pipes(target)
        with tarfile.open(target, "w:gz") as archive:
            for key, entry, stat in held.read_all():
                data = entry.packed()
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


def load(held: Store, source: Path) -> tuple[int, int]:
    """Load what `export` wrote; returns how many entries were accepted and how many were rejected."""
    taken = refused = 0
    try:
        _refuse_pipes(source)
        with tarfile.open(source, "r:*") as archive:
            for member in archive:
                key = member.name.removesuffix(SUFFIX)
                file = archive.extractfile(member) if member.isfile() and key.isalnum() else None
                fits = file is not None and member.size <= _LARGEST
                entry = Entry.unpacked(file.read()) if file is not None and fits else None
                if entry is not None and held.put(key, entry):
                    taken += 1
                else:
                    refused += 1
    except (OSError, EOFError, zlib.error, tarfile.TarError) as error:
        raise UserError(
            f"cannot read {source}: {error}", primitive="cache import", fix="give a file that `cache export` wrote"
        ) from error
    return taken, refused
