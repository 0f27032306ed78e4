"""What Python asks of a number, and an expression cannot answer: its value is known only when the program runs.

Each such question (`int(x)`, `x ** 2`, `np.exp(x)`, `for y in x` ...) ends with what to write instead.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from ..core.errors import UserError, UserTypeError

if TYPE_CHECKING:
    from .nodes import Expr

BUILD: dict[str, Callable[..., Expr]] = {}
"""What the operators mean; `operators.py` fills it, so that the grammar need not know the typing rules."""

# NumPy's names for the operators, and for what the faces call otherwise.
_OPERATORS = {
    "add": "add", "subtract": "subtract", "multiply": "multiply", "divide": "divide", "true_divide": "divide",
    "floor_divide": "floordiv", "remainder": "floormod", "negative": "negate", "less": "less",
    "less_equal": "less_equal", "greater": "greater", "greater_equal": "greater_equal", "equal": "equal",
    "not_equal": "not_equal", "bitwise_and": "bitwise_and", "bitwise_or": "bitwise_or", "bitwise_xor": "bitwise_xor",
    "invert": "bitwise_not", "left_shift": "shift_left", "right_shift": "shift_right",
}  # fmt: skip
_SAME_NAME = (
    "exp exp2 log log2 log10 log1p sqrt tanh sin cos tan sinh cosh floor ceil trunc power fmod hypot copysign isnan "
    "isinf isfinite"
)
_FACES = {
    **{name: f"te.{name}(...)" for name in _SAME_NAME.split()},
    **{f"arc{name}": f"te.a{name}(...)" for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh", "tan2")},
    "absolute": "te.abs(...)", "fabs": "te.abs(...)", "rint": "te.nearbyint(...)", "float_power": "te.power(...)",
    "maximum": "te.max(a, b)", "fmax": "te.max(a, b)", "minimum": "te.min(a, b)", "fmin": "te.min(a, b)",
    "square": "x * x", "reciprocal": "1 / x", "sign": "te.if_then_else(x > 0, 1, te.if_then_else(x < 0, -1, 0))",
    "logical_and": "te.all(a, b)", "logical_or": "te.any(a, b)", "logical_not": "tir.Not(a)",
    **dict.fromkeys(("matmul", "dot", "tensordot", "einsum", "sum"), "a te.compute with te.sum(..., axis=k)"),
    "where": "te.if_then_else(condition, a, b)", "clip": "te.max(low, te.min(x, high))",
}  # fmt: skip


class _Declaring(threading.local):
    variables: tuple[Expr, ...] | None = None


_declaring = _Declaring()


@contextmanager
def declaring(variables: tuple[Expr, ...]) -> Iterator[None]:
    """While a function of those axes is called, Python's `if` on what they equal is a mistake."""
    before, _declaring.variables = _declaring.variables, variables
    try:
        yield
    finally:
        _declaring.variables = before


def is_declaring() -> bool:
    """Whether the function of a `te.compute` is being called."""
    return _declaring.variables is not None


def same(comparison: Any) -> bool:
    """The truth of `a == b` for Python: whether both sides are one node; refused where it asks for an axis' value."""
    if comparison.a is comparison.b:
        return True
    if _declaring.variables and _uses(comparison, _declaring.variables):
        Unknown.__bool__(comparison)
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


class Unknown:
    """Base of what stands for a value of the running program: the questions that have no answer before it runs."""

    __slots__ = ()

    def spelled(self) -> str:
        """The value as a message writes it."""
        return repr(self)

    def __bool__(self) -> bool:
        raise UserError(
            f"the value of `{self.spelled()}` is not known while the program is being built, so `and`, `or`, `not`, "
            "`if`, max(), min() and chained comparisons cannot use it",
            fix="use te.all(...), te.any(...), tir.Not(...), te.if_then_else(condition, a, b), te.max(a, b)",
        )

    def __pow__(self, other: Any, modulo: Any = None) -> NoReturn:
        raise _no_operator(f"{self.spelled()} ** {other!r}", "**", "write x * x, or te.power(x, 2)")

    def __rpow__(self, other: Any, modulo: Any = None) -> NoReturn:
        raise _no_operator(
            f"{other!r} ** {self.spelled()}", "**", "use te.power(2, x), te.exp2(x), or 1 << i for integers"
        )

    def __matmul__(self, other: Any) -> NoReturn:
        raise _no_operator(f"{self.spelled()} @ {other!r}", "@", "te.sum(A[i, k] * B[k, j], axis=k) in a te.compute")

    def __rmatmul__(self, other: Any) -> NoReturn:
        raise _no_operator(f"{other!r} @ {self.spelled()}", "@", "te.sum(A[i, k] * B[k, j], axis=k) in a te.compute")

    def __divmod__(self, other: Any) -> NoReturn:
        raise _no_operator(f"divmod({self.spelled()}, {other!r})", "divmod()", "write a // b and a % b")

    def __rdivmod__(self, other: Any) -> NoReturn:
        raise _no_operator(f"divmod({other!r}, {self.spelled()})", "divmod()", "write a // b and a % b")

    def __abs__(self) -> NoReturn:
        raise _unknown(self, "abs()", "te.abs(x)")

    def __round__(self, digits: Any = None) -> NoReturn:
        raise _unknown(self, "round()", "te.round(x)")

    def __floor__(self) -> NoReturn:
        raise _unknown(self, "math.floor()", "te.floor(x)")

    def __ceil__(self) -> NoReturn:
        raise _unknown(self, "math.ceil()", "te.ceil(x)")

    def __trunc__(self) -> NoReturn:
        raise _unknown(self, "math.trunc()", "te.trunc(x)")

    def __int__(self) -> int:
        raise _unknown(self, "int()", 'x.astype("int32"), which converts within the program')

    def __float__(self) -> float:
        raise _unknown(
            self,
            "float(), and so math.sqrt() and its kin,",
            'te.sqrt(x) and its kin, and x.astype("float32") to convert',
        )

    def __index__(self) -> int:
        raise _unknown(
            self,
            "range(), and the index of a Python list or NumPy array,",
            "the axes of te.compute, or te.reduce_axis((0, n)), for a loop, and a te.placeholder for the list",
        )

    def __iter__(self) -> NoReturn:
        raise UserTypeError(
            f"`{self.spelled()}` is one value, and no list to iterate over",
            fix="an axis of te.compute runs by itself; sum over te.reduce_axis((0, n)) with te.sum(..., axis=k)",
        )

    def __len__(self) -> int:
        raise UserTypeError(
            f"`{self.spelled()}` is one value, so it has no len()",
            fix="a tensor's extents are A.shape, their number is A.ndim",
        )

    def __getitem__(self, index: Any) -> Any:
        raise UserTypeError(
            f"`{self.spelled()}` is one value, so it takes no index [{index!r}]",
            fix="give a tensor as many indices as it has dimensions (A.ndim), and other values none",
        )

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        """An array of the expression itself; without it NumPy would take the value for a list."""
        if dtype not in (None, object):
            raise _unknown(self, f"a NumPy array of {np.dtype(dtype)}", "a te.placeholder for what the call brings")
        return _boxed(self)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        """NumPy met an expression: its operators mean ours, its functions are refused."""
        name = ufunc.__name__
        if method != "__call__" or name not in _OPERATORS or options:
            raise _unknown(self, f"np.{name}()", _FACES.get(name, "the functions of te, such as te.exp(x)"))
        if not any(isinstance(x, np.ndarray) and x.ndim for x in inputs):
            return BUILD[_OPERATORS[name]](*(x.item() if isinstance(x, np.ndarray) else x for x in inputs))
        # An array beside an expression: an array of expressions, one for each element.
        return ufunc(*(_boxed(x) if isinstance(x, Unknown) else x for x in inputs), dtype=object)

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> NoReturn:
        name = function.__name__
        raise _unknown(self, f"np.{name}()", _FACES.get(name, "the functions of te, element by element"))


def _boxed(value: Unknown) -> np.ndarray:
    box = np.empty((), object)
    box[()] = value
    return box


def _no_operator(text: str, operator: str, instead: str) -> UserTypeError:
    return UserTypeError(f"`{text}`: expressions have no {operator}", fix=instead)


def _unknown(value: Unknown, asker: str, instead: str) -> UserTypeError:
    return UserTypeError(
        f"the value of `{value.spelled()}` is not known while the program is being built, so {asker} cannot use it",
        fix=f"use {instead}",
    )
