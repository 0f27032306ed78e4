"""Data types and constants as LLVM writes them.

Values and memory differ in two types only. A bool is an `i1` that takes a byte in memory. A bfloat16 is kept as its
sixteen bits (`i16`): few processors compute in bfloat16. LLVM's own conversion needs a library that Python processes do
not have.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from decimal import Decimal

import numpy as np

from ...core.dtype import DType
from ...core.errors import InternalError

_FLOATS = {"float16": "half", "bfloat16": "i16", "float32": "float", "float64": "double"}


@dataclass(frozen=True, slots=True)
class LLVMValue:
    """An operand: its LLVM type and its text, a register or a constant."""

    type: str
    text: str

    def __str__(self) -> str:
        return f"{self.type} {self.text}"


def vector(element: str, lanes: int) -> str:
    """The type of `lanes` elements; the element's own for one lane."""
    return element if lanes == 1 else f"<{lanes} x {element}>"


def value_type(dtype: DType) -> str:
    """The type of a value in a register."""
    if dtype.is_bool:
        element = "i1"
    elif dtype.is_int:
        element = f"i{dtype.bits}"
    elif dtype.is_float:
        element = _FLOATS[dtype.scalar]
    elif dtype == "handle":
        element = "ptr"
    else:
        raise InternalError(f"no value has the type {dtype} on the llvm target")
    return vector(element, dtype.lanes)


def memory_type(dtype: DType) -> str:
    """The type of a value in memory."""
    return vector("i8", dtype.lanes) if dtype.is_bool else value_type(dtype)


def constant(value: float, dtype: DType) -> LLVMValue:
    """A constant; on all lanes, for a vector type."""
    scalar = dtype.scalar
    if scalar.is_bool:
        text = "true" if value else "false"
    elif scalar.is_int:
        text = str(int(value))
    else:
        text = _float_text(float(value), scalar)
    return splat_constant(LLVMValue(value_type(scalar), text), dtype.lanes)


def splat_constant(value: LLVMValue, lanes: int) -> LLVMValue:
    """A scalar constant on all lanes."""
    if lanes == 1:
        return value
    text = "zeroinitializer" if value.text in ("0", "false", "0.0") else f"splat ({value})"
    return LLVMValue(vector(value.type, lanes), text)


def _float_text(value: float, dtype: DType) -> str:
    if dtype.kind == "bfloat":
        return str(int(np.asarray(value, dtype.numpy).view(np.uint16)))
    decimal = _short_decimal(value)
    if decimal:
        return decimal
    if dtype.bits == 16:
        return f"0xH{int(np.asarray(value, np.float16).view(np.uint16)):04X}"
    exact = float(np.float32(value)) if dtype.bits == 32 else value
    return f"0x{struct.unpack('<Q', struct.pack('<d', exact))[0]:016X}"


def _short_decimal(value: float) -> str:
    """The value as a decimal, if one of few digits is exact."""
    exact = Decimal(value)
    if not exact.is_finite() or len(exact.as_tuple().digits) > 8 or not 1e-6 <= abs(value) < 1e9:
        return "0.0" if value == 0 and not exact.is_signed() else ""
    text = f"{exact:f}"
    return text if "." in text else text + ".0"


def lanes_constant(values: range | list[int], element: str = "i64") -> LLVMValue:
    """A vector of integer constants."""
    parts = ", ".join(f"{element} {value}" for value in values)
    return LLVMValue(vector(element, len(values)), f"<{parts}>")
