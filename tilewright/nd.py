"""Devices and arrays: `nd.array(x, device=dev)`, `nd.empty(shape, dtype, device=dev)`, `cuda(0)`, `opencl(0)`."""

from .runtime.array import NDArray, array, empty, from_dlpack
from .runtime.device import Device, cpu, cuda, device, opencl

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
