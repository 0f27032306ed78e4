"""Operations of NumPy arrays that arrays on a device lack, and how to do them on the host."""

from __future__ import annotations

from typing import Any

from ...core.errors import UserTypeError

_BINARY = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**", "matmul": "@",
    "and": "&", "or": "|", "xor": "^", "lshift": "<<", "rshift": ">>",
}  # fmt: skip
_SYMBOLS = {
    **_BINARY, **{f"r{name}": symbol for name, symbol in _BINARY.items()}, "lt": "<", "le": "<=", "gt": ">",
    "ge": ">=", "neg": "-", "invert": "~", "abs": "abs()", "len": "len()", "float": "float()", "int": "int()",
    "index": "use as an index", "iter": "iteration",
}  # fmt: skip


def error_for(asked: str, array: Any, *operands: Any) -> UserTypeError:
    """Make the error for a protocol of Python's that was asked of an array."""
    return UserTypeError(
        f"an array on a device ({array.dtype}{list(array.shape)} on {array.device}) has no {_SYMBOLS[asked]}",
        fix="compute with its values on the host, a.numpy(), or build a program for it",
    )
