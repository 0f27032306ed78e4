"""Compute a problem by PyTorch's own kernels: where these were measured faster, and for gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.autograd import forward_ad
from torch.nn import functional
from torch.nn.functional import pad

from .problem import AVG_POOL, CONV, MAX_POOL, TRANSPOSED, Problem

ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "relu": functional.relu,
    "relu6": functional.relu6,
    "silu": functional.silu,
    "gelu": functional.gelu,
    "gelu_tanh": lambda v: functional.gelu(v, approximate="tanh"),
    "sigmoid": torch.sigmoid,
    "hardswish": functional.hardswish,
}
_aten = torch.ops.aten


def _silu_gradient(grad: Any, v: Any) -> Any:
    """PyTorch's operator, or a formula where the gradient has a gradient: of the operator, PyTorch has none."""
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


def computed(problem: Problem, name: str, layout: str | None, on_gpu: bool) -> Compute:
    """A function of (x, weight, bias, residual) that returns the result in the layout of the call."""
    core = _core(problem, one_row="1d" in name)
    if on_gpu:
        core = _in_precision(problem, core)
    last = layout is not None and layout.endswith("C")
    act = ACTIVATIONS.get(problem.activation)
    plain = not last and not problem.residual and act is None and problem.has_weights
    multiplied = name == "depthwise_conv2d"
    if plain and not multiplied:
        return core

    def compute(x: Any, w: Any, bias: Any, residual: Any) -> Any:
        if multiplied and w.shape[1] != 1:  # (channels, multiplier, ...), in the same order of memory
            w = w.reshape(problem.weights_shape)
        made = core(to_first(x) if last else x, w, bias)
        made = to_last(made) if last else made
        made = made if residual is None else made + residual
        return made if act is None else act(made)

    return compute


def to_first(x: Any) -> Any:
    """A view with the channels in front of the spatial dimensions."""
    return x.movedim(-1, -x.dim() + 1 if x.dim() > 2 else 0) if x.dim() in (3, 4) else x


def to_last(x: Any) -> Any:
    """A view with the channels behind the spatial dimensions."""
    return x.movedim(1, -1)


def _in_precision(problem: Problem, core: Core) -> Core:
    """On a GPU, run the operator in the requested precision, whatever PyTorch's own settings allow."""
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
    if even:
        inside = problem.count_border
        return lambda x, w, bias: functional.avg_pool2d(x, problem.kernel, stride, before, count_include_pad=inside)
    return _uneven_average(problem, around)


def _uneven_average(problem: Problem, around: tuple[int, ...]) -> Callable[[Any, Any, Any], Any]:
    """An average with more padding on one side: sums, divided by how many values each window sees."""

    def compute(x: Any, w: Any, bias: Any) -> Any:
        sums = functional.avg_pool2d(pad(x, around), problem.kernel, problem.stride)
        if problem.count_border:
            return sums
        seen = functional.avg_pool2d(pad(torch.ones_like(x[:1, :1]), around), problem.kernel, problem.stride)
        return sums / seen

    return compute
