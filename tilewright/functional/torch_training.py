"""The shortest path of eager calls with gradients, or under autocast: the forward call knows the executors of all
passes. A layer of a model meets tensors of the same shapes, orders and types at each step. Its first step prepares the
executors of all passes; later steps only run them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .call import OperatorCall
from .signature import Signature
from .torch_casts import casts_of
from .torch_gradients import CalledLayer, anywhere, gradients, save
from .torch_operator import convolution_options, executor
from .torch_passes import known_gradients
from .torch_state import autocast_type, autocasts

Run = Callable[..., Any]


def _forward(ctx: Any, x: Any, weight: Any, bias: Any, residual: Any, layer: CalledLayer, run: Run, cast: Any) -> Any:
    ctx.given = None
    if cast is not None:  # here, autograd records no cast; it converts gradients that are not converted yet
        ctx.given = weight, bias
        weight, bias = cast(weight, bias)
    save(ctx, layer, x, weight, bias, residual)
    return run(x, weight, bias, residual)


def _backward(ctx: Any, grad: Any) -> tuple[Any, ...]:
    tensors = ctx.saved_tensors
    made = known_gradients(ctx, grad, tensors)
    if made is None:
        if ctx.given is not None and torch.is_grad_enabled():
            tensors = _of_given(tensors, *ctx.given)
        made = gradients(ctx, grad, tensors)
    return *made, None, None, None


def _of_given(tensors: tuple[Any, ...], weight: Any, bias: Any) -> tuple[Any, ...]:
    """Return the saved tensors, with weight and bias cast once more: gradients of a gradient reach these."""
    x, cast, cast_bias, residual = tensors
    weight = None if cast is None else weight.to(cast.dtype)
    return x, weight, None if cast_bias is None else bias.to(cast_bias.dtype), residual


_METHODS = {"forward": staticmethod(_forward), "backward": staticmethod(anywhere(_backward))}
_Convolution: Any = type(torch.autograd.Function)("Convolution", (torch.autograd.Function,), _METHODS)
"""`grad_fn` shows the name, and not this module's way of writing it."""
_record: Run = super(torch.autograd.Function, _Convolution).apply
"""The `apply` of its C++ base class. PyTorch's `apply` in Python first looks for transforms; these calls have none."""


def shortest(call: OperatorCall, arrays: tuple[Any, ...], checked: Signature) -> Run:
    """Return the executor of calls like this one; `arrays` are its tensors after autocast's conversions."""
    given = convolution_options(call, arrays)
    run, kind = executor(arrays, given, checked), autocast_type(call.x.device.type) if autocasts() else None
    layer = CalledLayer.of(given, *arrays[:2])
    layer.executor = executor
    of_x, *of_others, of_residual = [a is not b for a, b in zip(arrays, call.arrays, strict=False)]
    differentiated = torch.is_grad_enabled() and any(a is not None and a.requires_grad for a in arrays)
    cast = casts_of(call.weight, call.bias, kind) if any(of_others) else None

    def short(x: Any, weight: Any, bias: Any, residual: Any, out: Any) -> Any:
        x, residual = x.to(kind) if of_x else x, residual.to(kind) if of_residual else residual
        if differentiated:
            return _record(x, weight, bias, residual, layer, run, cast)
        if cast is not None:
            weight, bias = cast(weight, bias)
        return run(x, weight, bias, residual)

    return short
