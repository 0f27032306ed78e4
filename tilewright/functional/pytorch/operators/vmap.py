"""Rules of `torch.vmap` for the operators registered with PyTorch: a mapped call is one call of the same operator."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch

from ...arguments.batching import Case, case, folded, merged, unfolded
from ...arguments.call import OPERATORS
from ...arguments.problem import WEIGHT_GRADIENT
from .expressions import activation_of
from .options import ConvolutionOptions, PoolOptions, WeightGradientOptions

_TORCH = SimpleNamespace(moveaxis=torch.movedim, broadcast_to=torch.broadcast_to)
"""PyTorch's functions under the names of NumPy. PyTorch's own `moveaxis` has no rule for nested maps."""


def convolution(call: Callable[..., Any], dims: Any, x: Any, weight: Any, bias: Any, residual: Any, *given: Any) -> Any:
    """Return a mapped convolution and its mapped dimension; `call` is the operator."""
    if _maps_nothing((x, weight, bias, residual), dims):
        return _nothing(call, dims, x, weight, bias, residual, *given)
    options = ConvolutionOptions(*given)
    rank, last = OPERATORS[options.name].rank, options.layout.endswith("C")
    (x, weight, bias, residual), has = _in_front((x, weight, bias, residual), dims)
    batched = x.dim() - has[0] == rank + 2
    x = x if batched else x.unsqueeze(int(has[0]))
    residual = residual if batched or residual is None else residual.unsqueeze(int(has[3]))
    if options.name == "depthwise_conv2d":
        weight = weight.flatten(int(has[1]), int(has[1]) + 1).unsqueeze(int(has[1]) + 1)
        options = options._replace(name="conv2d")
    how = case(OPERATORS[options.name].op, has)
    if how is Case.CHANNELS:
        made = _by_channels(call, (x, weight, bias, residual), has, rank + 1 if last else 1, options)
    elif how is Case.SUMS:
        sums = call(folded(x) if has[0] else x, weight, None, None, *options._replace(activation=""))
        sums = unfolded(sums, x.shape[0]) if has[0] else sums[None]
        made = _with_epilogue(sums, bias, residual, has, options)
    else:
        added = residual if residual is None or has[3] else residual.expand(x.shape[0], *residual.shape)
        added = added if added is None else folded(added)
        made = unfolded(call(folded(x), weight, bias, added, *options), x.shape[0])
    return (made if batched else made.squeeze(1)), 0


def _in_front(arrays: tuple[Any, ...], dims: Any) -> tuple[list[Any], tuple[bool, ...]]:
    """Return tensors with their mapped dimension first, and whether they have one."""
    placed = [a if dim is None else a.movedim(dim, 0) for a, dim in zip(arrays, dims, strict=False)]
    return placed, tuple(a is not None and dim is not None for a, dim in zip(arrays, dims, strict=False))


def _maps_nothing(arrays: tuple[Any, ...], dims: Any) -> bool:
    """Return whether the mapped dimension is empty, as in the Jacobian of an empty result."""
    return any(dim is not None and not a.shape[dim] for a, dim in zip(arrays, dims, strict=False))


def _nothing(call: Callable[..., Any], dims: Any, *arguments: Any) -> Any:
    """Return an empty result. Its shape is that of a call on zeros."""
    mapped = [d is not None and isinstance(a, torch.Tensor) for a, d in zip(arguments, dims, strict=True)]
    one = [a.new_zeros(a.movedim(d, 0).shape[1:]) if m else a
           for a, d, m in zip(arguments, dims, mapped, strict=True)]  # fmt: skip
    return call(*one).unsqueeze(0)[:0], 0


def _by_channels(
    call: Callable[..., Any], arrays: tuple[Any, ...], has: tuple[bool, ...], channel: int, options: Any
) -> Any:
    """Compute a call with the mapped dimension as groups, or as filters of a shared input."""
    whole = merged(_TORCH, OPERATORS[options.name].op, arrays, has, channel, options.groups)
    return whole.restore(call(*whole.arrays, *options._replace(groups=options.groups * whole.groups)))


def _with_epilogue(sums: Any, bias: Any, residual: Any, has: tuple[bool, ...], options: ConvolutionOptions) -> Any:
    """Add bias and residual to mapped sums, and apply the activation, by operators of PyTorch."""
    if bias is not None:
        ones = [1] * OPERATORS[options.name].rank
        behind = (1, *ones, -1) if options.layout.endswith("C") else (1, -1, *ones)
        sums = sums + bias.reshape(bias.shape[0] if has[2] else 1, *behind)
    sums = sums if residual is None else sums + (residual if has[3] else residual[None])
    return activation_of(options.activation)(sums) if options.activation else sums


def weight_gradient(call: Callable[..., Any], dims: Any, x: Any, grad: Any, *given: Any) -> Any:
    """Return mapped weight gradients, for `jacrev` and per-example gradients."""
    if _maps_nothing((x, grad), dims):
        return _nothing(call, dims, x, grad, *given)
    options = WeightGradientOptions(*given)
    rank, last = OPERATORS[options.name].rank, options.layout.endswith("C")
    (x, grad), has = _in_front((x, grad), dims)
    if x.dim() - has[0] == rank + 1:
        x, grad = (a.unsqueeze(int(there)) for a, there in zip((x, grad), has, strict=True))
    channel = rank + 1 if last else 1
    whole = merged(_TORCH, WEIGHT_GRADIENT, (x, grad, None, None), (*has, False, False), channel, options.groups)
    made = call(*whole.arrays[:2], *options._replace(groups=options.groups * whole.groups))
    return whole.restore(made), 0


def pool(info: Any, dims: Any, x: Any, *given: Any) -> Any:
    """Return a mapped pooling."""
    if _maps_nothing((x,), dims):
        return _nothing(torch.ops.tilewright.pool, dims, x, *given)
    (x,), _ = _in_front((x,), dims)
    if x.dim() < 5:  # images without a batch
        return torch.ops.tilewright.pool(x, *PoolOptions(*given)), 0
    return unfolded(torch.ops.tilewright.pool(folded(x), *PoolOptions(*given)), x.shape[0]), 0
