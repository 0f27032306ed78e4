"""TorchScript does not compile the public functions, since they choose kernels: its error names a way out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])
WAY_OUT = "trace the model, torch.jit.trace(model, x), or export it, torch.export.export(model, (x,))"


def unscriptable(function: Function) -> Function:
    """Give a function the attribute that PyTorch reads before it compiles one."""
    message = f"tilewright.{function.__name__} does not compile to TorchScript; {WAY_OUT}"
    setattr(function, "__script_unsupported", message)  # in a class, Python would change the name
    return function
