"""Arrays on a device, under the names of the legacy `nd` module."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from ..core.dtype import DType
from ..core.errors import UserError
from .cpu_driver import HostMemory
from .device import Device, cpu, cuda, device

Shape = tuple[int, ...]

_layouts: dict[tuple[Device, DType, Shape], object] = {}
_kinds: dict[tuple[Device, DType, int], object] = {}


def layout_of(on: Device, dtype: DType, shape: Shape) -> object:
    """One object for each device, type and shape: arrays that a call may take have the very same one."""
    return _layouts.setdefault((on, dtype, shape), object())


def kind_of(on: Device, dtype: DType, dimensions: int) -> object:
    """One object for each device, type and number of dimensions."""
    return _kinds.setdefault((on, dtype, dimensions), object())


class NDArray:
    """A dense row-major array on a device.

    `handle` is what the device's driver calls its memory; `layout` and `kind` stand for (device, dtype,
    shape) and (device, dtype, dimensions), so that a call checks an argument by one comparison.
    """

    __slots__ = ("__weakref__", "_owner", "device", "dtype", "handle", "kind", "layout", "shape")

    def __init__(self, on: Device, dtype: DType, shape: Shape, handle: Any, owner: Any = None) -> None:
        """`owner` is what keeps borrowed memory alive; without one, the memory is this array's own."""
        self.device = on
        self.dtype = dtype
        self.shape = shape
        self.handle = handle
        self.layout = layout_of(on, dtype, shape)
        self.kind = kind_of(on, dtype, len(shape))
        self._owner = owner

    def __del__(self) -> None:
        if getattr(self, "_owner", self) is None:
            with suppress(Exception):  # the process is ending, or the device has died: nothing is left to free
                self.device.driver.free(self.device.index, self.handle)

    @property
    def ctx(self) -> Device:
        """The legacy name of `device`."""
        return self.device

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return self.size * self.dtype.numpy.itemsize

    def numpy(self) -> np.ndarray:
        """A copy as a NumPy array; waits for what is still being computed."""
        data = np.empty(self.shape, self.dtype.numpy)
        self.device.driver.read(self.device.index, self.handle, _bytes(data))
        return data

    asnumpy = numpy

    def copyfrom(self, source: Any) -> NDArray:
        """Copy in the values of `source` (of this shape; converted to this type)."""
        if isinstance(source, NDArray):
            return source.copyto(self)
        data = np.ascontiguousarray(source, dtype=self.dtype.numpy)
        if np.shape(source) != self.shape:
            raise UserError(f"cannot copy values of shape {np.shape(source)} into an array of shape {self.shape}")
        self.device.driver.write(self.device.index, self.handle, _bytes(data))
        return self

    def copyto(self, target: NDArray | Device) -> NDArray:
        """Copy the values to another array, or to a new one on that device; gives the target."""
        if isinstance(target, Device):
            target = empty(self.shape, self.dtype, target)
        if target.shape != self.shape or target.dtype != self.dtype:
            raise UserError(f"cannot copy {_describe(self)} into {_describe(target)}")
        if target.device is self.device:
            self.device.driver.copy(self.device.index, self.handle, target.handle, self.nbytes)
        else:
            target.device.driver.write(target.device.index, target.handle, _bytes(self.numpy()))
        return target

    def __getitem__(self, key: Any) -> NDArray:
        self._refuse_parts(key)
        return self

    def __setitem__(self, key: Any, value: Any) -> None:
        self._refuse_parts(key)
        if isinstance(value, (int, float, bool, np.number)):
            value = np.full(self.shape, value, self.dtype.numpy)
        self.copyfrom(value)

    def _refuse_parts(self, key: Any) -> None:
        keys = key if isinstance(key, tuple) else (key,)
        if not all(k is Ellipsis or k == slice(None) for k in keys):
            raise UserError(
                f"an array on a device is read and written whole, so [{key}] is not possible",
                fix="use a[:] = values to fill it, and a.numpy()[...] to look at a part",
            )

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        data = self.numpy()
        return data if dtype is None else data.astype(dtype)

    def __repr__(self) -> str:
        return f"<NDArray shape={self.shape}, {self.device}>\n{self.numpy()!r}"

    def __str__(self) -> str:
        return str(self.numpy())

    def __reduce__(self) -> tuple[Any, ...]:
        return array, (self.numpy(), self.device)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """How other libraries see memory on an NVIDIA GPU without copying it."""
        if self.device.kind != "cuda":
            raise AttributeError(f"an array on {self.device} is not CUDA memory")
        data = (int(self.handle), False)
        return {
            "shape": self.shape,
            "typestr": self.dtype.numpy.str,
            "data": data,
            "version": 3,
            "strides": None,
        }

    def __dlpack__(self, **options: Any) -> Any:
        """The array for another library, without a copy on the host."""
        if self.device.kind != "cpu":
            raise UserError(
                f"an array on {self.device} has no DLPack form yet",
                fix="use a.numpy(); torch.as_tensor(a, device='cuda') shares memory on an NVIDIA GPU",
            )
        return self._host_view().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device.device_type, self.device.index

    def _host_view(self) -> np.ndarray:
        flat: np.ndarray = self.handle.bytes[: self.nbytes]
        return flat.view(self.dtype.numpy).reshape(self.shape)


def _describe(a: NDArray) -> str:
    return f"{a.dtype}{list(a.shape)} on {a.device}"


def _bytes(data: np.ndarray) -> np.ndarray:
    """The memory of a contiguous array, whatever its type."""
    return data.reshape(-1).view(np.uint8)


def _on(given: Any, ctx: Any) -> Device:
    chosen = ctx if ctx is not None else given
    return (cpu() if chosen is None else device(chosen)).require()


def empty(
    shape: int | Sequence[int],
    dtype: str = "float32",
    device: Device | None = None,
    ctx: Device | None = None,
) -> NDArray:
    """A new array with undefined content; `ctx` is the legacy name of `device`."""
    on = _on(device, ctx)
    extents = (shape,) if isinstance(shape, (int, np.integer)) else shape
    whole = tuple(int(extent) for extent in extents)
    if any(extent < 0 for extent in whole):
        raise UserError(f"an array cannot have the shape {whole}")
    kind = DType(dtype)
    return NDArray(on, kind, whole, on.driver.allocate(on.index, math.prod(whole) * kind.numpy.itemsize))


def array(data: Any, device: Device | None = None, ctx: Device | None = None, dtype: str | None = None) -> NDArray:
    """A copy of `data` (NumPy, lists, numbers, another array) on a device; `ctx` is its legacy name."""
    if isinstance(data, NDArray) and dtype in (None, data.dtype):
        on = _on(device, ctx) if device is not None or ctx is not None else data.device
        return data.copyto(on)
    values = np.asarray(data.numpy() if isinstance(data, NDArray) else data)
    kind = DType(dtype or values.dtype)
    return empty(values.shape, kind, device, ctx).copyfrom(values)


def from_dlpack(source: Any) -> NDArray:
    """The array of another library, sharing its memory."""
    interface = getattr(source, "__cuda_array_interface__", None)
    if interface is not None:
        return _from_cuda(source, interface)
    view = np.from_dlpack(source)
    if not (view.flags.c_contiguous and view.flags.writeable):
        raise UserError(
            "this array is not contiguous and writeable, so its memory cannot be shared",
            fix="copy it: nd.array(x)",
        )
    flat = view.reshape(-1).view(np.uint8)
    return NDArray(cpu(), DType(view.dtype), view.shape, HostMemory(flat), owner=source)


def _from_cuda(source: Any, interface: dict[str, Any]) -> NDArray:
    shape, dtype = tuple(interface["shape"]), np.dtype(interface["typestr"])
    strides = interface.get("strides")
    packed = [math.prod(shape[i + 1 :]) * dtype.itemsize for i in range(len(shape))]
    if strides is not None and list(strides) != packed:
        raise UserError(
            f"this array has strides {tuple(strides)}, so its memory cannot be shared",
            fix="make it contiguous first (x.contiguous())",
        )
    where = getattr(getattr(source, "device", None), "index", None)
    index = where if isinstance(where, int) else 0
    return NDArray(cuda(index), DType(dtype), shape, int(interface["data"][0]), owner=source)
