"""Values of the running program: the operations that Python and NumPy may apply to them.

Questions that have no answer before the program runs (`int(x)`, `x ** 2`, `np.exp(x)`, `for y in x`) are refused.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.refusals import refusal, refuses

if TYPE_CHECKING:
    from .nodes import Expr

BUILD: dict[str, Callable[..., Expr]] = {}
"""The meaning of the operators; `operators.py` fills it, so that the grammar need not know the typing rules."""

# NumPy's names for the operators.
_OPERATORS = {
    "add": "add", "subtract": "subtract", "multiply": "multiply", "divide": "divide", "true_divide": "divide",
    "floor_divide": "floordiv", "remainder": "floormod", "negative": "negate", "less": "less",
    "less_equal": "less_equal", "greater": "greater", "greater_equal": "greater_equal", "equal": "equal",
    "not_equal": "not_equal", "bitwise_and": "bitwise_and", "bitwise_or": "bitwise_or", "bitwise_xor": "bitwise_xor",
    "invert": "bitwise_not", "left_shift": "shift_left", "right_shift": "shift_right",
}  # fmt: skip


class _Declaring(threading.local):
    variables: tuple[Expr, ...] | None = None


_declaring = _Declaring()


@contextmanager
def declaring(variables: tuple[Expr, ...]) -> Iterator[None]:
    """While a function of those axes is called, Python's `if` on their equality is a mistake."""
    before, _declaring.variables = _declaring.variables, variables
    try:
        yield
    finally:
        _declaring.variables = before


def is_declaring() -> bool:
    """Whether the function of a `te.compute` is being called."""
    return _declaring.variables is not None


def same(comparison: Any) -> bool:
    """The truth of `a == b` for Python: whether both sides are one node; refused if it asks for an axis' value."""
    if comparison.a is comparison.b:
        return True
    if _declaring.variables and _uses(comparison, _declaring.variables):
        raise refusal("expression", "bool", comparison)
    return False


def _uses(e: Any, variables: tuple[Expr, ...]) -> bool:
    stack: list[Any] = [e]
    seen: set[int] = set()
    while stack:
        at = stack.pop()
        if any(at is var for var in variables):
            return True
        if id(at) not in seen:
            seen.add(id(at))
            stack.extend(at.children())
    return False


@refuses(
    "expression",
    "bool pow rpow matmul rmatmul divmod rdivmod abs round floor ceil trunc float index iter len getitem "
    "array_function",
)
class RuntimeValue:
    """Base class of values of the running program."""

    __slots__ = ()

    def spelled(self) -> str:
        """The value as a message writes it."""
        return repr(self)

    def __int__(self) -> int:
        raise refusal("expression", "int", self)

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        """An array of the expression itself; without it NumPy would take the value for a list."""
        if dtype not in (None, object):
            raise refusal("expression", "array", self, np.dtype(dtype))
        return _boxed(self)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        """NumPy met an expression: its operators mean ours, its functions are refused."""
        name = ufunc.__name__
        if method != "__call__" or name not in _OPERATORS or options:
            raise refusal("expression", "array_ufunc", self, ufunc)
        if not any(isinstance(x, np.ndarray) and x.ndim for x in inputs):
            return BUILD[_OPERATORS[name]](*(x.item() if isinstance(x, np.ndarray) else x for x in inputs))
        # An operation of an array and an expression gives an array of expressions, one per element.
        return ufunc(*(_boxed(x) if isinstance(x, RuntimeValue) else x for x in inputs), dtype=object)


def _boxed(value: RuntimeValue) -> np.ndarray:
    box = np.empty((), object)
    box[()] = value
    return box
