"""The host part of a function as Python: checks its arguments, binds sizes, and launches its kernels.

For `A: float32[n, 64]`, `B: float32[n]` the text reads

    def main(A, B):
        if A.kind is not A_kind: wrong(A, 0)
        if B.kind is not B_kind: wrong(B, 1)
        n, A_extent_1 = A.shape
        ...
        main_kernel((n + 63) // 64, 1, 1, 64, 1, 1, A.handle, B.handle, n)

The runtime supplies what is free in it: `A_layout` / `A_kind` (what a right argument's field is), `wrong` and
`wrong_extent` (which raise), `allocate`, `truncdiv`, `truncmod`, and one callable a kernel.
"""

from __future__ import annotations

import keyword
from typing import Any

from ..core.dtype import DType
from ..core.errors import InternalError, UserError
from ..core.hardware import MemoryScope
from ..expr import nodes as n
from ..expr.traverse import variables
from ..loops.nodes import (
    Allocate,
    Buffer,
    Evaluate,
    For,
    Function,
    If,
    Launch,
    Let,
    LoopKind,
    Seq,
    Stmt,
    Store,
)
from .abi import ArrayArgument, EntryPoint, ScalarArgument
from .kernel import Kernel, constant, root
from .names import Names

_INFIX: dict[type, str] = {
    n.Add: "+", n.Sub: "-", n.Mul: "*", n.FloorDiv: "//", n.FloorMod: "%", n.EQ: "==", n.NE: "!=", n.LT: "<",
    n.LE: "<=", n.GT: ">", n.GE: ">=", n.And: "and", n.Or: "or",
}  # fmt: skip
_CALLS: dict[type, str] = {n.Min: "min", n.Max: "max", n.Mod: "truncmod"}
HOST_WORDS = frozenset(
    {
        *keyword.kwlist,
        *"wrong wrong_extent scalar misaligned allocate truncdiv truncmod".split(),
        *"min max int float bool range type main".split(),
    }
)
"""What host code uses, and so neither its variables nor kernels can be called."""


def write_entry(function: Function, kernels: tuple[Kernel, ...], aligned: frozenset[Buffer]) -> EntryPoint:
    """The entry point of a function: its arguments and host code. `aligned`: buffers read as vectors."""
    return _HostWriter(function, kernels, aligned).write()


class _HostWriter:
    def __init__(self, function: Function, kernels: tuple[Kernel, ...], aligned: frozenset[Buffer]) -> None:
        self.function = function
        self.kernels = {kernel.launch: kernel for kernel in kernels}
        self.aligned = aligned
        self.names = Names(HOST_WORDS | {kernel.name for kernel in kernels})
        self.name = "main" if function.name == "main" else self.names.fresh(function.name)
        self.handles: dict[Buffer, str] = {}
        self.known: set[n.Var] = set()
        self.lines: list[str] = []
        self.indent = 1

    def write(self) -> EntryPoint:
        params = ", ".join(self.names(p) for p in self.function.params)
        arguments = tuple(self._argument(p) for p in self.function.params)
        self.lines = [f"def {self.name}({params}):"]
        self._check_arguments()
        before = len(self.lines)
        self._stmt(self.function.body)
        if len(self.lines) == before:
            self._line("pass")
        return EntryPoint(self.function.name, arguments, "\n".join(self.lines) + "\n", self.name)

    def _argument(self, p: Buffer | n.Var) -> ArrayArgument | ScalarArgument:
        if isinstance(p, n.Var):
            return ScalarArgument(self.names(p), str(p.dtype))
        shape = tuple(e.value if isinstance(e, n.IntImm) else str(e) for e in p.shape)
        return ArrayArgument(self.names(p), str(p.dtype), shape, 16 if p in self.aligned else 1)

    # Arguments

    def _check_arguments(self) -> None:
        symbolic: list[tuple[int, Buffer]] = []
        for position, p in enumerate(self.function.params):
            name = self.names(p)
            if isinstance(p, n.Var):
                self.known.add(p)
                self._line(f"if {_not_of_type(name, p.dtype)}: {name} = scalar({name}, {position})")
                continue
            self.handles[p] = f"{name}.handle"
            static = all(constant(extent) is not None for extent in p.shape)
            field = "layout" if static else "kind"
            self._line(f"if {name}.{field} is not {name}_{field}: wrong({name}, {position})")
            if p in self.aligned:
                self._line(f"if {name}.handle & 15: misaligned({name}, {position})")
            if not static:
                symbolic.append((position, p))
        self._bind_sizes(symbolic)

    def _bind_sizes(self, symbolic: list[tuple[int, Buffer]]) -> None:
        """A size takes its value from the first extent that is just that size; other extents are checked."""
        checks: list[tuple[int, Buffer, int]] = []
        for position, p in symbolic:
            for axis, extent in enumerate(p.shape):
                if isinstance(extent, n.Var) and extent not in self.known:
                    self.known.add(extent)
                    self._line(f"{self.names(extent)} = {self.names(p)}.shape[{axis}]")
                else:
                    checks.append((position, p, axis))
        for position, p, axis in checks:
            unknown = [v.name for v in variables(p.shape[axis]) if v not in self.known]
            if unknown:
                raise UserError(
                    f"the size {unknown[0]} in extent {axis} of argument {p.name} (`{p.shape[axis]}`) cannot "
                    f"be found from the arguments of {self.function.name}",
                    fix=f"pass a tensor that has {unknown[0]} itself as an extent, or pass the variable too",
                )
            name, want = self.names(p), self._expr(p.shape[axis])
            self._line(f"if {name}.shape[{axis}] != {want}: wrong_extent({name}, {position}, {axis}, {want})")

    # Statements

    def _line(self, text: str) -> None:
        self.lines.append("    " * self.indent + text)

    def _block(self, head: str, body: Stmt) -> None:
        self._line(head)
        self.indent += 1
        before = len(self.lines)
        self._stmt(body)
        if len(self.lines) == before:
            self._line("pass")
        self.indent -= 1

    def _stmt(self, s: Stmt) -> None:
        if isinstance(s, Seq):
            for stmt in s.stmts:
                self._stmt(stmt)
        elif isinstance(s, Launch):
            self._launch(s)
        elif isinstance(s, Allocate):
            self._allocate(s)
        elif isinstance(s, For) and s.kind is not LoopKind.THREAD:
            self._for(s)
        elif isinstance(s, If):
            self._block(f"if {self._expr(s.condition)}:", s.then)
            if s.orelse is not None:
                self._block("else:", s.orelse)
        elif isinstance(s, Let):
            self._line(f"{self.names(s.var)} = {self._expr(s.value)}")
            self._stmt(s.body)
        elif isinstance(s, Store):
            raise self._unbound(s.buffer)
        elif not isinstance(s, Evaluate):
            raise InternalError(f"host code cannot hold the statement {type(s).__name__} of {self.function.name}")

    def _unbound(self, buffer: Buffer) -> UserError:
        stage = buffer.note or root(buffer).name
        return UserError(
            f"stage {stage!r} is computed outside of any kernel: none of its loops is bound to a thread axis",
            primitive="build",
            fix=f's[{stage}].bind(axis, te.thread_axis("blockIdx.x")) with one of its loops, or compute it at or '
            "inline it into a stage that has one",
        )

    def _for(self, s: For) -> None:
        first = constant(s.min) == 0
        bounds = self._expr(s.extent) if first else f"{self._expr(s.min)}, {self._expr(n.Add(s.min, s.extent))}"
        self._block(f"for {self.names(s.var)} in range({bounds}):", s.body)

    def _allocate(self, s: Allocate) -> None:
        if s.buffer.scope is not MemoryScope.GLOBAL:
            raise self._unbound(s.buffer)
        name = self.names(s.buffer)
        self.handles[s.buffer] = name
        elements = " * ".join(self._operand(extent) for extent in s.buffer.shape) or "1"
        note = f"  # {s.buffer.note}" if s.buffer.note else ""
        self._line(f"{name} = allocate({name!r}, {elements} * {s.buffer.dtype.bytes}){note}")
        self._stmt(s.body)

    def _launch(self, s: Launch) -> None:
        kernel = self.kernels[s]
        extents = (*kernel.grid, *kernel.block)
        args = [self._expr(extent) for extent in extents]
        for p in kernel.params:
            args.append(self._handle(p) if isinstance(p, Buffer) else self._expr(p))
        call = f"{kernel.name}({', '.join(args)})"
        static = [constant(extent) for extent in extents]
        if 0 in static:
            return  # nothing to do
        unsure = [f"{self._operand(e)} > 0" for e, value in zip(extents, static, strict=True) if value is None]
        self._line(f"if {' and '.join(unsure)}: {call}" if unsure else call)

    def _handle(self, buffer: Buffer) -> str:
        found = self.handles.get(root(buffer))
        if found is None:
            raise InternalError(f"{buffer} is neither an argument of {self.function.name} nor allocated by it")
        return found

    # Expressions

    def _expr(self, e: Any) -> str:
        if isinstance(e, n.Var):
            return self.names(e)
        if isinstance(e, (n.IntImm, n.FloatImm)):
            return repr(bool(e.value) if e.dtype.is_bool else e.value)
        return self._operation(e)

    def _operation(self, e: Any) -> str:
        kind = type(e)
        if kind in _INFIX:
            return f"{self._operand(e.a)} {_INFIX[kind]} {self._operand(e.b)}"
        args = [self._expr(child) for child in e.children()]
        if kind is n.Div:
            if e.dtype.is_float:
                return f"{self._operand(e.a)} / {self._operand(e.b)}"
            return f"truncdiv({args[0]}, {args[1]})"
        if kind in _CALLS:
            return f"{_CALLS[kind]}({', '.join(args)})"
        if kind is n.Not:
            return f"not {self._operand(e.a)}"
        if kind in (n.Select, n.IfThenElse):
            yes, cond, no = (self._operand(part) for part in (e.true_value, e.condition, e.false_value))
            return f"{yes} if {cond} else {no}"
        if kind is n.Cast:
            return f"{'float' if e.dtype.is_float else 'bool' if e.dtype.is_bool else 'int'}({args[0]})"
        if kind is n.Call and e.name == "likely":
            return args[0]
        raise InternalError(f"host code cannot evaluate `{e}`")

    def _operand(self, e: Any) -> str:
        text = self._expr(e)
        simple = isinstance(e, (n.Var, n.FloatImm, n.Min, n.Max, n.Mod, n.Cast))
        return text if simple or (isinstance(e, n.IntImm) and e.value >= 0) else f"({text})"


def _not_of_type(name: str, dtype: DType) -> str:
    """The condition under which an argument is no plain number of that type."""
    if dtype.is_int:
        return f"type({name}) is not int or not {dtype.min_value} <= {name} <= {dtype.max_value}"
    return f"type({name}) is not {'float' if dtype.is_float else 'bool'}"
