"""Expressions as instructions.

Indices are computed in 64 bits, for any index type. Nothing overflows in an array of more than 2³¹ elements, and LLVM
sees addresses that advance by a constant. Everything else has the type it says. (Divisions by non-constants keep their
type, since they take longer in 64 bits.)

`a * b + c` may become one fused multiply-add (the `contract` flag), as in the other back ends; no other liberty is
taken with floats. `Min` and `Max` of floats give NaN if an operand is NaN, and either of two zeros, as in NumPy and
PyTorch. An integer divided by zero gives 0, as NumPy has it, for an instruction that traps would end the process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ...arith.rules.conversions import keeps
from ...core.dtype import INT64, DType
from ...core.errors import InternalError
from ...expr import nodes as n
from ...expr.bits import REINTERPRET
from ...expr.effects import SEEN, contains_effects
from ...expr.traverse import fold, parts
from ...loops.calls import is_packed
from ...loops.nodes import AddressOf, Buffer
from ..choices import made_by_both
from ..kernel import root
from ..scoped_table import ScopedTable
from .calls import OUTSIDE, write_address, write_call, write_text
from .convert import convert, from_single, mangled, to_single
from .divisions import Division, divide
from .mathlib import MathLibrary
from .types import LLVMValue, constant, lanes_constant, splat_constant, value_type, vector
from .writer import FunctionWriter

_ARITHMETIC = {n.Add: ("add", "fadd"), n.Sub: ("sub", "fsub"), n.Mul: ("mul", "fmul")}
_COMPARE = {
    n.EQ: ("eq", "eq", "oeq"),
    n.NE: ("ne", "ne", "une"),
    n.LT: ("slt", "ult", "olt"),
    n.LE: ("sle", "ule", "ole"),
    n.GT: ("sgt", "ugt", "ogt"),
    n.GE: ("sge", "uge", "oge"),
}
_BITWISE = {"bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor", "shift_left": "shl"}
_CHEAP_CALLS = frozenset("likely fabs sqrt floor ceil trunc nearbyint isnan isinf isfinite bitwise_not".split())
_CHEAP_CALLS |= frozenset(_BITWISE) | {"shift_right", "copysign", "popcount", "clz"}

LoadElement = Callable[[n.Load, "LLVMValue | None"], LLVMValue]


class LLVMExprWriter:
    """Writes expressions into a function. Its user sets the known variables and buffers."""

    def __init__(self, out: FunctionWriter, library: MathLibrary, load: LoadElement, contract: bool) -> None:
        self.out = out
        self.library = library
        self.load = load
        self.flags = "contract" if contract else ""
        self.address: Callable[[n.Load], LLVMValue]
        """Returns the place of an element; set by the user of this class."""
        self.variables: dict[n.Var, LLVMValue] = {}
        """Variables in their own type."""
        self.counters: dict[n.Var, LLVMValue] = {}
        """Loop variables, in 64 bits."""
        self.pointers: dict[Buffer, LLVMValue] = {}
        self.mask: LLVMValue | None = None
        """The wanted lanes of vectors, if not all are."""
        self._wider: dict[LLVMValue, LLVMValue | None] = {}
        """The enclosing mask of each mask: values known in the lanes of a mask are also known in fewer lanes."""
        self._known: ScopedTable[Any, LLVMValue] = ScopedTable()
        self._masked: ScopedTable[n.Expr, bool] = ScopedTable()
        """Expressions with known values in some lanes."""
        self._harmless: dict[n.Expr, bool] = {}

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Forget values computed within: the code may not have run when other blocks do."""
        with self._known.scope(), self._masked.scope():
            yield

    def _find(self, e: n.Expr) -> LLVMValue | None:
        """The value of `e` in the present lanes, if the value is known there."""
        if self.mask is None or e not in self._masked:
            return self._known.get(e)
        mask: LLVMValue | None = self.mask
        found: LLVMValue | None = None
        while found is None and mask is not None:
            found = self._known.get((e, mask))
            mask = self._wider.get(mask)
        if found is None:
            return self._known.get(e)
        self._known[e, self.mask] = found  # the next, narrower mask finds it here
        return found

    def _enter(self, e: n.Expr, value: LLVMValue) -> None:
        if self.mask is None:
            self._known[e] = value
        else:
            self._masked[e] = True
            self._known[e, self.mask] = value

    def __call__(self, e: n.Expr) -> LLVMValue:
        """The value of `e`."""
        return self.value(e)

    def value(self, e: n.Expr) -> LLVMValue:
        """The same as `__call__`, for recursion: method calls use no C stack, calls of objects do."""
        found = self._find(e)
        if found is None:
            write = _WRITE.get(type(e))
            if write is None:
                raise InternalError(f"the llvm target does not know {type(e).__name__}: {e}")
            found = write(self, e)
            if not (SEEN and contains_effects(e)):  # a call with an effect is repeated for each use
                self._enter(e, found)
        return found

    def pointer(self, buffer: Any) -> LLVMValue:
        """The address of a buffer's memory."""
        found = self.pointers.get(root(buffer))
        if found is None:
            raise InternalError(f"{buffer} is neither a parameter nor allocated here")
        return found

    # Indices

    def index(self, e: n.Expr) -> LLVMValue:
        """A scalar integer in 64 bits."""
        found = self._known.get(("index", e))
        if found is None:
            found = self._index(e)
            if not (SEEN and contains_effects(e)):
                self._known["index", e] = found
        return found

    def _index(self, e: n.Expr) -> LLVMValue:
        if isinstance(e, n.IntImm):
            return LLVMValue("i64", str(e.value))
        if isinstance(e, n.Var) and e in self.counters:
            return self.counters[e]
        if e.dtype.kind == "int" and e.dtype.bits >= 32:
            if isinstance(e, (n.Add, n.Sub, n.Mul)):
                op = _ARITHMETIC[type(e)][0]
                return self.out.binary(f"{op} nsw", self.index(e.a), self.index(e.b), op)
            if isinstance(e, (n.Div, n.Mod, n.FloorDiv, n.FloorMod)) and isinstance(e.b, n.IntImm):
                return divide(self.out, e, INT64, self.index(e.a), self.index(e.b))
            if isinstance(e, n.Cast) and keeps(e.value.dtype, e.dtype) and e.value.dtype.is_int:
                return self.index(e.value)
        return self.out.convert("sext" if e.dtype.kind == "int" else "zext", self.value(e), "i64")

    def lanes_index(self, e: n.Expr) -> LLVMValue:
        """A vector of integers in 64 bits."""
        lanes = e.dtype.lanes
        if isinstance(e, n.Broadcast):
            return self.out.splat(self.index(e.value), lanes)
        if isinstance(e, n.Ramp):
            return self._ramp_of(self.index(e.base), self.index(e.stride), lanes)
        return self.out.convert("sext" if e.dtype.kind == "int" else "zext", self.value(e), vector("i64", lanes))

    def _ramp_of(self, base: LLVMValue, stride: LLVMValue, lanes: int) -> LLVMValue:
        steps = lanes_constant(range(lanes), base.type)
        if stride.text != "1":
            steps = self.out.binary("mul", self.out.splat(stride, lanes), steps)
        return self.out.binary("add", self.out.splat(base, lanes), steps, "ramp")

    def guard(self, e: n.Expr) -> LLVMValue:
        """The condition of a statement. A condition on positions in a loop cannot overflow."""
        if isinstance(e, n.Call) and e.name == "likely":
            return self._positions(e.args[0])
        return self.value(e)

    def _positions(self, e: n.Expr) -> LLVMValue:
        if isinstance(e, n.And) and self.is_harmless(e.b):
            return self.out.binary("and", self._positions(e.a), self._positions(e.b))
        if isinstance(e, n.Compare) and e.dtype.lanes > 1 and e.a.dtype.kind == "int":
            return self._lane_positions(e)
        if isinstance(e, n.Compare) and e.a.dtype.kind == "int" and e.a.dtype.lanes == 1 and self.is_harmless(e):
            return self.out.compare(f"icmp {_COMPARE[type(e)][0]}", self.index(e.a), self.index(e.b))
        return self.value(e)

    def _lane_positions(self, e: n.Compare) -> LLVMValue:
        """Compare `base + ramp < end` as `ramp < end - base` in 32 bits.

        The difference is clamped, beyond the values of any ramp.
        """
        left, right = _position(e.a), _position(e.b)
        if left is None or right is None:
            return self.value(e)
        (first, step), (second, other) = left, right
        gap = self.out.binary("sub", self.index(second), self.index(first), "gap")
        for side, bound in (("smin", 1 << 30), ("smax", -(1 << 30))):
            gap = self.out.call(f"llvm.{side}.i64", "i64", [gap, LLVMValue("i64", str(bound))])
        lanes = e.dtype.lanes
        most = self.out.splat(self.out.convert("trunc", gap, "i32"), lanes)
        ramp = lanes_constant([lane * (step - other) for lane in range(lanes)], "i32")
        return self.out.compare(f"icmp {_COMPARE[type(e)][0]}", ramp, most, lanes)

    # Leaves

    def _var(self, e: n.Var) -> LLVMValue:
        counter = self.counters.get(e)
        if counter is not None:
            return self.out.convert("trunc", counter, value_type(e.dtype), e.name)
        found = self.variables.get(e)
        if found is None:
            raise InternalError(f"variable {e.name} has no value here")
        return found

    def _number(self, e: n.IntImm | n.FloatImm) -> LLVMValue:
        return constant(e.value, e.dtype)

    def _ramp(self, e: n.Ramp) -> LLVMValue:
        return self._ramp_of(self.value(e.base), self.value(e.stride), e.lanes)

    def _broadcast(self, e: n.Broadcast) -> LLVMValue:
        if isinstance(e.value, (n.IntImm, n.FloatImm)):
            return splat_constant(self.value(e.value), e.lanes)
        return self.out.splat(self.value(e.value), e.lanes)

    def _load(self, e: n.Load) -> LLVMValue:
        return self.load(e, self.mask)

    def _cast(self, e: n.Cast) -> LLVMValue:
        return convert(self.out, self.value(e.value), e.value.dtype, e.dtype)

    # Arithmetic

    def _arithmetic(self, e: Any) -> LLVMValue:
        whole, floating = _ARITHMETIC[type(e)]
        a, b = self.value(e.a), self.value(e.b)
        if e.dtype.is_float:
            return self.floating(floating, e.dtype, a, b)
        return self.out.binary(whole, a, b)

    def floating(self, op: str, dtype: DType, a: LLVMValue, b: LLVMValue, exact: bool = False) -> LLVMValue:
        """A float instruction; `exact` keeps it from being fused with another."""
        full = op if exact or not self.flags else f"{op} {self.flags}"
        if dtype.kind != "bfloat":
            return self.out.binary(full, a, b, op)
        made = self.out.binary(full, to_single(self.out, a, dtype), to_single(self.out, b, dtype), op)
        return from_single(self.out, made, dtype)

    def _division(self, e: Division) -> LLVMValue:
        if e.dtype.is_float:
            return self._float_division(e, self.value(e.a), self.value(e.b))
        return divide(self.out, e, e.dtype, self.value(e.a), self.value(e.b))

    def _float_division(self, e: Division, a: LLVMValue, b: LLVMValue) -> LLVMValue:
        if isinstance(e, n.Div):
            return self.floating("fdiv", e.dtype, a, b)
        if isinstance(e, n.Mod):
            return self._function("fmod", e.dtype, [a, b])
        floor = self._function("floor", e.dtype, [self.floating("fdiv", e.dtype, a, b, exact=True)])
        if isinstance(e, n.FloorDiv):
            return floor
        back = self.floating("fmul", e.dtype, floor, b, exact=True)
        return self.floating("fsub", e.dtype, a, back, exact=True)

    def _extreme(self, e: n.Min | n.Max) -> LLVMValue:
        side = "min" if isinstance(e, n.Min) else "max"
        a, b = self.value(e.a), self.value(e.b)
        if e.dtype.is_int:
            sign = "s" if e.dtype.kind == "int" else "u"
            return self.out.call(f"llvm.{sign}{side}.{mangled(a.type)}", a.type, [a, b])
        if e.dtype.kind == "bfloat":
            a, b = self._singles(e.dtype, [a, b])
            return from_single(self.out, self._float_extreme(side, a, b), e.dtype)
        return self._float_extreme(side, a, b)

    def _float_extreme(self, side: str, a: LLVMValue, b: LLVMValue) -> LLVMValue:
        """Write min or max; `nsz` lets x86 use its own instruction, with one test for NaN."""
        return self.out.call(f"llvm.{side}imum.{mangled(a.type)}", a.type, [a, b], flags="nsz")

    def _singles(self, dtype: DType, values: list[LLVMValue]) -> list[LLVMValue]:
        return [to_single(self.out, value, dtype) for value in values]

    # Conditions

    def _compare(self, e: n.Compare) -> LLVMValue:
        signed, unsigned, ordered = _COMPARE[type(e)]
        a, b, kind = self.value(e.a), self.value(e.b), e.a.dtype
        if kind.kind == "bfloat":
            a, b = self._singles(kind, [a, b])
        test = f"fcmp {ordered}" if kind.is_float else f"icmp {signed if kind.kind == 'int' else unsigned}"
        return self.out.compare(test, a, b, kind.lanes)

    def _both(self, e: n.And | n.Or) -> LLVMValue:
        """`and`, `or`: the second part only if its value matters, in case evaluating it could do harm."""
        is_and = isinstance(e, n.And)
        if e.dtype.lanes > 1:
            return self._both_lanes(e)
        first = self.value(e.a)
        if self.is_harmless(e.b):
            second = self.value(e.b)
            if is_and:
                return self.out.select(first, second, LLVMValue("i1", "false"))
            return self.out.select(first, LLVMValue("i1", "true"), second)

        def shortcut() -> LLVMValue:
            return LLVMValue("i1", "false" if is_and else "true")

        def rest() -> LLVMValue:
            return self.value(e.b)

        return self.branches(first, rest, shortcut) if is_and else self.branches(first, shortcut, rest)

    def _both_lanes(self, e: n.And | n.Or) -> LLVMValue:
        is_and, first, outer = isinstance(e, n.And), self.value(e.a), self.mask
        if not self.is_harmless(e.b):
            matters = first if is_and else self.out.binary("xor", first, constant(1, e.dtype), "not")
            self.mask = self._narrower(matters)
        second = self.value(e.b)
        self.mask = outer
        return self.out.binary("and" if is_and else "or", first, second)

    def _not(self, e: n.Not) -> LLVMValue:
        return self.out.binary("xor", self.value(e.a), constant(1, e.dtype), "not")

    def _choice(self, e: n.Select | n.IfThenElse) -> LLVMValue:
        condition = self.value(e.condition)
        if e.condition.dtype.lanes > 1:
            return self._lane_choice(e, condition)
        if self.is_harmless(e.true_value) and self.is_harmless(e.false_value):
            return self.out.select(condition, self.value(e.true_value), self.value(e.false_value))
        self._anticipate(e)
        return self.branches(condition, lambda: self.value(e.true_value), lambda: self.value(e.false_value))

    def _lane_choice(self, e: n.Select | n.IfThenElse, condition: LLVMValue) -> LLVMValue:
        """Lane by lane; a branch reads memory only in the lanes that take it."""
        outer = self.mask
        opposite = self.out.binary("xor", condition, constant(1, e.condition.dtype), "not")
        parts = []
        self._anticipate(e)
        for part, lanes in ((e.true_value, condition), (e.false_value, opposite)):
            if not self.is_harmless(part):
                self.mask = self._narrower(lanes)
            parts.append(self.value(part))
            self.mask = outer
        return self.out.select(condition, parts[0], parts[1])

    def _narrower(self, lanes: LLVMValue) -> LLVMValue:
        """The current mask, narrowed to `lanes`."""
        made = lanes if self.mask is None else self.out.binary("and", self.mask, lanes, "mask")
        self._wider.setdefault(made, self.mask)
        return made

    def _anticipate(self, e: n.Select | n.IfThenElse) -> None:
        """Compute the choices that occur in both branches before the branches."""
        for choice in made_by_both(e):
            if not self.is_harmless(choice):
                self.value(choice)

    def branches(
        self, condition: LLVMValue, then: Callable[[], LLVMValue], otherwise: Callable[[], LLVMValue]
    ) -> LLVMValue:
        """Choose one of two values; only the chosen value is computed."""
        out = self.out
        labels = [out.label(wish) for wish in ("then", "else", "joined")]
        out.branch_if(condition, labels[0], labels[1])
        arms = []
        for label, compute in zip(labels, (then, otherwise), strict=False):
            out.start(label)
            with self.scope():
                value = compute()
            arms.append((value, out.block))
            out.branch(labels[2])
        out.start(labels[2])
        edges = ", ".join(f"[ {value.text}, %{block} ]" for value, block in arms)
        return out.op(arms[0][0].type, f"phi {arms[0][0].type} {edges}")

    def is_harmless(self, e: n.Expr) -> bool:
        """Whether evaluating `e` needlessly neither faults nor costs much."""
        return fold(
            e,
            self._harmless,
            lambda at, below: _is_harmless_itself(at) and all(below),
            lambda at: parts(at) if _is_harmless_itself(at) else [],
        )

    # Calls

    def _call(self, e: n.Call) -> LLVMValue:
        if e.name == "likely":
            return self.value(e.args[0])
        if e.name in OUTSIDE or is_packed(e):
            return write_call(self, e)
        args = [self.value(arg) for arg in e.args]
        if e.name == REINTERPRET:
            to = value_type(e.dtype)
            return args[0] if args[0].type == to else self.out.convert("bitcast", args[0], to)
        if e.name in _BITWISE:
            return self.out.binary(_BITWISE[e.name], args[0], args[1])
        if e.name == "shift_right":
            return self.out.binary("ashr" if e.dtype.kind == "int" else "lshr", args[0], args[1])
        if e.name == "bitwise_not":
            return self.out.binary(
                "xor", args[0], constant(-1 if e.dtype.kind == "int" else e.dtype.max_value, e.dtype)
            )
        return self._function(e.name, e.args[0].dtype if e.args else e.dtype, args)

    def _function(self, name: str, dtype: DType, args: list[LLVMValue]) -> LLVMValue:
        return self.library.call(self.out, name, dtype, args)


def _is_harmless_itself(e: n.Expr) -> bool:
    return not (isinstance(e, n.Load) or (isinstance(e, n.Call) and e.name not in _CHEAP_CALLS))


def _position(e: n.Expr) -> tuple[n.Expr, int] | None:
    """A vector of positions as its first one and the step to the next."""
    if isinstance(e, n.Broadcast):
        return e.value, 0
    if isinstance(e, n.Ramp) and isinstance(e.stride, n.IntImm) and abs(e.stride.value) < 1 << 16:
        return e.base, e.stride.value
    return None


_WRITE: dict[type, Callable[[LLVMExprWriter, Any], LLVMValue]] = {
    n.Var: LLVMExprWriter._var,
    n.SizeVar: LLVMExprWriter._var,
    n.IntImm: LLVMExprWriter._number,
    n.FloatImm: LLVMExprWriter._number,
    n.Cast: LLVMExprWriter._cast,
    n.Ramp: LLVMExprWriter._ramp,
    n.Broadcast: LLVMExprWriter._broadcast,
    n.Load: LLVMExprWriter._load,
    n.Call: LLVMExprWriter._call,
    n.StringImm: write_text,
    AddressOf: write_address,
    n.Not: LLVMExprWriter._not,
    n.And: LLVMExprWriter._both,
    n.Or: LLVMExprWriter._both,
    n.Min: LLVMExprWriter._extreme,
    n.Max: LLVMExprWriter._extreme,
    n.Select: LLVMExprWriter._choice,
    n.IfThenElse: LLVMExprWriter._choice,
    **dict.fromkeys(_ARITHMETIC, LLVMExprWriter._arithmetic),
    **dict.fromkeys(_COMPARE, LLVMExprWriter._compare),
    **dict.fromkeys((n.Div, n.Mod, n.FloorDiv, n.FloorMod), LLVMExprWriter._division),
}
