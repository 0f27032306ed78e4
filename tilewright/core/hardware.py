"""Descriptions of hardware as data: levels of threads, memories, ways to wait, matrix instructions, limits.

A pass reads quantities (threads per warp, memory per block), never the name of the hardware. One row per architecture
stands in `core/architectures.py`; a new GPU is a new row. The names that schedules and loops use (memory scopes, thread
tags, kinds of loops) stand here as enums.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from typing import Any

from .errors import InternalError
from .vectorized import Number, least, most


class MemoryScope(enum.Enum):
    """The memory of a buffer, which decides its visibility: the whole device, one block, or one thread."""

    GLOBAL = "global"
    SHARED = "shared"
    LOCAL = "local"

    def __call__(self) -> str:
        """The name, as `buffer.scope()` says it in the legacy API."""
        return str(self.value)

    @classmethod
    def parse(cls, name: str) -> MemoryScope | None:
        """The scope with a name, or None if no scope has the name."""
        return _SCOPES.get(name) if isinstance(name, str) else None


OPERAND_SCOPES = ("wmma.matrix_a", "wmma.matrix_b")
"""Legacy names of the registers with the operands of a matrix instruction. Here, the instruction loads them itself."""
_SCOPES = {scope.value: scope for scope in MemoryScope}
_SCOPES |= {
    "shared.dyn": MemoryScope.SHARED,
    "warp": MemoryScope.SHARED,
}  # shared memory of any size; a warp sees its block's scopes
_SCOPES |= dict.fromkeys((*OPERAND_SCOPES, "wmma.accumulator"), MemoryScope.LOCAL)


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
        return _TAGS.get(name) if isinstance(name, str) else None

    @property
    def is_block(self) -> bool:
        """Whether the tag indexes blocks of the grid."""
        return self in BLOCK_TAGS

    @property
    def is_thread(self) -> bool:
        """Whether the tag indexes threads within a block."""
        return self in THREAD_TAGS

    @property
    def is_hardware(self) -> bool:
        """Whether the tag indexes blocks or threads of the hardware."""
        return self is not ThreadTag.VTHREAD

    @property
    def dimension(self) -> int:
        """0, 1, 2 for x, y, z."""
        return "xyz".index(self.value[-1])


_TAGS = {
    **{tag.value: tag for tag in ThreadTag},
    "cthread": ThreadTag.VTHREAD,
    "virtual_thread": ThreadTag.VTHREAD,
}
BLOCK_TAGS = (ThreadTag.BLOCK_X, ThreadTag.BLOCK_Y, ThreadTag.BLOCK_Z)
THREAD_TAGS = (ThreadTag.THREAD_X, ThreadTag.THREAD_Y, ThreadTag.THREAD_Z)
HARDWARE_TAGS = (*BLOCK_TAGS, *THREAD_TAGS)
"""The indices of blocks, of threads, and both, each with the fastest dimension first."""


# Descriptors.

Extents = tuple[int, int, int]


@dataclass(frozen=True)
class Level:
    """A group of threads that the hardware runs together, such as a warp or a block.

    `threads` is how many threads one group has at most (a warp: exactly). `extents` are the largest numbers of
    members along x, y and z: threads of a block, blocks of a cluster, blocks of the grid.
    """

    name: str
    threads: int
    extents: Extents = (1, 1, 1)


@dataclass(frozen=True)
class Memory:
    """A memory that programs name: who owns one instance of it, and how much of it there is.

    `scope` is its name in schedules, if it has one. `capacity` is the bytes of an owner by default, `most` the limit if
    the kernel asks for more. `pool` is the bytes that the owners resident on one multiprocessor share, 0 if they share
    none. It is allocated in pieces of `unit` bytes, and each owner takes `reserved` bytes in addition to the bytes of
    its program. Every buffer starts at a multiple of `alignment` bytes. `layouts` are the orders of elements that the
    hardware's own instructions accept beside a plain one.
    """

    name: str
    scope: MemoryScope | None
    owner: str
    capacity: int
    most: int
    pool: int = 0
    alignment: int = 16
    layouts: tuple[str, ...] = ()
    unit: int = 1
    reserved: int = 0


@dataclass(frozen=True)
class Synchronization:
    """A way in which threads wait: for each other, or for the end of an asynchronous operation.

    `level` is the group of threads that it joins; `count` is the number of these objects per block, 0 if memory is the
    only limit. `awaits` names its events: threads, or a family of operations.
    """

    name: str
    level: str
    count: int = 0
    awaits: str = "threads"


@dataclass(frozen=True)
class MatrixShape:
    """An instruction that multiplies small matrices: D (m×n) += A (m×k) · B (k×n).

    `n` lists the possible widths. `level` is the group of threads that executes it together; `a` and `b` name the
    memories in which the operands lie.
    """

    family: str
    m: int
    n: tuple[int, ...]
    k: int
    operands: str
    accumulator: str
    level: str = "warp"
    a: str = "register"
    b: str = "register"


@dataclass(frozen=True)
class Multiprocessor:
    """The capacity of one multiprocessor: resident blocks and warps, registers of 32 bits for one block.

    `float_lanes` is how many float32 operations it begins per cycle. Each of its `schedulers` has a share of the warps
    and registers, and gives a warp a multiple of `register_unit` of them. `peaks` are the most operations that it
    completes per cycle without matrix instructions, by type; a multiply-add counts as two.
    """

    blocks: int
    warps: int
    registers: int
    float_lanes: int
    schedulers: int = 1
    register_unit: int = 1
    peaks: tuple[tuple[str, float], ...] = ()

    def peak(self, dtype: str) -> float:
        """Return the most operations of a type per cycle; 0 if they are not known.

        Types without own instructions are computed in wider types.
        """
        known = dict(self.peaks)
        kind = dtype.rstrip("0123456789").removeprefix("u")
        wider = {"int": "int32", "bool": "int32", "float": "float32", "bfloat": "float32"}
        return known.get(dtype.removeprefix("u"), known.get(wider.get(kind, "float32"), 0.0))


@dataclass(frozen=True)
class Cache:
    """A cache of one core, in bytes."""

    name: str
    bytes: int


SWIZZLE_PIECE, SWIZZLE_LINE = 16, 128
"""The layout "swizzle 128": the bytes that move together, and the bytes of the shortest line within which they are
exchanged."""


@dataclass(frozen=True)
class WarpMemory:
    """How memories serve the loads and stores of a warp.

    Global memory moves whole sectors of `sector` bytes. Shared memory has `banks`; each bank serves one word of `word`
    bytes per cycle.
    """

    sector: int = 32
    banks: int = 32
    word: int = 4

    @property
    def line(self) -> int:
        """Bytes that all banks serve per cycle."""
        return self.banks * self.word


@dataclass(frozen=True)
class Hardware:
    """One architecture. Levels are listed from the outermost to the thread."""

    name: str
    levels: tuple[Level, ...]
    memories: tuple[Memory, ...]
    multiprocessor: Multiprocessor
    synchronization: tuple[Synchronization, ...] = ()
    matrix_shapes: tuple[MatrixShape, ...] = ()
    vector_bytes: int = 16
    """The most bytes that a thread loads, stores or computes with one instruction."""
    warp_memory: WarpMemory = WarpMemory()
    copy_bytes: tuple[int, ...] = ()
    """Sizes of an asynchronous copy from global to shared memory; empty if the hardware has no such copies."""
    unrolled_stores: int = 4096
    """The most stores of an unrolled loop: with more, compilation takes seconds and code caches miss."""
    most_lanes: int = 256
    """Elements that the vector of one loop may have; of many more, compilers run out of time or stack."""
    most_unrolled_stores: int = 8192
    """Stores that the unrolled loops of one function may become together, a long vector counted as several; beyond
    it, compiling takes minutes."""
    marked_stores: int = 0
    """Stores that a loop becomes at most when the back end's compiler unrolls it, counted as above; 0: any number."""
    launches_grids: bool = True
    """Whether programs run as kernels over a grid of blocks."""
    caches: tuple[Cache, ...] = ()
    """The caches of a processor's core, the smallest first; none are listed for GPUs."""
    cache_line: int = 64
    """Bytes that a cache of a processor loads together."""

    def level(self, name: str) -> Level | None:
        """The level of that name, or None if the hardware has none."""
        for level in self.levels:  # asked for each candidate of a model
            if level.name == name:
                return level
        return None

    def memory(self, scope: MemoryScope) -> Memory:
        """The memory that schedules call `scope`."""
        for memory in self.memories:
            if memory.scope is scope:
                return memory
        raise InternalError(f"{self.name} has no memory {scope.value!r}")

    @property
    def warp(self) -> int:
        """The number of threads that execute together, with loads of neighbouring elements in one transaction; 1 for
        none."""
        level = self.level("warp")
        return 1 if level is None else level.threads

    @property
    def exchange_width(self) -> int:
        """Neighbouring threads that can read each other's registers; 1: none can."""
        return self.warp if any(way.name == "shuffle" for way in self.synchronization) else 1

    @property
    def block(self) -> Level:
        """The largest block."""
        level = self.level("block")
        if level is None:
            raise InternalError(f"{self.name} has no blocks")
        return level

    @property
    def grid(self) -> Level:
        """The largest grid."""
        level = self.level("grid")
        if level is None:
            raise InternalError(f"{self.name} has no grid")
        return level

    @property
    def registers_per_thread(self) -> int:
        """The 32-bit registers that a thread can have; 0 if a thread's arrays are always in memory."""
        return self.memory(MemoryScope.LOCAL).most // 4

    def registers_at(self, threads: Number) -> Number:
        """Registers per thread if its block has `threads` threads, a number or an array."""
        return least(self.registers_per_thread, self.multiprocessor.registers // most(1, threads))

    def matrix_shapes_for(self, operands: str, accumulator: str) -> tuple[MatrixShape, ...]:
        """The matrix instructions for operands and sums of these types."""
        return tuple(s for s in self.matrix_shapes if (s.operands, s.accumulator) == (operands, accumulator))

    # Rows are values: an option of a target (`-max_threads_per_block=512`) makes another row.

    def with_level(self, name: str, **changes: Any) -> Hardware:
        """Return the hardware with a level changed. A missing level is not added."""
        levels = tuple(replace(x, **changes) if x.name == name else x for x in self.levels)
        return replace(self, levels=levels)

    def with_warp(self, threads: int) -> Hardware:
        """Return the hardware with warps of the given size; size 1 means no warps."""
        levels = [level for level in self.levels if level.name != "warp"]
        if threads > 1:
            levels.insert(len(levels) - 1, Level("warp", threads))
        return replace(self, levels=tuple(levels))

    def with_memory(self, scope: MemoryScope, **changes: Any) -> Hardware:
        """This hardware with a memory changed."""
        memories = tuple(replace(x, **changes) if x.scope is scope else x for x in self.memories)
        return replace(self, memories=memories)

    def with_multiprocessor(self, **changes: Any) -> Hardware:
        """This hardware with another multiprocessor."""
        return replace(self, multiprocessor=replace(self.multiprocessor, **changes))
