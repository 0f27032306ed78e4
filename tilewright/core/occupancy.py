"""Occupancy: the resident blocks of a kernel per multiprocessor, and the resource that limits them.

The rules are from NVIDIA's occupancy calculator: warps, blocks, registers and shared memory are each given out in
pieces, and the scarcest of them decides.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from .hardware import Hardware, MemoryScope


class Limiter(enum.Enum):
    """A limited resource of a multiprocessor."""

    WARPS = "warps"
    BLOCKS = "blocks"
    REGISTERS = "registers"
    SHARED = "shared memory"


@dataclass(frozen=True)
class Occupancy:
    """The blocks of a kernel that one multiprocessor holds.

    `blocks_by` is how many each resource alone would let it hold; a resource that the kernel does not use is left out.
    """

    warps_per_block: int
    most_warps: int
    blocks_by: dict[Limiter, int]

    @property
    def blocks(self) -> int:
        """Blocks at a time."""
        return min(self.blocks_by.values())

    @property
    def warps(self) -> int:
        """Warps at a time."""
        return self.blocks * self.warps_per_block

    @property
    def share(self) -> float:
        """Resident warps, as a fraction of a multiprocessor's maximum."""
        return self.warps / self.most_warps

    @property
    def limiters(self) -> tuple[Limiter, ...]:
        """The resources that do not let it hold one more block."""
        return tuple(limiter for limiter, blocks in self.blocks_by.items() if blocks == self.blocks)


def occupancy(hardware: Hardware, threads: int, registers: int, shared_bytes: int) -> Occupancy:
    """Compute the occupancy of a kernel.

    Parameters
    ----------
    hardware : Hardware
        With warps.
    threads : int
        Threads of one block.
    registers : int
        Registers of 32 bits of one thread; 0 if unknown.
    shared_bytes : int
        Shared memory of one block.

    Returns
    -------
    Occupancy
    """
    one, shared = hardware.multiprocessor, hardware.memory(MemoryScope.SHARED)
    warps = max(1, -(-threads // hardware.warp))
    found = {Limiter.WARPS: one.warps // warps, Limiter.BLOCKS: one.blocks}
    if registers:
        of_warp = _rounded(registers * hardware.warp, one.register_unit)
        pool = hardware.memory(MemoryScope.LOCAL).pool // 4 or one.registers
        # A warp's registers all come from the share of one scheduler.
        found[Limiter.REGISTERS] = pool // one.schedulers // of_warp * one.schedulers // warps
    if shared_bytes:
        found[Limiter.SHARED] = (shared.pool or shared.most) // (_rounded(shared_bytes, shared.unit) + shared.reserved)
    return Occupancy(warps, one.warps, found)


def _rounded(number: int, unit: int) -> int:
    return -(-number // unit) * unit
