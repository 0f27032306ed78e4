"""Eager calls with gradients without PyTorch's dispatcher, which takes longer than a small kernel.

The operators of the library serve tracing, compilation, modes and subclasses of tensors. Without any of these, the
operators' implementations run directly, and a function of autograd records the same backward pass.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch.compiler import is_dynamo_compiling

from .torch_state import is_watched
from .torch_tensors import TENSORS

Operator = Callable[..., Any]


def is_plain(tensors: tuple[Any, ...]) -> bool:
    """Whether all tensors of a call are dense and on a CPU or a GPU, and nothing traces, records or transforms the
    call."""
    if is_dynamo_compiling() or is_watched():
        return False
    return all([a is None or _is_dense(a) for a in tensors])


def _is_dense(a: Any) -> bool:
    """Whether a tensor has memory of its own: it is not sparse, nested, negated, batched by `vmap`, or a subclass."""
    return type(a) in TENSORS and _dispatch_keys(a).raw_repr() in _usual(a.device.type)


_dispatch_keys: Any = torch._C._dispatch_keys


@cache
def _usual(device: str) -> frozenset[int]:
    """Return the dispatch keys of ordinary tensors on a kind of device, as numbers; none for devices without our
    kernels."""
    if device not in ("cpu", "cuda"):
        return frozenset()
    with torch.inference_mode():
        of_inference = torch.empty(0, device=device)
    with torch.inference_mode(False):
        ordinary = torch.empty(0, device=device)
    return frozenset(_dispatch_keys(a).raw_repr() for a in (ordinary, of_inference))


def eager(name: str, tensors: int, compute: Operator, save: Operator, gradient: Operator) -> Operator:
    """Return a call of an implementation, with its gradient recorded if a tensor among the first arguments needs it."""

    def forward(ctx: Any, *arguments: Any) -> Any:
        made = compute(*arguments)
        save(ctx, arguments, made)
        return made

    methods = {"forward": staticmethod(forward), "backward": staticmethod(gradient)}
    function = type(torch.autograd.Function)(name, (torch.autograd.Function,), methods)  # `grad_fn` shows the name

    def call(*arguments: Any) -> Any:
        if torch.is_grad_enabled() and any([a is not None and a.requires_grad for a in arguments[:tensors]]):
            return function.apply(*arguments)
        return compute(*arguments)

    return call
