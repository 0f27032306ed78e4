"""softmax and normalisation in NumPy, computed in float64 and returned in the type of the input."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

Axis = int | tuple[int, ...]


def softmax_python(a_np: np.ndarray, axis: int = -1) -> np.ndarray:
    """exp(a - max) / sum(exp(a - max)) of each row"""
    part = np.exp(a_np.astype(np.float64) - a_np.max(axis, keepdims=True))
    return np.asarray(part / part.sum(axis, keepdims=True)).astype(a_np.dtype)


def log_softmax_python(a_np: np.ndarray, axis: int = -1) -> np.ndarray:
    """a - max - log(sum(exp(a - max))) of each row"""
    rest = a_np.astype(np.float64) - a_np.max(axis, keepdims=True)
    return np.asarray(rest - np.log(np.exp(rest).sum(axis, keepdims=True))).astype(a_np.dtype)


def _by_channel(values: np.ndarray, rank: int, channel: int) -> np.ndarray:
    return values.astype(np.float64).reshape([-1 if d == channel else 1 for d in range(rank)])


def batch_norm_python(
    a_np: np.ndarray,
    gamma: np.ndarray,
    beta: np.ndarray,
    mean: np.ndarray,
    variance: np.ndarray,
    axis: int = 1,
    epsilon: float = 1e-5,
) -> np.ndarray:
    """(a - mean) / sqrt(variance + epsilon) * gamma + beta, by channel"""
    gamma, beta, mean, variance = (_by_channel(v, a_np.ndim, axis) for v in (gamma, beta, mean, variance))
    return np.asarray((a_np - mean) / np.sqrt(variance + epsilon) * gamma + beta).astype(a_np.dtype)


def _normal(a_np: np.ndarray, axis: Axis, epsilon: float) -> np.ndarray:
    wide = a_np.astype(np.float64)
    return np.asarray((wide - wide.mean(axis, keepdims=True)) / np.sqrt(wide.var(axis, keepdims=True) + epsilon))


def layer_norm_python(
    a_np: np.ndarray, gamma: np.ndarray, beta: np.ndarray | None, axis: Sequence[int], epsilon: float = 1e-5
) -> np.ndarray:
    """Without mean and with variance 1 along `axis`, times gamma, plus beta"""
    axes = tuple(sorted(d % a_np.ndim for d in axis))
    shape = [a_np.shape[d] if d in axes else 1 for d in range(a_np.ndim)]
    out = _normal(a_np, axes, epsilon) * gamma.reshape(shape)
    return np.asarray(out if beta is None else out + beta.reshape(shape)).astype(a_np.dtype)


def rms_norm_python(
    a_np: np.ndarray, weight: np.ndarray, axis: int | Sequence[int], epsilon: float = 1e-5
) -> np.ndarray:
    """a / sqrt(mean(a²) + epsilon) along `axis`, times the weight, which has these dimensions"""
    axes = tuple(d % a_np.ndim for d in (axis if isinstance(axis, (tuple, list)) else (axis,)))
    wide = a_np.astype(np.float64)
    shape = [n if d in axes else 1 for d, n in enumerate(a_np.shape)]
    normal = wide / np.sqrt((wide**2).mean(axes, keepdims=True) + epsilon)
    return np.asarray(normal * weight.reshape(shape)).astype(a_np.dtype)


instance_norm_python = layer_norm_python


def group_norm_python(
    a_np: np.ndarray,
    gamma: np.ndarray | None,
    beta: np.ndarray | None,
    num_groups: int,
    channel_axis: int,
    axes: Sequence[int],
    epsilon: float = 1e-5,
) -> np.ndarray:
    """Groups of the channels, each without mean and with variance 1 over its channels and `axes`"""
    channels = channel_axis % a_np.ndim
    parted = a_np.reshape(*a_np.shape[:channels], num_groups, -1, *a_np.shape[channels + 1 :])
    over = (channels + 1, *(d % a_np.ndim + (d % a_np.ndim > channels) for d in axes))
    normal = _normal(parted, over, epsilon).reshape(a_np.shape)
    scaled = normal if gamma is None else normal * _by_channel(gamma, a_np.ndim, channels)
    return np.asarray(scaled if beta is None else scaled + _by_channel(beta, a_np.ndim, channels)).astype(a_np.dtype)


def l2_normalize_python(a_np: np.ndarray, eps: float, axis: Axis | None = None) -> np.ndarray:
    """a / sqrt(max(sum(a²), eps)) along `axis`"""
    wide = a_np.astype(np.float64)
    return np.asarray(wide / np.sqrt(np.maximum((wide**2).sum(axis, keepdims=True), eps))).astype(a_np.dtype)


def lrn_python(a_np: np.ndarray, size: int, axis: int, bias: float, alpha: float, beta: float) -> np.ndarray:
    """a / (bias + alpha / size * sum of a² over `size` channels around) ** beta"""
    wide = np.moveaxis(a_np.astype(np.float64), axis, 0)
    out = np.empty_like(wide)
    for c in range(len(wide)):
        window = wide[max(0, c - size // 2) : c + size // 2 + 1]
        out[c] = wide[c] / (bias + alpha / size * (window**2).sum(0)) ** beta
    return np.ascontiguousarray(np.moveaxis(out, 0, axis)).astype(a_np.dtype)
