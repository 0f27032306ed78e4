"""Activations of calls: by name, or as a user-defined function."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from types import BuiltinFunctionType
from typing import Any

from ..core.errors import UserError
from .signature import activation_name

_FRAMEWORKS = ("torch", "jax", "jaxlib", "numpy", "cupy")
"""Packages whose functions compute on arrays."""


def custom(name: str, activation: Any) -> tuple[Callable[[Any], Any] | None, str]:
    """Return the function of a user-defined activation, and the text that represents it in a problem."""
    if not callable(activation):
        return None, activation_name(name, activation)
    homes = (getattr(activation, "__module__", None), type(activation).__module__)
    if isinstance(activation, BuiltinFunctionType) or any(str(h).partition(".")[0] in _FRAMEWORKS for h in homes):
        raise UserError(
            f"activation is {activation!r}, which computes on arrays",
            primitive=name,
            fix='name it, as in activation="relu", or give a function of an expression: lambda v: te.max(v, 0)',
        )
    nodes = import_module("..expr.nodes", __package__)  # expressions take longer to import than a known kernel to start
    return activation, f"custom:{activation(nodes.Var('v', 'float32'))}"
