"""Math functions by name: instructions if available, own vector functions in float32, else the C library.

- Instructions: sqrt, floor, ceil, trunc, round, nearbyint, fabs, copysign, popcount, clz, isnan and similar tests.
- float32: `float32.py` has one function per operation and number of lanes, inlined into its callers.
- float64, and functions that `float32.py` lacks: the C library's function, one lane at a time; its accuracy is about 1
  ulp.
- float16 and bfloat16: computed in float32 and rounded.
"""

from __future__ import annotations

from collections.abc import Callable

from ...core.dtype import FLOAT32, DType
from ...core.errors import InternalError
from . import float32
from .convert import from_single, mangled, to_single
from .lanes import Lanes, any_lane
from .types import LLVMValue, value_type
from .writer import FunctionWriter, ModuleWriter

_INSTRUCTIONS = {name: name for name in "sqrt floor ceil trunc round fabs copysign".split()} | {"nearbyint": "rint"}
_LIBRARY = frozenset(
    "exp exp2 exp10 log log2 log10 log1p tanh erf sin cos tan asin acos atan sinh cosh asinh acosh atanh pow "
    "fmod atan2 hypot nextafter ldexp".split()
)
_ALIKE = {"exp2_normal": "exp2"}
"""Functions that another function computes."""
_PURE = "nounwind willreturn memory(none)"


class MathLibrary:
    """Calls math functions; writes its own ones into the module when first used."""

    def __init__(self, module: ModuleWriter) -> None:
        self.module = module

    def call(self, out: FunctionWriter, name: str, dtype: DType, args: list[LLVMValue]) -> LLVMValue:
        """`name(*args)` on values of type `dtype`."""
        if dtype.is_int:
            return self._integer(out, name, args)
        if name in ("isnan", "isinf", "isfinite"):
            return self._predicate(out, name, dtype, args[0])
        if dtype.bits == 16:
            own = value_type(dtype)
            single = [to_single(out, arg, dtype) if arg.type == own else arg for arg in args]
            return from_single(out, self._float(out, name, FLOAT32.with_lanes(dtype.lanes), single), dtype)
        return self._float(out, name, dtype, args)

    def _integer(self, out: FunctionWriter, name: str, args: list[LLVMValue]) -> LLVMValue:
        kind = args[0].type
        if name == "popcount":
            return out.call(f"llvm.ctpop.{mangled(kind)}", kind, args)
        if name == "clz":
            return out.call(f"llvm.ctlz.{mangled(kind)}", kind, [*args, LLVMValue("i1", "false")])
        raise InternalError(f"the llvm target has no function {name!r} of integers")

    def _predicate(self, out: FunctionWriter, name: str, dtype: DType, x: LLVMValue) -> LLVMValue:
        if dtype.kind == "bfloat":
            x, dtype = to_single(out, x, dtype), FLOAT32.with_lanes(dtype.lanes)
        value = Lanes(out, dtype, x)
        if name == "isnan":
            return value.is_nan().value
        return value.magnitude().compare("oeq" if name == "isinf" else "olt", float("inf")).value

    def _float(self, out: FunctionWriter, name: str, dtype: DType, args: list[LLVMValue]) -> LLVMValue:
        name = _ALIKE.get(name, name)
        if name == "saturate":
            return float32.held(Lanes(out, dtype, args[0]), 0.0, 1.0).value
        if name in _INSTRUCTIONS:
            return out.call(f"llvm.{_INSTRUCTIONS[name]}.{mangled(args[0].type)}", args[0].type, args)
        if dtype.bits == 32:
            if name in float32.UNARY:
                return self._own(out, name, dtype, args, lambda a: float32.UNARY[name](a[0]))
            if name in float32.BINARY:
                return self._own(out, name, dtype, args, lambda a: float32.BINARY[name](a[0], a[1]))
            if name in float32.ANGLES and dtype.lanes > 1:
                return self._angle(out, name, dtype, args[0])
        if name == "sigmoid":
            grown = self._library(out, "exp", dtype, [out.op(args[0].type, f"fneg {args[0]}")])
            return (1.0 / (Lanes(out, dtype, grown) + 1.0)).value
        if name == "rsqrt":
            return (1.0 / Lanes(out, dtype, args[0]).root()).value
        return self._library(out, name, dtype, args)

    def _own(
        self,
        out: FunctionWriter,
        name: str,
        dtype: DType,
        args: list[LLVMValue],
        body: Callable[[list[Lanes]], Lanes],
    ) -> LLVMValue:
        """Call one of our own functions, and write it if the module does not have it yet."""
        full = f"tilewright.{name}.{mangled(value_type(dtype))}"
        kind = value_type(dtype)
        if not self.module.has_helper(full):
            inner = FunctionWriter(self.module)
            params = [LLVMValue(kind, f"%{inner.name(wish)}") for wish in ("x", "y")[: len(args)]]
            inner.give(str(body([Lanes(inner, dtype, p) for p in params]).value))
            head = f"define internal {kind} @{full}({', '.join(map(str, params))}) alwaysinline #0"
            self.module.helper(full, inner.text(head))
        return out.op(kind, f"call {kind} @{full}({', '.join(map(str, args))})", name)

    def _angle(self, out: FunctionWriter, name: str, dtype: DType, x: LLVMValue) -> LLVMValue:
        """A function of an angle: on all lanes, or by the C library if one is too large to be reduced."""
        value = Lanes(out, dtype, x)
        huge = any_lane(value.magnitude() > float32.ANGLE)
        labels = [out.label(wish) for wish in ("huge", "usual", "joined")]
        out.branch_if(huge, labels[0], labels[1])
        out.start(labels[0])
        slow = self._library(out, name, dtype, [x])
        out.branch(labels[2])
        out.start(labels[1])
        quick = self._own(out, name, dtype, [x], lambda a: float32.ANGLES[name](a[0]))
        out.branch(labels[2])
        out.start(labels[2])
        edges = f"[ {slow.text}, %{labels[0]} ], [ {quick.text}, %{labels[1]} ]"
        return out.op(x.type, f"phi {x.type} {edges}")

    def _library(self, out: FunctionWriter, name: str, dtype: DType, args: list[LLVMValue]) -> LLVMValue:
        """The C library's function, lane by lane."""
        if name not in _LIBRARY:
            raise InternalError(f"the llvm target has no function {name!r} for {dtype}")
        kind = value_type(dtype.scalar)
        symbol = name + ("f" if dtype.bits == 32 else "")
        if dtype.lanes == 1:
            return out.call(symbol, kind, args, _PURE)
        total = LLVMValue(args[0].type, "poison")
        for lane in range(dtype.lanes):
            at = f"i64 {lane}"
            parts = [out.op(_element(arg.type), f"extractelement {arg}, {at}", "lane") for arg in args]
            one = out.call(symbol, kind, parts, _PURE)
            total = out.op(total.type, f"insertelement {total}, {one}, {at}", name)
        return total


def _element(type_text: str) -> str:
    """The type of one lane of a vector type."""
    return type_text[1:-1].partition(" x ")[2]
