"""Compute a problem by XLA's own operators.

JAX calls use them if they are faster, on devices without kernels of ours, and for some gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np
from jax import lax

from ...core.precision import REDUCED
from ..arguments.activations import FUNCTIONS
from ..arguments.problem import AVG_POOL, MAX_POOL, TRANSPOSES, WEIGHT_GRADIENT, Problem
from . import expressions

ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "relu": jax.nn.relu,
    "relu6": jax.nn.relu6,
    "silu": jax.nn.silu,
    "gelu": lambda v: jax.nn.gelu(v, approximate=False),
    "gelu_tanh": jax.nn.gelu,
    "sigmoid": jax.nn.sigmoid,
    "hardswish": jax.nn.hard_swish,
    "tanh": jax.nn.tanh,
    "leaky_relu": jax.nn.leaky_relu,
    "elu": jax.nn.elu,
    "mish": lambda v: v * jax.nn.tanh(jax.nn.softplus(v)),
    "hardtanh": jax.nn.hard_tanh,
    "softplus": jax.nn.softplus,
}


def in_layout(problem: Problem, shape: tuple[int, int, int, int]) -> tuple[int, ...]:
    """Return the sizes of images in memory order."""
    batch, channels, height, width = shape
    return (batch, height, width, channels) if problem.layout == "NHWC" else shape


def made_shape(problem: Problem) -> tuple[int, ...]:
    """Return the shape of a result, which is images or the gradient of weights."""
    return problem.weights_shape if problem.op == WEIGHT_GRADIENT else in_layout(problem, problem.out_shape)


def beside(problem: Problem, bias: Any) -> Any:
    """Return a bias in a shape that broadcasts over images."""
    return bias if problem.layout == "NHWC" else bias[:, None, None]


def activation_of(problem: Problem) -> Callable[[Any], Any]:
    """Return the activation as a function that JAX can differentiate."""
    text = problem.activation
    return ACTIVATIONS[text] if text in ACTIVATIONS else partial(expressions.custom, FUNCTIONS[text])


def with_epilogue(problem: Problem, sums: Any, bias: Any, residual: Any) -> Any:
    """Add the bias and the residual, which may be None, and apply the activation."""
    made = sums if bias is None else sums + beside(problem, bias)
    made = made if residual is None else made + residual
    return activation_of(problem)(made) if problem.activation else made


def by_xla(problem: Problem, x: Any, *others: Any) -> Any:
    """Compute a problem by XLA's operators; `others` are its extra arguments."""
    if problem.op == MAX_POOL:
        return _windows(problem, x, -jax.numpy.inf, lax.max)
    if problem.op == AVG_POOL:
        return _windows(problem, x, 0.0, lax.add) / _counts(problem, x)
    named = dict(zip(problem.extra_arguments, others, strict=True))
    weights = named["weights"]
    if problem.op == WEIGHT_GRADIENT:
        shape = jax.ShapeDtypeStruct(problem.weights_shape, x.dtype)
        return jax.linear_transpose(lambda w: _convolution(problem, x, w), shape)(weights)[0]
    compute = _spread if problem.op in TRANSPOSES else _convolution
    return with_epilogue(problem, compute(problem, x, weights), named.get("bias"), named.get("residual"))


def _sides(problem: Problem) -> list[tuple[int, int]]:
    top, left, bottom, right = problem.padding
    return [(top, bottom), (left, right)]


def _options(problem: Problem) -> dict[str, Any]:
    layout = problem.layout
    exact = problem.dtype == "float32" and problem.precision not in REDUCED
    return {
        "rhs_dilation": problem.dilation,
        "dimension_numbers": (layout, "OIHW", layout),
        "feature_group_count": problem.groups,
        "precision": lax.Precision.HIGHEST if exact else None,
    }


def _convolution(problem: Problem, x: Any, weights: Any) -> Any:
    return lax.conv_general_dilated(x, weights, problem.stride, _sides(problem), **_options(problem))


def _spread(problem: Problem, x: Any, weights: Any) -> Any:
    """Compute a transposed convolution as a convolution with reversed kernels, over the input with zeros between
    elements."""
    channels, filters, *taps = problem.weights_shape
    groups = problem.groups
    apart = weights.reshape((groups, channels // groups, filters, *taps)).swapaxes(1, 2)
    turned = lax.rev(apart.reshape((groups * filters, channels // groups, *taps)), (2, 3))
    sides = [
        (reach - 1 - before, reach - 1 - after + more)
        for reach, (before, after), more in zip(problem.covered, _sides(problem), problem.output_padding, strict=True)
    ]
    return lax.conv_general_dilated(x, turned, (1, 1), sides, lhs_dilation=problem.stride, **_options(problem))


def _windows(problem: Problem, x: Any, start: float, combine: Any, sides: Any = None) -> Any:
    def placed(pair: tuple[Any, Any], other: Any) -> tuple[Any, ...]:
        return (other, *pair, other) if problem.layout == "NHWC" else (other, other, *pair)

    rows, columns = sides or _sides(problem)
    return lax.reduce_window(
        x, np.asarray(start, x.dtype), combine, placed(problem.kernel, 1), placed(problem.stride, 1),
        placed((rows, columns), (0, 0)), window_dilation=placed(problem.dilation, 1),
    )  # fmt: skip


def _counts(problem: Problem, x: Any) -> Any:
    """Return the divisors of the sums of windows."""
    if problem.divisor:
        return problem.divisor
    ones = jax.numpy.ones(in_layout(problem, (1, 1, *problem.shape[2:])), x.dtype)
    if not problem.count_border:
        return _windows(problem, ones, 0.0, lax.add)
    (top, bottom), (left, right) = _sides(problem)
    below, behind = problem.beyond
    counted = in_layout(
        problem, (1, 1, problem.shape[2] + top + bottom - below, problem.shape[3] + left + right - behind)
    )
    return _windows(problem, jax.numpy.ones(counted, x.dtype), 0.0, lax.add, [(0, below), (0, behind)])
