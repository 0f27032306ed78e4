"""Expressions as text, in the notation of TVMScript (`T.float32(0)`, `a // b`, `T.if_then_else(...)`)."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

from ..core.dtype import INT32
from ..core.recursion import deep
from ..core.text import one_line
from . import nodes as n
from .operand import TEXT

_BINARY: dict[type, tuple[str, int]] = {
    n.Or: ("or", 1),
    n.And: ("and", 2),
    n.EQ: ("==", 4),
    n.NE: ("!=", 4),
    n.LT: ("<", 4),
    n.LE: ("<=", 4),
    n.GT: (">", 4),
    n.GE: (">=", 4),
    n.Add: ("+", 10),
    n.Sub: ("-", 10),
    n.Mul: ("*", 11),
    n.Div: ("/", 11),
    n.FloorDiv: ("//", 11),
    n.FloorMod: ("%", 11),
}
_CALLS: dict[type, str] = {
    n.Min: "T.min",
    n.Max: "T.max",
    n.Mod: "T.truncmod",
    n.Select: "T.Select",
    n.IfThenElse: "T.if_then_else",
}
_ATOM = 20
Name = Callable[[Any], str]
PRINTED: dict[type, Callable[[ExprPrinter, Any], str]] = {}
"""How nodes of floors above are printed; their floors fill it."""
PRINTED_CALLS: dict[str, Callable[[ExprPrinter, Any], str]] = {}
"""How calls are printed that are not just a name and arguments, by name."""


def default_name(thing: Any) -> str:
    """The own name of a variable or a source; several may have the same one."""
    name: str = thing.name
    return one_line(name)


class ExprPrinter:
    """Prints expressions; `name` gives the printed name of a variable or load source."""

    def __init__(self, name: Name = default_name) -> None:
        self.name = name

    def __call__(self, e: n.Expr) -> str:
        return self.text(e)[0]

    def write(self, e: n.Expr) -> str:
        """The same as `__call__`, for recursion: method calls use no C stack, calls of objects do."""
        return self.text(e)[0]

    def text(self, e: n.Expr) -> tuple[str, int]:
        """The text of `e` and how tightly its outermost operator binds."""
        kind = type(e)
        if kind in _BINARY:
            return self._binary(e)
        if isinstance(e, n.Var):
            return self.name(e), _ATOM
        if isinstance(e, n.IntImm):
            return self._integer(e)
        if isinstance(e, n.FloatImm):
            return f"T.{e.dtype}({_float_text(e.value)})", _ATOM
        if isinstance(e, n.Not):
            return f"not ({self.write(e.a)})", 3
        if isinstance(e, n.Load):
            return f"{self.name(e.source)}[{self._indices(e.indices)}]", _ATOM
        return self._call(e), _ATOM

    def _integer(self, e: n.IntImm) -> tuple[str, int]:
        if e.dtype.is_bool:
            return f"T.bool({bool(e.value)})", _ATOM
        if e.dtype == INT32:
            return str(e.value), _ATOM if e.value >= 0 else 10
        return f"T.{e.dtype}({e.value})", _ATOM

    def _binary(self, e: Any) -> tuple[str, int]:
        sign, level = _BINARY[type(e)]
        left, left_level = self.text(e.a)
        right, right_level = self.text(e.b)
        if type(e) is n.Div and e.dtype.is_int:
            return f"T.truncdiv({left}, {right})", _ATOM
        if left_level < level or (level == 4 and left_level == 4):
            left = f"({left})"
        associates = type(e) in (n.Add, n.And, n.Or) and type(e.b) is type(e) and not e.dtype.is_float
        if right_level < level or (right_level == level and not associates):
            right = f"({right})"
        return f"{left} {sign} {right}", level

    def _indices(self, indices: tuple[n.Expr, ...]) -> str:
        return ", ".join([self._index(i) for i in indices]) or "()"

    def _index(self, e: n.Expr) -> str:
        if isinstance(e, n.Ramp) and isinstance(e.stride, n.IntImm):
            base, step = self.write(e.base), e.stride.value
            tail = f":{step}" if step != 1 else ""
            if isinstance(e.base, n.IntImm):
                return f"{base}:{self.write(n.IntImm(e.base.value + e.lanes * step, e.base.dtype))}{tail}"
            return f"{base}:{base} + {e.lanes * step}{tail}"
        return self.write(e)

    def _call(self, e: n.Expr) -> str:
        args: list[str]
        if isinstance(e, n.Cast):
            return f"T.Cast({str(e.dtype)!r}, {self.write(e.value)})"
        if isinstance(e, n.StringImm):
            return json.dumps(e.value, ensure_ascii=False)
        if isinstance(e, n.Ramp):
            return f"T.Ramp({self.write(e.base)}, {self.write(e.stride)}, {e.lanes})"
        if isinstance(e, n.Broadcast):
            return f"T.Broadcast({self.write(e.value)}, {e.lanes})"
        show = PRINTED.get(type(e)) or (PRINTED_CALLS.get(e.name) if isinstance(e, n.Call) else None)
        if show is not None:
            return show(self, e)
        args = [self.write(child) for child in e.children()]
        if isinstance(e, n.Call):
            return f"T.{e.name}({', '.join(args)})"
        name = _CALLS.get(type(e)) or getattr(e, "PRINTED", type(e).__name__)
        return f"{name}({', '.join(args)})"


def _float_text(value: float) -> str:
    if math.isinf(value):
        return '"inf"' if value > 0 else '"-inf"'
    if math.isnan(value):
        return '"nan"'
    if value == int(value) and abs(value) < 1e16 and not (value == 0 and math.copysign(1, value) < 0):
        return str(int(value))
    return repr(value)


@deep
def show(e: n.Expr) -> str:
    """The expression as text, with the variables' own names."""
    return ExprPrinter()(e)


TEXT[n.Expr] = show
