"""Integer division that is defined for all operands: an instruction that traps would end the process.

As in all back ends, a division by 0 gives 0, as in NumPy, and the least integer divided by -1 wraps.
"""

from __future__ import annotations

from ...core.dtype import DType
from ...expr import nodes as n
from ...expr.traverse import constant_value
from .types import LLVMValue, constant, value_type
from .writer import FunctionWriter

Division = n.Div | n.Mod | n.FloorDiv | n.FloorMod


def divide(out: FunctionWriter, e: Division, dtype: DType, a: LLVMValue, b: LLVMValue) -> LLVMValue:
    """Write the division or remainder `e` of two integers of type `dtype`."""
    quotient = isinstance(e, (n.Div, n.FloorDiv))
    by = constant_value(e.b.value if isinstance(e.b, n.Broadcast) else e.b)
    if dtype.kind == "uint":
        return _guarded(out, "udiv" if quotient else "urem", dtype, a, b, by)
    if isinstance(e, (n.Div, n.Mod)):
        return _guarded(out, "sdiv" if quotient else "srem", dtype, a, b, by)
    if by is not None and by > 0 and by & (by - 1) == 0:
        if quotient:
            return out.binary("ashr", a, constant(by.bit_length() - 1, dtype), "floordiv")
        return out.binary("and", a, constant(by - 1, dtype), "floormod")
    return _floored(out, quotient, dtype, a, b, by)


def _floored(
    out: FunctionWriter, quotient: bool, dtype: DType, a: LLVMValue, b: LLVMValue, by: int | None
) -> LLVMValue:
    """Division that rounds down: one less if the remainder is not 0 and its sign differs from b's."""
    zero = constant(0, dtype)
    rest = _guarded(out, "srem", dtype, a, b, by)
    inexact = out.compare("icmp ne", rest, zero, dtype.lanes)
    crosses = out.compare("icmp slt", out.binary("xor", rest, b), zero, dtype.lanes)
    down = out.binary("and", inexact, crosses, "down")
    if not quotient:
        return out.select(down, out.binary("add", rest, b), rest)
    whole = _guarded(out, "sdiv", dtype, a, b, by)
    return out.binary("add", whole, out.convert("sext", down, value_type(dtype)), "floordiv")


def _guarded(out: FunctionWriter, op: str, dtype: DType, a: LLVMValue, b: LLVMValue, by: int | None) -> LLVMValue:
    """A division instruction, with guards around it if the divisor `by` may be 0 or -1."""
    if by not in (None, 0, -1):
        return out.binary(op, a, b)
    zero, one = constant(0, dtype), constant(1, dtype)
    is_zero = out.compare("icmp eq", b, zero, dtype.lanes)
    if dtype.kind == "uint":
        return out.select(is_zero, zero, out.binary(op, a, out.select(is_zero, one, b)))
    is_minus = out.compare("icmp eq", b, constant(-1, dtype), dtype.lanes)
    made = out.binary(op, a, out.select(out.binary("or", is_zero, is_minus), one, b))
    negated = out.binary("sub", zero, a, "negated") if op == "sdiv" else zero
    return out.select(is_zero, zero, out.select(is_minus, negated, made))
