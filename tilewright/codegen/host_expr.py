"""Integer and boolean expressions as Python, for host code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.dtype import INT32, DType
from ..core.errors import InternalError, UserError
from ..expr import nodes as n
from ..expr.traverse import fold, reads_memory
from ..loops.calls import ARRAY, has_effect, is_packed
from ..loops.storage import AddressOf, Buffer
from .names import Names

_INFIX: dict[type, str] = {
    n.Add: "+", n.Sub: "-", n.Mul: "*", n.EQ: "==", n.NE: "!=", n.LT: "<",
    n.LE: "<=", n.GT: ">", n.GE: ">=", n.And: "and", n.Or: "or",
}  # fmt: skip
_BITS = {"bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^"}
_SHIFTS = {"shift_left": "<<", "shift_right": ">>"}
_DIVISIONS: dict[type, tuple[str, str]] = {n.FloorDiv: ("//", "floordiv"), n.FloorMod: ("%", "floormod")}
"""Python's operators, and the functions that give 0 if a divisor is 0, as kernels do."""
_CALLS: dict[type, str] = {n.Min: "min", n.Max: "max", n.Mod: "truncmod"}
_CHAINS = (n.Add, n.Mul)
_WRAPPING = (n.Add, n.Sub, n.Mul)


def wrapped(text: str, dtype: DType) -> str:
    """The text of an integer that wraps as in compiled code."""
    half = 1 << (dtype.bits - 1) if dtype.kind == "int" else 0
    return f"(({text} + {half}) % {1 << dtype.bits} - {half})"


class HostExpr:
    """Writes expressions, with variables under the names that `names` gives them."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.handle: Callable[[Buffer], str]
        """The text of a buffer's memory; set by the user of this class."""
        self._reading: dict[n.Expr, bool] = {}

    def __call__(self, e: Any) -> str:
        """The text of `e`."""
        return self.write(e)

    def write(self, e: Any) -> str:
        """The same as `__call__`, for recursion: method calls use no C stack, calls of objects do."""
        if isinstance(e, n.Var):
            return self.names(e)
        if isinstance(e, (n.IntImm, n.FloatImm)):
            return repr(bool(e.value) if e.dtype.is_bool else e.value)
        if isinstance(e, n.StringImm):
            return repr(e.value)
        return self._operation(e)

    def _operation(self, e: Any) -> str:
        kind = type(e)
        if kind is n.Call and e.name == ARRAY:
            return self._array(e)
        if kind in _INFIX:
            left = self.write(e.a) if kind in _CHAINS and type(e.a) is kind else self.operand(e.a)
            text = f"{left} {_INFIX[kind]} {self.operand(e.b)}"
            return wrapped(text, e.dtype) if kind in _WRAPPING and self._reads(e) else text
        if kind in _DIVISIONS and isinstance(e.b, n.IntImm) and e.b.value:
            return f"{self.operand(e.a)} {_DIVISIONS[kind][0]} {self.operand(e.b)}"
        args = [self.write(child) for child in e.children()]
        if kind in _DIVISIONS:
            return f"{_DIVISIONS[kind][1]}({args[0]}, {args[1]})"
        if kind is n.Div:
            if e.dtype.is_float:
                return f"quotient({args[0]}, {args[1]})"
            return f"truncdiv({args[0]}, {args[1]})"
        if kind in _CALLS:
            return f"{_CALLS[kind]}({', '.join(args)})"
        if kind is n.Not:
            return f"not {self.operand(e.a)}"
        if kind in (n.Select, n.IfThenElse):
            yes, cond, no = (self.operand(part) for part in (e.true_value, e.condition, e.false_value))
            return f"{yes} if {cond} else {no}"
        if kind is n.Cast:
            return f"{'float' if e.dtype.is_float else 'bool' if e.dtype.is_bool else 'int'}({args[0]})"
        if kind is n.Call and e.name == "likely":
            return args[0]
        if kind is n.Call and e.name == "bitwise_not":
            return f"~{self.operand(e.args[0])}"
        if kind is n.Call and e.name in _BITS:
            return f"{self.operand(e.args[0])} {_BITS[e.name]} {self.operand(e.args[1])}"
        if kind is n.Call and e.name in _SHIFTS:
            a, by = self.operand(e.args[0]), self.operand(e.args[1])
            empty = f"-({a} < 0)" if e.name == "shift_right" else "0"
            return f"{a} {_SHIFTS[e.name]} {by} if 0 <= {by} < {e.dtype.bits} else {empty}"
        if is_packed(e):
            return f"packed({', '.join(args)})"
        if kind is n.Load and not e.dtype.is_float:
            return self.element(e)
        if has_effect(e) or reads_memory(e):
            raise UserError(
                f"`{e}` is evaluated by host code, which calls packed functions and computes with sizes only",
                primitive="call_packed",
                fix="decide in the packed function itself, or give it the buffer",
            )
        raise InternalError(f"host code cannot evaluate `{e}`")

    def element(self, e: n.Load) -> str:
        """An element of memory, fetched from the device."""
        assert isinstance(e.source, Buffer)
        (at,) = e.indices or (n.IntImm(0, INT32),)
        return f"element({self.handle(e.source)}, {str(e.dtype)!r}, {self.write(at)})"

    def _reads(self, e: n.Expr) -> bool:
        """Whether an expression reads memory, so that its value may be any of its type; sizes do not wrap."""
        return fold(e, self._reading, lambda at, found: isinstance(at, n.Load) or any(found))

    def _array(self, e: n.Call) -> str:
        """A buffer as an array, for a packed function."""
        address, count, *rest = e.args
        assert isinstance(address, AddressOf)
        assert isinstance(address.place, n.Load)
        assert isinstance(count, n.IntImm)
        sizes = [self.write(size) for size in rest]
        shape, strides = sizes[: count.value], sizes[count.value :]
        steps = f"({', '.join(strides)},)" if strides else "None"
        (at,) = address.place.indices or (n.IntImm(0, INT32),)
        kind, extents = repr(str(address.buffer.dtype)), f"({', '.join(shape)},)" if shape else "()"
        parts = [self.handle(address.buffer), kind, extents, steps, self.write(at)]
        return f"as_array({', '.join(parts)})"

    def operand(self, e: Any) -> str:
        """The text of `e`, in parentheses unless it binds tightest."""
        text = self.write(e)
        simple = isinstance(e, (n.Var, n.FloatImm, n.Min, n.Max, n.Mod, n.Cast))
        return text if simple or (isinstance(e, n.IntImm) and e.value >= 0) else f"({text})"
