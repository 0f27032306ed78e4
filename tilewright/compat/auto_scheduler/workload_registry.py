"""Functions that declare a computation, by name, and the keys of computations."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from ...core.errors import UserError
from ...tensor.tensor import Tensor

Declare = Callable[..., Any]
WORKLOAD_FUNC_REGISTRY: dict[str, Any] = {}
"""Functions by name, and tensors by workload key."""
TASK_INPUT_BUFFER_TABLE: dict[str, dict[str, Any]] = {}
"""The given values of inputs, by workload key and name."""


def register_workload(func_name: Any, f: Declare | None = None, override: bool = False) -> Any:
    """Register a function that returns the tensors of a computation, inputs first: as a decorator, or by name."""
    if callable(func_name):
        return _registered(get_func_name(func_name), func_name, override)
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


def get_func_name(func: Declare) -> str:
    """Return the name under which a function is registered by default."""
    return func.__qualname__


def register_workload_tensors(workload_key: str, tensors: Sequence[Tensor], override: bool = True) -> str:
    """Register the tensors of a computation by a key, such as `ComputeDAG.workload_key()`; returns the key."""
    known = WORKLOAD_FUNC_REGISTRY.get(workload_key)
    if known is not None and list(known) != list(tensors) and not override:
        raise UserError(
            f"the workload {workload_key!r} is registered already, with other tensors",
            primitive="register_workload_tensors",
            fix="pass override=True",
        )
    WORKLOAD_FUNC_REGISTRY[workload_key] = list(tensors)
    return workload_key


def serialize_workload_registry_entry(workload_key: str) -> tuple[str, Any]:
    """Return the entry of a workload key or a name, for another process. A function is pickled by its name."""
    name = workload_key if workload_key in WORKLOAD_FUNC_REGISTRY else _parts(workload_key)[0]
    return name, WORKLOAD_FUNC_REGISTRY[name]


def deserialize_workload_registry_entry(data: tuple[str, Any]) -> None:
    """Register an entry of another process, unless its name is known."""
    name, value = data
    WORKLOAD_FUNC_REGISTRY.setdefault(name, value)


def make_workload_key(func: Any, args: Any) -> str:
    """Return the key of a registered function with some arguments: a list as JSON."""
    name = func if isinstance(func, str) else get_func_name(func)
    if name not in WORKLOAD_FUNC_REGISTRY:
        raise UserError(
            f"the function {name!r} is not registered",
            primitive="make_workload_key",
            fix="put @auto_scheduler.register_workload above it",
        )
    return json.dumps([name, *(args if isinstance(args, (list, tuple)) else (args,))])


def workload_key_to_tensors(workload_key: str) -> list[Tensor]:
    """Return the tensors that a key stands for, inputs first."""
    if isinstance(known := WORKLOAD_FUNC_REGISTRY.get(workload_key), list):
        return known
    name, *args = _parts(workload_key)
    return tensors_of(WORKLOAD_FUNC_REGISTRY[name](*(tuple(arg) if isinstance(arg, list) else arg for arg in args)))


def _parts(workload_key: str) -> list[Any]:
    """The name of a registered function in a key, and the arguments."""
    try:
        parts: list[Any] = json.loads(workload_key)
        if callable(WORKLOAD_FUNC_REGISTRY[parts[0]]):
            return parts
    except (ValueError, TypeError, LookupError):
        pass
    raise UserError(
        f"the workload key {workload_key!r} names no registered function",
        primitive="workload_key_to_tensors",
        fix="put @auto_scheduler.register_workload above the function before the key is used",
    )


def tensors_of(made: Any) -> list[Tensor]:
    """The tensors that a function has returned, or that were given instead of a function."""
    found: Sequence[Any] = list(made) if isinstance(made, (list, tuple)) else [made]
    if not found or not all(isinstance(tensor, Tensor) for tensor in found):
        raise UserError(
            f"{made!r} are not the tensors of a computation",
            primitive="ComputeDAG",
            fix="return the list of inputs and outputs: [A, B, C]",
        )
    return list(found)
