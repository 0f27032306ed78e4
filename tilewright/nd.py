"""Devices and arrays: `nd.array(x, device=dev)`, `nd.empty(shape, dtype, device=dev)`, `cuda(0)`, `opencl(0)`."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from .core.refusals import old_name as _old_name
from .runtime.array import NDArray, array, empty
from .runtime.device import Device, cpu, cuda, device, opencl
from .runtime.from_dlpack import from_dlpack

gpu = cuda  # the oldest scripts' name
cl = opencl
context = device

__all__ = [
    "Device",
    "NDArray",
    "array",
    "cl",
    "context",
    "cpu",
    "cuda",
    "device",
    "empty",
    "from_dlpack",
    "gpu",
    "opencl",
]

if not _TYPE_CHECKING:  # type checkers see the names

    def __getattr__(name: str) -> object:
        return _old_name(__name__, name, __all__)
