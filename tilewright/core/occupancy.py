"""Occupancy: the resident blocks of a kernel per multiprocessor, and the resource that limits them.

The rules are from NVIDIA's occupancy calculator: warps, blocks, registers and shared memory are each given out in
pieces, and the scarcest of them decides.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from .hardware import Hardware, MemoryScope
from .vectorized import Number, ceiling, least, most


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

    warps_per_block: Number
    most_warps: int
    blocks_by: dict[Limiter, Number]

    @property
    def blocks(self) -> Number:
        """Blocks at a time."""
        return least(*self.blocks_by.values())

    @property
    def warps(self) -> Number:
        """Warps at a time."""
        return self.blocks * self.warps_per_block

    @property
    def share(self) -> Number:
        """Resident warps, as a fraction of a multiprocessor's maximum."""
        return self.warps / self.most_warps

    @property
    def limiters(self) -> tuple[Limiter, ...]:
        """The resources that prevent an additional block."""
        return tuple(limiter for limiter, blocks in self.blocks_by.items() if blocks == self.blocks)


def occupancy(
    hardware: Hardware, threads: Number, registers: Number, shared_bytes: Number, pooled: bool = False
) -> Occupancy:
    """Compute the occupancy of a kernel, or of many kernels if the arguments are arrays.

    Parameters
    ----------
    hardware : Hardware
        With warps.
    threads : int or array
        Threads of one block.
    registers : int or array
        Registers of 32 bits of one thread; 0 if unknown.
    shared_bytes : int or array
        Shared memory of one block.
    pooled : bool
        Whether warps take registers from one pool instead of the share of their scheduler, and the system reserves no
        shared memory. Cost models that were fitted under these assumptions keep them.

    Returns
    -------
    Occupancy
    """
    one, shared = hardware.multiprocessor, hardware.memory(MemoryScope.SHARED)
    warps = most(1, ceiling(threads, hardware.warp))
    found = {Limiter.WARPS: one.warps // warps, Limiter.BLOCKS: one.blocks}
    if not isinstance(registers, int) or registers:
        of_warp = ceiling(registers * hardware.warp, one.register_unit) * one.register_unit
        pool = hardware.memory(MemoryScope.LOCAL).pool // 4 or one.registers
        # A warp's registers all come from the share of one scheduler.
        shares = 1 if pooled else one.schedulers
        found[Limiter.REGISTERS] = pool // shares // of_warp * shares // warps
    if not isinstance(shared_bytes, int) or shared_bytes:
        given = shared_bytes if pooled else ceiling(shared_bytes, shared.unit) * shared.unit + shared.reserved
        found[Limiter.SHARED] = (shared.pool or shared.most) // most(1, given)  # arrays: some blocks may use none
    return Occupancy(warps, one.warps, found)
