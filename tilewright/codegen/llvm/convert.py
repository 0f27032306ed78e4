"""Conversions between data types, as instructions.

Floats to integers truncate towards zero, as in C; cases that C leaves undefined are defined: out of range saturates,
NaN becomes 0. Every 16-bit float operation rounds to its 16 bits, as NumPy's do.
"""

from __future__ import annotations

from ...core.dtype import FLOAT32, INT32, DType
from .types import LLVMValue, constant, value_type, vector
from .writer import FunctionWriter


def widen_bfloat(out: FunctionWriter, bits: LLVMValue, lanes: int) -> LLVMValue:
    """Sixteen bits of a bfloat16 as a float32."""
    wide = out.convert("zext", bits, vector("i32", lanes))
    raised = out.binary("shl", wide, constant(16, INT32.with_lanes(lanes)))
    return out.convert("bitcast", raised, vector("float", lanes))


def round_to_bfloat(out: FunctionWriter, value: LLVMValue, lanes: int) -> LLVMValue:
    """A float32 rounded to the nearest bfloat16 (halves to even); NaN stays one."""
    word = INT32.with_lanes(lanes)
    bits = out.convert("bitcast", value, vector("i32", lanes))
    kept = out.binary("and", out.binary("lshr", bits, constant(16, word)), constant(1, word), "odd")
    rounded = out.binary("add", out.binary("add", bits, kept), constant(0x7FFF, word))
    is_nan = out.compare("fcmp uno", value, value, lanes)
    quiet = out.binary("or", bits, constant(0x400000, word), "quiet")
    chosen = out.select(is_nan, quiet, rounded)
    return out.convert("trunc", out.binary("lshr", chosen, constant(16, word)), vector("i16", lanes), "bfloat")


def to_single(out: FunctionWriter, value: LLVMValue, dtype: DType) -> LLVMValue:
    """A float of at most 32 bits as a float32."""
    if dtype.kind == "bfloat":
        return widen_bfloat(out, value, dtype.lanes)
    return out.convert("fpext", value, vector("float", dtype.lanes))


def from_single(out: FunctionWriter, value: LLVMValue, dtype: DType) -> LLVMValue:
    """A float32 rounded to a float of at most 32 bits."""
    if dtype.kind == "bfloat":
        return round_to_bfloat(out, value, dtype.lanes)
    return out.convert("fptrunc", value, value_type(dtype))


def convert(out: FunctionWriter, value: LLVMValue, source: DType, to: DType) -> LLVMValue:
    """`value` of type `source` as one of type `to`, of as many lanes."""
    if source == to:
        return value
    if to.is_bool:
        return _to_bool(out, value, source)
    if source.is_float:
        return _float_to_float(out, value, source, to) if to.is_float else _float_to_int(out, value, source, to)
    if to.is_float:
        return _int_to_float(out, value, source, to)
    if to.bits < source.bits:
        return out.convert("trunc", value, value_type(to))
    return out.convert("sext" if source.kind == "int" else "zext", value, value_type(to))


def _to_bool(out: FunctionWriter, value: LLVMValue, source: DType) -> LLVMValue:
    if source.kind == "bfloat":
        value, source = widen_bfloat(out, value, source.lanes), FLOAT32.with_lanes(source.lanes)
    test = "fcmp une" if source.is_float else "icmp ne"
    return out.compare(test, value, constant(0, source), source.lanes)


def _float_to_float(out: FunctionWriter, value: LLVMValue, source: DType, to: DType) -> LLVMValue:
    if source.kind == "bfloat":
        value, source = widen_bfloat(out, value, source.lanes), FLOAT32.with_lanes(source.lanes)
    if to.kind == "bfloat":
        single = FLOAT32.with_lanes(to.lanes)
        return round_to_bfloat(out, _float_to_float(out, value, source, single), to.lanes)
    if source == to:
        return value
    if source.bits == 64 and to.bits == 16:  # few processors have an instruction, and LLVM would call a library
        value = _round_to_odd(out, value, source.lanes)
    return out.convert("fptrunc" if to.bits < source.bits else "fpext", value, value_type(to))


def _round_to_odd(out: FunctionWriter, value: LLVMValue, lanes: int) -> LLVMValue:
    """A float64 as a float32 that rounds on to a float16 as the float64 itself would.

    Of the two neighbours of an inexact value, it is the one with a set last bit. So the second rounding sees no false
    tie (Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums", 2008).
    """
    word = INT32.with_lanes(lanes)
    single, one = vector("float", lanes), constant(1, word)
    nearest = out.convert("fptrunc", value, single)
    back = out.convert("fpext", nearest, vector("double", lanes))
    bits = out.convert("bitcast", nearest, vector("i32", lanes))
    inexact = out.compare("fcmp one", back, value, lanes)
    even = out.compare("icmp eq", out.binary("and", bits, one), constant(0, word), lanes)
    # Bits count away from 0 for both signs: up if the magnitude was rounded down.
    positive = out.compare("fcmp ogt", value, constant(0, DType("float64").with_lanes(lanes)), lanes)
    below = out.compare("fcmp olt", back, value, lanes)
    up = out.compare("icmp eq", positive, below, lanes)
    moved = out.select(up, out.binary("add", bits, one), out.binary("sub", bits, one))
    chosen = out.select(out.binary("and", inexact, even), moved, bits)
    return out.convert("bitcast", chosen, single, "odd")


def _int_to_float(out: FunctionWriter, value: LLVMValue, source: DType, to: DType) -> LLVMValue:
    op = "sitofp" if source.kind == "int" else "uitofp"
    if to.kind == "bfloat":
        return round_to_bfloat(out, out.convert(op, value, vector("float", to.lanes)), to.lanes)
    return out.convert(op, value, value_type(to))


def _float_to_int(out: FunctionWriter, value: LLVMValue, source: DType, to: DType) -> LLVMValue:
    if source.bits == 16:  # for float16 too: LLVM 22 converts NaN by an instruction that does not make it 0
        value = to_single(out, value, source)
    name, result = "fptosi" if to.kind == "int" else "fptoui", value_type(to)
    return out.call(f"llvm.{name}.sat.{mangled(result)}.{mangled(value.type)}", result, [value])


def mangled(type_text: str) -> str:
    """A type as it stands in the name of an intrinsic."""
    if type_text.startswith("<"):
        lanes, _, element = type_text[1:-1].partition(" x ")
        return f"v{lanes}{mangled(element)}"
    return {"half": "f16", "float": "f32", "double": "f64", "ptr": "p0"}.get(type_text, type_text)
