"""The shortest path of eager calls with gradients, or under autocast: everything is looked up by the forward call.

A layer of a model meets tensors of the same shapes, orders and types at each step. Its first step goes through the
operators; then the executors of all passes are known, and a step runs them without asking again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .call import OperatorCall
from .torch_arguments import as_autocast
from .torch_eager import is_plain
from .torch_gradients import CalledLayer, anywhere, gradients, save
from .torch_operator import convolution_options, executor
from .torch_tensors import autocast_type, autocasts

Run = Callable[..., Any]


def _forward(ctx: Any, x: Any, weight: Any, bias: Any, residual: Any, layer: CalledLayer, run: Run) -> Any:
    save(ctx, layer, x, weight, bias, residual)
    return run(x, weight, bias, residual)


def _backward(ctx: Any, grad: Any) -> tuple[Any, ...]:
    return *gradients(ctx, grad), None, None


_METHODS = {"forward": staticmethod(_forward), "backward": staticmethod(anywhere(_backward))}
_Convolution: Any = type(torch.autograd.Function)("Convolution", (torch.autograd.Function,), _METHODS)
"""`grad_fn` shows the name, and not this module's way of writing it."""


def shortest(call: OperatorCall) -> Run | None:
    """Return the executor of calls like this one, which needs gradients or is under autocast; None if none is shorter.

    A call that writes into `out`, searches, pools, or has an activation of the user's own goes through the operator.
    """
    options = call.options
    if call.weight is None or call.out is not None or options.tune is not None or callable(options.activation):
        return None
    if not is_plain(call.arrays):
        return None
    arrays = as_autocast(call.arrays[:4])
    given = convolution_options(call, arrays)
    run, kind = executor(arrays, given), autocast_type(call.x.device.type) if autocasts() else None
    layer = CalledLayer.of(given, *arrays[:2])
    layer.executor = executor
    changed = [a is not b for a, b in zip(arrays, call.arrays, strict=False)]
    differentiated = torch.is_grad_enabled() and any(a is not None and a.requires_grad for a in arrays)

    def short(x: Any, weight: Any, bias: Any, residual: Any, out: Any) -> Any:
        if kind is not None:
            x, weight, bias, residual = [
                a.to(kind) if cast else a for a, cast in zip((x, weight, bias, residual), changed, strict=True)
            ]
        if differentiated:
            return _Convolution.apply(x, weight, bias, residual, layer, run)
        return run(x, weight, bias, residual)

    return short
