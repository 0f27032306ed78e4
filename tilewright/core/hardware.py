"""What the hardware offers, as types: memory scopes, hardware threads, and how a loop may run."""

from __future__ import annotations

import enum


class MemoryScope(enum.Enum):
    """Where a buffer lives, and so who sees it: the whole device, one block, or one thread."""

    GLOBAL = "global"
    SHARED = "shared"
    LOCAL = "local"

    @classmethod
    def parse(cls, name: str) -> MemoryScope | None:
        """The scope of that name, or None where there is no such scope."""
        return _SCOPES.get(name)


_SCOPES = {scope.value: scope for scope in MemoryScope}


class LoopKind(enum.Enum):
    """How a loop runs its iterations."""

    SERIAL = "serial"
    PARALLEL = "parallel"
    VECTORIZED = "vectorized"
    UNROLLED = "unrolled"
    THREAD = "thread"


class ThreadTag(enum.Enum):
    """A hardware thread index. `VTHREAD` is a loop that is expanded inside each real thread."""

    BLOCK_X = "blockIdx.x"
    BLOCK_Y = "blockIdx.y"
    BLOCK_Z = "blockIdx.z"
    THREAD_X = "threadIdx.x"
    THREAD_Y = "threadIdx.y"
    THREAD_Z = "threadIdx.z"
    VTHREAD = "vthread"

    @classmethod
    def parse(cls, name: str) -> ThreadTag | None:
        """The tag of that name (`cthread` is the legacy name of `vthread`), or None."""
        return _TAGS.get(name)

    @property
    def is_block(self) -> bool:
        """Whether the tag indexes blocks of the grid."""
        return self in _BLOCKS

    @property
    def is_thread(self) -> bool:
        """Whether the tag indexes threads within a block."""
        return self in _THREADS

    @property
    def dimension(self) -> int:
        """0, 1, 2 for x, y, z."""
        return "xyz".index(self.value[-1])


_TAGS = {
    **{tag.value: tag for tag in ThreadTag},
    "cthread": ThreadTag.VTHREAD,
    "virtual_thread": ThreadTag.VTHREAD,
}
_BLOCKS = frozenset({ThreadTag.BLOCK_X, ThreadTag.BLOCK_Y, ThreadTag.BLOCK_Z})
_THREADS = frozenset({ThreadTag.THREAD_X, ThreadTag.THREAD_Y, ThreadTag.THREAD_Z})
