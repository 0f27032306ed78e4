"""Values of expressions in another library's arithmetic, by a table of its functions.

User-defined activations become functions of arrays, and extents become sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ...core.errors import UserError


class ArrayFunctions(NamedTuple):
    """The functions of a library.

    Attributes
    ----------
    unknown : callable
        Returns the error for a part without a function.
    by_class, by_name : mapping
        The library's functions, by the class of an operator and by the name of an intrinsic.
    constant : callable
        Returns an array with the value of a number, in the type of a given name.
    cast : callable
        Converts an array to the type of that name.
    """

    unknown: Callable[[Any], UserError]
    by_class: Mapping[str, Callable[..., Any]]
    by_name: Mapping[str, Callable[..., Any]]
    constant: Callable[[Any, str], Any]
    cast: Callable[[Any, str], Any]


def no_counterpart(library: str) -> Callable[[Any], UserError]:
    """Return the function that makes the error for a part of an activation that a library cannot compute."""
    return lambda e: UserError(
        f"`{e}` has no counterpart in {library}, which computes this gradient",
        primitive="activation",
        fix=f"write the activation by other functions, or apply it in {library} behind the call",
    )


def evaluate(e: Any, values: Mapping[Any, Any], functions: ArrayFunctions) -> Any:
    """Return the value of an expression for the values of its variables, by the functions of a library.

    Raises the error `functions.unknown` for a part that the library cannot compute.
    """
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
            raise functions.unknown(x)
        if kind == "Call":
            return function(*map(visit, x.args))
        parts = (x.condition, x.true_value, x.false_value) if hasattr(x, "condition") else (x.a,)
        return function(*map(visit, (*parts, x.b) if hasattr(x, "b") else parts))

    return visit(e)
