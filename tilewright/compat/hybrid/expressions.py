"""Parse the expressions of a script into expressions of the grammar.

A value is an expression of the grammar, an array (`BufferVar`), or a Python object known at parse time. Such an object
is a number, a tuple or a function.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np

from ...core.dtype import DType
from ...core.errors import UserError
from ...core.own_code import calling
from ...core.text import quantity
from ...expr.nodes import Expr, IntImm, Load
from ...expr.operators import all_of, any_of, as_expr, condition, if_then_else, logical_not
from ...loops.ir_builder import BufferVar
from ...loops.nodes import Buffer
from .refusals import refused
from .source import LineError, Source
from .words import CHOICES, LOOPS, MATH, WORDS, max_num_threads

_BINARY: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_UNARY: dict[type[ast.AST], Callable[[Any], Any]] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Invert: operator.invert,
}


class Local:
    """A variable that is stored more than once: an array of one element. `line` is the line of its declaration."""

    __slots__ = ("buffer", "line")

    def __init__(self, buffer: Buffer, line: int) -> None:
        self.buffer = buffer
        self.line = line

    def read(self) -> Expr:
        """The value."""
        return Load(self.buffer, (as_expr(0),))


class Expressions:
    """Parses the expressions of one script. `names` has the values of the names assigned so far."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.names: dict[str, Any] = {}

    def error(self, node: ast.AST, message: str, fix: str) -> UserError:
        """An error about a part of the text."""
        return self.source.error(node, message, fix)

    def value(self, node: ast.expr) -> Any:
        """The value of an expression of the text."""
        read = _READ.get(type(node))
        if read is None:
            what, fix = refused(node)
            raise self.error(node, f"{what} is not in the hybrid language", fix)
        try:
            found = read(self, node)
        except LineError:
            raise
        except UserError as error:
            raise self.error(node, error.message, error.fix) from None
        except (TypeError, ValueError, ZeroDivisionError, OverflowError) as error:
            raise self.error(node, f"`{ast.unparse(node)}`: {error}", "give values that it is defined for") from None
        return found.value if isinstance(found, IntImm) and found.dtype == "int32" else found

    def number(self, node: ast.expr) -> Any:
        """The value of an expression that must be a number."""
        return self._number(node, self.value(node))

    def _number(self, node: ast.expr, found: Any) -> Any:
        if not isinstance(found, (Expr, bool, int, float)):
            raise self.error(
                node, f"`{ast.unparse(node)}` is {_kind(found)}, not a number", "give an element of it: a[i]"
            )
        return found

    def integer(self, node: ast.expr, what: str) -> Any:
        """The value of an expression that must be an integer: an int or an expression."""
        found = self.value(node)
        e = as_expr(found) if isinstance(found, (int, Expr)) and not isinstance(found, bool) else None
        if e is None or not e.dtype.is_int:
            shown = e.dtype if e is not None else _kind(found)
            raise self.error(node, f"{what} `{ast.unparse(node)}` is {shown}, not an integer", "give an integer")
        return found

    def _name(self, node: ast.Name) -> Any:
        if node.id in self.names:
            found = self.names[node.id]
            return found.read() if isinstance(found, Local) else found
        if node.id in self.source.function.__code__.co_varnames:
            raise self.error(
                node,
                f"{node.id!r} has no value here on some paths through the script",
                f"assign {node.id} before the loop or the if",
            )
        known, found = self.source.outside(node.id)
        if not known:
            raise self.error(
                node,
                f"{node.id!r} is not defined",
                f"take it from the arguments, or from outside of {self.source.name}",
            )
        return found.item() if isinstance(found, np.generic) else found

    def _constant(self, node: ast.Constant) -> Any:
        if node.value is not None and not isinstance(node.value, (bool, int, float, str)):
            raise self.error(node, f"`{ast.unparse(node)}` is not a number", "give a number")
        return node.value

    def _tuple(self, node: ast.Tuple | ast.List) -> tuple[Any, ...]:
        return tuple(self.value(part) for part in node.elts)

    def _binary(self, node: ast.BinOp) -> Any:
        a, b = self.value(node.left), self.value(node.right)
        if isinstance(node.op, ast.Add) and isinstance(a, tuple) and isinstance(b, tuple):
            return a + b
        return self.combine(node, node.op, self._number(node.left, a), self._number(node.right, b))

    def combine(self, node: ast.AST, op: ast.operator, a: Any, b: Any) -> Any:
        """`a op b` of two numbers."""
        if isinstance(op, ast.Pow):
            return a**b if not isinstance(a, Expr) and not isinstance(b, Expr) else MATH["power"](a, b)
        apply = _BINARY.get(type(op))
        if apply is None:
            raise self.error(node, f"`{ast.unparse(node)}` is not in the hybrid language", "use +, -, *, /, // and %")
        whole = [v for v in (a, b) if isinstance(v, int) or (isinstance(v, Expr) and not v.dtype.is_float)]
        if isinstance(op, ast.Div) and len(whole) == 2:
            raise self.error(
                node,
                f"`{ast.unparse(node)}` divides two integers, which is a float in Python",
                "write // for the integer quotient, or convert one: float32(x)",
            )
        return apply(a, b)

    def _unary(self, node: ast.UnaryOp) -> Any:
        found = self.number(node.operand)
        if isinstance(node.op, ast.Not):
            return logical_not(found) if isinstance(found, Expr) else not found
        return found if isinstance(node.op, ast.UAdd) else _UNARY[type(node.op)](found)

    def _boolean(self, node: ast.BoolOp) -> Any:
        conjunction = isinstance(node.op, ast.And)
        parts: list[Any] = []
        for part in node.values:
            found = self.truth(part)
            if isinstance(found, bool):
                if found is not conjunction:  # later operands are not evaluated, like in Python
                    parts = [*parts, found] if parts else [found]
                    break
                continue
            parts.append(found)
        if not any(isinstance(part, Expr) for part in parts):
            return parts[0] if parts else conjunction
        return (all_of if conjunction else any_of)(*parts)

    def _compare(self, node: ast.Compare) -> Any:
        left, a, parts = node.left, self.value(node.left), []
        for op, right in zip(node.ops, node.comparators, strict=True):
            b = self.value(right)
            plain = not any(isinstance(v, (Expr, BufferVar)) for v in (a, b))
            if isinstance(op, (ast.In, ast.NotIn)) and plain:
                parts.append((a in b) is isinstance(op, ast.In))
            elif isinstance(op, (ast.Is, ast.IsNot)) and plain:
                parts.append((a is b) is isinstance(op, ast.Is))
            elif type(op) in _BINARY:
                if not plain:
                    a, b = self._number(left, a), self._number(right, b)
                parts.append(_BINARY[type(op)](a, b))
            else:
                raise self.error(node, f"`{ast.unparse(node)}` is not in the hybrid language", "compare numbers")
            left, a = right, b
        made = [part for part in parts if isinstance(part, Expr)]
        if not all(parts[i] for i in range(len(parts)) if not isinstance(parts[i], Expr)):
            return False
        return all_of(*made) if made else True

    def truth(self, node: ast.expr) -> Any:
        """A condition: a bool if it is known when the script is parsed, else an expression."""
        found = self.value(node)
        if isinstance(found, IntImm):
            return bool(found.value)
        if isinstance(found, Expr):
            test = condition(found, "if") if found.dtype.is_bool else found != 0
            return bool(test.value) if isinstance(test, IntImm) else test
        if isinstance(found, BufferVar):
            raise self.error(node, f"the array `{ast.unparse(node)}` is not a condition", "compare an element of it")
        return bool(found)

    def _choice(self, node: ast.IfExp) -> Any:
        test = self.truth(node.test)
        if isinstance(test, bool):
            return self.value(node.body if test else node.orelse)
        return if_then_else(test, self.number(node.body), self.number(node.orelse))

    def _attribute(self, node: ast.Attribute) -> Any:
        holder = self.value(node.value)
        if isinstance(holder, BufferVar):
            shape = tuple(e.value if isinstance(e, IntImm) else e for e in holder.buffer.shape)
            known = {"shape": shape, "ndim": len(shape), "dtype": str(holder.dtype)}
            if node.attr not in known:
                raise self.error(node, f"an array has no {node.attr!r} in a script", f"it has {', '.join(known)}")
            return known[node.attr]
        if isinstance(holder, Expr):
            if node.attr == "dtype":
                return str(holder.dtype)
            raise self.error(node, f"a number has no {node.attr!r} in a script", "write float32(x) to convert x")
        try:
            return getattr(holder, node.attr)
        except AttributeError as error:
            raise self.error(node, str(error), "use an attribute that is there") from None

    def _subscript(self, node: ast.Subscript) -> Any:
        array, indices = self.element(node)
        if isinstance(array, BufferVar):
            return Load(array.buffer, indices)
        for index in indices:
            array = self._part(node, array, index)
        return array

    def _part(self, node: ast.Subscript, array: Any, index: Any) -> Any:
        if not isinstance(array, (tuple, list)):
            raise self.error(node, f"`{ast.unparse(node)}`: {_kind(array)} has no parts", "give fewer indices")
        if not isinstance(index, int):
            raise self.error(
                node,
                f"`{ast.unparse(node)}` takes a part of {_kind(array)} by an index that is not known when the "
                "script is parsed",
                "loop with `for i in const_range(n)`",
            )
        if not -len(array) <= index < len(array):
            raise self.error(node, f"`{ast.unparse(node)}`: there are {len(array)} parts", "give a smaller index")
        return array[index]

    def element(self, node: ast.Subscript) -> tuple[Any, tuple[Any, ...]]:
        """The base of a subscript, and its indices: the indices of `a[i][j]` are (i, j)."""
        given = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        base: ast.expr = node.value
        array = None
        while isinstance(base, ast.Subscript):
            inner = self.value(base.value)
            if not isinstance(inner, BufferVar) and not isinstance(base.value, ast.Subscript):
                array = self.value(base)
                break
            given = [*(base.slice.elts if isinstance(base.slice, ast.Tuple) else [base.slice]), *given]
            base = base.value
        array = self.value(base) if array is None else array
        if not isinstance(array, (BufferVar, tuple, list)):
            raise self.error(node, f"`{ast.unparse(base)}` is {_kind(array)}, which has no parts", "index an array")
        sliced = next((part for part in given if isinstance(part, ast.Slice)), None)
        if sliced is not None:
            raise self.error(node, "a slice is not in the hybrid language", "write a loop over the elements")
        indices = tuple(self.integer(part, "the index") for part in given)
        if not isinstance(array, BufferVar):
            return array, indices
        shape = array.buffer.shape
        if len(indices) != len(shape):
            raise self.error(
                node,
                f"{array.buffer.name!r} has {quantity(len(shape), 'dimension')}, but "
                f"`{ast.unparse(node)}` gives {quantity(len(indices), 'index', 'indices')}",
                "give one index per dimension",
            )
        for index, extent in zip(indices, shape, strict=True):
            low = isinstance(index, int) and index < 0
            if low or (isinstance(index, int) and isinstance(extent, IntImm) and index >= extent.value):
                raise self.error(
                    node,
                    f"the index {index} of `{ast.unparse(node)}` is outside of 0 to {extent - 1}",
                    "count from the start: a[n - 1] is the last element" if low else "give an index inside",
                )
        return array, tuple(as_expr(index) for index in indices)

    def _call(self, node: ast.Call) -> Any:
        if node.keywords and not (isinstance(node.func, ast.Name) and node.func.id in WORDS):
            raise self.error(node, "keyword arguments are for the words of the language", "give the values in order")
        if isinstance(node.func, ast.Name) and node.func.id not in self.names and not self._own(node.func.id):
            word = node.func.id
            if word in LOOPS:
                raise self.error(node, f"{word}(...) is used outside of a for", f"for i in {word}(...):")
            if word in ("allocate", "output_tensor"):
                raise self.error(node, f"{word}(...) is not assigned to a name", f"b = {word}((n, m), 'float32')")
            if word == "len":
                return self._length(node)
            if word == "max_num_threads":
                return max_num_threads(*[self.value(arg) for arg in node.args])
            if word in CHOICES:
                return self._extreme(node, word)
            if word in MATH:
                return self._math(node, word)
        return self.call(node, self.value(node.func), [self.value(arg) for arg in node.args])

    def _own(self, name: str) -> bool:
        """Whether a script calls a user's function that has the name of a word of the language."""
        known, found = self.source.outside(name)
        return known and hasattr(found, "inlined")

    def _math(self, node: ast.Call, word: str) -> Any:
        given = [self.number(arg) for arg in node.args]
        try:
            return MATH[word](*given)
        except TypeError:
            raise self.error(
                node, f"{word} does not take {quantity(len(given), 'argument')}", f"call {word}(x)"
            ) from None

    def _extreme(self, node: ast.Call, word: str) -> Any:
        given = [self.number(arg) for arg in node.args]
        if len(given) < 2:
            raise self.error(node, f"{word} of {quantity(len(given), 'value')}", f"give two or more: {word}(a, b)")
        if not any(isinstance(v, Expr) for v in given):
            return (min if word == "min" else max)(given)
        made = given[0]
        for other in given[1:]:
            made = CHOICES[word](made, other)
        return made

    def _length(self, node: ast.Call) -> Any:
        found = self.value(node.args[0]) if len(node.args) == 1 else None
        if isinstance(found, BufferVar) and found.buffer.shape:
            extent = found.buffer.shape[0]
            return extent.value if isinstance(extent, IntImm) else extent
        if isinstance(found, (tuple, list, str)):
            return len(found)
        raise self.error(node, f"`{ast.unparse(node)}` of an object without a length", "give an array or a tuple")

    def call(self, node: ast.Call, function: Any, args: list[Any]) -> Any:
        """The value of a call of a function from outside of the script."""
        name = ast.unparse(node.func)
        home = str(getattr(function, "__module__", "") or "").partition(".")[0]
        last = name.rpartition(".")[2]
        if last in WORDS and last != name:
            raise self.error(node, f"{name} is not a word of the language", f"write {last}(...)")
        inlined = getattr(function, "inlined", None)
        if inlined is not None:
            return inlined(self, node, args)
        if not isinstance(function, FunctionType) or home in ("tilewright", "numpy"):
            raise self.error(
                node,
                f"{name} is not in the hybrid language",
                "call its words (exp, sqrt, min, float32 ...), another script, or a Python function of your own",
            )
        with calling(f"{name}, in the script {self.source.name!r}"):
            return function(*args)


def type_of(given: Any) -> DType:
    """The data type of a number."""
    return DType("bool") if isinstance(given, bool) else as_expr(given).dtype


def _kind(value: Any) -> str:
    if isinstance(value, BufferVar):
        return f"the array {value.buffer.name!r}"
    if isinstance(value, Expr):
        return f"a number of type {value.dtype}"
    return f"{type(value).__name__} {value!r}"


_READ: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Name: Expressions._name,
    ast.Constant: Expressions._constant,
    ast.Tuple: Expressions._tuple,
    ast.List: Expressions._tuple,
    ast.BinOp: Expressions._binary,
    ast.UnaryOp: Expressions._unary,
    ast.BoolOp: Expressions._boolean,
    ast.Compare: Expressions._compare,
    ast.IfExp: Expressions._choice,
    ast.Attribute: Expressions._attribute,
    ast.Subscript: Expressions._subscript,
    ast.Call: Expressions._call,
}
