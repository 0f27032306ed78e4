"""Scalar expressions as C, with as few parentheses as the language needs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from ..core.dtype import FLOAT32, DType
from ..core.errors import InternalError
from ..expr import nodes as n
from ..expr.bits import REINTERPRET
from ..loops.calls import is_packed
from ..loops.storage import AddressOf
from .calls import OUTSIDE, write_call
from .choices import made_by_both
from .dialect import Dialect, is_half
from .divisors import never_zero
from .names import Names
from .repeated_parts import Heights, read_often, written_size
from .scoped_table import ScopedTable

TERNARY, OR, AND, EQUAL, LESS, SUM, PRODUCT, UNARY, ATOM = 1, 2, 3, 7, 8, 10, 11, 12, 14
Text = tuple[str, int]
MOST_NESTED = 64
"""Largest depth of one C expression; variables hold deeper parts."""
MOST_CHARACTERS = 4_096
"""Largest length of one C expression: a part that is read twice would double at every level."""
MOST_CHOICES = 8
"""The most choices in one C expression: NVRTC's time grows much faster than their number."""
MOST_UNDER = 128
"""Largest depth of a conditionally evaluated part of a C expression: deeper, the condition gets a variable."""
MOST_WRITTEN = 30_000
"""Largest size of a conditionally evaluated part in nodes; a node counts as often as it is written."""
# Cases that the hardware leaves undefined, or traps on, are defined. A division by 0 gives 0, as in NumPy, and the
# least integer divided by -1 wraps. Min and max of floats give NaN if an operand is NaN, as in NumPy and PyTorch. C's
# fmin and fmax drop it, as the legacy API did, but then relu hides a NaN that the caller should see. Floats beyond an
# integer type's range become its nearest end, and NaN becomes 0.
_HELPERS = {
    "floordiv": "  return a / b - (a % b != 0 && (a % b < 0) != (b < 0));",
    "floormod": "  {0} r = a % b;\n  return r != 0 && (r < 0) != (b < 0) ? r + b : r;",
    "safediv": "  return b == 0 ? 0 : {1}a / b;",
    "safemod": "  return b == 0{2} ? 0 : a % b;",
    "safefloordiv": "  if (b == 0) return 0;\n  return {1}a / b - (a % b != 0 && (a % b < 0) != (b < 0));",
    "safefloormod": "  {0} r = b == 0{2} ? 0 : a % b;\n  return r != 0 && (r < 0) != (b < 0) ? r + b : r;",
    "min": "  return a < b || a != a ? a : b;",
    "max": "  return a > b || a != a ? a : b;",
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
        self.address: Callable[[n.Load], str]
        """Returns the place of an element; set by the user of this class."""
        self.vector: Callable[[n.Expr], str]
        """A vector as an argument of a function; set with it."""
        self.helpers: dict[str, str] = {}
        self.dtypes: set[DType] = set()
        self.positive: frozenset[n.Expr] = frozenset()
        """Divisors known to be nonzero: extents of arrays and of the grid."""
        self._memo: ScopedTable[n.Expr, Text] = ScopedTable()
        self._heights: dict[n.Expr, int] = {}
        self._sizes: dict[n.Expr, int] = {}
        self._levels = Heights()
        self._path: tuple[str, ...] = ()
        """Conditions under which alone the expression at hand is evaluated, from outer to inner ones."""
        self._branches = 0
        """Choices around the present expression that evaluate only one part."""
        self.keep: Callable[[n.Expr, str], str] | None = None
        """Puts a text into a variable above the statement at hand, and returns the variable's name."""
        self.kept = False
        self._shared: set[n.Expr] = set()
        """Parts of the current expression that get variables, because the expression reads them often."""

    def __call__(self, e: n.Expr, at_least: int = 0) -> str:
        """The text of `e`, in parentheses if it binds less tightly than `at_least`."""
        text, level = self._whole(e)
        return text if level >= at_least else f"({text})"

    def _whole(self, e: n.Expr) -> Text:
        """Return the text of a whole expression, after declaring variables for parts that it reads often."""
        if self._shared or e in self._memo:
            return self._text(e)
        self._shared = set(read_often(e, self._sizes))
        text = self._text(e)
        self._shared = set()
        return text

    def write(self, e: n.Expr, at_least: int = 0) -> str:
        """The same as `__call__`, for recursion: method calls use no C stack, calls of objects do."""
        text, level = self._text(e)
        return text if level >= at_least else f"({text})"

    def _text(self, e: n.Expr) -> Text:
        found = self._memo.get(e)
        if found is None:
            if e.dtype.lanes != 1 and not isinstance(e, n.StringImm):
                raise InternalError(f"a vector instead of a scalar: {e}")
            write = _WRITE.get(type(e))
            if write is None:
                raise InternalError(f"code generation does not know {type(e).__name__}: {e}")
            found = self._memo[e] = self._bounded(e, write(self, e))
        return found

    def _bounded(self, e: n.Expr, text: Text) -> Text:
        """Return the text, or a variable if it is nested deeply: C compilers accept 256 nested brackets."""
        height = 1 + max([self._heights.get(child, 0) for child in e.children()], default=0)
        small = height < MOST_NESTED and len(text[0]) < MOST_CHARACTERS and text[0].count("?") <= MOST_CHOICES
        if self._path:  # few large parts, because each part repeats the conditions on its path
            small = height < MOST_UNDER and len(text[0]) < MOST_CHARACTERS
        if (small and e not in self._shared) or self.keep is None or self._branches:
            self._heights[e] = height
            return text
        return self._kept(e, text[0]), ATOM

    def _kept(self, e: n.Expr, text: str) -> str:
        """The variable that holds the value of an expression, computed only if the path to it is taken."""
        if self._path:
            text = f"{' && '.join(self._path)} ? {text} : {self.write(zero(e.dtype))}"
        return self._variable(e, text)

    def _variable(self, e: n.Expr, text: str) -> str:
        """Declare a variable of the type of `e`, above the statement at hand."""
        if self.keep is None:
            raise InternalError(f"there is no place for a variable that holds {text}")
        self.kept = True
        return self.keep(e, text)

    @contextmanager
    def _under(self, condition: str, e: n.Expr) -> Iterator[None]:
        """Write a conditionally evaluated expression with the type of `e`; its variables are unknown to the rest."""
        around = self._path
        self._path = (*around, condition)
        if len(self._path) >= MOST_NESTED:
            self._path = (self._variable(e, " && ".join(self._path)),)
        with self._memo.scope():
            yield
        self._path = around

    def _is_deep(self, *parts: n.Expr) -> bool:
        """Whether parts that are evaluated only under a condition are too much for one C expression."""
        if self.keep is None or self._branches:
            return False
        return any(self._levels(e) > MOST_UNDER or written_size(e, self._sizes) > MOST_WRITTEN for e in parts)

    def forget(self, renamed: bool = False) -> None:
        """Forget the texts of expressions, once the statement is written in which variables hold parts of them.

        The same holds once a variable was `renamed`.
        """
        if self.kept or renamed:
            self._memo.clear()
            self._heights.clear()
            self.kept = False

    @contextmanager
    def _branch(self) -> Iterator[None]:
        self._branches += 1
        yield
        self._branches -= 1

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
            left = self.write(e.a, level if type(e.a) is type(e) else EQUAL)
            if self._is_deep(e.b):
                return self._deep_junction(e, sign, level)
            with self._branch():
                right = self.write(e.b, level if type(e.b) is type(e) else EQUAL)
        else:
            regroups = type(e) is n.Add and type(e.b) is n.Add and e.dtype.is_int
            left, right = self.write(e.a, level + (level <= LESS)), self.write(e.b, level if regroups else level + 1)
        return self._narrowed(f"{left} {sign} {right}", level, e.dtype)

    def _deep_junction(self, e: n.And | n.Or, sign: str, level: int) -> Text:
        """Write `a && b` or `a || b` for a deep b."""
        left = self.write(e.a, EQUAL)
        matters = left if isinstance(e, n.And) else f"!({left})"
        return f"{left} {sign} {self._arm(e.b, matters, e.a, EQUAL)}", level

    def _deep_choice(self, e: n.IfThenElse) -> Text:
        """Write a choice with a deeply nested branch."""
        condition = self.write(e.condition, EQUAL)
        yes = self._arm(e.true_value, condition, e.condition, OR)
        no = self._arm(e.false_value, f"!({condition})", e.condition, TERNARY)
        return f"{condition} ? {yes} : {no}", TERNARY

    def _arm(self, e: n.Expr, condition: str, like: n.Expr, at_least: int) -> str:
        """The conditionally evaluated operands."""
        if not self._is_deep(e):
            with self._branch():
                return self.write(e, at_least)
        with self._under(condition, like):
            return self.write(e, at_least)

    def _narrowed(self, text: str, level: int, dtype: DType) -> Text:
        """Convert a result back to its own type, since C computes narrower types in `int` or `float`."""
        if is_half(dtype):
            return f"{self.helper(f'{dtype}_round')}({text})", ATOM
        if dtype.is_int and dtype.bits < 32:
            return f"({self.dialect.scalar_type(dtype)})({text})", UNARY
        return text, level

    def _quotient(self, e: n.Div | n.Mod) -> Text:
        if e.dtype.is_float:
            return self._infix(e) if isinstance(e, n.Div) else self._function("fmod", e.dtype, e)
        if self._divides(e.b):
            return self._infix(e)
        return self._division_helper("safediv" if isinstance(e, n.Div) else "safemod", e)

    def _divides(self, divisor: n.Expr) -> bool:
        """Whether the hardware defines the division by this value for all dividends."""
        return never_zero(divisor, self.positive)

    def _floor_division(self, e: n.FloorDiv | n.FloorMod) -> Text:
        """Shift and mask if the divisor is a power of two."""
        divisor = e.b.value if isinstance(e.b, n.IntImm) else 0
        quotient = isinstance(e, n.FloorDiv)
        if e.dtype.kind == "uint":
            return self._quotient((n.Div if quotient else n.Mod)(e.a, e.b))
        if divisor > 0 and divisor & (divisor - 1) == 0:
            shift, mask = n.IntImm(divisor.bit_length() - 1, DType("int32")), n.IntImm(divisor - 1, e.dtype)
            tail = f">> {self.write(shift)}" if quotient else f"& {self.write(mask, UNARY)}"
            return self._narrowed(f"({self.write(e.a, SUM)} {tail})", ATOM, e.dtype)
        name = "floordiv" if quotient else "floormod"
        return self._division_helper(name if self._divides(e.b) else f"safe{name}", e)

    def _division_helper(self, name: str, e: Any) -> Text:
        wide = e.dtype if e.dtype.bits >= 32 else DType("int32")
        return self._narrowed(f"{self.helper(f'{name}_{wide}')}({self.write(e.a)}, {self.write(e.b)})", ATOM, e.dtype)

    def helper(self, name: str) -> str:
        """The helper function of that name (operation, then type), which the source will define."""
        if name not in self.helpers:
            what, _, rest = name.partition("_")
            own = self.dialect.helpers.get(name)
            if own is not None:
                text = own
            elif rest == "round":
                bits, value = self.helper(f"{what}_bits"), self.helper(f"{what}_value")
                text = f"float {name}(float x) {{\n  return {value}({bits}(x));\n}}"
            elif rest == "odd":
                text = self.dialect.rounding_to_odd(name)
            elif rest.startswith("to_"):
                text = self._conversion(name, DType(what), DType(rest.removeprefix("to_")))
            else:
                text = self._arithmetic_helper(name, _HELPERS[what], DType(rest))
            complete = text.startswith("template")
            self.helpers[name] = text if complete else f"{self.dialect.helper_prefix} {text}"
        return name

    def _arithmetic_helper(self, name: str, body: str, dtype: DType) -> str:
        kind = self.dialect.scalar_type(dtype)
        minus = odd = ""
        if dtype.kind == "int":  # the least integer divided by -1 overflows, which traps on CPUs
            unsigned = self.dialect.scalar_type(DType(f"u{dtype}"))
            minus, odd = f"b == -1 ? ({kind})(0 - ({unsigned})a) : ", " || b == -1"
        return f"{kind} {name}({kind} a, {kind} b) {{\n{body.format(kind, minus, odd)}\n}}"

    def _conversion(self, name: str, source: DType, to: DType) -> str:
        """A float as an integer. Both ends of the range are exact in every float type; the largest value is not."""
        kind, result = self.dialect.scalar_type(source), self.dialect.scalar_type(to)
        low, high = (self.dialect.floating(float(end), source) for end in (to.min_value, to.max_value + 1))
        least, largest = (self.dialect.integer(end, to) for end in (to.min_value, to.max_value))
        low_end = "0" if to.kind == "uint" else f"x != x ? 0 : {least}"
        condition = "x > 0" if to.kind == "uint" else f"x >= {low}"
        body = f"  return {condition} ? (x < {high} ? ({result})x : {largest}) : ({low_end});"
        return f"{result} {name}({kind} x) {{\n{body}\n}}"

    def _extreme(self, e: n.Min | n.Max) -> Text:
        name = "min" if isinstance(e, n.Min) else "max"
        if e.dtype.is_int:
            return self._function(name, e.dtype, e)
        self.dtypes.add(e.dtype)
        kind = FLOAT32 if is_half(e.dtype) else e.dtype
        return f"{self.helper(f'{name}_{kind}')}({self.write(e.a)}, {self.write(e.b)})", ATOM

    def _function(self, name: str, dtype: DType, e: n.Expr) -> Text:
        self.dtypes.add(dtype)
        args = [self._argument(arg) for arg in e.children()]
        own = f"{name}_{FLOAT32 if is_half(dtype) else dtype}"
        if own in self.dialect.helpers:
            return self._narrowed(f"{self.helper(own)}({', '.join(args)})", ATOM, e.dtype)
        text = self.dialect.intrinsic(name, dtype, args)
        if text is None:
            raise InternalError(f"the {self.dialect.name} target has no function {name!r} for {dtype}")
        return self._narrowed(text, ATOM, e.dtype)

    def _argument(self, e: n.Expr) -> str:
        """The text of a function's argument; C makes an `int` of a choice among narrower integers."""
        choice = isinstance(e, (n.Select, n.IfThenElse)) and e.dtype.is_int and self.dialect.overloads
        return self._narrowed(self.write(e), TERNARY, e.dtype)[0] if choice else self.write(e)

    def _not(self, e: n.Not) -> Text:
        return f"!{self.write(e.a, UNARY)}", UNARY

    def _choice(self, e: n.Select | n.IfThenElse) -> Text:
        condition = self.write(e.condition, OR)
        if isinstance(e, n.IfThenElse) and self.keep is not None and not self._branches:
            both = made_by_both(e)
            self._shared.update(both)
            for choice in both:
                self._text(choice)
        if isinstance(e, n.IfThenElse) and self._is_deep(e.true_value, e.false_value):
            return self._deep_choice(e)
        with self._branch() if isinstance(e, n.IfThenElse) else nullcontext():
            yes, no = self.write(e.true_value, OR), self.write(e.false_value, TERNARY)
        return f"{condition} ? {yes} : {no}", TERNARY

    def _cast(self, e: n.Cast) -> Text:
        if e.dtype.is_bool:
            return f"{self.write(e.value, EQUAL + 1)} != {self(zero(e.value.dtype))}", EQUAL
        self.dtypes.update((e.dtype, e.value.dtype))
        if e.value.dtype.is_float and e.dtype.is_int:
            source = FLOAT32 if is_half(e.value.dtype) else e.value.dtype
            return f"{self.helper(f'{source}_to_{e.dtype}')}({self.write(e.value)})", ATOM
        if is_half(e.dtype):
            text = self.write(e.value)
            twice = e.dtype.scalar == "float16" and e.value.dtype.scalar == "float64"
            return self._narrowed(f"{self.helper('float64_odd')}({text})" if twice else text, TERNARY, e.dtype)
        return f"({self.dialect.scalar_type(e.dtype)}){self.write(e.value, UNARY)}", UNARY

    def _reinterpret(self, e: n.Call) -> Text:
        """Return the bits of a number as a value of another type, by way of an integer with the same number of bits."""
        source, to, text = e.args[0].dtype, e.dtype, self.write(e.args[0], UNARY)
        self.dtypes.update((source, to))
        if is_half(source):
            text = f"{self.helper(f'{source}_bits')}({text})"
        elif source.is_float:
            text = self.dialect.bits(source, text)
        if is_half(to):
            return f"{self.helper(f'{to}_value')}({text})", ATOM
        if to.is_float:
            return self.dialect.bits(DType(f"int{to.bits}"), text), ATOM
        return f"({self.dialect.scalar_type(to)}){text}", UNARY

    def _load(self, e: n.Load) -> Text:
        self.dtypes.add(e.dtype)
        if e.dtype.is_bool:
            return f"{self.element(e)} != 0", EQUAL
        return self.loaded(self.element(e), e.dtype), ATOM

    def loaded(self, text: str, dtype: DType) -> str:
        """Return the value of an element from its representation in memory."""
        return f"{self.helper(f'{dtype.scalar}_value')}({text})" if is_half(dtype) else text

    def stored(self, value: n.Expr, dtype: DType) -> str:
        """Return the value as it is stored in memory: the bits of a 16-bit float that is only copied."""
        if not is_half(dtype):
            return self(value)
        if isinstance(value, n.Load) and value.dtype == dtype:
            return self.element(value)
        return f"{self.helper(f'{dtype.scalar}_bits')}({self.unrounded(value, dtype)})"

    def unrounded(self, value: n.Expr, dtype: DType) -> str:
        """The unrounded value of a 16-bit float, for a use that rounds the value again."""
        text, level = self._whole(value)
        rounded = f"{dtype.scalar}_round("
        return text[len(rounded) : -1] if level == ATOM and text.startswith(rounded) else text

    def _address(self, e: AddressOf) -> Text:
        assert isinstance(e.place, n.Load)
        return self.address(e.place), SUM

    def _string(self, e: n.StringImm) -> Text:
        return json.dumps(e.value), ATOM

    def _call(self, e: n.Call) -> Text:
        if e.name == "likely":
            return self._text(e.args[0])
        if e.name in _BITWISE:
            left, right = self.write(e.args[0], UNARY), self.write(e.args[1], UNARY)
            return self._narrowed(f"({left} {_BITWISE[e.name]} {right})", ATOM, e.dtype)
        if e.name == "bitwise_not":
            return self._narrowed(f"~{self.write(e.args[0], UNARY)}", UNARY, e.dtype)
        if e.name == REINTERPRET:
            return self._reinterpret(e)
        if e.name in OUTSIDE or is_packed(e):
            return write_call(self, e), ATOM
        return self._function(e.name, e.args[0].dtype if e.args else e.dtype, e)


def zero(dtype: DType) -> n.Expr:
    """The zero of a type."""
    return n.FloatImm(0.0, dtype) if dtype.is_float else n.IntImm(0, dtype)


_WRITE: dict[type, Callable[[ExprWriter, Any], Text]] = {
    **dict.fromkeys(_INFIX, ExprWriter._infix),
    n.Div: ExprWriter._quotient,
    n.Mod: ExprWriter._quotient,
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
    n.StringImm: ExprWriter._string,
    AddressOf: ExprWriter._address,
}
