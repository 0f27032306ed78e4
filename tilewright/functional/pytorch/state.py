"""PyTorch's state around a call: tracing, modes, transforms and autocast."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch.autograd import forward_ad

modes = torch._C._len_torch_dispatch_stack
"""The number of active dispatch modes: users' own, of fake tensors, and of `make_fx`, which records operators."""
autocasts = torch._C._is_any_autocast_enabled
transforms = torch._C._are_functorch_transforms_active
pre_dispatches = partial(torch._C._dispatch_tls_is_dispatch_key_included, torch._C.DispatchKey.PreDispatch)
"""Whether operators are recorded before autograd, as by `torch.export`."""
tracing = torch._C._get_tracing_state
"""The graph that `torch.jit.trace` is recording, or None. Launches by address would not be recorded."""
_AUTOCAST = (torch.float16, torch.bfloat16, torch.float32)


def is_watched() -> bool:
    """Return whether anything other than `torch.compile` traces, records or transforms the operators of a call."""
    return bool(tracing() is not None or modes() or transforms() or pre_dispatches())


def autocast_type(device: str) -> Any:
    """Return the type of `torch.autocast` on a kind of device; None if autocast is off."""
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else None


@contextmanager
def untraced() -> Iterator[None]:
    """Stop the recording of `torch.jit.trace` inside the context: sizes are then numbers, not traced tensors."""
    state = tracing()
    if state is None:
        yield
        return
    torch._C._set_tracing_state(None)
    try:
        yield
    finally:
        torch._C._set_tracing_state(state)


def functionalizes() -> bool:
    """Return whether the innermost transform is `torch.func.functionalize`, which does not support
    `autograd.Function`."""
    functorch = torch._C._functorch
    return bool(functorch.peek_interpreter_stack().key() == functorch.TransformType.Functionalize)


def differentiates() -> bool:
    """Return whether a transform of `torch.func` or a forward gradient is active; these cannot differentiate our
    operators."""
    return forward_ad._current_level >= 0 or bool(transforms() and not functionalizes())


def nests_forward_gradients() -> bool:
    """Return whether `torch.func.jvp` is active inside of itself.

    PyTorch turns forward gradients off while it runs the `jvp` of an `autograd.Function`. So the outer gradient of
    such a function lacks a part, without an error.
    """
    functorch = torch._C._functorch
    active = functorch.get_interpreter_stack() or ()
    return bool(sum(each.key() == functorch.TransformType.Jvp for each in active) > 1)


def as_autocast(tensors: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the tensors in the types that `torch.autocast` has for PyTorch's convolutions; float64 is unchanged."""
    kind = tensors[0].device.type
    if not autocasts() or not torch.is_autocast_enabled(kind):
        return tensors
    dtype = torch.get_autocast_dtype(kind)
    return tuple(t.to(dtype) if t is not None and t.dtype in _AUTOCAST else t for t in tensors)


def type_in_autocast(x: Any) -> Any:
    """Return the type in which PyTorch's convolutions read a tensor: its own, or the type of `torch.autocast`."""
    if not autocasts() or x.dtype not in _AUTOCAST or not torch.is_autocast_enabled(x.device.type):
        return x.dtype
    return torch.get_autocast_dtype(x.device.type)
