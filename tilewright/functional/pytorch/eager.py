"""Eager calls with gradients that bypass PyTorch's dispatcher, which takes longer than a small kernel.

The registered operators serve tracing, compilation, modes and subclasses of tensors. Without any of these, their
implementations run directly, and an `autograd.Function` records the same backward pass.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch.compiler import is_dynamo_compiling

from .state import is_watched
from .tensors import TENSORS

Operator = Callable[..., Any]


def is_plain(tensors: tuple[Any, ...]) -> bool:
    """Return whether a call's tensors are dense and on a CPU or a GPU, and nothing traces, records or transforms the
    call."""
    if is_dynamo_compiling() or is_watched():
        return False
    return all([a is None or _is_dense(a) for a in tensors])


def _is_dense(a: Any) -> bool:
    """Return whether a tensor is ordinary: not sparse, nested, negated, batched by `vmap`, or a subclass."""
    return type(a) in TENSORS and _dispatch_keys(a).raw_repr() in _usual(a.device.type)


_dispatch_keys: Any = torch._C._dispatch_keys


@cache
def _usual(device: str) -> frozenset[int]:
    """Return the dispatch keys of ordinary tensors on a kind of device, as integers; none for devices without our
    kernels."""
    if device not in ("cpu", "cuda"):
        return frozenset()
    with torch.inference_mode():
        of_inference = torch.empty(0, device=device)
    with torch.inference_mode(False):
        ordinary = torch.empty(0, device=device)
    return frozenset(_dispatch_keys(a).raw_repr() for a in (ordinary, of_inference))


def records(tensors: tuple[Any, ...]) -> bool:
    """Return whether autograd records a call on these tensors; some may be None."""
    return torch.is_grad_enabled() and any([a is not None and a.requires_grad for a in tensors])


def autograd_function(name: str, forward: Operator, backward: Operator, **more: Operator) -> Any:
    """Return a subclass of `torch.autograd.Function` with these static methods; `grad_fn` shows an operator's name."""
    methods = {
        key: staticmethod(method) for key, method in (("forward", forward), ("backward", backward), *more.items())
    }
    return type(torch.autograd.Function)(name.title().replace("_", ""), (torch.autograd.Function,), methods)
