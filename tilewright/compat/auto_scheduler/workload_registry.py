"""Functions that declare a computation, by name, and the keys of computations."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from ...core.errors import UserError
from ...tensor.tensor import Tensor

Declare = Callable[..., Any]
WORKLOAD_FUNC_REGISTRY: dict[str, Declare] = {}


def register_workload(func_name: Any, f: Declare | None = None, override: bool = False) -> Any:
    """Register a function that returns the tensors of a computation, inputs first: as a decorator, or by name."""
    if callable(func_name):
        return _registered(func_name.__name__, func_name, override)
    if f is not None:
        return _registered(func_name, f, override)
    return lambda function: _registered(func_name, function, override)


def _registered(name: str, function: Declare, override: bool) -> Declare:
    known = WORKLOAD_FUNC_REGISTRY.get(name, function)
    again = (known.__module__, known.__qualname__) == (function.__module__, function.__qualname__)
    if not again and not override:  # a notebook's cell runs again
        raise UserError(
            f"the workload {name!r} is registered already, by another function",
            primitive="register_workload",
            fix="give the function another name, or pass override=True",
        )
    WORKLOAD_FUNC_REGISTRY[name] = function
    return function


def register_workload_tensors(workload_key: str, tensors: Sequence[Tensor], override: bool = True) -> str:
    """Register the tensors of a computation by a key, such as `ComputeDAG.workload_key()`; returns the key."""
    name = json.loads(workload_key)[0]
    register_workload(name, lambda *args: list(tensors), override)
    return workload_key


def make_workload_key(func: Any, args: Any) -> str:
    """Return the key of a registered function with some arguments: a list as JSON."""
    name = func if isinstance(func, str) else func.__name__
    if name not in WORKLOAD_FUNC_REGISTRY:
        raise UserError(
            f"the function {name!r} is not registered",
            primitive="make_workload_key",
            fix="put @auto_scheduler.register_workload above it",
        )
    return json.dumps([name, *(args if isinstance(args, (list, tuple)) else (args,))])


def workload_key_to_tensors(workload_key: str) -> list[Tensor]:
    """Return the tensors that a key stands for, inputs first."""
    try:
        name, *args = json.loads(workload_key)
        declare = WORKLOAD_FUNC_REGISTRY[name]
    except (ValueError, TypeError, KeyError):
        raise UserError(
            f"the workload key {workload_key!r} names no registered function",
            primitive="workload_key_to_tensors",
            fix="put @auto_scheduler.register_workload above the function before the key is used",
        ) from None
    return tensors_of(declare(*(tuple(arg) if isinstance(arg, list) else arg for arg in args)))


def tensors_of(made: Any) -> list[Tensor]:
    """The tensors that a function has returned, or that are given in its place."""
    found: Sequence[Any] = list(made) if isinstance(made, (list, tuple)) else [made]
    if not found or not all(isinstance(tensor, Tensor) for tensor in found):
        raise UserError(
            f"{made!r} are not the tensors of a computation",
            primitive="ComputeDAG",
            fix="return the list of inputs and outputs: [A, B, C]",
        )
    return list(found)
