"""Tags of operations: kinds of computations, by which schedules decide on inlining."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.refusals import old_name as _old_name

ELEMWISE = "elemwise"
BROADCAST = "broadcast"
INJECTIVE = "injective"
COMM_REDUCE = "comm_reduce"
COMM_REDUCE_IDX = "comm_reduce_idx"


def is_broadcast(tag: str) -> bool:
    """Return whether a tag names element-wise or broadcasting operations."""
    return tag in (ELEMWISE, BROADCAST) or tag.startswith((ELEMWISE, BROADCAST))


def is_injective(tag: str) -> bool:
    """Return whether a tag names operations with elements that read one element per input."""
    return is_broadcast(tag) or tag.startswith(INJECTIVE)


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        return _old_name(__name__, name, globals())
