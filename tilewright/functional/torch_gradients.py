"""Gradients of the convolutions registered with PyTorch.

Operators of ours compute both gradients of depthwise layers and of layers with small groups. Their plans decide for
each direction, type, layout and size whether our kernel or PyTorch's runs. PyTorch computes all other gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.library import Library, register_autograd, register_vmap

from . import torch_backward, torch_native, torch_vmap
from .call import OPERATORS
from .problem import TRANSPOSES, Problem
from .signature import GRADIENT, channels_last_order
from .torch_eager import Operator, eager, is_plain
from .torch_expressions import activation_gradient, reads_sums
from .torch_options import ConvolutionOptions, WeightGradientOptions
from .torch_pools import pool_gradient, save_pool
from .torch_state import differentiates
from .torch_tensors import channels_last, in_order
from .torch_threads import by_pytorch

_library = Library("tilewright", "FRAGMENT")
_LARGE = 16
"""Channels of a group from which on PyTorch computes the gradients, as matrix products."""


def _save_convolution(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    x, weight, bias, residual, *options = inputs
    save(ctx, CalledLayer.of(ConvolutionOptions(*options), x, weight), x, weight, bias, residual)


def save(ctx: Any, layer: CalledLayer, x: Any, weight: Any, bias: Any, residual: Any) -> None:
    """Save the tensors that the gradients of a layer need."""
    ctx.layer, ctx.biased, ctx.added = layer, bias is not None, residual is not None
    if layer.options.activation:  # the backward pass computes its argument again
        ctx.save_for_backward(x, weight, bias, residual)
    else:
        of_x, of_weight = ctx.needs_input_grad[:2]
        reads_x = of_weight or (of_x and not layer.spreads)
        ctx.save_for_backward(x if reads_x else None, weight if of_x or of_weight else None, None, None)


def _convolution_gradient(ctx: Any, grad: Any) -> tuple[Any, ...]:
    return *gradients(ctx, grad, ctx.saved_tensors), *[None] * len(ctx.layer.options)


def gradients(ctx: Any, grad: Any, tensors: tuple[Any, ...]) -> tuple[Any, Any, Any, Any]:
    """Return the gradients of the four tensors of a layer, if they are asked for, from the saved tensors."""
    layer: CalledLayer = ctx.layer
    x, weight, *_ = tensors
    of_x, of_weight, of_bias, of_residual = ctx.needs_input_grad[:4]
    if is_one_pass(ctx, x, weight):
        return *_by_one_pass(ctx, grad, tensors), None
    if layer.options.activation:
        grad = _before_activation(tensors, layer, grad)
    summed = grad
    if of_x or of_weight:
        grad = layer.arranged(grad)
    summed_up = ctx.biased and of_bias
    if of_weight and summed_up and layer.adds_up_bias(x):
        by_weight, by_bias = layer.weight_and_bias_gradients(grad, x, weight)
    else:
        by_weight = layer.weight_gradient(grad, x, weight) if of_weight else None
        by_bias = layer.bias_gradient(grad) if summed_up else None
    by_x = layer.data_gradient(grad, x, weight) if of_x else None
    return by_x, by_weight, by_bias, summed if ctx.added and of_residual else None


def is_one_pass(ctx: Any, x: Any, weight: Any) -> bool:
    """Whether an operator computes all gradients at once, and these are not differentiated again."""
    if ctx.added or not all(ctx.needs_input_grad[:2]) or torch.is_grad_enabled() or differentiates():
        return False
    return torch_backward.computes(ctx.layer.options, x, weight)


def _by_one_pass(ctx: Any, grad: Any, tensors: tuple[Any, ...]) -> tuple[Any, Any, Any]:
    """Return the gradients with respect to the input, the weight and the bias."""
    x, weight, bias, _ = tensors
    grad = ctx.layer.arranged(grad)
    return torch_backward.gradients(x, weight, bias, ctx.biased, grad, ctx.layer.options)


def _before_activation(tensors: tuple[Any, ...], layer: CalledLayer, grad: Any) -> Any:
    """Return the gradient with respect to the sums, which are computed again.

    `grad` is the gradient with respect to the result. If it can, one kernel computes the sums and the product.
    """
    (x, weight, bias, residual), options = tensors, layer.options
    plain = residual is None and not torch.is_grad_enabled() and not differentiates()
    if plain and reads_sums(options.activation):
        derivative = options._replace(activation=options.activation + GRADIENT)
        return convolved(x, weight, bias, grad, *derivative)
    before = convolved(x, weight, bias, residual, *options._replace(activation=""))
    return activation_gradient(options.activation)(grad, before)


def gradients_of_ours(problem: Problem, of_weight: bool, of_x: bool, wide: bool = False) -> list[Problem]:
    """Return the problems of the requested gradients that our operators compute.

    A `wide` weight gradient has the type of its sums.
    """
    transposed = problem.op in TRANSPOSES
    fits = not transposed or all(m < s for m, s in zip(problem.output_padding, problem.stride, strict=True))
    if not fits or not (problem.depthwise or problem.weights_shape[1] < _LARGE):
        return []
    wanted = of_weight, of_x and (transposed or problem.groups != 1)
    by_weight, by_x = problem.gradients
    return [each for each, asked in zip((by_weight._replace(wide=wide), by_x), wanted, strict=True) if asked]


class CalledLayer:
    """The options and sizes of a convolution, for its gradients."""

    executor: Callable[..., Operator] | None = None
    """The preparation of operators, for passes that are known; None if the layer serves a single call."""

    def __init__(self, options: ConvolutionOptions, shape: Any, weight_shape: Any, turned: bool) -> None:
        self.passes: dict[Any, Any] = {}
        """The backward passes that are known, by the gradients that they compute, and the strides of their argument."""
        self.options, self.rank, self.shape, self.turned = options, OPERATORS[options.name].rank, shape, turned
        self.transposed = OPERATORS[options.name].op in TRANSPOSES
        self.stride, self.dilation, self.taps = list(options.stride), list(options.dilation), weight_shape[2:]
        self.before, self.after = list(options.padding[: self.rank]), list(options.padding[self.rank :])
        self.batched = len(shape) == self.rank + 2
        self.last = options.layout.endswith("C")
        self.depthwise = options.name == "depthwise_conv2d"
        self.groups = shape[-1 if self.last else -self.rank - 1] if self.depthwise else options.groups
        # A window that reaches beyond the last input of a transposed convolution is no window of the convolution of its
        # result.
        fits = not self.transposed or all(m < s for m, s in zip(options.output_padding, self.stride, strict=True))
        self.small = fits and (self.depthwise or weight_shape[1] < _LARGE)
        """Whether groups are so small that operators of ours compute the gradients."""
        self.spreads = self.small and (self.transposed or self.groups != 1)
        """Whether an operator of ours computes the data gradient, without reading the input."""

    @classmethod
    def of(cls, options: ConvolutionOptions, x: Any, weight: Any) -> CalledLayer:
        """The layer of a call."""
        turned = not options.layout.endswith("C") and channels_last(x, OPERATORS[options.name].rank)
        return cls(options, x.shape, weight.shape, turned)

    def _first(self, a: Any) -> Any:
        """A tensor of the call's layout with a batch and the channels in front."""
        a = a if self.batched else a[None]
        return a.movedim(-1, 1) if self.last else a

    def _back(self, a: Any) -> Any:
        a = a.movedim(1, -1) if self.last else a
        return a if self.batched else a[0]

    def flat(self, weight: Any) -> Any:
        """The weight in PyTorch's shape."""
        return weight.reshape(-1, 1, *self.taps) if self.depthwise else weight

    def arranged(self, grad: Any) -> Any:
        """The gradient of the result in the memory order of the input, if operators of ours read it."""
        if not self.small:
            return grad
        return in_order(grad, channels_last_order(grad.dim(), self.rank) if self.turned else ())

    def data_gradient(self, grad: Any, x: Any, weight: Any) -> Any:
        """Compute the gradient of the input by the transposed layer: a convolution if the layer is transposed."""
        if not self.spreads:
            return self._by_torch(grad, x, weight, (True, False))[0]
        return convolved(grad, self.flat(weight), None, None, *self.inverse(grad.shape))

    def inverse(self, shape: Any) -> ConvolutionOptions:
        """Return the options of the operator that computes the gradient of the input from a result's gradient of this
        shape."""
        spatial, places = ((a[:-1] if self.last else a)[-self.rank :] for a in (self.shape, shape))
        more = [
            size - ((place - 1) * s - b - a + d * (k - 1) + 1)
            for size, place, s, b, a, d, k in zip(
                spatial, places, self.stride, self.before, self.after, self.dilation, self.taps, strict=True
            )
        ]
        return self.options._replace(
            name=f"conv{self.rank}d" if self.transposed else f"data_gradient{self.rank}d", groups=self.groups,
            activation="", output_padding=[0] * self.rank if self.transposed else more, precision="fp32",
        )  # fmt: skip

    def weight_gradient(self, grad: Any, x: Any, weight: Any) -> Any:
        """Compute the gradient of the weight; for a transposed convolution, it is that of the convolution of its
        result."""
        if not self.small:
            return self.weight_gradient_by_torch(grad, x, weight)
        images = (grad, x) if self.transposed else (x, grad)
        return weight_gradient(*images, *self.weight_options(False)).reshape(weight.shape)

    def weight_options(self, biased: bool, wide: bool = False) -> WeightGradientOptions:
        return WeightGradientOptions(
            f"weight_gradient{self.rank}d", list(self.taps), self.stride, self.options.padding, self.dilation,
            self.groups, self.options.layout, self.options.precision, biased, wide,
        )  # fmt: skip

    def adds_up_bias(self, x: Any) -> bool:
        """Return whether a kernel of ours computes both gradients, which are not differentiated again."""
        ours = self.small and not self.transposed and x.is_cuda
        return bool(ours and not torch.is_grad_enabled() and not differentiates())

    def weight_and_bias_gradients(self, grad: Any, x: Any, weight: Any) -> tuple[Any, Any]:
        """Compute both by one kernel."""
        both = weight_gradient(x, grad, *self.weight_options(True))
        count = weight.numel()
        return both[:count].view(weight.shape), both[count:]

    def bias_gradient(self, grad: Any) -> Any:
        """Sum over all dimensions but the channels."""
        grad = self._first(grad)
        return grad.sum([0, *range(2, grad.dim())])

    def _by_torch(self, grad: Any, x: Any, weight: Any, wanted: tuple[bool, bool]) -> tuple[Any, Any]:
        x, grad, flat = self._first(x), self._first(grad), self.flat(weight)
        if flat.device.type == "cpu":  # PyTorch 2.13 refuses some other orders, and computes wrong gradients of some
            flat = flat.contiguous()
        even = self.before == self.after
        around = torch_native.sides(self.before, self.after)
        padding = self.before if even else [0] * self.rank
        if not even and self.transposed:  # the crop that made the result is undone
            grad = torch.nn.functional.pad(grad, around)
        elif not even:
            x = torch.nn.functional.pad(x, around)
        kind = x.dtype
        if wanted[1] and torch_native.is_wrong_on_cpu(x, self.dilation):
            x, grad, flat = x.float(), grad.float(), flat.float()
        of_x, of_weight, _ = torch.ops.aten.convolution_backward(
            grad, x, flat, None, self.stride, padding, self.dilation, self.transposed,
            list(self.options.output_padding) if self.transposed else [0] * self.rank, self.groups, [*wanted, False],
        )  # fmt: skip
        if of_x is not None:
            if not even and not self.transposed:
                of_x = torch.nn.functional.pad(of_x, [-p for p in around])
            of_x = self._back(of_x)
        if of_weight is not None and flat.device.type == "cpu":
            images = (grad, x) if self.transposed else (x, grad)
            of_weight = torch_native.without_unreached(of_weight, *images, self.stride, padding, self.dilation)
        return of_x, None if of_weight is None else of_weight.to(kind).reshape(weight.shape)

    def weight_gradient_by_torch(self, grad: Any, x: Any, weight: Any) -> Any:
        """Compute the gradient of the weight by PyTorch."""
        return self._by_torch(grad, x, weight, (False, True))[1]


def _save_weight_gradient(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    x, grad, *options = inputs
    ctx.options = WeightGradientOptions(*options)
    ctx.save_for_backward(x, grad)


def _gradient_of_weight_gradient(ctx: Any, along: Any) -> tuple[Any, ...]:
    """Differentiate a weight gradient, which is linear in both tensors."""
    x, grad = ctx.saved_tensors
    options = _convolution_of(ctx.options)
    layer = CalledLayer.of(options, x, along)
    of_x = layer.data_gradient(layer.arranged(grad), x, along) if ctx.needs_input_grad[0] else None
    of_grad = convolved(x, along, None, None, *options) if ctx.needs_input_grad[1] else None
    return of_x, of_grad, *[None] * len(ctx.options)


def _convolution_of(options: WeightGradientOptions) -> ConvolutionOptions:
    """The options of the layer."""
    rank = OPERATORS[options.name].rank
    return ConvolutionOptions(
        f"conv{rank}d", options.stride, options.padding, options.dilation, options.groups, "", options.layout,
        [0] * rank, options.precision,
    )  # fmt: skip


def anywhere(gradient: Callable[..., Any]) -> Callable[..., Any]:
    """The same gradient, computed by PyTorch in a way that does not hang in a fork."""

    def computed(ctx: Any, grad: Any) -> Any:
        if grad.is_cuda:
            return gradient(ctx, grad)
        with by_pytorch():
            return gradient(ctx, grad)

    return computed


def _mapped_convolution(info: Any, in_dims: Any, *arguments: Any) -> Any:
    return torch_vmap.convolution(convolved, in_dims, *arguments)


def _mapped_weight_gradient(info: Any, in_dims: Any, *arguments: Any) -> Any:
    return torch_vmap.weight_gradient(weight_gradient, in_dims, *arguments)


_eager: dict[str, Operator] = {}
"""Calls of both operators that nothing traces."""


def register(convolution: Operator, of_weight: Operator) -> None:
    """Register the gradients of operators with PyTorch, and their rules for `vmap`.

    The arguments are the implementations of both operators.
    """
    back, of_back = anywhere(_convolution_gradient), anywhere(_gradient_of_weight_gradient)
    _eager["convolution"] = eager("Convolution", 4, convolution, _save_convolution, back)
    _eager["weight_gradient"] = eager("WeightGradient", 2, of_weight, _save_weight_gradient, of_back)
    for name, tensors, gradient, setup in (
        ("convolution", 4, back, _save_convolution),
        ("weight_gradient", 2, of_back, _save_weight_gradient),
    ):
        register_autograd(f"tilewright::{name}", gradient, setup_context=setup)
        _skip_the_dispatcher(name, tensors, gradient, setup)
    register_autograd("tilewright::pool", anywhere(pool_gradient), setup_context=save_pool)
    register_vmap("tilewright::convolution", _mapped_convolution)
    register_vmap("tilewright::weight_gradient", _mapped_weight_gradient)
    register_vmap("tilewright::pool", torch_vmap.pool)


def _skip_the_dispatcher(name: str, tensors: int, gradient: Operator, setup: Operator) -> None:
    """Let programs of `torch.compile` call an operator by one step of PyTorch's dispatcher instead of two.

    No tracing or mode sees the operators of such a program. PyTorch versions without these functions keep both steps.
    """
    generic: Any = getattr(torch._library, "autograd", None)
    if not hasattr(generic, "make_autograd_impl"):
        return
    of_others = generic.make_autograd_impl(getattr(torch.ops.tilewright, name).default, generic.Info(gradient, setup))

    def direct(keys: Any, *arguments: Any) -> Any:
        return _eager[name](*arguments) if is_plain(arguments[:tensors]) else of_others(keys, *arguments)

    for kind in ("CPU", "CUDA"):
        _library.impl(name, direct, f"Autograd{kind}", with_keyset=True)


def convolved(*arguments: Any) -> Any:
    """Call the operator, in the form that the transforms of `torch.func` and forward gradients take."""
    if differentiates():
        return _Transformed.apply(*arguments)
    run = _eager["convolution"] if is_plain(arguments[:4]) else torch.ops.tilewright.convolution
    return run(*arguments)


def weight_gradient(*arguments: Any) -> Any:
    """Call the operator of weight gradients in that form."""
    if differentiates():
        return _TransformedWeightGradient.apply(*arguments)
    run = _eager["weight_gradient"] if is_plain(arguments[:2]) else torch.ops.tilewright.weight_gradient
    return run(*arguments)


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
        """Return the tangent of the result, which is linear in each tensor before the activation."""
        x, weight, bias, residual = ctx.saved_tensors
        options: ConvolutionOptions = ctx.layer.options
        linear = options._replace(activation="")
        parts = [] if of_x is None else [convolved(of_x, weight, None, None, *linear)]
        parts += [] if of_weight is None else [convolved(x, of_weight, None, None, *linear)]
        if of_bias is not None:
            last = options.layout.endswith("C")
            parts.append(of_bias if last else of_bias.view(-1, *[1] * OPERATORS[options.name].rank))
        parts += [] if of_residual is None else [of_residual]
        moved = sum(parts[1:], parts[0])
        if options.activation:
            before = convolved(x, weight, bias, residual, *linear)
            moved = activation_gradient(options.activation)(moved.expand_as(before), before)
        return moved

    @staticmethod
    def vmap(info: Any, in_dims: Any, *arguments: Any) -> Any:
        """Compute many at once."""
        return _mapped_convolution(info, in_dims, *arguments)


class _TransformedWeightGradient(torch.autograd.Function):  # type: ignore[misc]  # PyTorch is not followed
    """The same of weight gradients."""

    @staticmethod
    def forward(*arguments: Any) -> Any:
        """Compute it."""
        return torch.ops.tilewright.weight_gradient(*arguments)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Save the tensors that the gradients need."""
        _save_weight_gradient(ctx, inputs, output)
        ctx.save_for_forward(*inputs[:2])

    @staticmethod
    def backward(ctx: Any, *along: Any) -> Any:
        """Return the gradient."""
        return _gradient_of_weight_gradient(ctx, *along)

    @staticmethod
    def jvp(ctx: Any, of_x: Any, of_grad: Any, *rest: Any) -> Any:
        """Return the tangent of the gradient."""
        x, grad = ctx.saved_tensors
        parts = [] if of_x is None else [weight_gradient(of_x, grad, *ctx.options)]
        parts += [] if of_grad is None else [weight_gradient(x, of_grad, *ctx.options)]
        return sum(parts[1:], parts[0])

    @staticmethod
    def vmap(info: Any, in_dims: Any, *arguments: Any) -> Any:
        """Compute many at once."""
        return _mapped_weight_gradient(info, in_dims, *arguments)
