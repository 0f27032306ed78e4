"""User-defined activations as functions of another library's arrays, by a table of its functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ...core.errors import UserError


class ArrayFunctions(NamedTuple):
    """The functions of a library.

    Attributes
    ----------
    name : str
        The library, for errors.
    by_class, by_name : mapping
        The library's functions, by the class of an operator and by the name of an intrinsic.
    constant : callable
        Returns an array with the value of a number, in the type of a given name.
    cast : callable
        Converts an array to the type of that name.
    """

    name: str
    by_class: Mapping[str, Callable[..., Any]]
    by_name: Mapping[str, Callable[..., Any]]
    constant: Callable[[Any, str], Any]
    cast: Callable[[Any, str], Any]


def evaluate(e: Any, values: Mapping[Any, Any], functions: ArrayFunctions) -> Any:
    """Compute an expression with arrays as the values of its variables, by functions that the library can
    differentiate."""
    memo: dict[Any, Any] = dict(values)

    def visit(x: Any) -> Any:
        if x not in memo:
            memo[x] = compute(x)
        return memo[x]

    def compute(x: Any) -> Any:
        kind = type(x).__name__
        if kind in ("FloatImm", "IntImm"):
            return functions.constant(x.value, str(x.dtype))
        if kind == "Cast":
            return functions.cast(visit(x.value), str(x.dtype))
        function = functions.by_name.get(x.name) if kind == "Call" else functions.by_class.get(kind)
        if function is None:
            raise UserError(
                f"`{x}` has no counterpart in {functions.name}, which computes this gradient",
                primitive="activation",
                fix=f"write the activation by other functions, or apply it in {functions.name} behind the call",
            )
        if kind == "Call":
            return function(*map(visit, x.args))
        parts = (x.condition, x.true_value, x.false_value) if hasattr(x, "condition") else (x.a,)
        return function(*map(visit, (*parts, x.b) if hasattr(x, "b") else parts))

    return visit(e)
