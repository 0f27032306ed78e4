"""Shared and local arrays of a kernel: their sizes and declarations."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from math import inf

from ..arith.interval import interval
from ..core.errors import UserError
from ..core.text import remark
from ..expr import operators as op
from ..loops.nodes import Buffer
from .kernel import product


def array_size(buffer: Buffer) -> int:
    """Elements of a shared or local array: a number, or its upper bound by the declarations of sizes."""
    size = product(buffer.shape)
    if size is None:
        most = interval(reduce(op.multiply, buffer.shape)).hi
        if most == inf:
            extents = ", ".join(str(extent) for extent in buffer.shape)
            raise UserError(
                f"{buffer.name} in {buffer.scope.value} memory has extents ({extents}), not all constants",
                fix="compute it at an inner axis of constant extent, so that its region is constant too, or declare "
                'the largest value of a size: te.size_var("n", maximum=...)',
            )
        size = int(most)
    return max(1, size)


_USUAL = 128
"""Bytes up to which the alignment of a buffer is a wish; vector accesses need 16."""


def strict_align(buffer: Buffer) -> int:
    """Alignment, in bytes, of a shared array in a pool of several arrays."""
    return buffer.align if buffer.align > _USUAL else 16


def shared_offsets(buffers: Iterable[Buffer]) -> tuple[dict[Buffer, int], int]:
    """The byte at which each shared array of a kernel begins in a pool of them, and the bytes of the pool."""
    offsets: dict[Buffer, int] = {}
    end = 0
    for buffer in buffers:
        offsets[buffer] = -(-end // strict_align(buffer)) * strict_align(buffer)
        end = offsets[buffer] + shared_bytes(buffer)
    return offsets, end


def shared_bytes(buffer: Buffer) -> int:
    """Bytes that a shared array takes, rounded up so that the next one is aligned."""
    return -(-array_size(buffer) * buffer.dtype.bytes // 16) * 16


def note_of(buffer: Buffer) -> str:
    """The comment behind the declaration of a buffer."""
    return f"  // {remark(buffer.note)}" if buffer.note else ""
