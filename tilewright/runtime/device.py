"""Devices by name: `cuda(0)`, `opencl(0)`, `cpu()`. A device is one object, so `is` compares it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.errors import AbsentDeviceError, UserError
from ..core.refusals import missing, not_made
from .absent_driver import ALIASES, TYPE_CODES, absent_drivers
from .cpu_driver import CpuDriver
from .cuda_driver import CudaDriver
from .driver import COUNTS, DeviceAttributes, Driver, elsewhere

if TYPE_CHECKING:
    from ..core.target import Target

_DRIVERS: dict[str, Driver] = {"cpu": CpuDriver(), "cuda": CudaDriver(), **absent_drivers()}


def _driver(kind: str) -> Driver:
    if kind == "opencl" and kind not in _DRIVERS:
        from .opencl_driver import OpenClDriver  # not needed for known kernels of other kinds

        _DRIVERS.setdefault(kind, OpenClDriver())
    return _DRIVERS[kind]


def _count(kind: str) -> Callable[[], int]:
    return lambda: _driver(kind).count()


COUNTS.update((kind, _count(kind)) for kind in (*_DRIVERS, "opencl"))
_TARGETS = ("cuda", "opencl")
"""Kinds of devices that targets of the same name are for."""
_TYPE_CODES = {"cpu": 1, "cuda": 2, "opencl": 4, **TYPE_CODES}
_KIND_OF_NAME = {
    "cpu": "cpu", "llvm": "cpu", "c": "cpu", "cuda": "cuda", "gpu": "cuda", "nvptx": "cuda",
    "opencl": "opencl", "cl": "opencl", **{kind: kind for kind in TYPE_CODES}, **ALIASES,
}  # fmt: skip


class Device:
    """A device of the machine; `device()`, `cuda()` and others return one object per device."""

    __slots__ = ("driver", "index", "kind")

    def __init__(self, kind: str, index: int) -> None:
        if not isinstance(kind, str) or kind not in COUNTS or not isinstance(index, int):
            raise not_made("Device", "name it: tw.cpu(), tw.cuda(0), tw.opencl(0)")
        self.kind = kind
        self.index = index
        self.driver = _driver(kind)

    def __repr__(self) -> str:
        return f"{self.kind}({self.index})"

    def __reduce__(self) -> tuple[Any, ...]:
        return device, (self.kind, self.index)

    @property
    def exist(self) -> bool:
        """Whether the device is there and usable."""
        return 0 <= self.index < self.driver.count()

    def require(self) -> Device:
        """This device; raises UserError, which names the missing part, if it is absent."""
        if not self.exist:
            reason = self.driver.why_not()
            count = self.driver.count()
            raise AbsentDeviceError(
                reason or f"there is no {self}: this machine has {count} of that kind",
                fix=elsewhere(self.kind) if reason else f"give a number from 0 to {count - 1}",
            )
        return self

    def sync(self, stream: Any = None) -> None:
        """Wait until the device has finished all of its work."""
        self.driver.sync(self.index)

    def set_raw_stream(self, stream: int) -> None:
        """Let this thread launch on the CUDA stream with this address from now on; 0 is the default stream."""
        self.require().driver.set_stream(self.index, stream)

    @contextmanager
    def use_stream(self, stream: Any) -> Iterator[Device]:
        """Within the `with` statement, this thread's work goes to `stream`: PyTorch's, CuPy's, or an address.

        Inside a capture of a CUDA graph, that is the stream which is being captured.
        """
        address = next((getattr(stream, name) for name in ("cuda_stream", "ptr") if hasattr(stream, name)), stream)
        if isinstance(address, bool) or not isinstance(address, int):
            raise UserError(
                f"{stream!r} is not a stream",
                primitive="use_stream",
                fix="give torch.cuda.current_stream(), or an address",
            )
        before = self.require().driver.set_stream(self.index, self._checked(stream, address))
        try:
            yield self
        finally:
            self.driver.set_stream(self.index, before)

    def _checked(self, stream: Any, address: int) -> int:
        """Return the address of a stream; raise UserError if the stream belongs to another GPU."""
        where = next((getattr(stream, name) for name in ("device_index", "device_id") if hasattr(stream, name)), -1)
        if self.kind == "cuda" and where not in (-1, self.index):  # CuPy's -1 is the current GPU
            raise UserError(
                f"{stream!r} is a stream of cuda({where}), not of {self}",
                primitive="use_stream",
                fix=f"give a stream of that GPU: torch.cuda.current_stream({self.index})",
            )
        return address

    @property
    def attributes(self) -> DeviceAttributes:
        """Everything known about the device."""
        return self.require().driver.attributes(self.index)

    @property
    def name(self) -> str:
        """The device's own name, such as "NVIDIA H200"."""
        return self.attributes.name

    @property
    def device_type(self) -> int:
        """The legacy code of the kind: 1 cpu, 2 cuda, 4 opencl, as in DLPack."""
        return _TYPE_CODES[self.kind]

    @property
    def device_id(self) -> int:
        """The legacy name of `index`."""
        return self.index

    def __getattr__(self, name: str) -> Any:
        """The legacy API reads attributes off the device: `dev.compute_version`, `dev.warp_size` ..."""
        name = {"device_name": "name"}.get(name, name)
        if name in DeviceAttributes._fields:
            return getattr(self.attributes, name)
        raise missing("the device", name, (*dir(type(self)), *DeviceAttributes._fields), self)


_devices: dict[tuple[str, int], Device] = {}


def device(name: str | int | Device | Target, index: int = 0) -> Device:
    """The device of that kind and number: `device("cuda", 1)`, `device("cuda:1")`, `device(target)`."""
    if isinstance(name, Device):
        return name
    kind = _kind(name)
    if isinstance(name, str) and ":" in name:
        index = _number(name, name.partition(":")[2])
    if isinstance(index, bool) or not isinstance(index, (int, np.integer)) or index < 0:
        raise UserError(
            f"{index!r} is not a device number", primitive="device", fix=f"count devices from 0: tw.{kind}(0)"
        )
    index = int(index)  # NumPy's integers count, too
    found = _devices.get((kind, index))
    return found if found is not None else _devices.setdefault((kind, index), Device(kind, index))


def enabled(target: str) -> bool:
    """Whether programs for a target can run on this machine; False for a kind that Tilewright does not know."""
    if not isinstance(target, str):
        raise UserError(f"{target!r} is not the name of a target", primitive="enabled", fix='give one: enabled("cuda")')
    kind = target.split(" ")[0]
    if kind == "c":
        from ..codegen.c_compiler import c_compiler  # not for a process that only starts known kernels

        return c_compiler() is not None
    return kind == "llvm" or (kind in _TARGETS and device(kind).exist)


def _number(name: str, digits: str) -> int:
    if not (digits.isascii() and digits.isdecimal() and len(digits) < 10):
        raise UserError(
            f"{name!r} names no device: {digits!r} is not a number",
            primitive="device",
            fix=f'count devices from 0: "{name.partition(":")[0]}:0"',
        )
    return int(digits)


def _kind(name: Any) -> str:
    name = getattr(name, "kind", name)  # a target has a kind
    if isinstance(name, int):
        name = {code: kind for kind, code in _TYPE_CODES.items()}.get(name, str(name))
    words = str(name).replace(":", " ").split()
    kind = _KIND_OF_NAME.get(words[0]) if words else None
    if kind is None or (":" not in str(name) and not all(word.startswith("-") for word in words[1:])):
        raise UserError(
            f"unknown kind of device {name!r}",
            primitive="device",
            fix='use cpu, llvm, c, cuda, gpu, opencl or cl, with a number if there are several: "cuda:1"',
        )
    return kind


def cpu(index: int = 0) -> Device:
    """The host."""
    return device("cpu", index)


def cuda(index: int = 0) -> Device:
    """An NVIDIA GPU."""
    return device("cuda", index)


def opencl(index: int = 0) -> Device:
    """An OpenCL device."""
    return device("opencl", index)


gpu = cuda
cl = opencl
