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
from .vectorized import Number

HOPELESS = 8
"""The ratio of a thread's arrays to its registers from which most arrays stay in device memory."""


class Limit(enum.Enum):
    """Limited resources."""

    THREADS = "threads of a block"
    EXTENT = "extent of a hardware index"
    SHARED = "bytes of shared memory of a block"
    LOCAL = "words of local arrays of a thread"


@dataclass(frozen=True)
class ResourceNeed:
    """The need of a kernel for a limited resource, and the hardware's limit. `tag` is the index of an extent."""

    limit: Limit
    needed: Number
    allowed: int
    tag: ThreadTag | None = None


def exceeded(
    hardware: Hardware, extents: Mapping[ThreadTag, int], shared_bytes: int, local_words: int = 0
) -> Iterator[ResourceNeed]:
    """The limits that a kernel breaks, by the known extents of its hardware indices and its memory."""
    every = resource_needs(hardware, extents, shared_bytes, local_words)
    return (need for need in every if need.needed > need.allowed)


def resource_needs(
    hardware: Hardware, extents: Mapping[ThreadTag, Number], shared_bytes: Number, local_words: Number = 0
) -> Iterator[ResourceNeed]:
    """The needs of a kernel beside the limits of the hardware, or of many kernels if the arguments are arrays."""
    threads = prod(extent for tag, extent in extents.items() if tag.is_thread)
    yield ResourceNeed(Limit.THREADS, threads, hardware.block.threads)
    for tag, extent in extents.items():
        level = hardware.grid if tag.is_block else hardware.block
        yield ResourceNeed(Limit.EXTENT, extent, level.extents[tag.dimension], tag)
    yield ResourceNeed(Limit.SHARED, shared_bytes, hardware.memory(MemoryScope.SHARED).most)
    yield ResourceNeed(Limit.LOCAL, local_words, HOPELESS * hardware.registers_per_thread)
