"""Calls computed by PyTorch's own operators during an export to ONNX, so that the program has standard nodes."""

from __future__ import annotations

from typing import Any

import torch
from torch.compiler import is_dynamo_compiling

from ...arguments.call import OPERATORS
from ...arguments.problem import TRANSPOSED
from .. import native
from ..state import modes, tracing
from .expressions import activation_of
from .layouts import channels_behind, channels_first
from .options import ConvolutionOptions


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
    more = options.output_padding if OPERATORS[options.name].op == TRANSPOSED else None
    compute = native.convolution(options.stride, before, after, options.dilation, options.groups, more)
    made = compute(x, weight, bias)
    made = made if residual is None else made + residual
    made = activation_of(options.activation)(made) if options.activation else made
    return channels_behind(made, rank) if last else made
