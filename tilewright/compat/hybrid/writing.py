"""te.hybrid.build: write the loops of a schedule as a script of the hybrid language."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Sequence
from itertools import chain, count
from math import isinf, isnan
from typing import Any

from ...core.dtype import DType
from ...core.errors import UserError
from ...core.paths import file_path
from ...core.text import identifier
from ...driver import lower
from ...expr import nodes as n
from ...expr.operators import logical_not
from ...loops.checked_index import REPORT, Assertion
from ...loops.nodes import Allocate, Buffer, Evaluate, For, Function, If, Let, LoopKind, Seq, Stmt, Store
from ...schedule.handle import ScheduleHandle
from ...tensor.tensor import Tensor
from .script import Script
from .words import WORDS

_LOOPS = {LoopKind.PARALLEL: "parallel", LoopKind.VECTORIZED: "vectorize", LoopKind.UNROLLED: "unroll"}
_SIGNS: dict[type, str] = {
    n.Add: "+", n.Sub: "-", n.Mul: "*", n.FloorDiv: "//", n.FloorMod: "%", n.EQ: "==", n.NE: "!=", n.LT: "<",
    n.LE: "<=", n.GT: ">", n.GE: ">=", n.And: "and", n.Or: "or",
}  # fmt: skip
_numbers = count()


class HybridModule:
    """A schedule's loops in the hybrid language.

    Called with NumPy arrays it runs as Python and returns arrays; called with tensors it declares an operation.
    """

    def __init__(self, source: str = "", name: str = "hybrid_func") -> None:
        self.name = name
        self.source = source
        self._script: Script | None = None

    def __call__(self, *args: Any) -> Any:
        if self._script is None:
            self._script = self._made()
        return self._script(*args)

    def get_source(self) -> str:
        """The text of the function."""
        return self.source

    def save(self, path: str) -> None:
        """Write the text to a file; ".py" is added if the name has no ending."""
        place = file_path(path, "hybrid.HybridModule", "matmul.py")
        place = place if place.suffix else place.with_name(f"{place.name}.py")
        try:
            place.write_text(self.source, encoding="utf-8")
        except OSError as error:
            raise UserError(
                f"{place} cannot be written: {error.strerror}",
                primitive="hybrid.HybridModule",
                fix="give another path",
            ) from None

    def load(self, path: str) -> None:
        """Read the text from a file that `save` has written."""
        place = file_path(path, "hybrid.HybridModule", "matmul.py")
        try:
            text = place.read_text(encoding="utf-8")
        except OSError as error:
            raise UserError(
                f"{place} cannot be read: {error.strerror}",
                primitive="hybrid.HybridModule",
                fix="give a file that is there",
            ) from None
        except UnicodeDecodeError:
            text = ""
        head = next((line for line in text.splitlines() if line.startswith("def ")), "")
        if "(" not in head:
            raise UserError(f"{path!r} holds no function", primitive="hybrid.HybridModule", fix="give a file of save")
        self.source, self.name, self._script = text, head[4 : head.index("(")], None

    def _made(self) -> Script:
        where, space = f"<{self.name} {next(_numbers)}>", dict[str, Any]()
        linecache.cache[where] = (len(self.source), None, self.source.splitlines(keepends=True), where)
        exec(compile(self.source, where, "exec"), space)  # text that this module has written
        return Script(space[self.name])


def build(
    sch: ScheduleHandle, inputs: Sequence[Tensor | n.Var], outputs: Sequence[Tensor], name: str = "hybrid_func"
) -> HybridModule:
    """Write the loops of a schedule in the hybrid language.

    Parameters
    ----------
    sch
        The schedule.
    inputs
        The tensors and sizes that the function takes, in this order.
    outputs
        The tensors that it returns.
    name
        The name of the function.

    Returns
    -------
    HybridModule
        Its text, which can be called.

    Raises
    ------
    UserError
        For loops that the language cannot express, such as loops of threads that combine results.
    """
    for given, what in ((inputs, "inputs"), (outputs, "outputs")):
        if not isinstance(given, (list, tuple)):
            raise UserError(
                f"{what}={given!r} is not a list of tensors",
                primitive="hybrid.build",
                fix=f"give a list: {what}=[A]",
            )
    lowered: Any = lower(sch, [*inputs, *outputs], name)
    (part,) = lowered.parts
    function = part.recipe.nest(part.recipe.bounds)
    return HybridModule(_Writer(function, len(inputs)).text(identifier(name)), identifier(name))


class _Writer:
    """Writes one loop nest."""

    def __init__(self, function: Function, inputs: int) -> None:
        self.function = function
        self.inputs = inputs
        self.names: dict[Any, str] = {}
        self.taken: set[str] = set(WORDS)
        self.lines: list[str] = []

    def text(self, name: str) -> str:
        """The whole function."""
        buffers = list(self.function.buffers)
        given: list[Any] = list(self.function.params[: self.inputs])
        made = [buffer for buffer in buffers if buffer not in given]
        self.lines.append(f"def {name}({', '.join(self._name(b) for b in given)}):")
        for buffer in made:
            self._line(1, f"{self._name(buffer)} = output_tensor({self._shape(buffer)}, {str(buffer.dtype)!r})")
        self._stmt(self.function.body, 1)
        self._line(1, f"return {', '.join(self._name(b) for b in made)}")
        return "\n".join(self.lines) + "\n"

    def _line(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def _name(self, thing: Any) -> str:
        if thing not in self.names:
            base = identifier(thing.name)
            numbered = (f"{base}_{i}" for i in count(1))
            fresh = next(name for name in chain((base,), numbered) if name not in self.taken)
            self.taken.add(fresh)
            self.names[thing] = fresh
        return self.names[thing]

    def _shape(self, buffer: Buffer) -> str:
        return f"({''.join(f'{self._expr(extent)}, ' for extent in buffer.shape).rstrip()})"

    def _stmt(self, s: Stmt, depth: int) -> None:
        if isinstance(s, Seq):
            for part in s.stmts:
                self._stmt(part, depth)
        elif isinstance(s, For):
            self._for(s, depth)
        elif isinstance(s, If) and (message := self._asserts(s)) is not None:
            self._line(depth, f"assert {self._expr(logical_not(s.condition))}, {message!r}")
        elif isinstance(s, If):
            self._line(depth, f"if {self._expr(s.condition)}:")
            self._stmt(s.then, depth + 1)
            if s.orelse is not None:
                self._line(depth, "else:")
                self._stmt(s.orelse, depth + 1)
        elif isinstance(s, Allocate):
            scope = f", {s.buffer.scope.value!r}" if s.buffer.scope.value != "global" else ""
            what = f"allocate({self._shape(s.buffer)}, {str(s.buffer.dtype)!r}{scope})"
            self._line(depth, f"{self._name(s.buffer)} = {what}")
            self._stmt(s.body, depth)
        elif isinstance(s, Let):
            self._line(depth, f"{self._name(s.var)} = {self._expr(s.value)}")
            self._stmt(s.body, depth)
        elif type(s) is Store:
            self._line(depth, f"{self._element(s.buffer, s.indices)} = {self._expr(s.value)}")
        else:
            raise _no_word(s)

    def _asserts(self, s: If) -> str | None:
        """The message of the assertion that a branch reports; None for every other branch."""
        call = s.then.value if isinstance(s.then, Evaluate) and s.orelse is None else None
        if not isinstance(call, n.Call) or call.name != REPORT or self.function.checks is None:
            return None
        slot = call.args[0]
        said = self.function.checks.indices[slot.value] if isinstance(slot, n.IntImm) else None
        return said.message if isinstance(said, Assertion) else None

    def _for(self, s: For, depth: int) -> None:
        if s.thread is not None:
            self._line(depth, f"for {self._name(s.var)} in bind({s.thread.value!r}, {self._expr(s.extent)}):")
        else:
            begin = "" if isinstance(s.min, n.IntImm) and s.min.value == 0 else f"{self._expr(s.min)}, "
            end = self._expr(s.min + s.extent if begin else s.extent)
            self._line(depth, f"for {self._name(s.var)} in {_LOOPS.get(s.kind, 'range')}({begin}{end}):")
        self._stmt(s.body, depth + 1)

    def _element(self, buffer: Any, indices: tuple[n.Expr, ...]) -> str:
        return f"{self._name(buffer)}[{', '.join(map(self._expr, indices)) or '()'}]"

    def _expr(self, e: n.Expr) -> str:
        write = _EXPRESSIONS.get(type(e))
        if write is not None:
            return write(self, e)
        if type(e) in _SIGNS:
            return f"({self._expr(e.a)} {_SIGNS[type(e)]} {self._expr(e.b)})"  # type: ignore[attr-defined]
        raise _no_word(e)

    def _constant(self, e: Any) -> str:
        if e.dtype in (DType("int32"), DType("bool")):
            return repr(bool(e.value) if e.dtype.is_bool else e.value)
        if isinf(e.value):  # Python and the language write infinity as too large a number
            return f"{e.dtype}({'-' if e.value < 0 else ''}1e999)"
        return f"{e.dtype}({'1e999 - 1e999' if isnan(e.value) else repr(e.value)})"

    def _divided(self, e: n.Div) -> str:
        if not e.dtype.is_float:
            raise _no_word(e)
        return f"({self._expr(e.a)} / {self._expr(e.b)})"

    def _call(self, e: n.Call) -> str:
        if e.name not in WORDS:
            raise _no_word(e)
        return f"{e.name}({', '.join(map(self._expr, e.args))})"


def _no_word(thing: Any) -> UserError:
    return UserError(
        f"the hybrid language has no word for {type(thing).__name__} (`{str(thing)[:80]}`)",
        primitive="hybrid.build",
        fix="print the program instead: tw.lower(s, args)",
    )


_EXPRESSIONS: dict[type, Callable[[_Writer, Any], str]] = {
    n.Var: lambda w, e: w._name(e),
    n.SizeVar: lambda w, e: w._name(e),
    n.IntImm: _Writer._constant,
    n.FloatImm: _Writer._constant,
    n.Load: lambda w, e: w._element(e.source, e.indices),
    n.Min: lambda w, e: f"min({w._expr(e.a)}, {w._expr(e.b)})",
    n.Max: lambda w, e: f"max({w._expr(e.a)}, {w._expr(e.b)})",
    n.Not: lambda w, e: f"(not {w._expr(e.a)})",
    n.Select: lambda w, e: f"({w._expr(e.true_value)} if {w._expr(e.condition)} else {w._expr(e.false_value)})",
    n.IfThenElse: lambda w, e: f"({w._expr(e.true_value)} if {w._expr(e.condition)} else {w._expr(e.false_value)})",
    n.Cast: lambda w, e: f"{e.dtype}({w._expr(e.value)})",
    n.Div: _Writer._divided,
    n.Call: _Writer._call,
}
