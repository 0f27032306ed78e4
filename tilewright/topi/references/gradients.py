"""NumPy references of gradients: a depthwise layer with an activation."""

from __future__ import annotations

from collections.abc import Callable
from math import erf, pi, sqrt

import numpy as np


def _sigmoid(v: np.ndarray) -> np.ndarray:
    return np.asarray(1 / (1 + np.exp(-v)))


def _of_gelu(v: np.ndarray) -> np.ndarray:
    below = 0.5 * (1 + np.vectorize(erf)(v * sqrt(0.5)))
    return np.asarray(below + v * np.exp(-v * v / 2) / sqrt(2 * pi))


def _of_gelu_tanh(v: np.ndarray) -> np.ndarray:
    slope = sqrt(2 / pi)
    bent = np.tanh(slope * (v + 0.044715 * v**3))
    return np.asarray(0.5 * (1 + bent) + 0.5 * v * (1 - bent**2) * slope * (1 + 3 * 0.044715 * v * v))


def _of_mish(v: np.ndarray) -> np.ndarray:
    bent = np.tanh(np.logaddexp(0, v))
    return np.asarray(bent + v * (1 - bent**2) * _sigmoid(v))


_DERIVATIVES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "relu": lambda v: v > 0,
    "relu6": lambda v: (v > 0) & (v < 6),
    "silu": lambda v: _sigmoid(v) * (1 + v * (1 - _sigmoid(v))),
    "gelu": _of_gelu,
    "gelu_tanh": _of_gelu_tanh,
    "sigmoid": lambda v: _sigmoid(v) * (1 - _sigmoid(v)),
    "hardswish": lambda v: np.where(v <= -3, 0, np.where(v >= 3, 1, v / 3 + 0.5)),
    "tanh": lambda v: 1 - np.tanh(v) ** 2,
    "leaky_relu": lambda v: np.where(v > 0, 1, 0.01),
    "elu": lambda v: np.where(v > 0, 1, np.exp(v)),
    "mish": _of_mish,
    "hardtanh": lambda v: (v > -1) & (v < 1),
    "softplus": _sigmoid,
}
"""Derivatives of activations."""


def depthwise_backward_python(
    data: np.ndarray,
    weights: np.ndarray,
    bias: np.ndarray | None,
    above: np.ndarray,
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
    activation: str = "",
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the gradients with respect to input, weights and bias of a layer of stride 1 in NCHW.

    Weights have the shape (channels, 1, rows, columns).
    `above` is the gradient with respect to the result, after the activation; `padding`: top, left, bottom, right.
    """
    (top, left, bottom, right), (high, wide), (dy, dx) = padding, weights.shape[2:], dilation
    rows, columns = above.shape[2:]
    seen = np.pad(data, ((0, 0), (0, 0), (top, bottom), (left, right)))
    at = {(ky, kx): (..., slice(ky * dy, ky * dy + rows), slice(kx * dx, kx * dx + columns))
          for ky in range(high) for kx in range(wide)}  # fmt: skip
    if activation:
        before = sum(seen[at[tap]] * weights[:, 0, tap[0], tap[1], None, None] for tap in at)
        before = before + (0 if bias is None else bias[:, None, None])
        above = above * _DERIVATIVES[activation](before)
    of_seen, of_weights = np.zeros_like(seen), np.zeros(weights.shape, data.dtype)
    for (ky, kx), place in at.items():
        of_seen[place] += above * weights[:, 0, ky, kx, None, None]
        of_weights[:, 0, ky, kx] = (seen[place] * above).sum((0, 2, 3))
    inside = of_seen[:, :, top : top + data.shape[2], left : left + data.shape[3]]
    return inside, of_weights, above.sum((0, 2, 3))
