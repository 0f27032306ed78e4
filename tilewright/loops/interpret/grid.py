"""The threads of a kernel, and their indices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...core.hardware import HARDWARE_TAGS, MemoryScope, ThreadTag
from ...expr import nodes as n
from ...expr.numerics import Value
from ...expr.traverse import post_order
from ..nodes import Allocate, Buffer, For, Stmt, Store
from ..thread_extents import is_kernel
from .memory import BufferStorage
from .races import BLOCK, THREAD_BITS


class Grid:
    """The blocks of a kernel that run at once: axes Z, Y, X (threads) and blocks."""

    def __init__(self, sizes: tuple[int, ...], start: int, stop: int) -> None:
        self.sizes = dict(zip(HARDWARE_TAGS, sizes, strict=True))
        self.blocks = np.arange(start, stop)
        tx, ty, tz = sizes[3:]
        self.shape = (tz, ty, tx, stop - start)
        self.kept: dict[Buffer, BufferStorage] = {}  # shared memory outlives its Allocate, as on a device
        self.epochs = {scope: np.zeros(stop - start, np.int64) for scope in MemoryScope}
        self._actors: dict[MemoryScope, Value] = {}
        self._indices: dict[tuple[ThreadTag, str], Value] = {}
        self._threads = np.arange(tx * ty * tz).reshape(tz, ty, tx, 1)

    def index(self, tag: ThreadTag, var: n.Var) -> Value:
        """The values of a hardware index, along its axis only; a scalar for a single value."""
        found = self._indices.get((tag, var.dtype))
        if found is None:
            found = self._indices[tag, var.dtype] = self._index(tag, var.dtype.numpy)
        return found

    def _index(self, tag: ThreadTag, kind: np.dtype) -> Value:
        if tag.is_thread:
            size = self.sizes[tag]
            axis = 2 - tag.dimension
            values = np.arange(size, dtype=kind).reshape([size if a == axis else 1 for a in range(4)])
        else:
            below = int(np.prod([self.sizes[t] for t in HARDWARE_TAGS[: tag.dimension]]))
            values = ((self.blocks // below) % self.sizes[tag]).astype(kind).reshape(1, 1, 1, -1)
        return values.flat[0] if values.size == 1 else values

    def actors(self, scope: MemoryScope) -> Value:
        """Each lane's actor (see `race_model`) in the current epoch of a memory scope."""
        found = self._actors.get(scope)
        if found is None:
            found = self._actors[scope] = self.blocks * BLOCK + (self.epochs[scope] << THREAD_BITS) + self._threads
        return found

    def pass_barrier(self, scope: MemoryScope, blocks: Value) -> None:
        """A new epoch of `scope` for those blocks (None: all)."""
        passed = np.ones(self.shape[3], np.bool_) if blocks is None else blocks
        self.epochs[scope] += passed
        self._actors.pop(scope, None)
        for buffer, storage in self.kept.items():
            if storage.shadow is not None and buffer.scope is scope is MemoryScope.SHARED:
                storage.shadow.forget_members(passed)

    def coordinates(self, lane: tuple[Any, ...]) -> str:
        """A lane's hardware indices as text."""
        z, y, x, block = (int(i) for i in lane)
        at = dict(zip(HARDWARE_TAGS[3:], (x, y, z), strict=True))
        rest = int(self.blocks[block])
        for tag in HARDWARE_TAGS[:3]:
            at[tag] = rest % self.sizes[tag]
            rest //= self.sizes[tag]
        used = [tag for tag in HARDWARE_TAGS if self.sizes[tag] > 1] or [ThreadTag.BLOCK_X]
        return ", ".join(f"{tag.value} = {at[tag]}" for tag in used)


def hardware_loops(stmt: Stmt) -> Iterator[For]:
    """The loops over real hardware indices in `stmt`."""
    for s in post_order(stmt):
        if is_kernel(s):
            yield s


def stored_roots(stmt: Stmt) -> set[Buffer]:
    """Return the buffers with memory that `stmt` writes."""
    return {s.buffer.memory for s in post_order(stmt) if isinstance(s, Store)}


def footprint(stmt: Stmt, threads: int) -> int:
    """Elements of shared and local memory that one block takes."""
    total = 0
    for s in post_order(stmt):
        if isinstance(s, Allocate):
            sizes = [size.value if isinstance(size, n.IntImm) else 1 for size in s.buffer.shape]
            copies = {MemoryScope.SHARED: 1, MemoryScope.LOCAL: threads}.get(s.buffer.scope, 0)
            total += copies * int(np.prod(sizes, dtype=np.intp))
    return total
