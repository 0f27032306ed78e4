"""The host's own memory, as a device."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from ..codegen.abi import CompiledProgram
from ..core.errors import InternalError
from .driver import DeviceAttributes, Driver, Handle, Launcher


class CpuDriver(Driver):
    """Arrays on `cpu(0)` are NumPy arrays; a handle is the array that owns the memory."""

    kind: ClassVar[str] = "cpu"

    def why_not(self) -> str:
        return ""

    def count(self) -> int:
        return 1

    def attributes(self, index: int) -> DeviceAttributes:
        return DeviceAttributes(platform.processor() or platform.machine())

    def allocate(self, index: int, size: int) -> Handle:
        return np.empty(size, np.uint8)

    def free(self, index: int, handle: Handle) -> None:
        """NumPy does that."""

    def write(self, index: int, handle: Any, data: np.ndarray) -> None:
        handle[: data.nbytes] = data

    def read(self, index: int, handle: Any, data: np.ndarray) -> None:
        data[...] = handle[: data.nbytes]

    def copy(self, index: int, source: Any, target: Any, size: int) -> None:
        target[:size] = source[:size]

    def sync(self, index: int) -> None:
        """The host has always finished."""

    def load(self, program: CompiledProgram, index: int) -> dict[str, Launcher]:
        raise InternalError(f"a program for {program.target} cannot run on the CPU")

    def timer(
        self, index: int, run: Callable[[], None], before: Callable[[], None] | None = None
    ) -> Callable[[int], float]:
        def seconds(number: int) -> float:
            began = time.perf_counter()
            for _ in range(number):
                run()
            return time.perf_counter() - began

        def apart(number: int) -> float:
            total = 0.0
            for _ in range(number):
                before()  # type: ignore[misc]  # only used where there is one
                total += seconds(1)
            return total

        return seconds if before is None else apart
