"""The operators in NumPy, one result at a time, from their definitions: the oracle of the calls."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np

ACTIVATIONS = {
    None: lambda v: v,
    "relu": lambda v: max(v, 0.0),
    "relu6": lambda v: min(max(v, 0.0), 6.0),
    "silu": lambda v: v / (1 + math.exp(-v)),
    "gelu": lambda v: 0.5 * v * (1 + math.erf(v / math.sqrt(2))),
    "gelu_tanh": lambda v: 0.5 * v * (1 + math.tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * v**3))),
    "sigmoid": lambda v: 1 / (1 + math.exp(-v)),
    "hardswish": lambda v: v * min(max(v + 3, 0.0), 6.0) / 6,
    "tanh": math.tanh,
    "leaky_relu": lambda v: v if v > 0 else 0.01 * v,
    "elu": lambda v: v if v > 0 else math.exp(v) - 1,
    "mish": lambda v: v * math.tanh(math.log(1 + math.exp(v))),
    "hardtanh": lambda v: min(max(v, -1.0), 1.0),
    "softplus": lambda v: math.log(1 + math.exp(v)),
}


def conv(
    x: np.ndarray,
    w: np.ndarray,
    bias: np.ndarray | None = None,
    stride: int = 1,
    padding: Any = ((0, 0), (0, 0)),
    dilation: int = 1,
    groups: int = 1,
    activation: str | None = None,
    residual: np.ndarray | None = None,
) -> np.ndarray:
    """The convolution of NCHW with (filters, channels of a group, rows, columns), in float64."""
    x = np.pad(x.astype(np.float64), ((0, 0), (0, 0), *padding))
    filters, per_group, kh, kw = w.shape
    rows = (x.shape[2] - (kh - 1) * dilation - 1) // stride + 1
    columns = (x.shape[3] - (kw - 1) * dilation - 1) // stride + 1
    out = np.empty((x.shape[0], filters, rows, columns))
    for n, f, i, j in product(*map(range, out.shape)):
        first = f // (filters // groups) * per_group
        down = slice(i * stride, i * stride + (kh - 1) * dilation + 1, dilation)
        across = slice(j * stride, j * stride + (kw - 1) * dilation + 1, dilation)
        value = float((x[n, first : first + per_group, down, across] * w[f].astype(np.float64)).sum())
        value += 0.0 if bias is None else float(bias[f])
        value += 0.0 if residual is None else float(residual[n, f, i, j])
        out[n, f, i, j] = ACTIVATIONS[activation](value)
    return out
