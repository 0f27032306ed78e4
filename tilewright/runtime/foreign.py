"""Arrays of other libraries as arguments of built functions: their memory, and the stream that their work goes to."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import numpy as np

from ..codegen.abi import ArrayArgument, ScalarArgument
from ..core.errors import UserError
from ..core.libraries import library_name
from .array import NDArray
from .device import Device, device
from .from_dlpack import from_dlpack


def _stream_of_torch(index: int) -> int:
    return int(sys.modules["torch"].cuda.current_stream(index).cuda_stream)


def _stream_of_cupy(index: int) -> int:
    cupy = sys.modules["cupy"]
    with cupy.cuda.Device(index):
        return int(cupy.cuda.get_current_stream().ptr)


STREAMS: dict[str, Callable[[int], int]] = {"torch": _stream_of_torch, "cupy": _stream_of_cupy}
"""The CUDA stream of a library's work on a device, by library. DLPack orders the work of other libraries."""


class Adopted(NamedTuple):
    """The arguments of a call, with arrays of other libraries adopted as our arrays in the same memory."""

    arguments: list[Any]
    library: str

    def call(self, function: Callable[..., Any]) -> Any:
        """Call a function with them, on the stream of the library."""
        first = next(a for a in self.arguments if isinstance(a, NDArray))
        with on_stream_of(self.library, first.device):
            return function(*self.arguments)


def on_stream_of(library: str, on: Device) -> AbstractContextManager[Any]:
    """Run this thread's work on a device in the stream of a library, if the library has one."""
    if on.kind != "cuda" or library not in STREAMS:
        return nullcontext()
    return device("cuda", on.index).use_stream(STREAMS[library](on.index))


def adopted(wanted: Sequence[ArrayArgument | ScalarArgument], given: Sequence[Any]) -> Adopted | None:
    """Adopt the arrays of other libraries among arguments; None if there are none, or if the call is wrong.

    NumPy's arrays are refused, as in the legacy API: they are on no device.
    """
    foreign = [
        isinstance(want, ArrayArgument) and not isinstance(a, (NDArray, np.ndarray)) and _is_shared(a)
        for want, a in zip(wanted, given, strict=False)
    ]
    if len(wanted) != len(given) or not any(foreign):
        return None
    found = [
        _adopt(want, a) if other else a for want, a, other in zip(wanted, given, foreign, strict=True)
    ]  # fmt: skip
    return Adopted(found, library_name(type(given[foreign.index(True)])))


def _is_shared(a: Any) -> bool:
    return hasattr(a, "__dlpack__") or hasattr(a, "__cuda_array_interface__")


def _adopt(want: Any, a: Any) -> NDArray:
    library = library_name(type(a))
    if library == "torch" and a.requires_grad:
        if sys.modules["torch"].is_grad_enabled():
            raise UserError(
                f"{want.name} requires a gradient, and a built function has none",
                fix="call it within torch.no_grad(), or register it: tilewright.torch_operator(..., gradient=True)",
            )
        a = a.detach()
    if want.written and library == "jax":
        raise UserError(
            f"{want.name} is written, but arrays of JAX are immutable",
            fix=f"pass a new array of ours for it, and share its memory: jax.dlpack.from_dlpack({want.name})",
        )
    return from_dlpack(a, read_only=not want.written)
