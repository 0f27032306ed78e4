"""Arrays of other libraries, as arrays that share their memory."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from ..core.dtype import DType
from ..core.errors import UserError
from .argument_checks import is_masked
from .array import NDArray
from .device import Device, cpu, cuda
from .dlpack import CPU, CUDA, CUDA_HOST, CUDA_MANAGED, Shared, not_shared, take
from .layout import reach


def from_dlpack(source: Any, read_only: bool = False) -> NDArray:
    """The array of another library, sharing its memory, strides included.

    With `read_only`, accepts read-only arrays; the caller must not write them.
    """
    if is_masked(source):
        raise UserError("a masked array cannot share its mask", fix="give the masked places a value: x.filled(0)")
    if _is_negated(source):
        raise UserError("this tensor is a view of memory with the opposite signs", fix="give x.resolve_neg()")
    if not hasattr(source, "__dlpack__"):
        interface = getattr(source, "__cuda_array_interface__", None)
        if interface is None:
            raise UserError(
                f"a {type(source).__name__} cannot share its memory: it has no __dlpack__", fix="copy it: nd.array(x)"
            )
        try:
            return _from_cuda(source, interface, read_only)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise not_shared(source, f"its __cuda_array_interface__ is {interface!r}") from error
    try:
        kind, index = map(int, source.__dlpack_device__())
    except Exception as error:  # any exception of the producer
        raise not_shared(source, error) from error
    on = {CPU: cpu(), CUDA_HOST: cpu(), CUDA: cuda(), CUDA_MANAGED: cuda()}.get(kind)
    if on is None:
        raise UserError(f"memory of DLPack device kind {kind} cannot be used here", fix="copy it: nd.array(x)")
    if on.kind == "cuda":
        on = cuda(index).require()
    with _current(on, source):
        shared = take(source, on.driver.consumer_stream(on.index))
    if shared.read_only and not read_only:
        raise _frozen()
    if shared.strides is not None and min(shared.strides, default=0) < 0:
        raise UserError(f"this array has strides {shared.strides}, some negative", fix="copy it: nd.array(x)")
    return _adopt(on, shared)


def _is_negated(source: Any) -> bool:
    """Whether PyTorch negates the values of a tensor when it reads them; DLPack does not report this."""
    kind: Any = getattr(sys.modules.get("torch"), "Tensor", ())
    return isinstance(source, kind) and bool(source.is_neg())


def _current(on: Device, source: Any) -> AbstractContextManager[Any]:
    """Make the GPU of an array current. Producers order the current GPU's streams, or refuse arrays of other GPUs."""
    torch = sys.modules.get("torch")
    if on.kind == "cuda" and isinstance(source, getattr(torch, "Tensor", ())):
        # PyTorch tracks the current GPU itself, so the driver's current context is not enough.
        where: AbstractContextManager[Any] = sys.modules["torch"].cuda.device(on.index)
        return where
    return on.driver.current(on.index)


def _adopt(on: Device, shared: Shared) -> NDArray:
    size = reach(shared.shape, shared.strides) * shared.dtype.bytes
    handle = on.driver.adopt(shared.address, size)
    return NDArray(on, shared.dtype, shared.shape, handle, shared.owner, shared.strides)


def _from_cuda(source: Any, interface: dict[str, Any], read_only: bool) -> NDArray:
    """Adopt an array by the protocol that describes memory on an NVIDIA GPU to libraries without DLPack."""
    shape, dtype = tuple(interface["shape"]), DType(np.dtype(interface["typestr"]))
    steps, itemsize = interface.get("strides"), dtype.numpy.itemsize
    if steps is not None and any(step < 0 or step % itemsize for step in steps):
        raise UserError(
            f"this array has strides of {tuple(steps)} bytes, so its memory cannot be shared",
            fix="make it contiguous first (x.contiguous())",
        )
    strides = None if steps is None else tuple(step // itemsize for step in steps)
    address, frozen = interface["data"]
    if frozen and not read_only:
        raise _frozen()
    on = cuda(cuda().driver.owner(int(address)))
    stream = interface.get("stream")
    if stream is not None:  # work on this stream may still be computing the values
        on.driver.await_stream(on.index, int(stream))
    return NDArray(on, dtype, shape, int(address), source, strides)


def _frozen() -> UserError:
    return UserError("this array is read-only, so its memory cannot be shared", fix="copy it: nd.array(x)")
