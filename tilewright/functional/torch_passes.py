"""Backward passes of layers that are known: all decisions of the first pass on tensors like these, as one function.

PyTorch's own check, in C++, compares the tensors of a pass with the tensors of the first one. Then executors run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch.compiler import is_dynamo_compiling

from . import torch_backward
from .signature import GRADIENT
from .torch_allocation import part_of
from .torch_eager import is_plain
from .torch_expressions import reads_sums
from .torch_gradients import CalledLayer, is_one_pass
from .torch_state import modes
from .torch_tensors import same_tensors

Gradients = tuple[Any, Any, Any, Any]
Run = Callable[..., Any]
_grad_enabled = torch.is_grad_enabled


class KnownPass(NamedTuple):
    """The check of a pass, and its gradients with respect to the tensors: `run(grad, tensors)`."""

    is_like: Callable[..., bool]
    run: Callable[[Any, tuple[Any, ...]], Gradients]


def known_gradients(ctx: Any, grad: Any, tensors: tuple[Any, ...]) -> Gradients | None:
    """Return the gradients of the tensors of a layer if such a pass is known, or can be prepared; else None."""
    if is_dynamo_compiling() or _grad_enabled() or modes():
        return None
    passes: dict[Any, KnownPass] = ctx.layer.passes
    key = ctx.needs_input_grad, grad.stride()
    known = passes.get(key)
    if known is None or not known.is_like(grad, *[a for a in tensors if a is not None]):
        if not is_plain((grad, *tensors)):
            return None
        run, is_like = _prepared(ctx, grad, tensors), same_tensors(grad, *tensors)
        if run is None or is_like is None:
            return None
        known = passes[key] = KnownPass(is_like, run)
    return known.run(grad, tensors)


def _prepared(ctx: Any, grad: Any, tensors: tuple[Any, ...]) -> Any:
    """Decide how passes like this one run; None if their parts depend on more than their tensors."""
    layer: CalledLayer = ctx.layer
    x, weight, bias, residual = tensors
    of_x, of_weight, of_bias, of_residual = ctx.needs_input_grad[:4]
    if layer.executor is None or not (of_x or of_weight):
        return None
    kind = weight.dtype if ctx.given is None else ctx.given[0].dtype
    if is_one_pass(ctx, x, weight):
        return torch_backward.known(x, weight, ctx.biased, layer.options, kind)
    derive = None
    if layer.options.activation:
        if residual is not None or not reads_sums(layer.options.activation):
            return None
        derivative = layer.options._replace(activation=layer.options.activation + GRADIENT)
        derive = layer.executor((x, weight, bias, grad), derivative)
        grad = derive(x, weight, bias, grad)
    arranged = layer.arranged(grad)
    arrange = None if arranged is grad else layer.arranged
    biased = ctx.biased and of_bias
    together = of_weight and biased and layer.adds_up_bias(x)
    by_weight = _by_weight(layer, arranged, x, weight, together, kind) if of_weight else None
    by_x = _by_input(layer, arranged, weight) if of_x else None
    sums = biased and not together

    def run(grad: Any, tensors: tuple[Any, ...]) -> Gradients:
        x, weight, bias, _ = tensors
        if derive is not None:
            grad = derive(x, weight, bias, grad)
        summed = grad if of_residual else None
        if arrange is not None:
            grad = arrange(grad)
        weights, biases = (None, None) if by_weight is None else by_weight(grad, x, weight)
        if sums:
            biases = layer.bias_gradient(grad)
        return None if by_x is None else by_x(grad, x, weight), weights, biases, summed

    return run


def _by_input(layer: CalledLayer, grad: Any, weight: Any) -> Run:
    """Return a function that computes the gradient with respect to the input from `grad`, input and weight."""
    if not layer.spreads:
        return layer.data_gradient
    flat = layer.flat
    run: Any = layer.executor((grad, flat(weight), None, None), layer.inverse(grad.shape))  # type: ignore[misc]  # there
    return lambda grad, x, weight: run(grad, flat(weight), None, None)


def _by_weight(layer: CalledLayer, grad: Any, x: Any, weight: Any, together: bool, kind: Any) -> Run:
    """Return the gradient with respect to the weight in a type, and to the bias if one kernel computes both.

    `together` says whether one kernel does.
    """
    if not layer.small:
        return lambda grad, x, weight: (layer.weight_gradient(grad, x, weight), None)
    images, transposed = ((grad, x) if layer.transposed else (x, grad)), layer.transposed
    wide = kind is torch.float32 and x.dtype is not torch.float32
    compute: Any = layer.executor(images, layer.weight_options(together, wide))  # type: ignore[misc]  # there
    shape, count, filters = tuple(weight.shape), weight.numel(), (layer.flat(weight).shape[0],)
    strides = torch.empty(shape, device="meta").stride()

    def run(grad: Any, x: Any, weight: Any) -> tuple[Any, Any]:
        made = compute(grad, x) if transposed else compute(x, grad)
        return part_of(made, shape, strides, 0), part_of(made, filters, (1,), count) if together else None

    return run
