"""User-defined activations in PyTorch's operators, for gradients without a fused kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import torch

from ...arguments import expressions
from ...arguments.activations import FUNCTIONS
from ..native import ACTIVATION_GRADIENTS, ACTIVATIONS

_BY_CLASS: dict[str, Callable[..., Any]] = {
    **{name: getattr(torch, name.lower()) for name in ("Sub", "Mul", "Div", "EQ", "NE", "LT", "LE", "GT", "GE")},
    "Add": torch.add,
    "Min": torch.minimum,
    "Max": torch.maximum,
    "And": torch.logical_and,
    "Or": torch.logical_or,
    "Not": torch.logical_not,
    "Select": torch.where,
    "IfThenElse": torch.where,
}
_BY_NAME: dict[str, Callable[..., Any]] = {
    **{
        name: getattr(torch, name)
        for name in (
            *"exp exp2 log log2 log10 log1p sqrt rsqrt tanh sigmoid erf floor ceil trunc pow fmod hypot".split(),
            *"sin cos tan asin acos atan sinh cosh asinh acosh atanh atan2 copysign isnan isinf isfinite".split(),
        )
    },
    "fabs": torch.abs,
    "exp10": lambda x: torch.pow(10, x),
    "exp2_normal": torch.exp2,
    "saturate": lambda x: x.clamp(0, 1),
    "round": lambda x: torch.copysign(torch.floor(x.abs() + 0.5), x),
    "nearbyint": torch.round,
    "likely": lambda x: x,
}


def activation_gradient(text: str) -> Callable[[Any, Any], Any]:
    """Return a function that computes the gradient with respect to an activation's input.

    Its arguments are the gradient with respect to the result, and the input.
    """
    return ACTIVATION_GRADIENTS.get(text) or _custom_gradient(text)


def activation_of(text: str) -> Callable[[Any], Any]:
    """Return an activation, by its name or by the text of a user-defined one, as a function of PyTorch tensors."""
    return ACTIVATIONS.get(text) or _custom(text)


def _custom(text: str) -> Callable[[Any], Any]:
    from ....expr import nodes

    def compute(v: Any) -> Any:
        at = v if v.dtype == torch.float64 else v.float()
        var = nodes.Var("v", str(at.dtype).removeprefix("torch."))
        return evaluate(FUNCTIONS[text](var), {var: at}).to(v.dtype)

    return compute


def reads_sums(text: str) -> bool:
    """Return whether the gradient of an activation depends on its input, which the kernel for both requires."""
    if text in ACTIVATION_GRADIENTS:
        return True
    from ....expr.traverse import uses_any

    var, slope = _derivative(text, "float32")
    return slope is not None and uses_any(slope, (var,))


@cache
def _derivative(text: str, dtype: str) -> tuple[Any, Any]:
    """Return a variable, and the derivative of a user-defined activation at it; None for zero."""
    from ....expr import nodes
    from ....tensor.gradient.derivative import derivative

    v = nodes.Var("v", dtype)
    return v, derivative(FUNCTIONS[text](v), v)


def _custom_gradient(text: str) -> Callable[[Any, Any], Any]:
    def gradient(grad: Any, v: Any) -> Any:
        at = v if v.dtype == torch.float64 else v.float()
        var, slope = _derivative(text, str(at.dtype).removeprefix("torch."))
        return torch.zeros_like(grad) if slope is None else (grad * evaluate(slope, {var: at})).to(grad.dtype)

    return gradient


def evaluate(e: Any, values: Mapping[Any, Any]) -> Any:
    """Compute an expression with tensors as values of its variables, by operators that PyTorch can differentiate."""
    device = next(iter(values.values())).device

    def constant(value: Any, dtype: str) -> Any:
        return torch.full((), value, dtype=getattr(torch, dtype), device=device)

    unknown = expressions.no_counterpart("PyTorch")
    functions = expressions.ArrayFunctions(
        unknown, _BY_CLASS, _BY_NAME, constant, lambda a, dtype: a.to(getattr(torch, dtype))
    )
    return expressions.evaluate(e, values, functions)
