"""Reports of out-of-bounds accesses and failed assertions, as an error of the call."""

from __future__ import annotations

import numpy as np

from ..codegen.abi import AssertionFact, EntryPoint
from ..core.dtype import DType
from ..core.errors import UserError
from .array import NDArray
from .device import Device
from .driver import Handle


class AccessReports:
    """The memory in which kernels report indices that would leave a buffer: one number per index that is checked.

    A number is 0, or 2 × index + 1. While launches are recorded, reports cannot be read. A replay skips the access,
    too, but reports nothing.
    """

    def __init__(self, entry: EntryPoint, on: Device) -> None:
        self.entry = entry
        self.on = on
        self.held: NDArray | None = None
        self.from_host: set[int] = set()

    def cleared(self) -> Handle:
        """The memory, ready for the next call."""
        self.from_host.clear()  # the last call failed, or was recorded
        if self.held is None:
            size = 8 * len(self.entry.indices)
            memory = self.on.driver.allocate(self.on.index, size)
            self.held = NDArray(self.on, DType("uint8"), (size,), memory)
        if not self.on.driver.recording(self.on.index):
            zeros = np.zeros(8 * len(self.entry.indices), np.uint8)
            self.on.driver.write(self.on.index, self.held.handle, zeros)
        return self.held.handle

    def noted(self, slot: int) -> None:
        """Record a failed check of host code."""
        self.from_host.add(slot)

    def reported(self) -> None:
        """Raise UserError if the call has reported an index or an assertion."""
        if self.held is None or self.on.driver.recording(self.on.index):
            return
        found = np.zeros(len(self.entry.indices), np.int64)
        self.on.driver.read(self.on.index, self.held.handle, found.view(np.uint8))
        found[list(self.from_host)] = 1
        self.from_host.clear()
        if not found.any():
            return
        slots = [int(slot) for slot in np.flatnonzero(found)]
        index, value = self.entry.indices[slots[0]], int(found[slots[0]]) >> 1
        if isinstance(index, AssertionFact):
            raise UserError(
                f"{self.entry.name}: {index.message}",
                primitive="assert",
                fix=f"give arguments for which the assertion at {index.where} holds",
            )
        more = f"; so do {len(slots) - 1} other indices of this call" if len(slots) > 1 else ""
        raise UserError(
            f"{self.entry.name}: {index.access} beyond the ends of {index.buffer!r}: index {index.dimension} is "
            f"{value}, but must stay within 0 to {index.last}{more}",
            fix="correct the index, or access under a condition that keeps it inside: te.if_then_else(...). Elements "
            "with such an access were not computed",
        )
