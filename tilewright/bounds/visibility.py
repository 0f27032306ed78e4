"""Who sees what: memory scope against hardware thread, as one table.

Rank of a scope: global 0, shared 1, local 2. Rank of a thread index: blockIdx 0, threadIdx 1 (a vthread counts
as one). All values of a thread index with rank >= that of the scope write and read the same copy, so what is
stored must cover them all; below that, each has its own copy.
"""

from __future__ import annotations

from ..core.hardware import MemoryScope, ThreadTag

_SCOPE_RANK = {MemoryScope.GLOBAL: 0, MemoryScope.SHARED: 1, MemoryScope.LOCAL: 2}


def shares(scope: MemoryScope, tag: ThreadTag) -> bool:
    """Whether all values of the thread index use one copy of a buffer in `scope`."""
    return _SCOPE_RANK[scope] <= (0 if tag.is_block else 1)


def default_scope(tags: tuple[ThreadTag, ...]) -> MemoryScope:
    """The nearest memory for a stage computed inside loops bound to `tags`, where the user gave none."""
    if any(not tag.is_block for tag in tags):
        return MemoryScope.LOCAL
    return MemoryScope.SHARED if tags else MemoryScope.GLOBAL
