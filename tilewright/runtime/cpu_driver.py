"""The host's own memory, as a device."""

from __future__ import annotations

import ctypes
import platform
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.system import processors
from .driver import DeviceAttributes, DeviceError, Driver, Handle, Launcher
from .llvm_program import load_kernels

if TYPE_CHECKING:
    from ..codegen.abi import CompiledProgram

ALIGNMENT = 64
"""Bytes that memory of our own is aligned to: a cache line, and the widest vector."""


def aligned_bytes(size: int, alignment: int = ALIGNMENT) -> np.ndarray:
    """Return new bytes that begin at a multiple of `alignment`."""
    whole = np.empty(size + alignment, np.uint8)
    first = -whole.ctypes.data % alignment
    return whole[first : first + size]


_CACHES = "/sys/devices/system/cpu/cpu0/cache"


class HostMemory(int):
    """A handle of host memory: its address, and its `bytes` as an array. The handle keeps the memory alive."""

    bytes: np.ndarray

    def __new__(cls, data: np.ndarray) -> HostMemory:
        self = super().__new__(cls, data.ctypes.data)
        self.bytes = data
        return self


class CpuDriver(Driver):
    """Arrays on `cpu(0)` are NumPy arrays; programs are compiled by LLVM."""

    kind = "cpu"

    def why_not(self) -> str:
        return ""

    def count(self) -> int:
        return 1

    def attributes(self, index: int) -> DeviceAttributes:
        return DeviceAttributes(
            name=_line("/proc/cpuinfo", "model name") or platform.processor() or platform.machine(),
            multi_processor_count=processors(),
            total_global_memory=_kilobytes(_line("/proc/meminfo", "MemTotal")),
            l2_cache_bytes=_kilobytes(_line(f"{_CACHES}/index2/size", "")),
            last_cache_bytes=max(_kilobytes(_line(f"{_CACHES}/index{at}/size", "")) for at in range(2, 5)),
            on_host=True,
        )

    def allocate(self, index: int, size: int) -> Handle:
        try:
            return HostMemory(aligned_bytes(size))
        except (MemoryError, ValueError) as error:
            raise DeviceError(f"cpu({index}) cannot allocate {size:,} bytes: {error}", "OUT_OF_MEMORY") from error

    def free(self, index: int, handle: Handle) -> None:
        """Do nothing: NumPy frees the memory."""

    def write(self, index: int, handle: Any, data: np.ndarray) -> None:
        handle.bytes[: data.nbytes] = data

    def read(self, index: int, handle: Any, data: np.ndarray) -> None:
        data[...] = handle.bytes[: data.nbytes]

    def copy(self, index: int, source: Any, target: Any, size: int) -> None:
        target.bytes[:size] = source.bytes[:size]

    def adopt(self, address: int, size: int) -> Handle:
        if not size:
            return self.allocate(0, 0)
        return HostMemory(np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address)))

    def part(self, handle: Any, offset: int) -> tuple[Handle, int]:
        return HostMemory(handle.bytes[offset:]), 0

    def sync(self, index: int) -> None:
        """Do nothing: host work is synchronous."""

    def load(self, program: CompiledProgram, index: int) -> dict[str, Launcher]:
        return load_kernels(program)

    def timer(
        self, index: int, run: Callable[[], None], before: Callable[[], None] | None = None
    ) -> Callable[[int], float]:
        seconds = timer_of(run)

        def apart(number: int) -> float:
            total = 0.0
            for _ in range(number):
                before()  # type: ignore[misc]  # only used if there is one
                total += seconds(1)
            return total

        return seconds if before is None else apart


def timer_of(run: Callable[[], Any]) -> Callable[[int], float]:
    """Return a function that returns the seconds of a number of runs, which have ended when they return."""

    def seconds(number: int) -> float:
        began = time.perf_counter()
        for _ in range(number):
            run()
        return time.perf_counter() - began

    return seconds


def _line(path: str, key: str) -> str:
    """The text after `key` in the first line of a system file that begins with it; else empty."""
    try:
        with open(path, encoding="utf-8") as file:
            found = next((line for line in file if line.startswith(key)), "")
    except OSError:
        return ""
    return found.partition(":")[2].strip() if key else found.strip()


def _kilobytes(text: str) -> int:
    """The bytes that "2048K" and "16384 kB" mean; 0 if the system does not tell."""
    digits = text.rstrip("KkB ")
    return int(digits) * 1024 if digits.isdigit() else 0
