"""Arrays that detect writes of a kernel around them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..core.dtype import DType
from ..core.text import quantity
from ..runtime.array import NDArray, empty
from ..runtime.cpu_driver import HostMemory
from ..runtime.device import Device
from ..runtime.driver import DeviceError
from .output_comparison import POISON, same_bytes

GUARD = 1 << 16
"""Guard bytes on each side of an array, which no kernel may write. They are checked together with the array."""
FAR = (1 << 21, 1 << 25)
"""The least and most bytes beyond the guards that are checked once per candidate; in between, the size of the array."""
_SHARE = 64
"""The bytes beyond the guards of one side take at most 1 / `_SHARE` of the device's memory."""
_PATTERN = np.random.default_rng(0x711E).integers(0, 256, GUARD, np.uint8)
_ALIGN = 4096
"""The alignment of each zone in bytes: OpenCL refuses parts of a buffer with less."""


class GuardedArray:
    """An array on a device between guard zones, two on each side. `array` is passed to the kernel.

        far │ near │ array │ near │ far

    Near zones are filled and read with the array. Far zones are filled once, and read by `stray`. Small arrays of a
    kernel are neighbours in a `row`, with far zones only at its ends: checking these takes as long as some kernels.
    """

    def __init__(self, name: str, shape: tuple[int, ...], dtype: str, on: Device) -> None:
        self._describe(name, shape, dtype)
        far = _far_bytes(self.size, on)
        try:
            memory = _divisible(self._span + 2 * far, on)
        except DeviceError:  # the memory is full, or the size exceeds the largest allocation
            far = 0
            memory = _divisible(self._span, on)
        self._place(memory, far, {"before": 0, "after": far + self._span} if far else {}, far)

    @staticmethod
    def row(wanted: Sequence[tuple[str, tuple[int, ...], str]], on: Device) -> list[GuardedArray]:
        """Return arrays of those names, shapes and types, adjacent in memory if they are small."""
        made = [GuardedArray.__new__(GuardedArray) for _ in wanted]
        for array, each in zip(made, wanted, strict=True):
            array._describe(*each)
        total = sum(array._span for array in made)
        try:
            if not made or total > FAR[1]:
                raise DeviceError("too large for one allocation")
            far = _far_bytes(total, on)
            memory = _divisible(total + 2 * far, on)
        except DeviceError:
            return [GuardedArray(*each, on) for each in wanted]
        at = far
        for array in made:
            zones = {"before": 0} if array is made[0] and far else {}
            if array is made[-1] and far:
                zones["after"] = far + total
            array._place(memory, at, zones, far)
            at += array._span
        return made

    def _describe(self, name: str, shape: tuple[int, ...], dtype: str) -> None:
        self.name, self.shape, self.dtype = name, shape, DType(dtype)
        self.size = math.prod(shape) * self.dtype.numpy.itemsize
        self._after = np.resize(_PATTERN, GUARD + -self.size % _ALIGN)
        self._span = GUARD + self.size + self._after.size

    def _place(self, memory: NDArray, at: int, zones: Mapping[str, int], far: int) -> None:
        """Take a part of the memory, with far guards on some sides."""
        on = memory.device
        self.far = far
        self._whole = _part(memory, at, self._span)
        self.array = NDArray(on, self.dtype, self.shape, _inside(memory, at + GUARD, self.size), owner=memory)
        self._zones = {side: _part(memory, begin, far) for side, begin in zones.items()}
        self._seen = np.empty(far if zones else 0, np.uint8)
        self._content = np.concatenate([_PATTERN, np.empty(self.size, np.uint8), self._after])
        # Memory of the host is kept: in a virtual machine, the first touch of each new page costs more than the copy.
        self._reads = [np.empty(0, np.uint8), np.empty(0, np.uint8)]
        self._fill_far()

    def _fill_far(self) -> None:
        self._seen.reshape(-1, GUARD)[:] = _PATTERN
        for zone in self._zones.values():
            zone.copyfrom(self._seen)

    def fill(self, values: np.ndarray | None, poison: int = POISON) -> None:
        """Put in values (None: poison in every byte), and mend the guards."""
        part = self._content[GUARD : GUARD + self.size]
        part[:] = poison if values is None else np.ascontiguousarray(values).reshape(-1).view(np.uint8)
        self._whole.copyfrom(self._content)

    def read(self) -> tuple[np.ndarray, str]:
        """The values in the array, and a description of damaged guards (empty if intact).

        The values stay as they are until the array has been read twice more.
        """
        if not self._reads[0].size:
            self._reads[0] = np.empty(self._span, np.uint8)
        now = self._reads[0]
        self._whole.device.driver.read(self._whole.device.index, self._whole.handle, now)
        self._reads.reverse()
        values = now[GUARD : GUARD + self.size].view(self.dtype.numpy).reshape(self.array.shape)
        for side, begin, zone in (("before", 0, _PATTERN), ("after", GUARD + self.size, self._after)):
            changed = np.flatnonzero(now[begin : begin + zone.size] != zone)
            if changed.size:
                far = GUARD - int(changed[-1]) if side == "before" else int(changed[0]) + 1
                where = "its first element" if side == "before" else "its last element"
                return values, f"it writes outside of {self.name}, {quantity(far, 'byte')} {side} {where}"
        return values, ""

    def stray(self) -> str:
        """A description of writes to the far guards (empty: none)."""
        for side, zone in self._zones.items():
            rows = self._held(zone).reshape(-1, GUARD)
            if all(same_bytes(row, _PATTERN) for row in rows):
                continue
            changed = np.flatnonzero(rows != _PATTERN)
            self._fill_far()
            far = self.far - int(changed[-1]) if side == "before" else int(changed[0]) + 1
            where = "its first element" if side == "before" else "its last element"
            near = GUARD if side == "before" else self._after.size
            return f"it writes outside of {self.name}, {quantity(near + far, 'byte')} {side} {where}"
        return ""

    def _held(self, zone: NDArray) -> np.ndarray:
        """Return the contents of a zone, in place for host memory."""
        if isinstance(zone.handle, HostMemory):
            return zone.handle.bytes
        zone.device.driver.read(zone.device.index, zone.handle, self._seen)
        return self._seen

    def changed(self) -> str:
        """A description of changes to an array that a kernel may only read (empty: none)."""
        values, damage = self.read()
        if damage:
            return damage
        held = self._content[GUARD : GUARD + self.size]
        if not same_bytes(values, held):
            return f"it writes to its input {self.name}"
        return ""


def _divisible(size: int, on: Device) -> NDArray:
    """Allocate memory that is divided into arrays and guards.

    OpenCL names a place within memory by a sub-buffer. NVIDIA's driver allocates a buffer when it is first used. If a
    part is used before the whole, it gets separate memory, without the guards beside it. So the whole is used first.
    """
    made = empty(size, "uint8", on)
    if on.kind == "opencl":
        on.driver.write(on.index, made.handle, np.zeros(1, np.uint8))
    return made


def _far_bytes(size: int, on: Device) -> int:
    """How wide a far guard is: whole stretches of the pattern."""
    least, most = FAR
    room = on.attributes.total_global_memory // _SHARE
    return min(max(size, least), most, room) // GUARD * GUARD


def _part(memory: NDArray, at: int, size: int) -> NDArray:
    """Return a range of an array's bytes as an array."""
    return NDArray(memory.device, memory.dtype, (size,), _inside(memory, at, size), owner=memory)


def _inside(whole: NDArray, at: int, size: int) -> Any:
    """The driver's handle for the memory from byte `at` on."""
    if whole.device.kind == "opencl":
        return whole.handle.get_sub_region(at, max(1, size))
    if whole.device.kind == "cuda":
        return whole.handle + at
    return HostMemory(whole.handle.bytes[at : at + size])
