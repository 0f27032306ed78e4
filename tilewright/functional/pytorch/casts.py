"""Casts of parameters and of their gradients on GPUs: one short launch for a weight and its bias.

Under autocast, PyTorch's four casts in a training step of a small layer take more host time than all of our kernels.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from ...core.casts import Casts
from ..programs.sized_programs import sized, sized_program
from .allocation import part_of, strided_allocator
from .launches import starts_of
from .tensors import NAMES, place

if TYPE_CHECKING:
    from ...core.target import Target

_ALIGNED = 64
"""The alignment of a bias, in elements."""


_METHODS = {torch.float16: torch.Tensor.half, torch.bfloat16: torch.Tensor.bfloat16}


def conversion(kind: Any) -> Callable[[Any], Any]:
    """Return PyTorch's conversion of tensors to a type. Its method for a type takes two thirds of the time of `to`."""
    return _METHODS.get(kind) or (lambda a: a.to(kind))


def casts_of(weight: Any, bias: Any, kind: Any) -> Callable[[Any, Any], tuple[Any, Any]]:
    """Return a function that casts such weights and biases to a type; the bias may be None."""

    def by_pytorch(weight: Any, bias: Any) -> tuple[Any, Any]:
        return weight.to(kind), None if bias is None else bias.to(kind)

    given = [a for a in (weight, bias) if a is not None]
    if not all(_is_ours(a, weight.dtype) for a in given):
        return by_pytorch
    count, shape, strides = weight.numel(), tuple(weight.shape), tuple(weight.stride())
    begin = -(-count // _ALIGNED) * _ALIGNED
    total = count if bias is None else begin + bias.numel()
    start = _launch(Casts(NAMES[weight.dtype], NAMES[kind], len(given)), weight, given, total, begin)
    alone, biases = bias is None, None if bias is None else tuple(bias.shape)
    fresh = strided_allocator(weight, *((shape, strides) if alone else ((total,), (1,))), kind)

    def run(weight: Any, bias: Any) -> tuple[Any, Any]:
        made = fresh()
        pointers = [weight.data_ptr()] if alone else [weight.data_ptr(), bias.data_ptr()]
        if start([*pointers, made.data_ptr()]):
            return by_pytorch(weight, bias)
        if alone:
            return made, None
        return part_of(made, shape, strides, 0), part_of(made, biases, (1,), begin)

    return run


def cast_of(a: Any, kind: Any) -> Callable[[Any], Any]:
    """Return a function that casts such contiguous tensors to a type."""
    if a.dtype == kind or not _is_ours(a, a.dtype):
        return lambda a: a.to(kind)
    start = _launch(Casts(NAMES[a.dtype], NAMES[kind], 1), a, [a], a.numel(), 0)
    fresh = strided_allocator(a, tuple(a.shape), tuple(a.stride()), kind)

    def run(a: Any) -> Any:
        made = fresh()
        return a.to(kind) if start([a.data_ptr(), made.data_ptr()]) else made

    return run


def _is_ours(a: Any, kind: Any) -> bool:
    return bool(a.is_cuda and a.dtype == kind and kind in NAMES and a.is_contiguous() and a.numel())


def _scheduled(of: Casts, target: Target) -> tuple[Any, list[Any], dict[Any, Any]]:
    from ...topi.casts import scheduled  # not needed for a program on disk

    return scheduled(of, target)


def _launch(of: Casts, x: Any, given: list[Any], total: int, begin: int) -> Callable[[list[int]], int]:
    on = place("conv2d", x)
    program = sized_program(of, on, _scheduled, "casts")
    arrays = [*[((a.numel(),), None) for a in given], ((total,), None)]
    return starts_of(sized(program, arrays, [begin] if of.rows == 2 else []), x, on)
