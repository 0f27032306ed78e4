"""Calls of the CUDA driver through `cuda.bindings.driver`, with errors in place of statuses."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

from .cuda_library import library
from .driver import DeviceError


@cache
def bindings() -> Any:
    """`cuda.bindings.driver`, imported when it is needed."""
    from cuda.bindings import driver

    return driver


@cache
def bindings_version() -> tuple[int, ...]:
    """The version of `cuda.bindings`; its first number is the version of CUDA."""
    from cuda import bindings

    return tuple(int(part) for part in bindings.__version__.split(".")[:2])


def call(name: str, *args: Any) -> Any:
    """Call the driver; its result, without the status (a tuple if there are several)."""
    status, *result = getattr(bindings(), name)(*args)
    if int(status) != 0:
        raise driver_error(name, status)
    return result[0] if len(result) == 1 else tuple(result)


def driver_error(what: str, status: Any) -> DeviceError:
    """The error for a status that is not success."""
    driver = bindings()
    status = driver.CUresult(int(status))
    _, text = driver.cuGetErrorString(status)
    description = text.decode() if isinstance(text, bytes) else str(text)
    return DeviceError(f"{what}: {status.name} ({description})", status.name)


def owner_of(address: int) -> int | None:
    """The number of the GPU that has an address in its memory; None for memory that the driver does not know.

    The driver is asked directly: some versions of `bindings` answer 0 for every GPU (NVIDIA/cuda-python#2928).
    """
    ordinal, number = bindings().CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, ctypes.c_int(-1)
    ask = library().cuPointerGetAttribute
    failed = ask(ctypes.byref(number), ctypes.c_int(int(ordinal)), ctypes.c_uint64(address))
    return None if failed or number.value < 0 else number.value
