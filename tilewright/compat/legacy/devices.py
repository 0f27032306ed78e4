"""Devices of kinds without a driver in Tilewright: they have names, but do not exist."""

from __future__ import annotations

from collections.abc import Callable

from ...runtime.device import Device, device

_KINDS = ("aocl", "sdaccel", "vulkan", "metal", "vpi", "rocm", "ext_dev", "hexagon", "webgpu")


def _of_kind(kind: str) -> Callable[[int], Device]:
    def made(dev_id: int = 0) -> Device:
        return device(kind, dev_id)

    made.__name__ = made.__qualname__ = kind
    made.__doc__ = f"Return the device of kind {kind} with a number; its `exist` is False."
    return made


aocl, sdaccel, vulkan, metal, vpi, rocm, ext_dev, hexagon, webgpu = map(_of_kind, _KINDS)
mtl = metal
