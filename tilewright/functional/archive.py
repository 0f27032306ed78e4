"""Kept kernels in one file, for another machine of the same kind: a compressed tar archive of a store's entries."""

from __future__ import annotations

import tarfile
from io import BytesIO
from pathlib import Path

from ..core.errors import UserError
from .store import SUFFIX, Entry, Store


def export(held: Store, target: Path) -> int:
    """Write all entries of a store into one file that `load` takes; returns how many."""
    number = 0
    try:
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
    """Take in what `export` wrote; returns how many entries were taken and how many were not right."""
    taken = refused = 0
    try:
        with tarfile.open(source, "r:*") as archive:
            for member in archive:
                key = member.name.removesuffix(SUFFIX)
                file = archive.extractfile(member) if member.isfile() and key.isalnum() else None
                entry = Entry.unpacked(file.read()) if file is not None else None
                if entry is not None and held.put(key, entry):
                    taken += 1
                else:
                    refused += 1
    except (OSError, tarfile.TarError) as error:
        raise UserError(
            f"cannot read {source}: {error}", primitive="cache import", fix="give a file that `cache export` wrote"
        ) from error
    return taken, refused
