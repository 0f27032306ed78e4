"""What the expressions of torch_counterparts.toml call: operators of `topi` and PyTorch's with the same arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from tilewright import te, topi
from tilewright.expr.operators import select

F = torch.nn.functional
Tensor = Any


def shape(x: Tensor) -> tuple[int, ...]:
    """The shape of a tensor expression."""
    sizes: tuple[int, ...] = topi.utils.get_const_tuple(x.shape)
    return sizes


def rolled(sizes: Sequence[int]) -> list[int]:
    """The dimensions of a tensor, the first one moved to the end."""
    return [*range(1, len(sizes)), 0] if len(sizes) else []


def as_expression(x: Tensor, values: Sequence[int]) -> Tensor:
    """Constants as a tensor expression of the type of `x`."""

    def element(i: Any) -> Any:
        found = te.const(values[-1], x.dtype)
        for place, value in enumerate(values[:-1]):
            found = select(i.equal(place), te.const(value, x.dtype), found)
        return found

    return te.compute((len(values),), element)


# Reductions


def dims(x: Any, axis: Any) -> tuple[int, ...]:
    """The dimensions that `axis` names, None for all of them."""
    given = tuple(range(x.ndim)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    return tuple(sorted((d % x.ndim for d in given), reverse=True))


def over(function: Any, x: Any, axis: Any, keepdims: bool) -> Any:
    """Reduce one dimension after the other."""
    for d in dims(x, axis):
        x = function(x, d, keepdim=keepdims)
    return x


def kept(x: Any, axis: Any, keepdims: bool) -> tuple[int, ...]:
    """The shape of a reduction."""
    return np.sum(np.zeros(tuple(x.shape)), axis, keepdims=keepdims).shape


# Convolutions


def torch_last(convolve: Any, x: Any, w: Any, *rest: Any) -> Any:
    """PyTorch's convolution of data and filters with channels last."""
    data, filters = x.movedim(-1, 1), w.movedim((-1, -2), (0, 1))
    return convolve(data, filters, None, *rest).movedim(1, -1)


def per_channel(x: Tensor, w: Tensor) -> Tensor:
    """PyTorch's filters of a depthwise convolution as (channels, multiplier, rows, columns)."""
    channels = shape(x)[1]
    return topi.reshape(w, (channels, shape(w)[0] // channels, *shape(w)[2:]))


def depthwise_gradient(gradient: Any, x: Tensor, w: Tensor, stride: int, padding: int) -> Tensor:
    """A gradient of a depthwise convolution; the gradient of its result is the result."""
    data, filters = topi.transpose(x, [0, 2, 3, 1]), topi.transpose(per_channel(x, w), [2, 3, 0, 1])
    result = topi.nn.depthwise_conv2d_nhwc(data, filters, stride, padding)
    if gradient is topi.nn.depthwise_conv2d_backward_input_nhwc:
        made = gradient(filters, result, shape(result), shape(data), stride, padding)
        return topi.transpose(made, [0, 3, 1, 2])
    made = gradient(data, result, shape(result), shape(filters), stride, padding)
    return topi.reshape(topi.transpose(made, [2, 3, 0, 1]), shape(w))


def torch_depthwise(x: Any, w: Any, stride: int, padding: int) -> Any:
    return F.conv2d(x, w, None, stride, padding, 1, x.shape[1])


# Pooling: the largest values and the averages


def pools(operator: Any, x: Tensor, options: dict[str, Any]) -> list[Tensor]:
    window = options["kernel"], options["stride"], 1, list(options.get("sides", options.get("padding")))
    layout = {3: "NCW", 4: "NCHW", 5: "NCDHW"}[x.ndim]
    return [operator(x, *window, how, options["ceil_mode"], layout, options["inside"]) for how in ("max", "avg")]


def torch_pools(x: Any, options: dict[str, Any]) -> list[Any]:
    rank, window, up = x.ndim - 2, (options["kernel"], options["stride"]), options["ceil_mode"]
    largest, average = (getattr(F, f"{how}_pool{rank}d") for how in ("max", "avg"))
    if "sides" not in options:
        around = options["padding"]
        return [largest(x, *window, around, 1, up), average(x, *window, around, up, options["inside"])]
    top, left, bottom, right = options["sides"]
    padded, there = (F.pad(t, (left, right, top, bottom)) for t in (x, torch.ones_like(x)))
    below = F.pad(x, (left, right, top, bottom), value=-np.inf)
    if options["inside"]:
        return [largest(below, *window, 0, 1, up), average(padded, *window, 0, up)]
    total, count = (average(t, *window, 0, up, divisor_override=1) for t in (padded, there))
    return [largest(below, *window, 0, 1, up), total / count]


def pool_gradients(x: Tensor, options: dict[str, Any]) -> list[Tensor]:
    """The gradients of both poolings; the gradient of a result is the result."""
    window = options["kernel"], options["stride"], list(options.get("sides", options.get("padding")))
    results = zip(("max", "avg"), pools(topi.nn.pool2d, x, options), strict=True)
    return [topi.nn.pool_grad(r, x, *window, how, options["ceil_mode"], options["inside"]) for how, r in results]


def torch_pool_gradients(x: Any, options: dict[str, Any]) -> list[Any]:
    x = x.clone().requires_grad_()
    return [torch.autograd.grad(r, x, r.detach())[0] for r in torch_pools(x, options)]


# Others


def lstm(x: Any, *weights: Any) -> Any:
    """The hidden and the cell states after each step, of which PyTorch returns the last cell state."""
    hidden = cell = torch.zeros(1, x.shape[1], weights[1].shape[1])
    states = []
    for step in x:
        _, hidden, cell = torch.lstm(step[None], (hidden, cell), list(weights), True, 1, 0.0, False, False, False)
        states.append((hidden, cell))
    return [torch.cat(each) for each in zip(*states, strict=True)]


def parts(x: Any) -> list[Any]:
    """The real and the imaginary part."""
    return [x.real, x.imag]


def padded(found: Any, x: Any) -> Any:
    """The unique elements, then zeros."""
    return torch.cat([found, found.new_zeros(len(x) - len(found))])
