"""The limits of the hardware, computed in one place: which of them a kernel breaks.

The tuner asks before anything is built (`tune/analysis/refuse.py`), the compiler before anything is compiled
(`codegen/limits.py`); both word the answer for their readers.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod

from .hardware import Hardware, MemoryScope, ThreadTag

HOPELESS = 8
"""A thread whose arrays take this many times the registers that it can have keeps most of them in device memory."""


class Limit(enum.Enum):
    """Limited resources."""

    THREADS = "threads of a block"
    EXTENT = "extent of a hardware index"
    SHARED = "bytes of shared memory of a block"
    LOCAL = "words of local arrays of a thread"


@dataclass(frozen=True)
class Exceeded:
    """A limit that a kernel breaks: the need, and the hardware's limit. `tag` is the index of an extent."""

    limit: Limit
    needed: int
    allowed: int
    tag: ThreadTag | None = None


def exceeded(
    hardware: Hardware, extents: Mapping[ThreadTag, int], shared_bytes: int, local_words: int = 0
) -> Iterator[Exceeded]:
    """The limits that a kernel breaks, by the known extents of its hardware indices and its memory."""
    threads = prod(extent for tag, extent in extents.items() if tag.is_thread)
    if threads > hardware.block.threads:
        yield Exceeded(Limit.THREADS, threads, hardware.block.threads)
    for tag, extent in extents.items():
        level = hardware.grid if tag.is_block else hardware.block
        if extent > level.extents[tag.dimension]:
            yield Exceeded(Limit.EXTENT, extent, level.extents[tag.dimension], tag)
    shared = hardware.memory(MemoryScope.SHARED)
    if shared_bytes > shared.most:
        yield Exceeded(Limit.SHARED, shared_bytes, shared.most)
    words = HOPELESS * hardware.registers_per_thread
    if local_words > words:
        yield Exceeded(Limit.LOCAL, local_words, words)
