"""Backward passes of layers that are known: all decisions of the first pass on tensors like these, as one function.

PyTorch's own check, in C++, compares the tensors of a pass with the tensors of the first one. Then executors run.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, NamedTuple

import torch
from torch.compiler import is_dynamo_compiling

from ..allocation import part_of
from ..eager import is_plain
from ..operators import joint_gradients
from ..operators.gradients import before_activation, is_one_pass, linear_pass
from ..operators.layer import CalledLayer, Run
from ..operators.options import ConvolutionOptions, WeightGradientOptions
from ..operators.registration import executor
from ..state import modes
from ..tensors import same_tensors

Gradients = tuple[Any, Any, Any, Any]
_grad_enabled = torch.is_grad_enabled


class KnownPass(NamedTuple):
    """The check of a pass, and the function of its gradients with respect to the tensors: `run(grad, tensors)`."""

    is_like: Callable[..., bool]
    run: Callable[[Any, tuple[Any, ...]], Gradients]


class KnownPasses:
    """The backward passes of a layer, by the gradients that they compute, and the strides of their argument."""

    def __init__(self) -> None:
        self._passes: dict[Any, KnownPass] = {}

    def gradients(self, ctx: Any, grad: Any, tensors: tuple[Any, ...]) -> Gradients | None:
        """Return the gradients of the tensors if such a pass is known, or can be prepared; else None."""
        if is_dynamo_compiling() or _grad_enabled() or modes():
            return None
        key = ctx.needs_input_grad, grad.stride()
        known = self._passes.get(key)
        if known is None or not known.is_like(grad, *[a for a in tensors if a is not None]):
            if not is_plain((grad, *tensors)):
                return None
            run, is_like = _prepared(ctx, grad, tensors), same_tensors(grad, *tensors)
            if is_like is None:
                return None
            known = self._passes[key] = KnownPass(is_like, run)
        return known.run(grad, tensors)


class _Executors(NamedTuple):
    """Our operators, prepared for all passes on tensors like these. `kind` is the type of the weight's gradient."""

    kind: Any

    def convolution(self, arrays: tuple[Any, ...], options: ConvolutionOptions) -> Run:
        """Return the executor."""
        return executor(arrays, options)

    def weight_gradient(self, images: tuple[Any, ...], options: WeightGradientOptions, shape: Any, filters: Any) -> Run:
        """Return a function of two images and the weight: the gradients of a weight of this shape, and of the bias."""
        wide = self.kind is torch.float32 and images[0].dtype is not torch.float32
        compute, biased = executor(images, options._replace(wide=wide)), options.biased
        shape, count, filters = tuple(shape), prod(shape), (filters,)
        strides = torch.empty(shape, device="meta").stride()

        def run(first: Any, second: Any, weight: Any) -> tuple[Any, Any]:
            made = compute(first, second)
            return part_of(made, shape, strides, 0), part_of(made, filters, (1,), count) if biased else None

        return run


def _prepared(ctx: Any, grad: Any, tensors: tuple[Any, ...]) -> Callable[[Any, tuple[Any, ...]], Gradients]:
    """Return the function that runs passes like this one: `run(grad, tensors)`."""
    layer: CalledLayer = ctx.layer
    x, weight, _, _ = tensors
    of_x, of_weight, _, of_residual = ctx.needs_input_grad[:4]
    kind = None if weight is None else weight.dtype if ctx.given is None else ctx.given[0].dtype
    if is_one_pass(layer.options, x, weight, ctx.needs_input_grad, ctx.added):
        return joint_gradients.prepared_pass(x, weight, ctx.biased, layer.options, kind)  # type: ignore[no-any-return]
    kernels, derive = _Executors(kind), None
    if layer.options.activation:
        derive = before_activation(layer, grad, tensors, kernels)
        grad = derive(grad, *tensors)
    arranged = layer.arranged(grad) if of_x or of_weight else grad
    arrange = None if arranged is grad else layer.arranged
    linear = linear_pass(ctx, arranged, x, weight, kernels)
    if derive is None and arrange is None and not of_residual:
        return linear

    def run(grad: Any, tensors: tuple[Any, ...]) -> Gradients:
        if derive is not None:
            grad = derive(grad, *tensors)
        summed = grad if of_residual else None
        if arrange is not None:
            grad = arrange(grad)
        return linear(grad, tensors, summed)  # type: ignore[no-any-return]

    return run
