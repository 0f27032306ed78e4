"""Operands of expressions: Python operators that build expression nodes.

Everything that users combine with `+`, `<`, `&` ... (expressions, axes, 0-d tensors) is an `Operand`. The
operators look up their meaning in `BUILD`, which `operators.py` fills (`printer.py` fills `TEXT`), so that the grammar
need not know the typing rules.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .runtime_value import BUILD as BUILD
from .runtime_value import RuntimeValue

if TYPE_CHECKING:
    from .nodes import Expr

TEXT: dict[type, Callable[[Any], str]] = {}


class Whole:
    """An object with arithmetic on itself, such as a tensor: expressions leave operators with it to the object."""

    __slots__ = ()


class Operand(RuntimeValue):
    """A value with the legacy API's operators; `as_expr` gives the expression that it stands for."""

    __slots__ = ()

    def as_expr(self) -> Expr:
        """The expression that this operand stands for."""
        raise TypeError(f"{type(self).__name__} has no scalar value")

    def __add__(self, other: Any) -> Expr:
        return NotImplemented if isinstance(other, Whole) else BUILD["add"](self, other)

    def __radd__(self, other: Any) -> Expr:
        return BUILD["add"](other, self)

    def __sub__(self, other: Any) -> Expr:
        return NotImplemented if isinstance(other, Whole) else BUILD["subtract"](self, other)

    def __rsub__(self, other: Any) -> Expr:
        return BUILD["subtract"](other, self)

    def __mul__(self, other: Any) -> Expr:
        return NotImplemented if isinstance(other, Whole) else BUILD["multiply"](self, other)

    def __rmul__(self, other: Any) -> Expr:
        return BUILD["multiply"](other, self)

    def __truediv__(self, other: Any) -> Expr:
        return NotImplemented if isinstance(other, Whole) else BUILD["divide"](self, other)

    def __rtruediv__(self, other: Any) -> Expr:
        return BUILD["divide"](other, self)

    def __floordiv__(self, other: Any) -> Expr:
        return BUILD["floordiv"](self, other)

    def __rfloordiv__(self, other: Any) -> Expr:
        return BUILD["floordiv"](other, self)

    def __mod__(self, other: Any) -> Expr:
        return BUILD["floormod"](self, other)

    def __rmod__(self, other: Any) -> Expr:
        return BUILD["floormod"](other, self)

    def __neg__(self) -> Expr:
        return BUILD["negate"](self)

    def __lshift__(self, other: Any) -> Expr:
        return BUILD["shift_left"](self, other)

    def __rlshift__(self, other: Any) -> Expr:
        return BUILD["shift_left"](other, self)

    def __rshift__(self, other: Any) -> Expr:
        return BUILD["shift_right"](self, other)

    def __rrshift__(self, other: Any) -> Expr:
        return BUILD["shift_right"](other, self)

    def __and__(self, other: Any) -> Expr:
        return BUILD["bitwise_and"](self, other)

    def __rand__(self, other: Any) -> Expr:
        return BUILD["bitwise_and"](other, self)

    def __or__(self, other: Any) -> Expr:
        return BUILD["bitwise_or"](self, other)

    def __ror__(self, other: Any) -> Expr:
        return BUILD["bitwise_or"](other, self)

    def __xor__(self, other: Any) -> Expr:
        return BUILD["bitwise_xor"](self, other)

    def __rxor__(self, other: Any) -> Expr:
        return BUILD["bitwise_xor"](other, self)

    def __invert__(self) -> Expr:
        return BUILD["bitwise_not"](self)

    def __lt__(self, other: Any) -> Expr:
        return BUILD["less"](self, other)

    def __le__(self, other: Any) -> Expr:
        return BUILD["less_equal"](self, other)

    def __gt__(self, other: Any) -> Expr:
        return BUILD["greater"](self, other)

    def __ge__(self, other: Any) -> Expr:
        return BUILD["greater_equal"](self, other)

    def astype(self, dtype: str) -> Expr:
        """This value converted to `dtype`."""
        return BUILD["cast"](dtype, self)

    def same_as(self, other: object) -> bool:
        """Whether the two are one object, as equal expressions are."""
        return self is other

    def equal(self, other: Any) -> Expr:
        """Element equality as an expression (as built by `==`, without its truth value)."""
        return BUILD["equal"](self, other)
