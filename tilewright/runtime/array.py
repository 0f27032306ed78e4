"""Arrays on a device, under the names of the legacy `nd` module."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from ..core.dtype import DType
from ..core.errors import UserError
from ..core.refusals import missing, not_made, refuses
from .argument_checks import Shape, converted, host_values, whole_numbers
from .device import Device, cpu, device
from .dlpack import Shared, give
from .layout import APART, in_one_row, kind_of, layout_of, packed, reach

# Operators of NumPy arrays; the values of these arrays are on a device, on which Python computes nothing.
_NOT_ON_A_DEVICE = (
    "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift "
    "radd rsub rmul rtruediv rfloordiv rmod rpow rmatmul rand ror rxor rlshift rrshift "
    "lt le gt ge neg invert abs len float int index iter"
)


@refuses("array", _NOT_ON_A_DEVICE)
class NDArray:
    """An array on a device: row-major, or a view with other strides.

    `handle` is the driver's handle of its memory. `layout` and `kind` stand for (device, dtype, shape) and (device,
    dtype, dimensions), so that a call checks an argument by one comparison. `start` and `end` are the bounds of the
    memory, so that arrays overlap if these do. `strides` counts elements; None for row-major. `offset` (elements from
    the handle on) is 0 except for views on devices without pointers.
    """

    __slots__ = (
        *("__weakref__", "_owner", "device", "dtype", "end", "handle", "kind", "layout", "offset", "shape"),
        *("start", "strides"),
    )

    def __init__(
        self,
        on: Device,
        dtype: DType,
        shape: Shape,
        handle: Any,
        owner: Any = None,
        strides: Shape | None = None,
        offset: int = 0,
    ) -> None:
        """`owner` keeps borrowed memory alive; without one, the memory is this array's own."""
        if not (isinstance(on, Device) and isinstance(dtype, DType) and isinstance(shape, tuple)):
            raise not_made("NDArray", "make one with nd.array(values, device) or nd.empty(shape, dtype, device)")
        self.device = on
        self.dtype = dtype
        self.shape = shape
        self.handle = handle
        self.strides = None if strides is None or strides == packed(shape) or in_one_row(shape, strides) else strides
        self.offset = offset
        if self.strides is None and not offset:
            self.layout = layout_of(on, dtype, shape)
            self.kind = kind_of(on, dtype, len(shape))
        else:
            self.layout = self.kind = APART
        self.start, self.end = on.driver.span(handle, self._reach() * self.itemsize)
        self._owner = owner

    def __getattr__(self, name: str) -> NoReturn:
        raise missing("the array", name, dir(type(self)), self)

    def __bool__(self) -> bool:
        return True  # an array is there or not: code asks `if bias`

    def __del__(self) -> None:
        if getattr(self, "_owner", self) is None:
            try:  # noqa: SIM105  # at the end of the process, names of modules are gone, `suppress` as well
                self.device.driver.free(self.device.index, self.handle)
            except Exception:  # the process is ending, or the device has died: nothing is left to free
                pass

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
        """Bytes of all elements."""
        return self.size * self.itemsize

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.dtype.numpy.itemsize * self.dtype.lanes

    def _reach(self) -> int:
        """Elements from the handle to the end of the last one."""
        return self.offset + reach(self.shape, self.strides)

    def numpy(self) -> np.ndarray:
        """A copy as a NumPy array; waits for running computations. A vector adds a dimension of its lanes."""
        if self.layout is not APART:
            data = np.empty(self._host_shape(), self.dtype.numpy)
            self.device.driver.read(self.device.index, self.handle, _bytes(data))
            return data
        whole = self._whole()
        return self._elements(whole).copy()

    asnumpy = numpy

    def _host_shape(self) -> Shape:
        lanes = self.dtype.lanes
        return self.shape if lanes == 1 else (*self.shape, lanes)

    def _whole(self) -> np.ndarray:
        """All memory from the handle to the last element."""
        data = np.empty(self._reach() * self.dtype.lanes, self.dtype.numpy)
        self.device.driver.read(self.device.index, self.handle, _bytes(data))
        return data

    def _elements(self, whole: np.ndarray) -> np.ndarray:
        """The elements of this view in a copy of its memory."""
        steps = tuple(step * self.itemsize for step in self.strides or packed(self.shape))
        if self.dtype.lanes > 1:
            steps = (*steps, whole.itemsize)
        first = whole[self.offset * self.dtype.lanes :]
        return np.lib.stride_tricks.as_strided(first, self._host_shape(), steps)

    def copyfrom(self, source: Any) -> NDArray:
        """Copy the values of `source`, which has the array's shape, and convert them to its type."""
        if isinstance(source, NDArray):
            return source.copyto(self)
        values = host_values(source, "copyfrom")
        if values.shape != self._host_shape():
            raise UserError(
                f"cannot copy values of shape {values.shape} into an array of shape {self._host_shape()}",
                primitive="copyfrom",
                fix="give values of the array's shape; a[:] = 0 fills it with one number",
            )
        data = converted(values, self.dtype, "copyfrom")
        if self.layout is APART and self.size:  # memory between the elements must not change
            whole = self._whole()
            self._elements(whole)[...] = data
            data = whole
        self.device.driver.write(self.device.index, self.handle, _bytes(data))
        return self

    def copyto(self, target: NDArray | Device) -> NDArray:
        """Copy the values to another array, or to a new one on that device; returns the target."""
        if isinstance(target, Device):
            target = empty(self.shape, self.dtype, target)
        if not isinstance(target, NDArray):
            raise UserError(
                f"cannot copy {_describe(self)} into {target!r}",
                primitive="copyto",
                fix="give an array or a device, such as tw.cpu(); a.numpy() gives the values to the host",
            )
        if target.shape != self.shape or target.dtype != self.dtype:
            raise UserError(
                f"cannot copy {_describe(self)} into {_describe(target)}",
                primitive="copyto",
                fix="give an array of the same shape and type, or a device",
            )
        if self.layout is APART or target.layout is APART:
            target.copyfrom(self.numpy())
        elif target.handle is self.handle:  # the same memory: OpenCL refuses a copy onto itself
            pass
        elif target.device is self.device:
            self.device.driver.copy(self.device.index, self.handle, target.handle, self.nbytes)
        else:
            target.device.driver.write(target.device.index, target.handle, _bytes(self.numpy()))
        return target

    def as_strided(self, shape: Sequence[int], strides: Sequence[int], offset: int = 0) -> NDArray:
        """A view of the same memory with its own shape, strides and first element, all counted in elements.

        Programs accept it if its buffer is declared with strides (`tir.decl_buffer`, `binds`). Raises UserError if it
        would reach beyond this array.
        """
        extents, steps = whole_numbers(shape, "shape", "as_strided"), whole_numbers(strides, "strides", "as_strided")
        (offset,) = whole_numbers((offset,), "offset", "as_strided")
        if len(extents) != len(steps):
            raise UserError(
                f"a view of shape {extents} needs {len(extents)} strides, not {steps}",
                primitive="as_strided",
                fix="give one stride, in elements, for each dimension",
            )
        first, last = self.offset + offset, self.offset + offset + reach(extents, steps)
        if min((*extents, *steps, offset), default=0) < 0 or last > self._reach():
            raise UserError(
                f"a view of shape {extents} with strides {steps} from element {offset} on is not within "
                f"{_describe(self)}",
                fix="give extents, strides and an offset of at least 0 that stay inside the array",
            )
        handle, rest = self.device.driver.part(self.handle, first * self.itemsize)
        return NDArray(self.device, self.dtype, extents, handle, self, steps, rest // self.itemsize)

    def __getitem__(self, key: Any) -> NDArray:
        self._refuse_parts(key)
        return self

    def __setitem__(self, key: Any, value: Any) -> None:
        self._refuse_parts(key)
        if isinstance(value, (int, float, complex, bool, np.generic)):
            value = np.full(self._host_shape(), converted(host_values(value, "copyfrom"), self.dtype, "copyfrom"))
        self.copyfrom(value)

    def _refuse_parts(self, key: Any) -> None:
        keys = key if isinstance(key, tuple) else (key,)
        if not all(k is Ellipsis or (isinstance(k, slice) and k == slice(None)) for k in keys):
            raise UserError(
                f"an array on a device is read and written whole, so [{key}] is not possible",
                fix="use a[:] = values to fill it, and a.numpy()[...] to look at a part",
            )

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:  # NumPy's protocol requires this error
            raise ValueError(
                "the values of an array on a device cannot be returned without a copy: leave out copy=False"
            )
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
        """The protocol by which other libraries use memory on an NVIDIA GPU without a copy."""
        if self.device.kind != "cuda":
            raise AttributeError(f"an array on {self.device} is not CUDA memory")
        steps = None if self.strides is None else tuple(step * self.itemsize for step in self.strides)
        return {
            "shape": self.shape,
            "typestr": self.dtype.numpy.str,
            "data": (int(self.handle), False),
            "version": 3,
            "strides": steps,
            "stream": self.device.driver.consumer_stream(self.device.index),
        }

    def to_dlpack(self) -> NDArray:
        """The array itself, which other libraries take: `torch.from_dlpack(a.to_dlpack())`."""
        return self

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """The array for another library, which shares its memory; on a GPU, its `stream` waits for ours."""
        if self.device.kind == "opencl":
            raise _NotSharedError(
                f"the memory of {self.device} has no address that other libraries could use", fix="use a.numpy()"
            )
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            raise _NotSharedError(
                f"an array on {self.device} cannot be shared with device {dl_device}",
                fix="copy it to that device first: a.copyto(tw.cpu())",
            )
        array = self.copyto(self.device) if copy else self
        array.device.driver.hand_over(array.device.index, stream)
        code, index = array.__dlpack_device__()
        strides = array.strides or packed(array.shape)
        memory = Shared(code, index, array.dtype, array.shape, strides, int(array.handle), False, array)
        return give(array, memory, versioned=max_version is not None and max_version[0] >= 1)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device.device_type, self.device.index


_MOST_BYTES = 2**62
_MOST_DIMENSIONS = 64  # NumPy's own limit


class _NotSharedError(UserError, BufferError):
    """The exception that the DLPack protocol requires if an array cannot be exported."""


def _describe(a: NDArray) -> str:
    return f"{a.dtype}{list(a.shape)} on {a.device}"


def _bytes(data: np.ndarray) -> np.ndarray:
    """The memory of a contiguous array of any type."""
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
    single = hasattr(shape, "__index__") and not getattr(shape, "ndim", 0)  # NumPy's arrays have `__index__`, too
    whole = whole_numbers((shape,) if single else shape, "shape", "empty")
    if any(extent < 0 for extent in whole):
        raise UserError(f"an array cannot have the shape {whole}", primitive="empty", fix="give extents of at least 0")
    kind = DType(dtype)
    if kind == "handle":
        raise UserError(
            "the elements would be of type handle, which are not numbers",
            primitive="empty",
            fix='give a numeric type such as "float32"',
        )
    size = math.prod(whole) * kind.numpy.itemsize * kind.lanes
    if size > _MOST_BYTES or len(whole) > _MOST_DIMENSIONS:
        raise UserError(
            f"an array of {len(whole)} dimensions of type {kind} would take 2^{size.bit_length() - 1} bytes or more",
            primitive="empty",
            fix=f"give a shape of at most {_MOST_DIMENSIONS} dimensions that fits into memory",
        )
    return NDArray(on, kind, whole, on.driver.allocate(on.index, size))


def array(data: Any, device: Device | None = None, ctx: Device | None = None, dtype: str | None = None) -> NDArray:
    """A copy of `data` (NumPy, lists, numbers, another array) on a device; `ctx` is its legacy name."""
    if isinstance(data, NDArray) and dtype in (None, data.dtype):
        on = _on(device, ctx) if device is not None or ctx is not None else data.device
        return data.copyto(on)
    values = host_values(data.numpy() if isinstance(data, NDArray) else data, "array")
    kind = DType(dtype or values.dtype.newbyteorder("="))
    shape = values.shape if kind.lanes == 1 else values.shape[:-1]
    return empty(shape, kind, device, ctx).copyfrom(values)
