"""Calls of functions that the module does not define: C functions, LLVM's intrinsics, and atomic instructions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ...core.dtype import DType
from ...core.errors import InternalError, UserError
from ...expr import nodes as n
from ...expr.effects import ATOMICS, EXTERN, LLVM, PREFETCH, PURE_LLVM
from ...loops.calls import FOREIGN, called_function, refuse_packed
from ...loops.storage import AddressOf
from .convert import mangled
from .intrinsics import result_of
from .types import LLVMValue, constant, memory_type, value_type
from .writer import FunctionWriter, ModuleWriter


class LLVMCallWriter(Protocol):
    """The interface of the expression writer that calls use."""

    out: FunctionWriter
    address: Callable[[n.Load], LLVMValue]

    def value(self, e: n.Expr) -> LLVMValue: ...


OUTSIDE = frozenset((*FOREIGN, *ATOMICS, PREFETCH))
"""The calls that this file writes."""
_ATOMIC = {"add": "add", "sub": "sub", "and": "and", "or": "or", "xor": "xor", "exchange": "xchg"}


def write_call(writer: LLVMCallWriter, e: n.Call) -> LLVMValue:
    """A call, and its value."""
    refuse_packed(e)
    if e.name == PREFETCH:  # for a read, to all levels, of data
        writer.out.module.declare("llvm.prefetch.p0", "void", ["ptr", "i32", "i32", "i32"], "")
        writer.out.do(f"call void @llvm.prefetch.p0({writer.value(e.args[0])}, i32 0, i32 3, i32 1)")
        return LLVMValue("i32", "0")
    return _atomic(writer, e) if e.name in ATOMICS else _foreign(writer, e)


def _foreign(writer: LLVMCallWriter, e: n.Call) -> LLVMValue:
    name, given = called_function(e), e.args[1:]
    args = [writer.value(arg) for arg in given]
    own = e.name in (LLVM, PURE_LLVM)
    kind, out = (value_type if own else memory_type)(e.dtype), writer.out
    pointers = any(arg.dtype == "handle" for arg in given)
    pure = f"willreturn memory({'argmem: read' if pointers else 'none'})"
    effect = "nounwind" if e.name in (EXTERN, LLVM) else f"nounwind {pure}"
    if own:
        machine = out.module.machine
        if result_of(e, name, kind, args, machine.cpu, machine.features) != "void":
            return out.call(name, kind, args)
        out.module.declare(name, "void", [arg.type for arg in args], "")
        out.do(f"call void @{name}({', '.join(map(str, args))})")
        return LLVMValue("i32", "0")
    out.module.declare(name, kind, [arg.type for arg in args], effect)
    out.module.imports[name] = None
    # C's own convention: values narrower than an int are passed widened.
    texts = [_widened(value, arg.dtype) for value, arg in zip(args, given, strict=True)]
    made = out.op(kind, f"call {kind} @{name}({', '.join(texts)})", name)
    return out.compare("icmp ne", made, constant(0, DType("uint8")), 1) if e.dtype.is_bool else made


def _widened(value: LLVMValue, dtype: DType) -> str:
    if dtype.lanes != 1 or not (dtype.is_int or dtype.is_bool) or dtype.bits >= 32:
        return str(value)
    return f"{value.type} {'signext' if dtype.kind == 'int' else 'zeroext'} {value.text}"


def _atomic(writer: LLVMCallWriter, e: n.Call) -> LLVMValue:
    address, value = writer.value(e.args[0]), writer.value(e.args[1])
    what, kind = e.name.removeprefix("atomic_"), e.dtype
    if kind.kind == "bfloat" or kind.is_bool:
        raise UserError(
            f"{e.name} of elements of type {kind}, which no processor updates atomically",
            primitive="call_intrin",
            fix="keep the updated elements as int32, int64, float32 or float64",
        )
    if what in ("min", "max") and kind.is_float:
        helper = _float_extreme(writer.out.module, what, kind, value.type)
        return writer.out.op(value.type, f"call {value.type} @{helper}({address}, {value})", e.name)
    if what in ("min", "max"):
        name = f"u{what}" if kind.kind == "uint" else what
    else:
        name = f"f{_ATOMIC[what]}" if kind.is_float and what in ("add", "sub") else _ATOMIC[what]
    return writer.out.op(value.type, f"atomicrmw {name} {address}, {value} monotonic", e.name)


def _float_extreme(module: ModuleWriter, what: str, kind: DType, value: str) -> str:
    """The function that stores the least or the greatest of an element and a value, ignoring NaN.

    `atomicrmw fmin` would drop NaN, and `fminimum` is there from LLVM 21 on.
    """
    name, word = f"tilewright.atomic_{what}.{mangled(value)}", f"i{kind.bits}"
    text = f"""define internal {value} @{name}(ptr %place, {value} %value) #0 {{
entry:
  %first = load atomic {word}, ptr %place monotonic, align {kind.bytes}
  br label %again
again:
  %seen = phi {word} [ %first, %entry ], [ %found, %again ]
  %x = bitcast {word} %seen to {value}
  %beyond = fcmp {"olt" if what == "min" else "ogt"} {value} %value, %x
  %none = fcmp uno {value} %value, %value
  %stores = or i1 %beyond, %none
  %new = select i1 %stores, {value} %value, {value} %x
  %bits = bitcast {value} %new to {word}
  %pair = cmpxchg ptr %place, {word} %seen, {word} %bits monotonic monotonic
  %found = extractvalue {{ {word}, i1 }} %pair, 0
  %done = extractvalue {{ {word}, i1 }} %pair, 1
  br i1 %done, label %end, label %again
end:
  ret {value} %x
}}"""
    module.helper(name, text)
    return name


def write_text(writer: LLVMCallWriter, e: n.StringImm) -> LLVMValue:
    """The address of a text that ends with a zero."""
    return LLVMValue("ptr", writer.out.module.text_constant(e.value))


def write_address(writer: LLVMCallWriter, e: AddressOf) -> LLVMValue:
    """The address of an element."""
    place = e.place
    if not isinstance(place, n.Load):
        raise InternalError(f"the address of `{place}`, which is not an element")
    return writer.address(place)
