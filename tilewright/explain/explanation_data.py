"""The contents of an explanation: the loops of a schedule, and for each kernel its work, buffers, accesses and
occupancy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from ..codegen.abi import Resources
from ..core.boards import Board
from ..core.hardware import MemoryScope, ThreadTag
from ..core.occupancy import Occupancy
from ..core.target import Target
from .counting import Counts
from .loop_tree import TreeNode
from .processor import ProcessorUse


@dataclass(frozen=True)
class BufferUse:
    """A buffer of a kernel: `bytes` per device, block or thread, by its scope."""

    name: str
    scope: MemoryScope
    dtype: str
    shape: tuple[int, ...]
    bytes: int


@dataclass(frozen=True)
class KernelExplanation:
    """The work of one kernel; on a CPU, of the function.

    `resources` come from NVIDIA's compiler; None if it was not asked. `occupancy` is None on targets without warps.
    """

    name: str
    grid: dict[ThreadTag, int]
    block: dict[ThreadTag, int]
    buffers: tuple[BufferUse, ...]
    counts: Counts
    shared_bytes: int
    resources: Resources | None
    occupancy: Occupancy | None
    registers_by_bound: int
    warp: int
    processor: ProcessorUse | None = None
    """The loops of the function, on a processor."""
    launches: int = 1
    """The launches of the kernel per call; the counts are per launch."""

    @property
    def threads(self) -> int:
        """Threads of one block."""
        return prod(self.block.values())

    @property
    def blocks(self) -> int:
        """Blocks of the grid."""
        return prod(self.grid.values())

    @property
    def all_warps(self) -> int:
        """Warps of the whole grid."""
        return self.blocks * -(-self.threads // self.warp)

    @property
    def least_bytes(self) -> int:
        """Bytes of all tensors that the kernel reads or writes, each once."""
        return sum(buffer.bytes for buffer in self.buffers if buffer.scope is MemoryScope.GLOBAL)


@dataclass(frozen=True)
class ExplanationData:
    """The explanation of a schedule on a target.

    `tree` has the loops as they are compiled, `reasons` says for each stage why its guards are there, `kernels` has one
    part for each kernel. `board` is the device that the roofline is drawn for; None if none is known. `choices` are the
    reasons of rules for the steps of an automatic schedule, with the number of steps of each.
    """

    target: Target
    tree: tuple[TreeNode, ...]
    reasons: Mapping[str, tuple[str, ...]]
    kernels: tuple[KernelExplanation, ...]
    board: Board | None
    board_name: str
    choices: tuple[tuple[str, int], ...] = ()


def arithmetic_seconds(counts: Counts, board: Board) -> dict[str, float]:
    """Return the least seconds of the arithmetic of each type on a board, if all of its multiprocessors take part.

    Matrix instructions count as float32 operations: their own peaks are not known here.
    """
    done = dict(counts.operations_of_type)
    if counts.matrix_operations:
        done["float32"] = done.get("float32", 0.0) + counts.matrix_operations
    return {kind: number / board.peak(kind) for kind, number in done.items() if number}
