"""Memory for the results of calls on PyTorch's tensors.

`torch.empty_like` goes through PyTorch's dispatcher, which takes about as long as the launch of a kernel. Code from
`torch.compile` directly calls the functions behind it, with the same allocator, and so do calls here. These functions
exist for the CPU and for the current GPU. Elsewhere, and in versions of PyTorch without them, the operator allocates.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from ..arguments.signature import Signature

_guards = getattr(torch._C._dynamo, "guards", None)
_empty_on_cpu: Callable[..., Any] | None = getattr(_guards, "_empty_strided_cpu", None)
_empty_on_gpu: Callable[..., Any] | None = getattr(_guards, "_empty_strided_cuda", None)
"""Functions of sizes, strides and a type. Sizes and strides are exact tuples."""
part_of: Callable[..., Any] = getattr(_guards, "_reinterpret_tensor", None) or torch.as_strided
"""Returns the part of new memory with given sizes, strides and offset. PyTorch's internal function records no view."""
_current_gpu: Callable[[], int] | None = getattr(torch._C, "_cuda_getDevice", None)


def allocator(checked: Signature, x: Any) -> Callable[[], Any]:
    """Return the allocator of a call's result."""
    model = empty_in_order(x, checked, device="meta")
    return strided_allocator(x, tuple(model.shape), tuple(model.stride()), model.dtype)


def strided_allocator(x: Any, sizes: tuple[int, ...], strides: tuple[int, ...], dtype: Any) -> Callable[[], Any]:
    """Return the allocator of tensors of the given shape, strides and type, on the device of `x`."""
    by_operator = partial(torch.empty_strided, sizes, strides, dtype=dtype, device=x.device)
    if x.device.type == "cpu":
        return by_operator if _empty_on_cpu is None else partial(_empty_on_cpu, sizes, strides, dtype)
    if _empty_on_gpu is None or _current_gpu is None:
        return by_operator
    empty, current, index = _empty_on_gpu, _current_gpu, x.get_device()
    if torch.cuda.device_count() == 1:  # no other can be current
        return partial(empty, sizes, strides, dtype)
    return lambda: empty(sizes, strides, dtype) if current() == index else by_operator()


def empty_in_order(x: Any, checked: Signature, **options: Any) -> Any:
    """Return a new tensor with the type, the shape and the memory order of a result."""
    made = x.new_empty([checked.shape[d] for d in checked.order] or checked.shape, dtype=_type(checked), **options)
    return in_shape(made, checked.order) if checked.order else made


def _type(checked: Signature) -> Any:
    return getattr(torch, checked.problem.made_dtype)


def in_shape(a: Any, order: tuple[int, ...]) -> Any:
    """Return a view with the dimensions in the order of the shape, given a tensor with the dimensions in memory
    order."""
    return a.permute(sorted(range(len(order)), key=order.__getitem__))


def lies_in(a: Any, order: tuple[int, ...]) -> bool:
    """Return whether a tensor has no gaps, and this memory order of its dimensions."""
    return bool(a.permute(order).is_contiguous() if order else a.is_contiguous())
