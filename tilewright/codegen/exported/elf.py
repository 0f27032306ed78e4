"""Sections of 64-bit ELF files, in which `load_module` finds a module in an object file or a shared library."""

from __future__ import annotations

import struct
from mmap import mmap

SECTION = ".tilewright"
"""The section that holds a module's archive."""
MAGIC = b"\x7fELF"
_NOBITS = 8


def section(content: bytes | mmap, name: str) -> bytes | None:
    """The content of the section of that name; None if there is none; raises ValueError if the file is damaged."""
    if content[:4] != MAGIC or content[4] != 2 or content[5] != 1:
        raise ValueError("it is not an ELF file of 64 bits, little-endian")
    try:
        (table,) = struct.unpack_from("<Q", content, 0x28)
        size, count, names_at = struct.unpack_from("<HHH", content, 0x3A)
        headers = [struct.unpack_from("<IIQQQQ", content, table + i * size) for i in range(count)]
        names = headers[names_at]
    except (struct.error, IndexError) as error:
        raise ValueError(f"its section table is damaged: {error}") from error
    wanted = name.encode() + b"\0"
    for name_at, kind, _, _, offset, length in headers:
        if content[names[4] + name_at : names[4] + name_at + len(wanted)] == wanted and kind != _NOBITS:
            if offset + length > len(content):
                raise ValueError(f"its section {name} is cut off")
            return content[offset : offset + length]
    return None
