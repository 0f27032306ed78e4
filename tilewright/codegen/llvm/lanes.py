"""Arithmetic on registers of any number of lanes, written as arithmetic: for the math functions.

`x * y + c` on `Lanes` emits instructions; Python numbers become constants. `fma(x, y, c)` is one rounding if the
processor has the instruction.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...core.dtype import DType
from .convert import mangled
from .types import LLVMValue, constant, value_type, vector
from .writer import FunctionWriter


@dataclass(frozen=True, eq=False)
class Lanes:
    """A value of type `dtype` (with its lanes) in the function that `out` writes."""

    out: FunctionWriter
    dtype: DType
    value: LLVMValue

    def _lift(self, other: Lanes | float) -> LLVMValue:
        return other.value if isinstance(other, Lanes) else constant(other, self.dtype)

    def _new(self, value: LLVMValue) -> Lanes:
        return Lanes(self.out, self.dtype, value)

    def like(self, number: float) -> Lanes:
        """A constant of this type."""
        return self._new(constant(number, self.dtype))

    def _binary(self, floating: str, whole: str, a: LLVMValue, b: LLVMValue) -> Lanes:
        return self._new(self.out.binary(floating if self.dtype.is_float else whole, a, b))

    def __add__(self, other: Lanes | float) -> Lanes:
        return self._binary("fadd", "add", self.value, self._lift(other))

    def __sub__(self, other: Lanes | float) -> Lanes:
        return self._binary("fsub", "sub", self.value, self._lift(other))

    def __rsub__(self, other: float) -> Lanes:
        return self._binary("fsub", "sub", self._lift(other), self.value)

    def __mul__(self, other: Lanes | float) -> Lanes:
        return self._binary("fmul", "mul", self.value, self._lift(other))

    def __truediv__(self, other: Lanes | float) -> Lanes:
        return self._binary("fdiv", "sdiv", self.value, self._lift(other))

    def __rtruediv__(self, other: float) -> Lanes:
        return self._binary("fdiv", "sdiv", self._lift(other), self.value)

    def __neg__(self) -> Lanes:
        return self._new(self.out.op(self.value.type, f"fneg {self.value}"))

    def __and__(self, other: Lanes | int) -> Lanes:
        return self._new(self.out.binary("and", self.value, self._lift(other)))

    def __or__(self, other: Lanes | int) -> Lanes:
        return self._new(self.out.binary("or", self.value, self._lift(other)))

    def __invert__(self) -> Lanes:
        return self._new(self.out.binary("xor", self.value, constant(1, self.dtype)))

    def __lshift__(self, bits: int) -> Lanes:
        return self._new(self.out.binary("shl", self.value, self._lift(bits)))

    def __rshift__(self, bits: int) -> Lanes:
        return self._new(self.out.binary("ashr", self.value, self._lift(bits)))

    def compare(self, test: str, other: Lanes | float) -> Lanes:
        """Return one bool per lane; `test` is such as "olt" (false if one is NaN) or "une"."""
        kind = "fcmp" if self.dtype.is_float else "icmp"
        made = self.out.compare(f"{kind} {test}", self.value, self._lift(other), self.dtype.lanes)
        return Lanes(self.out, DType("bool").with_lanes(self.dtype.lanes), made)

    def __lt__(self, other: Lanes | float) -> Lanes:
        return self.compare("olt" if self.dtype.is_float else "slt", other)

    def __gt__(self, other: Lanes | float) -> Lanes:
        return self.compare("ogt" if self.dtype.is_float else "sgt", other)

    def equals(self, other: Lanes | float) -> Lanes:
        """The lanes in which both are equal."""
        return self.compare("oeq" if self.dtype.is_float else "eq", other)

    def is_nan(self) -> Lanes:
        """The lanes in which it is NaN."""
        return self.compare("uno", self)

    def cast(self, dtype: str) -> Lanes:
        """A float or an integer as a float of another type."""
        to = DType(dtype).with_lanes(self.dtype.lanes)
        if self.dtype.is_float and to.is_float:
            op = "fptrunc" if to.bits < self.dtype.bits else "fpext"
        else:
            op = "sitofp"
        return Lanes(self.out, to, self.out.convert(op, self.value, value_type(to)))

    def bits(self, dtype: str) -> Lanes:
        """Reinterpret the bits as another type."""
        to = DType(dtype).with_lanes(self.dtype.lanes)
        return Lanes(self.out, to, self.out.convert("bitcast", self.value, value_type(to)))

    def _call(self, name: str, *others: Lanes | float) -> Lanes:
        args = [self.value, *(self._lift(other) for other in others)]
        return self._new(self.out.call(f"llvm.{name}.{mangled(self.value.type)}", self.value.type, args))

    def rounded(self) -> Lanes:
        """To the nearest integer, halves to even."""
        return self._call("rint")

    def nearest(self, factor: float = 1.0) -> tuple[Lanes, Lanes]:
        """The integer nearest to self * factor, as a float and as an integer; for at most 22 (50) bits.

        Adding a number so large that a float next to it has no fraction leaves the integer in the low bits. Larger
        values give an arbitrary result, but never LLVM's poison, as its own conversion does.
        """
        single = self.dtype.bits == 32
        magic = 1.5 * 2.0 ** (23 if single else 52)
        pattern = 0x4B400000 if single else 0x4338000000000000
        moved = fma(self, factor, magic) if factor != 1.0 else self + magic
        return moved - magic, moved.bits("int32" if single else "int64") - pattern

    def magnitude(self) -> Lanes:
        """The magnitude."""
        return self._call("fabs")

    def with_sign_of(self, other: Lanes) -> Lanes:
        """The magnitude, with the sign of another value."""
        return self._call("copysign", other)

    def scaled(self, k: Lanes) -> Lanes:
        """self * 2**k for a float32 and k of -200 to 200; the result may be subnormal, or infinite."""
        if self.out.module.machine.has_scale:
            name = f"llvm.ldexp.{mangled(self.value.type)}.{mangled(k.value.type)}"
            return self._new(self.out.call(name, self.value.type, [self.value, k.value]))
        half = k >> 1
        first, second = ((part + 127) << 23 for part in (half, k - half))
        return self * first.bits("float32") * second.bits("float32")

    def root(self) -> Lanes:
        """The square root."""
        return self._call("sqrt")


def fma(a: Lanes, b: Lanes | float, c: Lanes | float) -> Lanes:
    """a * b + c, in one rounding if the processor has the instruction."""
    name = "fma" if a.out.module.machine.has_fma else "fmuladd"
    return a._call(name, b, c)


def select(condition: Lanes, a: Lanes | float, b: Lanes | float) -> Lanes:
    """`a` if the condition holds, else `b`."""
    like = a if isinstance(a, Lanes) else b
    if not isinstance(like, Lanes):
        raise TypeError("one of the two must be a register")
    return like._new(like.out.select(condition.value, like._lift(a), like._lift(b)))


def polynomial(x: Lanes, *coefficients: float) -> Lanes:
    """c0 + c1 x + c2 x² + ..., by Horner's rule."""
    total = x.like(coefficients[-1])
    for c in reversed(coefficients[:-1]):
        total = fma(total, x, c)
    return total


def any_lane(condition: Lanes) -> LLVMValue:
    """Whether the condition holds in some lane, as an `i1`."""
    if condition.dtype.lanes == 1:
        return condition.value
    kind = vector("i1", condition.dtype.lanes)
    return condition.out.call(f"llvm.vector.reduce.or.{mangled(kind)}", "i1", [condition.value])
