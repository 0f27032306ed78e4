"""Scalar expressions as C, with as few parentheses as the language needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.dtype import DType
from ..core.errors import InternalError
from ..expr import nodes as n
from .dialect import Dialect, is_half
from .names import Names

TERNARY, OR, AND, EQUAL, LESS, SUM, PRODUCT, UNARY, ATOM = 1, 2, 3, 7, 8, 10, 11, 12, 14
Text = tuple[str, int]
_DIVISIONS = {
    "floordiv": "  return a / b - (a % b != 0 && (a % b < 0) != (b < 0));",
    "floormod": "  {0} r = a % b;\n  return r != 0 && (r < 0) != (b < 0) ? r + b : r;",
}

_INFIX: dict[type, tuple[str, int]] = {
    n.Add: ("+", SUM),
    n.Sub: ("-", SUM),
    n.Mul: ("*", PRODUCT),
    n.Div: ("/", PRODUCT),
    n.Mod: ("%", PRODUCT),
    n.EQ: ("==", EQUAL),
    n.NE: ("!=", EQUAL),
    n.LT: ("<", LESS),
    n.LE: ("<=", LESS),
    n.GT: (">", LESS),
    n.GE: (">=", LESS),
    n.And: ("&&", AND),
    n.Or: ("||", OR),
}
_BITWISE = {
    "bitwise_and": "&",
    "bitwise_or": "|",
    "bitwise_xor": "^",
    "shift_left": "<<",
    "shift_right": ">>",
}


class ExprWriter:
    """Writes scalar expressions; collects the helper functions and data types that they use."""

    def __init__(self, dialect: Dialect, names: Names, element: Callable[[n.Load], str]) -> None:
        self.dialect = dialect
        self.names = names
        self.element = element
        self.helpers: dict[str, str] = {}
        self.dtypes: set[DType] = set()
        self._memo: dict[n.Expr, Text] = {}

    def __call__(self, e: n.Expr, at_least: int = 0) -> str:
        """The text of `e`, in parentheses where it binds less tightly than `at_least`."""
        text, level = self._text(e)
        return text if level >= at_least else f"({text})"

    def _text(self, e: n.Expr) -> Text:
        found = self._memo.get(e)
        if found is None:
            if e.dtype.lanes != 1 and not isinstance(e, n.StringImm):
                raise InternalError(f"a vector where a scalar belongs: {e}")
            write = _WRITE.get(type(e))
            if write is None:
                raise InternalError(f"code generation does not know {type(e).__name__}: {e}")
            found = self._memo[e] = write(self, e)
        return found

    def _var(self, e: n.Var) -> Text:
        return self.names(e), ATOM

    def _integer(self, e: n.IntImm) -> Text:
        text = self.dialect.integer(e.value, e.dtype)
        return text, UNARY if text[0] == "-" or text.startswith("(") else ATOM

    def _floating(self, e: n.FloatImm) -> Text:
        self.dtypes.add(e.dtype)
        text = self.dialect.floating(e.value, e.dtype)
        return text, UNARY if text[0] == "-" else ATOM

    def _infix(self, e: Any) -> Text:
        sign, level = _INFIX[type(e)]
        if level <= AND:  # associative; an `and` within an `or` is put in parentheses, as compilers advise
            left, right = (self(part, level if type(part) is type(e) else EQUAL) for part in (e.a, e.b))
        else:
            regroups = type(e) is n.Add and type(e.b) is n.Add and e.dtype.is_int
            left, right = self(e.a, level + (level <= LESS)), self(e.b, level if regroups else level + 1)
        return self._narrowed(f"{left} {sign} {right}", level, e.dtype)

    def _narrowed(self, text: str, level: int, dtype: DType) -> Text:
        """C computes in `int` or `float` what has fewer bits; bring it back to its own type."""
        if is_half(dtype):
            return f"{self.helper(f'{dtype}_round')}({text})", ATOM
        if dtype.is_int and dtype.bits < 32:
            return f"({self.dialect.scalar_type(dtype)})({text})", UNARY
        return text, level

    def _remainder(self, e: n.Mod) -> Text:
        return self._infix(e) if e.dtype.is_int else self._function("fmod", e.dtype, e)

    def _floor_division(self, e: n.FloorDiv | n.FloorMod) -> Text:
        """Shift and mask where the divisor is a power of two, C's own operator where nothing is negative."""
        divisor = e.b.value if isinstance(e.b, n.IntImm) else 0
        quotient = isinstance(e, n.FloorDiv)
        if e.dtype.kind == "uint":
            sign = "/" if quotient else "%"
            return self._narrowed(f"{self(e.a, PRODUCT)} {sign} {self(e.b, UNARY)}", PRODUCT, e.dtype)
        if divisor > 0 and divisor & (divisor - 1) == 0:
            shift, mask = n.IntImm(divisor.bit_length() - 1, DType("int32")), n.IntImm(divisor - 1, e.dtype)
            tail = f">> {self(shift)}" if quotient else f"& {self(mask, UNARY)}"
            return self._narrowed(f"({self(e.a, SUM)} {tail})", ATOM, e.dtype)
        wide = e.dtype if e.dtype.bits == 64 else DType("int32")
        helper = self.helper(f"{'floordiv' if quotient else 'floormod'}_{wide}")
        return self._narrowed(f"{helper}({self(e.a)}, {self(e.b)})", ATOM, e.dtype)

    def helper(self, name: str) -> str:
        """The helper function of that name (its first word, then a type), which the source will define."""
        if name not in self.helpers:
            what, _, rest = name.partition("_")
            if rest == "round":
                bits, value = self.helper(f"{what}_bits"), self.helper(f"{what}_value")
                text = f"float {name}(float x) {{\n  return {value}({bits}(x));\n}}"
            elif what in _DIVISIONS:
                kind = self.dialect.scalar_type(DType(rest))
                text = f"{kind} {name}({kind} a, {kind} b) {{\n{_DIVISIONS[what].format(kind)}\n}}"
            else:
                text = self.dialect.helpers[name]
            self.helpers[name] = f"{self.dialect.helper_prefix} {text}"
        return name

    def _extreme(self, e: n.Min | n.Max) -> Text:
        return self._function("min" if isinstance(e, n.Min) else "max", e.dtype, e)

    def _function(self, name: str, dtype: DType, e: n.Expr) -> Text:
        self.dtypes.add(dtype)
        args = [self(arg) for arg in e.children()]
        text = self.dialect.intrinsic(name, dtype, args)
        if text is None:
            raise InternalError(f"the {self.dialect.name} target has no function {name!r} for {dtype}")
        rounded = not isinstance(e, (n.Min, n.Max))
        return self._narrowed(text, ATOM, e.dtype) if rounded or e.dtype.is_int else (text, ATOM)

    def _not(self, e: n.Not) -> Text:
        return f"!{self(e.a, UNARY)}", UNARY

    def _choice(self, e: n.Select | n.IfThenElse) -> Text:
        parts = [self(part, OR) for part in (e.condition, e.true_value)] + [self(e.false_value, TERNARY)]
        return f"{parts[0]} ? {parts[1]} : {parts[2]}", TERNARY

    def _cast(self, e: n.Cast) -> Text:
        if e.dtype.is_bool:
            return f"{self(e.value, EQUAL + 1)} != {self(zero(e.value.dtype))}", EQUAL
        self.dtypes.update((e.dtype, e.value.dtype))
        if is_half(e.dtype):
            return self._narrowed(self(e.value), TERNARY, e.dtype)
        return f"({self.dialect.scalar_type(e.dtype)}){self(e.value, UNARY)}", UNARY

    def _load(self, e: n.Load) -> Text:
        self.dtypes.add(e.dtype)
        if e.dtype.is_bool:
            return f"{self.element(e)} != 0", EQUAL
        return self.loaded(self.element(e), e.dtype), ATOM

    def loaded(self, text: str, dtype: DType) -> str:
        """The value of an element as it stands in memory."""
        return f"{self.helper(f'{dtype.scalar}_value')}({text})" if is_half(dtype) else text

    def stored(self, value: n.Expr, dtype: DType) -> str:
        """The value as an element in memory."""
        text, level = self._text(value)
        if not is_half(dtype):
            return text
        rounded = f"{dtype.scalar}_round("  # taking its bits rounds it too
        inner = text[len(rounded) : -1] if level == ATOM and text.startswith(rounded) else text
        return f"{self.helper(f'{dtype.scalar}_bits')}({inner})"

    def _call(self, e: n.Call) -> Text:
        if e.name == "likely":
            return self._text(e.args[0])
        if e.name in _BITWISE:
            left, right = self(e.args[0], UNARY), self(e.args[1], UNARY)
            return self._narrowed(f"({left} {_BITWISE[e.name]} {right})", ATOM, e.dtype)
        if e.name == "bitwise_not":
            return self._narrowed(f"~{self(e.args[0], UNARY)}", UNARY, e.dtype)
        return self._function(e.name, e.args[0].dtype if e.args else e.dtype, e)


def zero(dtype: DType) -> n.Expr:
    """The zero of a type."""
    return n.FloatImm(0.0, dtype) if dtype.is_float else n.IntImm(0, dtype)


_WRITE: dict[type, Callable[[ExprWriter, Any], Text]] = {
    **dict.fromkeys(_INFIX, ExprWriter._infix),
    n.Mod: ExprWriter._remainder,
    n.Var: ExprWriter._var,
    n.SizeVar: ExprWriter._var,
    n.IntImm: ExprWriter._integer,
    n.FloatImm: ExprWriter._floating,
    n.FloorDiv: ExprWriter._floor_division,
    n.FloorMod: ExprWriter._floor_division,
    n.Min: ExprWriter._extreme,
    n.Max: ExprWriter._extreme,
    n.Not: ExprWriter._not,
    n.Select: ExprWriter._choice,
    n.IfThenElse: ExprWriter._choice,
    n.Cast: ExprWriter._cast,
    n.Load: ExprWriter._load,
    n.Call: ExprWriter._call,
}
