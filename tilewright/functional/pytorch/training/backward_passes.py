"""Known backward passes: the decisions of a layer's first pass are kept as one function, for passes on like tensors.

A later pass on like tensors (`pytorch/tensors.py::KnownCall`) runs executors alone.
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
from ..operators.gradients import before_activation, in_full, is_one_pass, linear_pass
from ..operators.layer import Gradients, Run, is_wide
from ..operators.options import ConvolutionOptions, WeightGradientOptions
from ..operators.registration import executor
from ..state import modes
from ..tensors import KnownCall, known_call

_grad_enabled = torch.is_grad_enabled


class KnownPasses:
    """The backward passes of a layer, by the gradients that they compute and the strides of their argument.

    The executor of a pass takes its argument and the saved tensors, and returns the gradients of the four tensors.
    """

    def __init__(self) -> None:
        self._passes: dict[Any, KnownCall[Gradients]] = {}
        self._last: tuple[tuple[bool, ...], KnownCall[Gradients]] | None = None

    def gradients(self, ctx: Any, grad: Any, saved: tuple[Any, ...]) -> Gradients | None:
        """Return the gradients of the tensors if such a pass is known or can be prepared; else None."""
        if is_dynamo_compiling() or _grad_enabled() or modes():
            return None
        wanted, last = ctx.needs_input_grad, self._last  # another thread may replace it
        if last is not None and last[0] == wanted and last[1].suits(grad, *saved):
            return last[1].run(grad, *saved)
        known = self._known(ctx, wanted, grad, saved)
        if known is None:
            return None
        self._last = wanted, known
        return known.run(grad, *saved)

    def _known(
        self, ctx: Any, wanted: tuple[bool, ...], grad: Any, saved: tuple[Any, ...]
    ) -> KnownCall[Gradients] | None:
        """Return another known pass, or prepare one; None if the tensors are not ordinary ones."""
        key = wanted, grad.stride()
        known = self._passes.get(key)
        if known is not None and known.suits(grad, *saved):
            return known
        if not is_plain((grad, *saved)):
            return None
        known = known_call(_prepared(ctx, grad, in_full(saved)), grad, *saved)
        if known is not None:
            self._passes[key] = known
        return known


class _Executors(NamedTuple):
    """Our operators, prepared for all passes on such tensors. `kind` is the type of the weight's gradient."""

    kind: Any

    def convolution(self, arrays: tuple[Any, ...], options: ConvolutionOptions) -> Run:
        """Return the executor."""
        return executor(arrays, options)

    def weight_gradient(self, images: tuple[Any, ...], options: WeightGradientOptions, shape: Any, filters: Any) -> Run:
        """Return a function of two images and the weight that computes the gradients of a weight of this shape and of
        the bias."""
        compute = executor(images, options._replace(wide=is_wide(self.kind, images[0].dtype)))
        shape, count, filters = tuple(shape), prod(shape), (filters,)
        strides = torch.empty(shape, device="meta").stride()

        def parts(first: Any, second: Any, weight: Any) -> tuple[Any, Any]:
            made = compute(first, second)
            return part_of(made, shape, strides, 0), part_of(made, filters, (1,), count)

        is_whole = False

        def whole(first: Any, second: Any, weight: Any) -> tuple[Any, None]:
            nonlocal is_whole
            made = compute(first, second)
            if is_whole:  # all results of an executor lie alike
                return made, None
            is_whole = made.shape == shape and made.stride() == strides
            return made if is_whole else part_of(made, shape, strides, 0), None

        return parts if options.biased else whole


def _prepared(ctx: Any, grad: Any, tensors: tuple[Any, ...]) -> Callable[..., Gradients]:
    """Return the function that runs such passes, of the pass's argument and the saved tensors."""
    call, layer = ctx.call, ctx.call.layer
    x, weight, _, _ = tensors
    of_x, of_weight = ctx.needs_input_grad[:2]
    of_residual = call.added and ctx.needs_input_grad[3]
    kind = None if weight is None else weight.dtype if call.cast is None else ctx.given[0].dtype
    if is_one_pass(layer.options, x, weight, ctx.needs_input_grad, call.added):
        return joint_gradients.prepared_pass(x, weight, call.biased, layer.options, kind)
    kernels, derive = _Executors(kind), None
    if layer.options.activation:
        derive = before_activation(layer, grad, tensors, kernels)
        grad = derive(grad, *tensors)
    arranged = layer.arranged(grad) if of_x or of_weight else grad
    arrange = None if arranged is grad else layer.arranged
    linear = linear_pass(ctx, arranged, x, weight, kernels)
    if derive is None and arrange is None and not of_residual:
        return linear

    def run(grad: Any, x: Any, weight: Any, *others: Any) -> Gradients:
        if derive is not None:
            grad = derive(grad, x, weight, *others)
        summed = grad if of_residual else None
        if arrange is not None:
            grad = arrange(grad)
        return linear(grad, x, weight, summed)

    return run
