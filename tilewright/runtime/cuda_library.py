"""The CUDA driver as a C library: the one place that loads it.

`cuda.bindings` has functions that take Python objects (`cuda_calls.py`). Importing it takes longer than
loading a kernel from disk, so one-line calls take the few functions that they need from here.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

from ..core.errors import UserError
from .driver import DeviceError


@cache
def opened() -> Any:
    """Return the driver as loaded, not initialised; raise UserError on a machine without it."""
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise UserError("libcuda.so.1 not found: no NVIDIA driver here", fix="run on a machine with a GPU") from error


@cache
def library() -> Any:
    """Return the driver, initialised. Its functions have no argument types: pass C objects, or small whole numbers."""
    found = opened()
    _check(found, "cuInit", found.cuInit(0))
    return found


def call(name: str, *arguments: Any) -> None:
    """Call a function of the driver; raise `DeviceError` if it fails."""
    check(name, getattr(library(), name)(*arguments))


def check(what: str, status: int) -> None:
    """Raise `DeviceError` for a status that is not success."""
    _check(library(), what, status)


def function_address(name: str) -> int:
    """Return the address of a function of the driver."""
    return ctypes.cast(getattr(library(), name), ctypes.c_void_p).value or 0


def _check(driver: Any, what: str, status: int) -> None:
    if status:
        text = ctypes.c_char_p()
        driver.cuGetErrorName(status, ctypes.byref(text))
        name = (text.value or b"error %d" % status).decode()
        raise DeviceError(f"{what}: {name}", name)
