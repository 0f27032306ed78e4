"""Arithmetic on whole tensors, element by element, which the operator library computes: `A + B`, `A.astype("int8")`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.refusals import refusal
from ..expr.operand import Operand, Whole

Find = Callable[[str], Callable[[Any, Any], Any]]
_found: list[Find] = []


def register_arithmetic(find: Find) -> None:
    """Let `find(name)` give the operators of whole tensors: "add", "subtract", "multiply", "divide" and "cast"."""
    _found[:] = [find]


class TensorArithmetic(Whole):
    """Objects with the operators +, -, * and /, and conversion to another type, as a whole."""

    __slots__ = ()

    def __add__(self, other: Any) -> Any:
        return _computed(self, other, "add", "add")

    def __radd__(self, other: Any) -> Any:
        return _computed(self, other, "radd", "add")

    def __sub__(self, other: Any) -> Any:
        return _computed(self, other, "sub", "subtract")

    def __rsub__(self, other: Any) -> Any:
        return _computed(self, other, "rsub", "subtract")

    def __mul__(self, other: Any) -> Any:
        return _computed(self, other, "mul", "multiply")

    def __rmul__(self, other: Any) -> Any:
        return _computed(self, other, "rmul", "multiply")

    def __truediv__(self, other: Any) -> Any:
        return _computed(self, other, "truediv", "divide")

    def __rtruediv__(self, other: Any) -> Any:
        return _computed(self, other, "rtruediv", "divide")

    def astype(self, dtype: Any) -> Any:
        """Return the tensor of the same values in another type: `topi.cast`."""
        if not _found:
            raise refusal("tensor", "getattr", self, "astype")
        return _found[0]("cast")(self, dtype)


def _computed(whole: TensorArithmetic, other: Any, protocol: str, name: str) -> Any:
    if not _found or not isinstance(other, (TensorArithmetic, Operand, bool, int, float, np.generic)):
        raise refusal("tensor", protocol, whole, other)
    operator = _found[0](name)
    return operator(other, whole) if protocol.startswith("r") else operator(whole, other)
