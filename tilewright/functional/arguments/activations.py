"""Activations of calls: by name, or as a user-defined function."""

from __future__ import annotations

from collections.abc import Callable
from types import BuiltinFunctionType
from typing import Any

from ...core.errors import UserError
from .signature import ACTIVATIONS, GRADIENT

_FRAMEWORKS = ("torch", "jax", "jaxlib", "numpy", "cupy")
"""Packages with functions on arrays, which cannot compute expressions."""
FUNCTIONS: dict[str, Callable[[Any], Any]] = {}
"""User-defined activations, by the text that represents them in a problem."""


def function_of(text: str) -> Callable[[Any], Any] | None:
    """Return the function of a user-defined activation, by its text or the text of its gradient; None if unknown."""
    return FUNCTIONS.get(text.removesuffix(GRADIENT))


def activation_name(name: str, activation: Any) -> str:
    """Return the name of a call's activation, "" for none. Raises UserError for anything but a name or a function."""
    if activation is None:
        return ""
    if isinstance(activation, str) and activation.removesuffix(GRADIENT) in ACTIVATIONS:
        return activation
    raise UserError(
        f"activation is {activation!r}, which is not known",
        primitive=name,
        fix=f"give {', '.join(ACTIVATIONS)}, or a function of an expression: lambda v: te.max(v, 0)",
    )


def custom(name: str, activation: Any, dtype: str) -> tuple[Callable[[Any], Any] | None, str]:
    """Return the function of a user-defined activation, and the text that represents it in a problem.

    `dtype` is the type of the arrays. Constants in the text are rounded to the type of the sums: two constants that are
    equal in float32 may differ in float64.
    """
    if not callable(activation):
        function = function_of(activation) if isinstance(activation, str) else None
        return function, activation if function is not None else activation_name(name, activation)
    homes = (getattr(activation, "__module__", None), type(activation).__module__)
    if isinstance(activation, BuiltinFunctionType) or any(str(h).partition(".")[0] in _FRAMEWORKS for h in homes):
        raise UserError(
            f"activation is {activation!r}, which computes on arrays",
            primitive=name,
            fix='name it, as in activation="relu", or give a function of an expression: lambda v: te.max(v, 0)',
        )
    from ...expr import nodes, traverse  # take longer to import than a known kernel to start

    value = nodes.Var("v", "float64" if dtype == "float64" else "float32")
    made = activation(value)
    if not isinstance(made, nodes.Expr) or not traverse.uses_any(made, (value,)):
        raise UserError(
            f"activation returned {made!r}, in which its argument does not occur",
            primitive=name,
            fix="return an expression of the argument: lambda v: te.max(v, 0)",
        )
    text = f"custom:{made}"
    FUNCTIONS[text] = activation
    return activation, text
