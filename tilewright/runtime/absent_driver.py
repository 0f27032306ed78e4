"""Kinds of devices that the legacy API knows and Tilewright has no driver for: such a device never exists."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from ..core.errors import AbsentDeviceError
from .driver import DeviceAttributes, Driver, Handle, Launcher, elsewhere

if TYPE_CHECKING:
    from ..codegen.abi import CompiledProgram

TYPE_CODES = {
    "aocl": 5, "sdaccel": 6, "vulkan": 7, "metal": 8, "vpi": 9, "rocm": 10, "ext_dev": 12, "hexagon": 14, "webgpu": 15,
}  # fmt: skip
"""Codes of the legacy API (equal to DLPack's up to `ext_dev`)."""
ALIASES = {"mtl": "metal", "aocl_sw_emu": "aocl"}


class AbsentDriver(Driver):
    """A kind of device without a driver: none is present, and uses of one raise UserError."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def why_not(self) -> str:
        return f"Tilewright has no driver for {self.kind}"

    def count(self) -> int:
        return 0

    def _refuse(self) -> NoReturn:
        raise AbsentDeviceError(self.why_not(), fix=elsewhere(self.kind))

    def attributes(self, index: int) -> DeviceAttributes:
        self._refuse()

    def allocate(self, index: int, size: int) -> Handle:
        self._refuse()

    def free(self, index: int, handle: Handle) -> None:
        self._refuse()

    def write(self, index: int, handle: Handle, data: np.ndarray) -> None:
        self._refuse()

    def read(self, index: int, handle: Handle, data: np.ndarray) -> None:
        self._refuse()

    def copy(self, index: int, source: Handle, target: Handle, size: int) -> None:
        self._refuse()

    def sync(self, index: int) -> None:
        self._refuse()

    def load(self, program: CompiledProgram, index: int) -> dict[str, Launcher]:
        self._refuse()

    def timer(
        self, index: int, run: Callable[[], None], before: Callable[[], None] | None = None
    ) -> Callable[[int], float]:
        self._refuse()


def absent_drivers() -> dict[str, Driver]:
    """Return a driver for each kind that is known by name only."""
    return {kind: AbsentDriver(kind) for kind in TYPE_CODES}
