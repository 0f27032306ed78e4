"""Backward passes of layers that are known: all decisions of the first pass on tensors like these, as one function.

PyTorch's own check, in C++, compares the tensors of a pass with the first pass. Then the pass runs executors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch.compiler import is_dynamo_compiling

from . import torch_backward
from .signature import GRADIENT
from .torch_casts import cast_of
from .torch_eager import is_plain
from .torch_expressions import reads_sums
from .torch_gradients import CalledLayer, is_one_pass
from .torch_tensors import _modes, same_tensors

Gradients = tuple[Any, Any, Any, Any]
_grad_enabled = torch.is_grad_enabled


class KnownPass(NamedTuple):
    """The check of a pass, and its gradients by the tensors: `run(grad, tensors)`."""

    is_like: Callable[..., bool]
    run: Callable[[Any, tuple[Any, ...]], Gradients]


def known_gradients(ctx: Any, grad: Any, tensors: tuple[Any, ...]) -> Gradients | None:
    """Return the gradients of the tensors of a layer if such a pass is known, or can be prepared; else None."""
    if is_dynamo_compiling() or _grad_enabled() or _modes():
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
    """Decide how passes like this one run; None if PyTorch's kernels compute a part of it."""
    layer: CalledLayer = ctx.layer
    x, weight, bias, residual = tensors
    of_x, of_weight, of_bias, of_residual = ctx.needs_input_grad[:4]
    execute, options = layer.executor, layer.options
    kind = weight.dtype if ctx.given is None or weight is None else ctx.given[0].dtype
    if execute is None or not (of_x or of_weight):
        return None
    if is_one_pass(ctx, x, weight):
        return torch_backward.known(x, weight, ctx.biased, options, kind)
    if not layer.small or (of_x and not layer.spreads) or residual is not None:
        return None
    derive = by_weight = by_x = None
    widened: Any = None
    if options.activation:
        if not reads_sums(options.activation):
            return None
        derivative = options._replace(activation=options.activation + GRADIENT)
        derive = execute((x, weight, bias, grad), derivative)
        grad = derive(x, weight, bias, grad)
    arranged = layer.arranged(grad)
    arrange = None if arranged is grad else layer.arranged
    biased = ctx.biased and of_bias
    together = of_weight and biased and layer.adds_up_bias(x)
    if of_weight:
        images = (arranged, x) if layer.transposed else (x, arranged)
        by_weight = execute(images, layer.weight_options(together))
        widened = cast_of(by_weight(*images), kind)
    flat, inverse = layer.flat, layer.inverse(grad.shape)
    if of_x:
        by_x = execute((arranged, flat(weight), None, None), inverse)
    shape, count, transposed, sums = weight.shape, weight.numel(), layer.transposed, biased and not together

    def run(grad: Any, tensors: tuple[Any, ...]) -> Gradients:
        x, weight, bias, _ = tensors
        if derive is not None:
            grad = derive(x, weight, bias, grad)
        summed = grad if of_residual else None
        if arrange is not None:
            grad = arrange(grad)
        weights = biases = None
        if by_weight is not None:
            weights = widened(by_weight(grad, x) if transposed else by_weight(x, grad))
            if together:
                weights, biases = weights[:count], weights[count:]
            weights = weights.view(shape)
        if sums:
            biases = layer.bias_gradient(grad)
        return None if by_x is None else by_x(grad, flat(weight), None, None), weights, biases, summed

    return run
