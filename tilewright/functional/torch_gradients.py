"""Gradients of the operators registered with PyTorch.

Our transposed convolution computes the data gradient of depthwise layers; PyTorch computes all other gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.autograd import forward_ad
from torch.library import register_autograd, register_vmap

from ..core.errors import UserError
from . import torch_native
from .pooling import reach_beyond
from .signature import GRADIENT, OPERATORS, channels_last_order
from .torch_arguments import functionalizes
from .torch_averages import AveragePooling
from .torch_options import ConvolutionOptions, PoolOptions
from .torch_tensors import channels_last, in_order, transforms
from .torch_threads import by_pytorch


def _save_convolution(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    x, weight, bias, residual, *options = inputs
    ctx.options = ConvolutionOptions(*options)
    ctx.save_for_backward(x, weight, bias, residual if ctx.options.activation else None)
    ctx.biased, ctx.added = bias is not None, residual is not None


def _convolution_gradient(ctx: Any, grad: Any) -> tuple[Any, ...]:
    x, weight, *_ = ctx.saved_tensors
    options: ConvolutionOptions = ctx.options
    if options.activation:
        _check_differentiable(options)
        grad = _before_activation(ctx.saved_tensors, options, grad)
    window = _Window(options, x, weight)
    of_x = window.data_gradient(grad) if ctx.needs_input_grad[0] else None
    of_weight = window.weight_gradient(grad) if ctx.needs_input_grad[1] else None
    of_bias = window.bias_gradient(grad) if ctx.biased and ctx.needs_input_grad[2] else None
    of_residual = grad if ctx.added and ctx.needs_input_grad[3] else None
    return of_x, of_weight, of_bias, of_residual, *[None] * len(options)


def _before_activation(tensors: tuple[Any, ...], options: ConvolutionOptions, grad: Any) -> Any:
    """Return the gradient by the sums, from that by the result: one kernel, which computes the sums again."""
    x, weight, bias, residual = tensors
    if residual is None and not torch.is_grad_enabled() and not _differentiates():
        return convolved(x, weight, bias, grad, *options._replace(activation=options.activation + GRADIENT))
    before = convolved(x, weight, bias, residual, *options._replace(activation=""))
    return torch_native.ACTIVATION_GRADIENTS[options.activation](grad, before)


def _check_differentiable(options: ConvolutionOptions) -> None:
    if options.activation.startswith("custom:"):
        raise UserError(
            "an activation of your own has no gradient",
            primitive=options.name,
            fix="call the operator without it, and apply it in PyTorch; or call it within torch.no_grad()",
        )


class _Window:
    """The sliding window of a call, for its gradients: on images with a batch, channels first, evenly padded."""

    def __init__(self, options: ConvolutionOptions, x: Any, weight: Any) -> None:
        self.options, self.rank, self.x, self.weight = options, OPERATORS[options.name].rank, x, weight
        self.transposed = "transpose" in options.name
        self.stride, self.dilation = list(options.stride), list(options.dilation)
        self.before, self.after = list(options.padding[: self.rank]), list(options.padding[self.rank :])
        self.batched = x.dim() == self.rank + 2
        self.last = options.layout.endswith("C")
        self.channels = x.shape[-1] if self.last else x.shape[-self.rank - 1]
        self.depthwise = options.name == "depthwise_conv2d"
        self.groups = self.channels if self.depthwise else options.groups

    def _first(self, a: Any) -> Any:
        """A tensor of the call's layout with a batch and the channels in front."""
        a = a if self.batched else a[None]
        return a.movedim(-1, 1) if self.last else a

    def _back(self, a: Any) -> Any:
        a = a.movedim(1, -1) if self.last else a
        return a if self.batched else a[0]

    @property
    def _flat_weight(self) -> Any:
        """The weight in PyTorch's shape."""
        if not self.depthwise:
            return self.weight
        return self.weight.reshape(-1, 1, *self.weight.shape[2:])

    def data_gradient(self, grad: Any) -> Any:
        """Compute the data gradient: by our transposed convolution if the layer is depthwise, else by PyTorch."""
        if self.transposed or self.groups != self.channels:
            return self._by_torch(grad, (True, False))[0]
        spatial, places = ((a.shape[:-1] if self.last else a.shape)[-self.rank :] for a in (self.x, grad))
        taps = self.weight.shape[2:]
        more = [
            size - ((place - 1) * s - b - a + d * (k - 1) + 1)
            for size, place, s, b, a, d, k in zip(
                spatial, places, self.stride, self.before, self.after, self.dilation, taps, strict=True
            )
        ]
        last = not self.last and channels_last(self.x, self.rank)
        order = channels_last_order(grad.dim(), self.rank) if last else ()
        return convolved(
            in_order(grad, order), self._flat_weight, None, None,
            *self.options._replace(
                name=f"conv_transpose{self.rank}d", groups=self.groups, activation="", output_padding=more,
                precision="fp32",
            ),
        )  # fmt: skip

    def weight_gradient(self, grad: Any) -> Any:
        """By PyTorch."""
        return self._by_torch(grad, (False, True))[1]

    def bias_gradient(self, grad: Any) -> Any:
        """Sum over all dimensions but the channels."""
        grad = self._first(grad)
        return grad.sum([0, *range(2, grad.dim())])

    def _by_torch(self, grad: Any, wanted: tuple[bool, bool]) -> tuple[Any, Any]:
        x, grad, weight = self._first(self.x), self._first(grad), self._flat_weight
        if weight.device.type == "cpu":  # PyTorch 2.13 refuses some other orders, and computes wrong gradients of some
            weight = weight.contiguous()
        even = self.before == self.after
        around = [p for b, a in zip(reversed(self.before), reversed(self.after), strict=True) for p in (b, a)]
        padding = self.before if even else [0] * self.rank
        if not even and self.transposed:  # the crop that made the result is undone
            grad = torch.nn.functional.pad(grad, around)
        elif not even:
            x = torch.nn.functional.pad(x, around)
        of_x, of_weight, _ = torch.ops.aten.convolution_backward(
            grad, x, weight, None, self.stride, padding, self.dilation, self.transposed,
            list(self.options.output_padding) if self.transposed else [0] * self.rank, self.groups, [*wanted, False],
        )  # fmt: skip
        if of_x is not None:
            if not even and not self.transposed:
                of_x = torch.nn.functional.pad(of_x, [-p for p in around])
            of_x = self._back(of_x)
        if of_weight is not None and weight.device.type == "cpu":
            data, windows = (grad, x) if self.transposed else (x, grad)
            of_weight = self._without_unreached(of_weight, data.shape[2:], windows.shape[2:], padding)
        return of_x, None if of_weight is None else of_weight.reshape(self.weight.shape)

    def _without_unreached(self, of_weight: Any, sizes: Any, places: Any, padding: Any) -> Any:
        """Zero the gradients of taps that lie in the padding of every window: oneDNN leaves them unset in 16 bits."""
        if of_weight.element_size() != 2 or not all(type(size) is int for size in (*sizes, *places)):
            return of_weight
        taps = of_weight.shape[2:]
        each = zip(sizes, places, taps, self.stride, padding, self.dilation, strict=True)
        for axis, (size, place, count, step, before, apart) in enumerate(each, 2):
            unreached = [tap for tap in range(count) if not _is_reached(tap * apart - before, size, place, step)]
            if unreached:
                of_weight = of_weight.index_fill(axis, torch.tensor(unreached), 0)
        return of_weight


def _is_reached(first: int, size: int, places: int, step: int) -> bool:
    """Whether one of the indices `first + i * step`, with i below `places`, lies in 0 .. size - 1."""
    i = max(0, -(first // step))
    return i < places and first + i * step < size


def _save_pool(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    x, *options = inputs
    ctx.save_for_backward(x)
    ctx.options = PoolOptions(*options)


def _pool_gradient(ctx: Any, grad: Any) -> tuple[Any, ...]:
    """Compute the pooling again by PyTorch, and differentiate that."""
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
    """Compute the gradient of the largest values."""
    padded, window, sides = _largest_window(options, images)
    _, where = torch.ops.aten.max_pool2d_with_indices(padded, *window)
    made = torch.ops.aten.max_pool2d_with_indices_backward(back, padded, *window, where)
    return torch.nn.functional.pad(made, [-side for side in sides]) if sides else made


def _largest_window(options: PoolOptions, images: Any) -> tuple[Any, tuple[Any, ...], list[Any]]:
    """Return images, the arguments of their pooling, and the added padding, so that the gradient stays inside.

    With a dilation, a window may see padding only. PyTorch 2.13 writes its gradient outside of the tensor on CPUs. So
    the images are padded before, to the extent that all windows cover.
    """
    kernel, stride, dilation, before = options.kernel_size, options.stride, options.dilation, _even(options)
    if all(apart == 1 for apart in dilation):
        return images, (kernel, stride, before, dilation, options.ceil_mode), []
    sides: list[Any] = []
    for dim in (1, 0):  # columns first, as `pad` takes them
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


def _wherever(gradient: Callable[..., Any]) -> Callable[..., Any]:
    """The same gradient, whose operators of PyTorch do not hang in a fork."""

    def computed(*arguments: Any) -> Any:
        with by_pytorch():
            return gradient(*arguments)

    return computed


def _refuse_vmap(info: Any, in_dims: Any, *arguments: Any, **named: Any) -> Any:
    name = next((a for a in arguments if isinstance(a, str)), "convolution")
    raise UserError(
        "vmap cannot add a dimension to it",
        primitive=name,
        fix="put that dimension into the batch: x.flatten(0, 1), and the result's .unflatten(0, (m, n))",
    )


def register() -> None:
    """Register the gradients with PyTorch, of operators that are defined; and that `vmap` is refused."""
    register_autograd("tilewright::convolution", _wherever(_convolution_gradient), setup_context=_save_convolution)
    register_autograd("tilewright::pool", _wherever(_pool_gradient), setup_context=_save_pool)
    register_vmap("tilewright::convolution", _refuse_vmap)
    register_vmap("tilewright::pool", _refuse_vmap)


def convolved(*arguments: Any) -> Any:
    """Call the operator, in the form that the transforms of `torch.func` and forward gradients take."""
    if _differentiates():
        return _Transformed.apply(*arguments)
    return torch.ops.tilewright.convolution(*arguments)


def pooled(x: Any, options: PoolOptions) -> Any:
    """Call the operator; PyTorch's own for the transforms of `torch.func` and forward gradients, which know that."""
    if not _differentiates():
        return torch.ops.tilewright.pool(x, *options)
    last = options.layout.endswith("C")
    images = x.movedim(-1, -3) if last else x
    if options.name == "max_pool2d":
        padded, window, _ = _largest_window(options, images)
        made = torch.nn.functional.max_pool2d(padded, *window)
    else:
        made = _averages(options).average(images)
    return made.movedim(-3, -1) if last else made


def _differentiates() -> bool:
    """Whether a transform of `torch.func` or a forward gradient is active: they do not differentiate our operators."""
    return forward_ad._current_level >= 0 or bool(transforms() and not functionalizes())


def _even(options: PoolOptions) -> list[int]:
    """The padding of a pooling on one side, if that on the other is the same."""
    before, after = list(options.padding[:2]), list(options.padding[2:]) or list(options.padding[:2])
    if before != after:
        raise UserError(
            "uneven padding of a pooling has no gradient", primitive=options.name, fix="pad the input before"
        )
    return before


class _Transformed(torch.autograd.Function):  # type: ignore[misc]  # PyTorch is not followed
    """The operator under `torch.func.grad`, `jvp` and their kin, which differentiate no operator of a library."""

    @staticmethod
    def forward(*arguments: Any) -> Any:
        """Compute it."""
        return torch.ops.tilewright.convolution(*arguments)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Save the tensors that the gradients need."""
        _save_convolution(ctx, inputs, output)
        ctx.save_for_forward(*inputs[:4])

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """Return the gradient."""
        return _convolution_gradient(ctx, *grads)

    @staticmethod
    def jvp(ctx: Any, of_x: Any, of_weight: Any, of_bias: Any, of_residual: Any, *rest: Any) -> Any:
        """Return how the result moves with its tensors: it is linear in each of them, before the activation."""
        x, weight, bias, residual = ctx.saved_tensors
        options: ConvolutionOptions = ctx.options
        linear = options._replace(activation="")
        _check_differentiable(options)
        parts = [] if of_x is None else [convolved(of_x, weight, None, None, *linear)]
        parts += [] if of_weight is None else [convolved(x, of_weight, None, None, *linear)]
        if of_bias is not None:
            last = options.layout.endswith("C")
            parts.append(of_bias if last else of_bias.view(-1, *[1] * OPERATORS[options.name].rank))
        parts += [] if of_residual is None else [of_residual]
        moved = sum(parts[1:], parts[0])
        if options.activation:
            before = convolved(x, weight, bias, residual, *linear)
            moved = torch_native.ACTIVATION_GRADIENTS[options.activation](moved.expand_as(before), before)
        return moved

    @staticmethod
    def vmap(info: Any, in_dims: Any, *arguments: Any) -> Any:
        """Refuse it."""
        return _refuse_vmap(info, in_dims, *arguments)
