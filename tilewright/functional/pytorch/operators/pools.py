"""Gradients of the poolings registered with PyTorch, and poolings under transforms."""

from __future__ import annotations

from typing import Any

import torch

from ....core.errors import UserError
from ....core.windows import reach_beyond
from ..state import differentiates
from .averages import AveragePooling
from .composed import exports
from .layouts import channels_behind, channels_first
from .options import PoolOptions


def save_pool(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    """Save the arguments for the gradient."""
    x, *options = inputs
    ctx.save_for_backward(x)
    ctx.options = PoolOptions(*options)


def pool_gradient(ctx: Any, grad: Any) -> tuple[Any, ...]:
    """Recompute the pooling by PyTorch, and differentiate that."""
    (x,) = ctx.saved_tensors
    options: PoolOptions = ctx.options
    last = options.layout.endswith("C")
    images, back = (x.movedim(-1, -3), grad.movedim(-1, -3)) if last else (x, grad)
    if options.name == "max_pool2d":
        made = _largest_gradient(options, images, back)
    else:
        made = _averages(options).gradient(back, images)
    return (made.movedim(-3, -1) if last else made), *[None] * len(options)


def _largest_gradient(options: PoolOptions, images: Any, back: Any) -> Any:
    """Compute the gradient of a max pooling."""
    padded, window, sides = _largest_window(options, images)
    _, where = torch.ops.aten.max_pool2d_with_indices(padded, *window)
    made = torch.ops.aten.max_pool2d_with_indices_backward(back, padded, *window, where)
    return torch.nn.functional.pad(made, [-side for side in sides]) if sides else made


def _largest_window(options: PoolOptions, images: Any) -> tuple[Any, tuple[Any, ...], list[Any]]:
    """Return images, the arguments of their pooling, and the added padding, so that the gradient stays inside the
    tensor.

    With a dilation, a window may contain only padding. PyTorch 2.13 writes its gradient outside the tensor on CPUs. So
    the images are first padded to the extent that all windows cover.
    """
    kernel, stride, dilation, before = options.kernel_size, options.stride, options.dilation, _even(options)
    if all(apart == 1 for apart in dilation):
        return images, (kernel, stride, before, dilation, options.ceil_mode), []
    sides: list[Any] = []
    for dim in (1, 0):  # columns first, in the order of `pad`
        side, covered = before[dim], (kernel[dim] - 1) * dilation[dim] + 1
        reach = reach_beyond(images.shape[dim - 2], side, side, covered, stride[dim]) if options.ceil_mode else 0
        sides += [side, side + reach]
    padded = torch.nn.functional.pad(images, sides, value=-torch.inf)
    return padded, (kernel, stride, [0, 0], dilation, False), sides


def _averages(options: PoolOptions) -> AveragePooling:
    return AveragePooling(
        options.kernel_size, options.stride, _even(options), options.ceil_mode, options.count_include_pad,
        options.divisor_override,
    )  # fmt: skip


def pooled(x: Any, options: PoolOptions) -> Any:
    """Call the operator, or PyTorch's own for ONNX, for transforms of `torch.func` and for forward gradients."""
    if not differentiates() and not exports():
        return torch.ops.tilewright.pool(x, *options)
    last = options.layout.endswith("C")
    images = channels_first(x, 2) if last else x
    if options.name == "max_pool2d":
        padded, window, _ = _largest_window(options, images)
        made = torch.max_pool2d(padded, *window)
    else:
        made = _averages(options).average(images)
    return channels_behind(made, 2) if last else made


def _even(options: PoolOptions) -> list[int]:
    """Return the padding of a pooling before each dimension, which must equal the padding after it."""
    before, after = list(options.padding[:2]), list(options.padding[2:]) or list(options.padding[:2])
    if before != after:
        raise UserError(
            "uneven padding of a pooling has no gradient", primitive=options.name, fix="pad the input before"
        )
    return before
