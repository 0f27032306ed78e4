"""Compute a problem by PyTorch's own kernels: if they were measured faster, and for gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.autograd import forward_ad
from torch.nn import functional
from torch.nn.functional import pad

from .problem import AVG_POOL, CONV, MAX_POOL, TRANSPOSED, Problem
from .signature import GRADIENT, OPERATORS


def _hardswish(v: Any) -> Any:
    """PyTorch's operator, except in float64: its CUDA kernel multiplies by the float32 nearest to 1/6."""
    return v * (v + 3).clamp(0, 6) / 6 if v.dtype == torch.float64 else functional.hardswish(v)


ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "relu": functional.relu,
    "relu6": functional.relu6,
    "silu": functional.silu,
    "gelu": functional.gelu,
    "gelu_tanh": lambda v: functional.gelu(v, approximate="tanh"),
    "sigmoid": torch.sigmoid,
    "hardswish": _hardswish,
}
_aten = torch.ops.aten


def _silu_gradient(grad: Any, v: Any) -> Any:
    """PyTorch's operator, or a formula if a second derivative is needed: PyTorch's operator has none."""
    if not torch.is_grad_enabled() and forward_ad._current_level < 0:
        return _aten.silu_backward(grad, v)
    part = torch.sigmoid(v)
    return grad * part * (1 + v * (1 - part))


ACTIVATION_GRADIENTS: dict[str, Callable[[Any, Any], Any]] = {
    "relu": lambda grad, v: _aten.threshold_backward(grad, v, 0),
    "relu6": lambda grad, v: _aten.hardtanh_backward(grad, v, 0.0, 6.0),
    "silu": _silu_gradient,
    "gelu": lambda grad, v: _aten.gelu_backward(grad, v),
    "gelu_tanh": lambda grad, v: _aten.gelu_backward(grad, v, approximate="tanh"),
    "sigmoid": lambda grad, v: _aten.sigmoid_backward(grad, torch.sigmoid(v)),
    "hardswish": lambda grad, v: _aten.hardswish_backward(grad, v),
}
"""The gradient with respect to the input of the activation, from the gradient of its output and that input."""
Compute = Callable[[Any, Any, Any, Any], Any]
Core = Callable[..., Any]
"""A function of (x, weight, bias), which ignores a residual: one call fewer for layers without one."""


def computed(problem: Problem, name: str, layout: str | None, dims: int, on_gpu: bool) -> Compute:
    """A function of (x, weight, bias, residual), of `dims` dimensions, that returns the result in the call's layout.

    PyTorch keeps channels-last memory in four dimensions only, so it gets a view that has four of all such tensors.
    """
    rank = OPERATORS[name].rank
    last = layout is not None and layout.endswith("C")
    act = ACTIVATIONS.get(problem.activation)
    backward = ACTIVATION_GRADIENTS.get(problem.activation.removesuffix(GRADIENT)) if act is None else None
    viewed = problem.layout == "NHWC" and (last or dims < 4)
    core = _core(problem, one_row=rank == 1 and not viewed)
    core = _in_precision(problem, core) if on_gpu else core
    shape = problem.weights_shape if viewed or name == "depthwise_conv2d" else None
    if problem.has_weights and not viewed and not problem.residual and act is None and shape is None:
        return core

    def compute(x: Any, w: Any, bias: Any, residual: Any) -> Any:
        if w is not None and shape is not None:  # (channels, multiplier, ...) lie in memory as (filters, 1, ...) do
            w = w.reshape(shape)
        made = from_image(core(as_image(x, rank, last), w, bias), dims, rank, last) if viewed else core(x, w, bias)
        if backward is not None:
            return backward(residual, made)
        made = made if residual is None else made + residual
        return made if act is None else act(made)

    return compute


def as_image(x: Any, rank: int, last: bool) -> Any:
    """A view of channels-last memory as images NCHW, whose strides PyTorch knows as its channels-last format."""
    x = x if last else x.movedim(-rank - 1, -1)
    x = x if x.dim() == rank + 2 else x.unsqueeze(0)
    x = x if rank == 2 else x.unsqueeze(1)
    return x.permute(0, 3, 1, 2)


def from_image(made: Any, dims: int, rank: int, last: bool) -> Any:
    """The view of a result NCHW that has `dims` dimensions, of which `rank` are spatial; inverse to `as_image`."""
    made = made.permute(0, 2, 3, 1)
    made = made if rank == 2 else made.squeeze(1)
    made = made if dims == rank + 2 else made.squeeze(0)
    return made if last else made.movedim(-1, -rank - 1)


def _in_precision(problem: Problem, core: Core) -> Core:
    """On a GPU, run the operator in the requested precision, regardless of PyTorch's own settings."""
    if problem.op != CONV or problem.dtype != "float32":
        return core
    wanted, cudnn = problem.precision == "tf32", torch.backends.cudnn

    def run(x: Any, w: Any, bias: Any, residual: Any = None) -> Any:
        allowed = cudnn.allow_tf32
        if allowed == wanted:
            return core(x, w, bias)
        cudnn.allow_tf32 = wanted
        try:
            return core(x, w, bias)
        finally:
            cudnn.allow_tf32 = allowed

    return run


def _core(problem: Problem, one_row: bool) -> Core:
    """The operator alone, on channels first."""
    first = 1 if one_row else 0
    top, left, bottom, right = problem.padding
    stride, dilation = problem.stride[first:], problem.dilation[first:]
    before, after = (top, left)[first:], (bottom, right)[first:]
    even = before == after
    around = (left, right) if one_row else (left, right, top, bottom)
    groups = problem.groups
    if problem.op == CONV:
        conv = functional.conv1d if one_row else functional.conv2d
        if even:
            return lambda x, w, bias, residual=None: conv(x, w, bias, stride, before, dilation, groups)
        return lambda x, w, bias, residual=None: conv(pad(x, around), w, bias, stride, 0, dilation, groups)
    if problem.op == TRANSPOSED:
        transposed = functional.conv_transpose1d if one_row else functional.conv_transpose2d
        more = problem.output_padding[first:]
        if even:
            return lambda x, w, bias, residual=None: transposed(x, w, bias, stride, before, more, groups, dilation)
        crop = tuple(-p for p in around)
        return lambda x, w, bias, residual=None: pad(transposed(x, w, bias, stride, 0, more, groups, dilation), crop)
    if problem.op == MAX_POOL:
        largest = functional.max_pool2d
        if even:
            return lambda x, w, bias: largest(x, problem.kernel, stride, before, dilation)
        beyond = -torch.inf
        return lambda x, w, bias: largest(pad(x, around, value=beyond), problem.kernel, stride, 0, dilation)
    assert problem.op == AVG_POOL
    if even and problem.beyond == (0, 0):
        inside, divisor = problem.count_border, problem.divisor or None
        return lambda x, w, bias: functional.avg_pool2d(
            x, problem.kernel, stride, before, count_include_pad=inside, divisor_override=divisor
        )
    return _uneven_average(problem, around)


def _uneven_average(problem: Problem, around: tuple[int, ...]) -> Callable[[Any, Any, Any], Any]:
    """An average with more padding on one side: sums, divided by how many values each window counts."""
    below, behind = problem.beyond
    counted = (around[0], around[1] - behind, around[2], around[3] - below)

    def sums(x: Any) -> Any:
        return functional.avg_pool2d(x, problem.kernel, problem.stride, divisor_override=1)

    def compute(x: Any, w: Any, bias: Any) -> Any:
        found = sums(pad(x, around))
        if problem.divisor:
            return found / problem.divisor
        seen = pad(torch.ones_like(x[:1, :1]), counted, value=float(problem.count_border))
        return found / sums(pad(seen, (0, behind, 0, below)))

    return compute
