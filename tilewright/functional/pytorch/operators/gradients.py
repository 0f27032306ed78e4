"""Gradients of the convolutions registered with PyTorch.

Our operators compute both gradients of depthwise layers and of layers with small groups. Their plans choose our kernel
or PyTorch's for each direction, type, layout and size. PyTorch computes all other gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch.library import Library, register_autograd, register_vmap

from ...arguments.call import OPERATORS
from ...arguments.signature import GRADIENT
from ..eager import Operator, autograd_function, is_plain, records
from ..state import differentiates, nests_forward_gradients
from ..threads import by_pytorch
from . import composed, joint_gradients, vmap
from .expressions import activation_gradient, reads_sums
from .layer import CalledLayer, Gradients, Kernels, Run
from .options import ConvolutionOptions, WeightGradientOptions
from .pools import pool_gradient, save_pool

_library = Library("tilewright", "FRAGMENT")
_implementations: dict[str, Operator] = {}
"""The implementations of both operators, for tensors without gradients and outside of traces."""
_transformed: dict[str, Any] = {}
"""Both operators, in a form that `torch.func.grad` and `jvp` can differentiate. They cannot differentiate operators
that are registered with `torch.library`."""


class RecordedCall(NamedTuple):
    """A call that autograd records: its layer, and whether this has a bias and adds a residual.

    Only eager calls have the last three fields. `run` is the executor, and `cast` converts the weight and the bias.
    `known_pass` returns the gradients of a known pass, or None (`training/backward_passes.py`).
    """

    layer: CalledLayer
    biased: bool
    added: bool
    run: Run | None = None
    cast: Run | None = None
    known_pass: Callable[[Any, Any, Any], tuple[Any, ...] | None] | None = None


def save(ctx: Any, call: RecordedCall, x: Any, weight: Any, bias: Any, residual: Any) -> None:
    """Save the tensors that the gradients of a call need: all of them if there is an activation, else the first two."""
    ctx.call = call
    if call.layer.options.activation:  # the backward pass recomputes the argument of the activation
        ctx.save_for_backward(x, weight, bias, residual)
    else:
        of_x, of_weight, *_ = ctx.needs_input_grad
        reads_x = of_weight or (of_x and not call.layer.spreads)
        ctx.save_for_backward(x if reads_x else None, weight if of_x or of_weight else None)


class _Operators:
    """Our operators, called again in each pass, so that PyTorch can trace and differentiate them."""

    def convolution(self, arrays: tuple[Any, ...], options: ConvolutionOptions) -> Run:
        """Return the operator."""
        return lambda *arrays: convolve(*arrays, *options)

    def weight_gradient(self, images: tuple[Any, ...], options: WeightGradientOptions, shape: Any, filters: Any) -> Run:
        """Return a function of two images and the weight that computes the gradients of a weight of this shape and of
        the bias."""

        def run(first: Any, second: Any, weight: Any) -> tuple[Any, Any]:
            made = weight_gradient(first, second, *options)
            if not options.biased:
                return made.reshape(shape), None
            return made[:-filters].view(shape), made[-filters:]

        return run


_OPERATORS = _Operators()


def gradients(ctx: Any, grad: Any, saved: tuple[Any, ...]) -> Gradients:
    """Return the requested gradients of the four tensors of a layer, from the saved tensors."""
    call: RecordedCall = ctx.call
    layer, tensors = call.layer, in_full(saved)
    x, weight, bias, _ = tensors
    if is_one_pass(layer.options, x, weight, ctx.needs_input_grad, call.added):
        grad = layer.arranged(grad)
        return *joint_gradients.gradients(x, weight, bias, call.biased, grad, layer.options), None
    if layer.options.activation:
        grad = before_activation(layer, grad, tensors, _OPERATORS)(grad, *tensors)
    arranged = layer.arranged(grad) if any(ctx.needs_input_grad[:2]) else grad
    summed = grad if call.added and ctx.needs_input_grad[3] else None
    return linear_pass(ctx, arranged, x, weight, _OPERATORS)(arranged, x, weight, summed)


def in_full(saved: tuple[Any, ...]) -> Gradients:
    """Return the four tensors of a layer. Tensors that `save` left out are None."""
    x, weight, bias, residual = (*saved, None, None)[:4]
    return x, weight, bias, residual


def is_one_pass(options: ConvolutionOptions, x: Any, weight: Any, wanted: tuple[bool, ...], added: bool) -> bool:
    """Return whether one operator computes all gradients at once, and no gradient is differentiated again.

    `wanted` flags the tensors of the layer that have gradients; `added` is whether it adds a residual.
    """
    if added or not all(wanted[:2]) or torch.is_grad_enabled() or differentiates():
        return False
    return joint_gradients.computes(options, x, weight)


def before_activation(layer: CalledLayer, grad: Any, tensors: tuple[Any, ...], kernels: Kernels) -> Run:
    """Return a function of `grad` and the four tensors that computes the gradient with respect to the sums.

    The function recomputes the sums. `grad` is the gradient with respect to the result. For some activations, one
    kernel computes the sums and multiplies by `grad`.
    """
    (x, weight, bias, residual), options = tensors, layer.options
    plain = residual is None and not torch.is_grad_enabled() and not differentiates()
    if plain and reads_sums(options.activation):
        derivative = options._replace(activation=options.activation + GRADIENT)
        product = kernels.convolution((x, weight, bias, grad), derivative)
        return lambda grad, x, weight, bias, residual: product(x, weight, bias, grad)
    sums = kernels.convolution(tensors, options._replace(activation=""))
    of_sums = activation_gradient(options.activation)
    return lambda grad, *tensors: of_sums(grad, sums(*tensors))


def linear_pass(ctx: Any, grad: Any, x: Any, weight: Any, kernels: Kernels) -> Callable[..., Gradients]:
    """Return a function of `grad`, input and weight that computes the requested gradients of the four tensors.

    `grad` is the gradient with respect to the sums, as `CalledLayer.arranged` returns it. The gradient of the residual
    is the last argument of the function.
    """
    layer: CalledLayer = ctx.call.layer
    of_x, of_weight, of_bias = ctx.needs_input_grad[:3]
    sums_up = ctx.call.biased and of_bias
    together = layer.adds_up_bias(x, ctx.needs_input_grad, ctx.call.biased)
    by_weight = layer.weight_gradient(grad, x, weight, together, kernels) if of_weight else None
    by_x = layer.data_gradient(grad, weight, kernels) if of_x else None
    bias_gradient = layer.bias_gradient if sums_up and not together else None

    def run(grad: Any, x: Any, weight: Any, summed: Any = None) -> Gradients:
        of_weight, of_bias = (None, None) if by_weight is None else by_weight(x, grad, weight)
        if bias_gradient is not None:
            of_bias = bias_gradient(grad)
        return None if by_x is None else by_x(grad, x, weight), of_weight, of_bias, summed

    return run


# The gradients of both operators, as PyTorch asks for them


def _save_convolution(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    x, weight, bias, residual, *options = inputs
    layer = CalledLayer.of(ConvolutionOptions(*options), x, weight)
    save(ctx, RecordedCall(layer, bias is not None, residual is not None), x, weight, bias, residual)


def _convolution_gradient(ctx: Any, grad: Any) -> tuple[Any, ...]:
    return *gradients(ctx, grad, ctx.saved_tensors), *[None] * len(ctx.call.layer.options)


def _save_weight_gradient(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    x, grad, *options = inputs
    ctx.options = WeightGradientOptions(*options)
    ctx.save_for_backward(x, grad)


def _gradient_of_weight_gradient(ctx: Any, along: Any) -> tuple[Any, ...]:
    """Differentiate a weight gradient, which is linear in both tensors."""
    x, grad = ctx.saved_tensors
    options = ctx.options.of_layer()
    layer, of_x, of_grad = CalledLayer.of(options, x, along), None, None
    if ctx.needs_input_grad[0]:
        arranged = layer.arranged(grad)
        of_x = layer.data_gradient(arranged, along, _OPERATORS)(arranged, x, along)
    if ctx.needs_input_grad[1]:
        of_grad = convolve(x, along, None, None, *options)
    return of_x, of_grad, *[None] * len(ctx.options)


def fork_safe(gradient: Callable[..., Any]) -> Callable[..., Any]:
    """Return a gradient function that does not hang in a forked process if PyTorch computes parts of it on the CPU."""

    def computed(ctx: Any, grad: Any) -> Any:
        if grad.is_cuda:
            return gradient(ctx, grad)
        with by_pytorch():
            return gradient(ctx, grad)

    return computed


# Eager calls of layers


def _forward(ctx: Any, x: Any, weight: Any, *others: Any) -> Any:
    call, given = others[-1], len(others)
    bias, residual = others[0] if given > 1 else None, others[1] if given > 2 else None
    if call.cast is not None:  # autograd does not record this cast; it converts gradients that have the wrong type
        ctx.given = weight, bias
        weight, bias = call.cast(weight, bias)
    save(ctx, call, x, weight, bias, residual)
    return call.run(x, weight, bias, residual)


def _backward(ctx: Any, grad: Any) -> tuple[Any, ...]:
    saved, call = ctx.saved_tensors, ctx.call
    made = None if call.known_pass is None else call.known_pass(ctx, grad, saved)
    if made is None:
        if call.cast is not None and torch.is_grad_enabled():
            saved = _of_given(in_full(saved), *ctx.given)
        made = gradients(ctx, grad, saved)
    return *made, None  # PyTorch leaves out gradients beyond the number of arguments if these are None


def _of_given(tensors: tuple[Any, ...], weight: Any, bias: Any) -> tuple[Any, ...]:
    """Return the saved tensors, with weight and bias cast again, so that second derivatives reach the uncast ones."""
    x, cast, cast_bias, residual = tensors
    weight = None if cast is None else weight.to(cast.dtype)
    return x, weight, None if cast_bias is None else bias.to(cast_bias.dtype), residual


_Convolution = autograd_function("convolution", _forward, fork_safe(_backward))
with_gradients: Run = super(torch.autograd.Function, _Convolution).apply
"""Make a call, and have autograd record it: `with_gradients(*tensors, call)`.

The tensors are x, weight, bias and residual. Missing ones at the end are left out, since each argument takes time.
It is the `apply` of the C++ base class. PyTorch's Python `apply` first checks for transforms, which these calls do not
have.
"""


def _eager_convolution(*arguments: Any) -> Any:
    compute, tensors, options = _implementations["convolution"], arguments[:4], arguments[4:]
    if not records(tensors):
        return compute(*arguments)
    layer = CalledLayer.of(ConvolutionOptions(*options), *tensors[:2])
    biased, added = (a is not None for a in tensors[2:])
    return with_gradients(*tensors, RecordedCall(layer, biased, added, lambda *tensors: compute(*tensors, *options)))


def _eager_weight_gradient(*arguments: Any) -> Any:
    if records(arguments[:2]):
        return _transformed["weight_gradient"].apply(*arguments)
    return _implementations["weight_gradient"](*arguments)


def convolve(*arguments: Any) -> Any:
    """Call the operator in the form for transforms of `torch.func` and forward gradients."""
    if differentiates():
        run = composed.convolve if nests_forward_gradients() else _transformed["convolution"].apply
        return run(*arguments)
    run = _eager_convolution if is_plain(arguments[:4]) else torch.ops.tilewright.convolution
    return run(*arguments)


def weight_gradient(*arguments: Any) -> Any:
    """Call the operator of weight gradients in the form for transforms."""
    if differentiates():
        run = composed.weight_gradient if nests_forward_gradients() else _transformed["weight_gradient"].apply
        return run(*arguments)
    run = _eager_weight_gradient if is_plain(arguments[:2]) else torch.ops.tilewright.weight_gradient
    return run(*arguments)


# Forward gradients and `vmap`


def _convolution_tangent(ctx: Any, of_x: Any, of_weight: Any, of_bias: Any, of_residual: Any, *rest: Any) -> Any:
    """Return the tangent of the result; before the activation, the result is linear in each tensor."""
    x, weight, bias, residual = in_full(ctx.saved_tensors)
    options: ConvolutionOptions = ctx.call.layer.options
    linear = options._replace(activation="")
    parts = [] if of_x is None else [convolve(of_x, weight, None, None, *linear)]
    parts += [] if of_weight is None else [convolve(x, of_weight, None, None, *linear)]
    if of_bias is not None:
        last = options.layout.endswith("C")
        parts.append(of_bias if last else of_bias.view(-1, *[1] * OPERATORS[options.name].rank))
    parts += [] if of_residual is None else [of_residual]
    moved = sum(parts[1:], parts[0])
    if options.activation:
        before = convolve(x, weight, bias, residual, *linear)
        moved = activation_gradient(options.activation)(moved.expand_as(before), before)
    return moved


def _weight_gradient_tangent(ctx: Any, of_x: Any, of_grad: Any, *rest: Any) -> Any:
    x, grad = ctx.saved_tensors
    parts = [] if of_x is None else [weight_gradient(of_x, grad, *ctx.options)]
    parts += [] if of_grad is None else [weight_gradient(x, of_grad, *ctx.options)]
    return sum(parts[1:], parts[0])


def _map_convolution(info: Any, in_dims: Any, *arguments: Any) -> Any:
    return vmap.convolution(convolve, in_dims, *arguments)


def _map_weight_gradient(info: Any, in_dims: Any, *arguments: Any) -> Any:
    return vmap.weight_gradient(weight_gradient, in_dims, *arguments)


def register(convolution: Operator, of_weight: Operator) -> None:
    """Register the gradients of operators with PyTorch, and their rules for `vmap`.

    The arguments are the implementations of both operators.
    """
    _implementations.update(convolution=convolution, weight_gradient=of_weight)
    _register(
        *("convolution", 4, _eager_convolution, _save_convolution, _convolution_gradient),
        *(_convolution_tangent, _map_convolution),
    )
    _register(
        *("weight_gradient", 2, _eager_weight_gradient, _save_weight_gradient, _gradient_of_weight_gradient),
        *(_weight_gradient_tangent, _map_weight_gradient),
    )
    register_autograd("tilewright::pool", fork_safe(pool_gradient), setup_context=save_pool)
    register_vmap("tilewright::pool", vmap.pool)


def _register(
    name: str, tensors: int, eager: Operator, save: Operator, gradient: Operator, tangent: Operator, mapped: Operator
) -> None:
    """Register an operator of a number of tensors: with autograd, for transforms, for `vmap` and for direct calls."""
    backward = fork_safe(gradient)

    def save_transformed(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        save(ctx, inputs, output)
        ctx.save_for_forward(*inputs[:tensors])

    def forward(*arguments: Any) -> Any:
        return getattr(torch.ops.tilewright, name)(*arguments)

    _transformed[name] = autograd_function(
        *(name, forward, backward), setup_context=save_transformed, jvp=tangent, vmap=mapped
    )
    register_autograd(f"tilewright::{name}", backward, setup_context=save)
    register_vmap(f"tilewright::{name}", mapped)
    _skip_the_dispatcher(name, tensors, eager, backward, save)


def _skip_the_dispatcher(name: str, tensors: int, eager: Operator, gradient: Operator, setup: Operator) -> None:
    """Let programs of `torch.compile` call an operator with one step of PyTorch's dispatcher instead of two.

    Neither tracing nor modes intercept the operators of such a program. PyTorch versions without these functions keep
    both steps.
    """
    generic: Any = getattr(torch._library, "autograd", None)
    if not hasattr(generic, "make_autograd_impl"):
        return
    of_others = generic.make_autograd_impl(getattr(torch.ops.tilewright, name).default, generic.Info(gradient, setup))

    def direct(keys: Any, *arguments: Any) -> Any:
        return eager(*arguments) if is_plain(arguments[:tensors]) else of_others(keys, *arguments)

    for kind in ("CPU", "CUDA"):
        _library.impl(name, direct, f"Autograd{kind}", with_keyset=True)
