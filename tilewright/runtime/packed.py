"""Python functions that programs call by name: `register_func`, `get_global_func`, and the functions that generated
code uses."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from importlib import import_module
from typing import Any

import numpy as np

from ..core.dtype import DType
from ..core.errors import UserError, UserValueError
from .array import NDArray
from .device import Device

_FUNCTIONS: dict[str, PackedFunc] = {}
_HOMES = {
    **{f"tvm.contrib.{part}.": f"tilewright.contrib.{part}" for part in ("cblas", "sort")},
    "test.op.": "tilewright.compat.legacy.tensorize_functions",
}
"""The module that registers a function, by the beginning of its name: scripts call it without an import."""


class PackedFunc:
    """A function that programs may call by its name. Called from Python, it calls the Python function."""

    is_global = True

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self.name = name
        self.function = function

    def __call__(self, *args: Any) -> Any:
        return self.function(*args)

    def __repr__(self) -> str:
        return f"<PackedFunc {self.name}>"


def register_func(func_name: Any, f: Callable[..., Any] | None = None, override: bool = False) -> Any:
    """Make a Python function known to programs by a name.

    Parameters
    ----------
    func_name
        The name by which `tir.call_packed` calls it; or the function itself, which then goes by its own name.
    f
        The function. It is called with the program's arguments: buffers as `tvm.nd` arrays over the same memory,
        numbers and texts as such. Its result, if any, is the value of the call.
    override
        Whether the function may replace another function with the same name.

    Returns
    -------
    The function; without `f`, a decorator that registers a function under the name.

    Raises
    ------
    UserError
        For a name that is taken, or that is not text.
    """
    if callable(func_name):
        return register_func(func_name.__name__, func_name, override)
    if not isinstance(func_name, str) or not func_name:
        raise UserError(
            f"{func_name!r} is not the name of a function", primitive="register_func", fix='give text: "my.function"'
        )
    if f is None:
        return lambda function: register_func(func_name, function, override)
    if not callable(f):
        raise UserError(f"{f!r} is not a function", primitive="register_func", fix="give a function of arrays")
    if func_name in _FUNCTIONS and not override:
        raise UserError(
            f"a function {func_name!r} is registered already",
            primitive="register_func",
            fix="choose another name, or pass override=True",
        )
    _FUNCTIONS[func_name] = PackedFunc(func_name, f)
    return f


def get_global_func(name: str, allow_missing: bool = False) -> PackedFunc | None:
    """Return the function registered under a name.

    Parameters
    ----------
    name
        The name.
    allow_missing
        Whether to return None if there is none.

    Raises
    ------
    UserError
        If no function has that name.
    """
    found = _found(name) if isinstance(name, str) else None
    if found is None and not allow_missing:
        near = get_close_matches(str(name), _FUNCTIONS, n=1)
        raise UserValueError(
            f"no function is registered as {name!r}",
            primitive="get_global_func",
            fix=f"did you mean {near[0]!r}?" if near else f"register it: @tvm.register_func({str(name)!r})",
        )
    return found


def _printed(*values: Any) -> Any:
    """Print traced values, and return the last: the default handler."""
    print(*values)
    return values[-1]


def _traced(name: str, *values: Any) -> Any:
    """Call the function `name` with traced values; returns its result, or the last value if the result is None."""
    found = _registered(name).function(*values)
    return values[-1] if found is None else found


register_func("tvm.default_trace_action", _printed)
register_func("tilewright.traced", _traced)


def list_global_func_names() -> list[str]:
    """Return the names of all registered functions."""
    return sorted(_FUNCTIONS)


def remove_global_func(name: str) -> None:
    """Remove the function with this name, if it exists."""
    _FUNCTIONS.pop(name, None)


def call_packed(name: str, *args: Any) -> Any:
    """Call a registered function, for host code: the call's value is a number."""
    result = _registered(name).function(*args)
    return 0 if result is None else result


def _found(name: str) -> PackedFunc | None:
    """Return the function of a name; its module may have to be loaded first."""
    home = next((home for prefix, home in _HOMES.items() if name.startswith(prefix)), None)
    if name not in _FUNCTIONS and home is not None:
        import_module(home)
    return _FUNCTIONS.get(name)


def _registered(name: str) -> PackedFunc:
    found = _found(name)
    if found is None:
        raise UserError(
            f"the program calls the function {name!r}, which is not registered",
            primitive="call_packed",
            fix=f"register it before the call: @tvm.register_func({name!r})",
        )
    return found


def returned(dtype: str, value: Any) -> Any:
    """The result of a packed function, as a number of the type that the program expects."""
    kind = DType(dtype)
    try:
        number = np.asarray(value).astype(kind.numpy, casting="same_kind" if kind.is_float else "unsafe")
        if number.shape != () or (not kind.is_float and number != value):
            raise TypeError
    except (TypeError, ValueError, OverflowError):
        raise UserError(
            f"the packed function returned {value!r}, but the program expects a value of type {dtype}",
            primitive="call_packed",
            fix='return such a number, or name another type: tir.call_intrin("float32", "tir.tvm_call_packed", ...)',
        ) from None
    return number.item()


def element_reader(on: Device) -> Callable[..., Any]:
    """The function that reads one element of the memory that host code of a device names."""
    make = array_maker(on)

    def read(handle: Any, dtype: str, at: int) -> Any:
        return make(handle, dtype, (), None, at).numpy().item()

    return read


def array_maker(on: Device) -> Callable[..., NDArray]:
    """The function that makes arrays of the memory that host code of a device names."""

    def make(handle: Any, dtype: str, shape: tuple[int, ...], strides: tuple[int, ...] | None, offset: int) -> NDArray:
        kind = DType(dtype)
        first, rest = on.driver.part(handle, offset * kind.bytes) if offset else (handle, 0)
        return NDArray(on, kind, shape, first, handle, strides, rest // kind.bytes)

    return make
