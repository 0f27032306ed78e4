"""Activations of calls: by name, or as a user-defined function."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from .signature import activation_name


def custom(name: str, activation: Any) -> tuple[Callable[[Any], Any] | None, str]:
    """Return the function of a user-defined activation, and the text that represents it in a problem."""
    if not callable(activation):
        return None, activation_name(name, activation)
    nodes = import_module("..expr.nodes", __package__)  # expressions take longer to import than a known kernel to start
    return activation, f"custom:{activation(nodes.Var('v', 'float32'))}"
