"""What NumPy arrays do and arrays on a device do not: each is refused, with the way to do it on the host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from ..core.absent import absent
from ..core.errors import UserTypeError

_BINARY = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**", "matmul": "@",
    "and": "&", "or": "|", "xor": "^", "lshift": "<<", "rshift": ">>",
}  # fmt: skip
_SYMBOLS = {
    **_BINARY, **{f"r{name}": symbol for name, symbol in _BINARY.items()}, "lt": "<", "le": "<=", "gt": ">",
    "ge": ">=", "neg": "-", "invert": "~", "abs": "abs()", "len": "len()", "float": "float()", "int": "int()",
    "index": "use as an index", "iter": "iteration",
}  # fmt: skip


class OnDevice:
    """Base of arrays: their values are on a device, so nothing is computed with them from Python."""

    __slots__ = ()

    def __getattr__(self, name: str) -> NoReturn:
        raise absent("the array", name, dir(type(self)), self)

    def __bool__(self) -> bool:
        return True  # an array is there or not: code asks `if bias`


def _refusing(symbol: str) -> Callable[..., NoReturn]:
    def operator(self: Any, *others: Any) -> NoReturn:
        raise UserTypeError(
            f"an array on a device ({self.dtype}{list(self.shape)} on {self.device}) has no {symbol}",
            fix="compute with its values on the host, a.numpy(), or build a program for it",
        )

    return operator


for _name, _symbol in _SYMBOLS.items():
    setattr(OnDevice, f"__{_name}__", _refusing(_symbol))
