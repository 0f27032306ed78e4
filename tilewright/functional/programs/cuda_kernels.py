"""Kernels on NVIDIA GPUs, through the driver library alone.

Importing `cuda.bindings` takes longer than loading a kernel from disk, so the few driver functions of a call are called
directly. Contexts are the primary contexts, which all libraries of the process share.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from ...core.errors import UserError
from ...runtime.cuda_library import call, check, function_address, library
from . import launcher

if TYPE_CHECKING:
    from ...core.launches import FixedLaunch
    from .executable import Executable

_OPT_IN_SHARED, _MAJOR, _MINOR = 8, 75, 76
_RELAXED = 2
"""CU_STREAM_CAPTURE_MODE_RELAXED."""
QUICK_AFTER = 16
"""The number of launches after which compiling the launcher pays off."""

LaunchAll = Callable[[Sequence[int], Sequence[int], int], int]
"""`launch_all(addresses, addresses of scratch memory from its last piece to its first, stream)`: 0, or `MISALIGNED`."""


@cache
def architecture_and_name(index: int) -> tuple[str, str]:
    """Return the architecture of a GPU, such as "sm_90", and its name."""
    device, value, name = ctypes.c_int(), ctypes.c_int(), ctypes.create_string_buffer(256)
    call("cuDeviceGet", ctypes.byref(device), index)
    call("cuDeviceGetName", name, 256, device)
    found = []
    for attribute in (_MAJOR, _MINOR):
        call("cuDeviceGetAttribute", ctypes.byref(value), attribute, device)
        found.append(str(value.value))
    return f"sm_{''.join(found)}", name.value.decode()


@cache
def _context(index: int) -> ctypes.c_void_p:
    device, context = ctypes.c_int(), ctypes.c_void_p()
    call("cuDeviceGet", ctypes.byref(device), index)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    return context


class Current:
    """Makes the context of a GPU current, and restores the previous context at the end."""

    def __init__(self, index: int) -> None:
        self.index = index

    def __enter__(self) -> None:
        call("cuCtxPushCurrent_v2", _context(self.index))

    def __exit__(self, *_: object) -> None:
        call("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))


def load(program: Executable, index: int) -> list[LoadedKernel]:
    """Return the launches of a program, loaded onto a GPU."""
    with Current(index):
        module = _module(program.binary, tuple(launch.shared for launch in program.launches), index)
        return [LoadedKernel(module, launch, program.alignments(launch), index) for launch in program.launches]


def load_on_all(program: Executable, index: int) -> tuple[Any, list[int]]:
    """Return the owner of a program's code for all GPUs with the architecture of GPU `index`, and one kernel per
    launch.

    The driver loads the kernels onto a GPU at the first launch there. `cuLaunchKernel` accepts them since CUDA 12.
    """
    held, devices = ctypes.c_void_p(), ctypes.c_int()
    nothing = (None, None, 0) * 2
    call("cuLibraryLoadData", ctypes.byref(held), program.binary, *nothing)
    call("cuDeviceGetCount", ctypes.byref(devices))
    found = []
    for launch in program.launches:
        kernel = ctypes.c_void_p()
        call("cuLibraryGetKernel", ctypes.byref(kernel), held, launch.kernel.encode())
        for device in range(devices.value if launch.shared else 0):
            if architecture_and_name(device)[0] != architecture_and_name(index)[0]:
                continue
            call("cuKernelSetAttribute", _OPT_IN_SHARED, launch.shared, kernel, device)
        found.append(kernel.value or 0)
    return (held, program.binary), found


def launch_address() -> int:
    """The address of the driver's function that launches a kernel."""
    return function_address("cuLaunchKernel")


@cache
def _module(binary: bytes, shared: tuple[int, ...], index: int) -> ctypes.c_void_p:
    """Load machine code onto the current GPU, once for all programs that share it, such as programs of many batch
    sizes.

    The module stays until the process ends, because a CUDA graph may launch it at any time. `shared` is the dynamic
    shared memory of its kernels, a property of the module.
    """
    module = ctypes.c_void_p()
    call("cuModuleLoadData", ctypes.byref(module), binary)
    return module


class LoadedKernel:
    """One launch: `kernel.start(*addresses, stream)` returns 0 or the driver's error.

    The first launches go through `ctypes`; then `start` becomes the compiled launcher.
    """

    def __init__(self, module: ctypes.c_void_p, launch: FixedLaunch, alignments: tuple[int, ...], index: int) -> None:
        function = ctypes.c_void_p()
        call("cuModuleGetFunction", ctypes.byref(function), module, launch.kernel.encode())
        if launch.shared:
            call("cuFuncSetAttribute", function, _OPT_IN_SHARED, launch.shared)
        self.launch = launch
        self.index = index
        self._sizes = (*launch.grid, *launch.block, launch.shared), alignments
        self._function = function.value or 0
        self._left = QUICK_AFTER
        self._slow = launcher.by_ctypes(self._function, library().cuLaunchKernel, *self._sizes)
        self.start: Callable[..., int] = self._first

    def _first(self, *arguments: int) -> int:
        self._left -= 1
        if self._left <= 0:
            self.hasten()
        return self._slow(*arguments)

    def hasten(self) -> None:
        """Switch to the compiled launcher."""
        if launcher.fits(len(self._sizes[1])):
            launch, push, pop = map(function_address, ("cuLaunchKernel", "cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2"))
            context = _context(self.index).value or 0, push, pop
            self.start = launcher.on_gpu(self._function, launch, *self._sizes, context)
        else:
            self.start = self._slow

    def failed(self, status: int, arguments: tuple[int, ...]) -> None:
        """Launch again if the thread had no context of this GPU; otherwise raise the driver's error."""
        if status in launcher.NO_CONTEXT:
            with Current(self.index):
                status = self._slow(*arguments)
        if status == launcher.MISALIGNED:
            raise UserError(
                "an array begins at an address that the kernel cannot load vectors from",
                fix="pass a tensor that begins at the start of its memory: x.clone() instead of a slice of it",
            )
        check(f"launch of {self.launch.kernel}", status)


def in_order(kernels: Sequence[LoadedKernel]) -> LaunchAll:
    """Return a function that launches kernels in order, each with its addresses and numbers."""
    numbers = [number for kernel in kernels for number in kernel.launch.numbers]
    before, at, parts = 1 + len(numbers), 1, []  # places among the stream, the numbers, and the addresses
    for kernel in kernels:
        moved = [place + before if place >= 0 else place for place in kernel.launch.arguments]
        end = at + len(kernel.launch.numbers)
        parts.append((kernel, itemgetter(*[*moved, *range(at, end), 0])))
        at = end

    def launch_all(pointers: Sequence[int], scratch: Sequence[int], stream: int) -> int:
        values = [stream, *numbers, *pointers, *scratch]
        for kernel, choose in parts:
            arguments = choose(values)
            if status := kernel.start(*arguments):
                if status == launcher.MISALIGNED:
                    return launcher.MISALIGNED
                kernel.failed(status, arguments)
        return 0

    return launch_all


def allocate(size: int, index: int) -> int:
    """Allocate memory of a GPU until the process ends; this also works during the capture of a CUDA graph."""
    with Current(index):
        found, mode = ctypes.c_uint64(), ctypes.c_int(_RELAXED)
        call("cuThreadExchangeStreamCaptureMode", ctypes.byref(mode))
        try:
            call("cuMemAlloc_v2", ctypes.byref(found), ctypes.c_size_t(max(1, size)))
        finally:
            call("cuThreadExchangeStreamCaptureMode", ctypes.byref(mode))
        return found.value
