"""TorchScript cannot compile the public functions, because they choose kernels; its error includes a fix."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])
WAY_OUT = "trace the model, torch.jit.trace(model, x), or export it, torch.export.export(model, (x,))"


def unscriptable(function: Function) -> Function:
    """Set the attribute of a function that TorchScript checks before it compiles the function."""
    message = f"tilewright.{function.__name__} does not compile to TorchScript; {WAY_OUT}"
    setattr(function, "__script_unsupported", message)  # in a class, Python would change the name
    return function
