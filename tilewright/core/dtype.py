"""Scalar and vector data types.

A `DType` is a string (`"float32"`, `"int8x4"`, `"bool"`, `"handle"`) that knows its parts, so it compares with users'
strings and goes straight into NumPy.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from .errors import UserError

_PATTERN = re.compile(
    r"(int|uint|float|bfloat)([0-9]{1,3})(?:x([1-9][0-9]{0,5}))?|(bool)(?:x([1-9][0-9]{0,5}))?",
)
MOST_LANES = 1024
"""Lanes of a vector that a user may name; compilers abort on far longer ones."""
_PYTHON_TYPES: dict[object, str] = {float: "float32", int: "int32", bool: "bool"}
_WIDTHS = {"int": (8, 16, 32, 64), "uint": (8, 16, 32, 64), "float": (16, 32, 64), "bfloat": (16,)}
_TYPE_CODES = {"int": 0, "uint": 1, "bool": 1, "float": 2, "handle": 3, "bfloat": 4}
_ALIASES = {"uint1": "bool", "int1": "bool", "float": "float32", "int": "int32"}


class DType(str):
    """A data type: `kind` (int, uint, float, bfloat, bool, handle), `bits` a lane, and `lanes`."""

    kind: str
    bits: int
    lanes: int
    is_float: bool
    is_int: bool
    is_bool: bool
    min_value: int
    """Smallest value of an integer or boolean type."""
    max_value: int
    """Largest value of an integer or boolean type."""
    _known: ClassVar[dict[str, DType]] = {}

    def __new__(cls, name: Any) -> DType:
        found = cls._known.get(name) if isinstance(name, str) else None
        return found if found is not None else cls._parse(name)

    @classmethod
    def _parse(cls, given: str | type | np.dtype | None) -> DType:
        name = given if isinstance(given, str) else _type_name(given)
        scalar, x, lanes_text = name.partition("x")
        match = _PATTERN.fullmatch(_ALIASES.get(scalar, scalar) + x + lanes_text)
        if name != "handle" and (match is None or (match[1] and int(match[2]) not in _WIDTHS[match[1]])):
            raise UserError(
                f"unknown data type {given!r}",
                fix="use float16, bfloat16, float32, float64, int8..int64, uint8..uint64 or bool, "
                'with "x4" and the like appended for a vector',
            )
        if match is None:
            kind, bits, lanes = "handle", 64, 1
        elif match[4]:
            kind, bits, lanes = "bool", 1, int(match[5] or 1)
        else:
            kind, bits, lanes = match[1], int(match[2]), int(match[3] or 1)
        if lanes > MOST_LANES:
            raise UserError(
                f"data type {given!r} has {lanes:,} lanes, more than {MOST_LANES:,}",
                fix='give fewer lanes, such as "float32x4", and the rest as a dimension',
            )
        made = cls._made(kind, bits, lanes)
        if isinstance(given, str):
            cls._known[given] = made
        return made

    @classmethod
    def _made(cls, kind: str, bits: int, lanes: int) -> DType:
        scalar = kind if kind in ("bool", "handle") else f"{kind}{bits}"
        text = scalar if lanes == 1 else f"{scalar}x{lanes}"
        self = cls._known.get(text)
        if self is None:
            self = str.__new__(cls, text)
            self.kind, self.bits, self.lanes = kind, bits, lanes
            self.is_float = kind in ("float", "bfloat")
            self.is_int = kind in ("int", "uint")
            self.is_bool = kind == "bool"
            self.min_value = -(1 << (bits - 1)) if kind == "int" else 0
            self.max_value = (1 << (bits - 1)) - 1 if kind == "int" else (1 << bits) - 1
            cls._known[text] = self
        return self

    def __reduce__(self) -> tuple[type[DType], tuple[str]]:
        return DType, (str(self),)

    @property
    def scalar(self) -> DType:
        """The type of one lane."""
        return self.with_lanes(1)

    def with_lanes(self, lanes: int) -> DType:
        """Return the type with the same lane type and `lanes` lanes."""
        if lanes == self.lanes:
            return self
        return self._made(self.kind, self.bits, lanes)

    @property
    def bytes(self) -> int:
        """Bytes of an element with all its lanes in memory."""
        return max(1, self.bits // 8) * self.lanes

    @property
    def type_code(self) -> int:
        """The number of the kind in DLPack and in the legacy API; booleans are unsigned integers."""
        return _TYPE_CODES[self.kind]

    @cached_property
    def numpy(self) -> np.dtype:
        """The NumPy type of one lane (bfloat16 through ml_dtypes)."""
        if self.kind == "bfloat":
            import ml_dtypes

            brain: np.dtype = np.dtype(ml_dtypes.bfloat16)
            return brain
        return np.dtype(str(self.scalar))


def _type_name(given: Any) -> str:
    """The name of a Python or NumPy type; "" for anything else (NumPy takes None for float64)."""
    try:
        if hasattr(given, "type_name"):  # a type annotation
            return str(given.type_name)
        return "" if given is None else _PYTHON_TYPES.get(given) or str(np.dtype(given))
    except Exception:  # NumPy asks an object for its `dtype`, which may fail in any way
        return ""


BOOL = DType("bool")
INT32 = DType("int32")
INT64 = DType("int64")
FLOAT32 = DType("float32")
