"""User-defined activations as functions of JAX, for gradients, and for devices without kernels of ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
from jax import numpy as jnp

from ..arguments.expressions import ArrayFunctions, evaluate, no_counterpart

_BY_CLASS: dict[str, Callable[..., Any]] = {
    "Add": jnp.add, "Sub": jnp.subtract, "Mul": jnp.multiply, "Div": jnp.divide, "Min": jnp.minimum, "Max": jnp.maximum,
    "EQ": jnp.equal, "NE": jnp.not_equal, "LT": jnp.less, "LE": jnp.less_equal, "GT": jnp.greater,
    "GE": jnp.greater_equal, "And": jnp.logical_and, "Or": jnp.logical_or, "Not": jnp.logical_not,
    "Select": jnp.where, "IfThenElse": jnp.where,
}  # fmt: skip
_BY_NAME: dict[str, Callable[..., Any]] = {
    **{
        name: getattr(jnp, name)
        for name in (
            *"exp exp2 log log2 log10 log1p sqrt tanh floor ceil trunc pow fmod hypot fabs".split(),
            *"sin cos tan asin acos atan sinh cosh asinh acosh atanh atan2 copysign isnan isinf isfinite".split(),
        )
    },
    "rsqrt": jax.lax.rsqrt,
    "sigmoid": jax.nn.sigmoid,
    "erf": jax.lax.erf,
    "exp10": lambda x: jnp.pow(10, x),
    "exp2_normal": jnp.exp2,
    "saturate": lambda x: jnp.clip(x, 0, 1),
    "round": lambda x: jnp.copysign(jnp.floor(jnp.abs(x) + 0.5), x),
    "nearbyint": jnp.round,
    "likely": lambda x: x,
}
_FUNCTIONS = ArrayFunctions(
    no_counterpart("JAX"), _BY_CLASS, _BY_NAME, lambda value, dtype: jnp.asarray(value, dtype), jnp.astype
)


def custom(activation: Callable[[Any], Any], v: Any) -> Any:
    """Apply a user-defined activation, in float32 if the type of the array is smaller."""
    from ...expr import nodes  # not needed for known kernels

    at = v.astype(jnp.promote_types(v.dtype, "float32"))
    var = nodes.Var("v", str(at.dtype))
    return evaluate(activation(var), {var: at}, _FUNCTIONS).astype(v.dtype)
