"""Convolutions composed of PyTorch's own operators.

They serve exports to ONNX, which need standard nodes, and forward gradients of forward gradients.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import torch
from torch.compiler import is_dynamo_compiling

from ....core.precision import REDUCED
from ...arguments.call import OPERATORS
from ...arguments.problem import TRANSPOSES
from .. import native
from ..state import modes, tracing
from .expressions import activation_of
from .layer import CalledLayer
from .layouts import channels_behind, channels_first
from .options import ConvolutionOptions, WeightGradientOptions


def exports() -> bool:
    """Return whether one of PyTorch's exporters is tracing a call for ONNX."""
    traces = is_dynamo_compiling() or tracing() is not None or modes()
    return bool(traces and torch.onnx.is_in_onnx_export())


def convolve(x: Any, weight: Any, bias: Any, residual: Any, *given: Any) -> Any:
    """Compute a convolution by PyTorch's operators; takes the arguments of the registered operator."""
    options = ConvolutionOptions(*given)
    rank, last = OPERATORS[options.name].rank, options.layout.endswith("C")
    if last:
        x, residual = (a if a is None else channels_first(a, rank) for a in (x, residual))
    before, after = list(options.padding[:rank]), list(options.padding[rank:])
    if options.name == "depthwise_conv2d":
        weight = weight.flatten(0, 1).unsqueeze(1)
    more = options.output_padding if OPERATORS[options.name].op in TRANSPOSES else None
    compute = native.convolution(options.stride, before, after, options.dilation, options.groups, more)
    with native.exact_convolutions() if x.is_cuda and options.precision not in REDUCED else nullcontext():
        made = compute(x, weight, bias)
    made = made if residual is None else made + residual
    made = activation_of(options.activation)(made) if options.activation else made
    return channels_behind(made, rank) if last else made


def weight_gradient(x: Any, grad: Any, *given: Any) -> Any:
    """Compute the gradient of a weight by PyTorch's operators; takes the arguments of the registered operator."""
    options = WeightGradientOptions(*given)
    channel = -1 if options.layout.endswith("C") else -OPERATORS[options.name].rank - 1
    shape = grad.shape[channel], x.shape[channel] // options.groups, *options.kernel_size
    weight = x.new_empty(shape)
    return CalledLayer.of(options.of_layer(), x, weight).by_torch(True, grad, x, weight)
