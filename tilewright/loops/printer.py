"""Programs as text, in the TVMScript-like form that `lower(..., simple_mode=True)` shows.

Names are unique among visible ones: a second `A` prints as `A_1`, and names are free again after their scope. A flat
view of a buffer is declared just above the innermost statement that holds all its uses.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..core.hardware import LoopKind, MemoryScope
from ..core.recursion import deep
from ..expr.nodes import Expr, Load, SizeVar, Var
from ..expr.operand import TEXT
from ..expr.operators import is_const
from ..expr.printer import ExprPrinter
from ..expr.traverse import post_order, variables
from . import nodes as n
from .assertions import assertion_of
from .liveness import without_lifetimes
from .unlowered_statements import Attribute

_HEADER = """\
# from tvm.script import ir as I
# from tvm.script import tir as T

@I.ir_module
class Module:"""
_KINDS = {LoopKind.PARALLEL: "T.parallel", LoopKind.VECTORIZED: "T.vectorized", LoopKind.UNROLLED: "T.unroll"}


@deep
def show_program(program: n.Program) -> str:
    """All functions of a program, as one module."""
    return "\n".join([_HEADER, *(show_function(f, "    ") for f in program.functions)]) + "\n"


@deep
def show_function(function: n.Function, indent: str = "") -> str:
    """One function, as a `T.prim_func`."""
    return "\n".join(indent + line for line in _FunctionPrinter(function).lines())


@deep
def show_statement(stmt: n.Stmt) -> str:
    """A single statement: variables from outside print by their names."""
    printer = _FunctionPrinter(n.Function("statement", (), stmt))
    printer.views.at.clear()
    printer.views.before.clear()
    return "\n".join(printer.body())


class _FunctionPrinter:
    def __init__(self, function: n.Function) -> None:
        function = function.with_body(without_lifetimes(function.body))
        self.function = function
        self.names: dict[Any, str] = {}
        self.taken: set[str] = set()
        self.printer = ExprPrinter(lambda thing: self.names.get(thing) or _identifier(thing.name))
        self.out: list[str] = []
        self.views = _Views(function)

    def lines(self) -> list[str]:
        params = ", ".join(self._param(p) for p in self.function.params)
        self.out = ["@T.prim_func", f"def {_identifier(self.function.name)}({params}):"]
        self._line(1, 'T.func_attr({"from_legacy_te_schedule": T.bool(True), "tir.noalias": T.bool(True)})')
        for size in dict.fromkeys(v for b in self.function.buffers for v in variables(*_layout(b))):
            if size not in self.names:
                kind = "is_size_var=True" if isinstance(size, SizeVar) else ""
                self._line(1, f"{self._declare(size)} = T.{size.dtype}({kind})")
        self._block(self.function.body, 1)
        return self.out

    def body(self) -> list[str]:
        """The lines of the body alone."""
        self._block(self.function.body, 0)
        return self.out

    def _line(self, level: int, text: str) -> None:
        self.out.append("    " * level + text)

    def _declare(self, thing: Any, name: str | None = None) -> str:
        base = _identifier(name or thing.name)
        made, count = base, 0
        while made in self.taken:
            count += 1
            made = f"{base}_{count}"
        self.taken.add(made)
        self.names[thing] = made
        return made

    @contextmanager
    def _scope(self) -> Iterator[None]:
        names, taken = dict(self.names), set(self.taken)
        yield
        self.names, self.taken = names, taken

    def _param(self, param: n.Buffer | Var) -> str:
        if isinstance(param, Var):
            return f"{self._declare(param)}: T.{param.dtype}"
        name = self._declare(param)
        layout = ""
        if param.layout.given is not None:
            strides = ", ".join(self.printer(e) for e in param.layout.given)
            start = "" if is_const(param.layout.start, 0) else f", elem_offset={self.printer(param.layout.start)}"
            layout = f", strides=({strides}{',' * (len(param.shape) == 1)}){start}"
        return f'{name}: T.Buffer({self._shape(param)}, "{param.dtype}"{layout})'

    def _shape(self, buffer: n.Buffer) -> str:
        parts = [self.printer(e) for e in buffer.shape]
        return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"

    def _block(self, stmt: n.Stmt, level: int) -> None:
        """Print a list of statements in a new scope."""
        with self._scope():
            self._tail(stmt, level)

    def _tail(self, stmt: n.Stmt, level: int) -> None:
        """Print a statement that ends its block: launches and allocations need no `with` there."""
        self._views_at(stmt, level)
        if isinstance(stmt, n.Seq):
            for i, part in enumerate(stmt.stmts):
                self._views_before(stmt, i, level)
                if i + 1 < len(stmt.stmts):
                    self._statement(part, level)
                else:
                    self._tail(part, level)
            if not stmt.stmts:
                self._line(level, "pass")
        elif isinstance(stmt, n.For) and stmt.thread is not None:
            name = self._declare(stmt.var)
            self._line(level, f'{name} = T.launch_thread("{stmt.thread.value}", {self.printer(stmt.extent)})')
            self._tail(stmt.body, level)
        elif isinstance(stmt, n.Launch):
            self._launch(stmt, level)
        elif isinstance(stmt, n.Allocate):
            self._line(level, f"{self._declare(stmt.buffer)} = {self._allocation(stmt.buffer)}")
            self._tail(stmt.body, level)
        elif isinstance(stmt, n.Let):
            value = self.printer(stmt.value)
            self._line(level, f"{self._declare(stmt.var)}: T.{stmt.var.dtype} = {value}")
            self._tail(stmt.body, level)
        else:
            self._plain(stmt, level)

    def _statement(self, stmt: n.Stmt, level: int) -> None:
        """Print a statement with statements after it."""
        if isinstance(stmt, n.For) and stmt.thread is not None:
            self._views_at(stmt, level)
            with self._scope():
                extent = self.printer(stmt.extent)
                name = self._declare(stmt.var)
                self._line(level, f'with T.launch_thread("{stmt.thread.value}", {extent}) as {name}:')
                self._tail(stmt.body, level + 1)
        elif isinstance(stmt, n.Allocate):
            with self._scope():
                allocation = self._allocation(stmt.buffer)
                self._line(level, f"with {allocation} as {self._declare(stmt.buffer)}:")
                self._tail(stmt.body, level + 1)
        elif isinstance(stmt, (n.Let, n.Launch)):
            with self._scope():
                self._tail(stmt, level)
        else:
            self._views_at(stmt, level)
            self._plain(stmt, level)

    def _plain(self, stmt: n.Stmt, level: int) -> None:
        if isinstance(stmt, n.For):
            self._for(stmt, level)
        elif isinstance(stmt, Attribute):
            self._line(level, f'with T.attr({stmt.node}, "{stmt.attr_key}", {self.printer(stmt.value)}):')
            self._block(stmt.body, level + 1)
        elif isinstance(stmt, n.While):
            self._line(level, f"while {self.printer(stmt.condition)}:")
            self._block(stmt.body, level + 1)
        elif isinstance(stmt, n.If) and (asserted := assertion_of(stmt)) is not None:
            self._line(level, f"assert {self.printer(stmt.condition)}, {json.dumps(asserted.message)}")
            self._block(stmt.then, level)
        elif isinstance(stmt, n.If):
            self._line(level, f"if {self.printer(stmt.condition)}:")
            self._block(stmt.then, level + 1)
            if stmt.orelse is not None:
                self._line(level, "else:")
                self._block(stmt.orelse, level + 1)
        elif isinstance(stmt, n.Store):
            target = self.printer(Load(stmt.buffer, stmt.indices))
            late = "  # asynchronous" if isinstance(stmt, n.Copy) else ""
            self._line(level, f"{target} = {self.printer(stmt.value)}{late}")
        elif isinstance(stmt, n.Evaluate):
            self._line(level, self.printer(stmt.value))
        elif isinstance(stmt, n.Barrier):
            self._line(level, f'T.tvm_storage_sync("{stmt.scope.value}")')
        elif isinstance(stmt, n.Tensorized):
            self._line(level, f"# {stmt.atom.instruction}, a tile of {' x '.join(map(str, stmt.extents))}:")
            self._block(stmt.body, level)
        elif isinstance(stmt, n.Commit):
            self._line(level, "T.ptx_commit_group()")
        elif isinstance(stmt, n.Await):
            self._line(level, f"T.ptx_wait_group({stmt.pending})")
        else:
            self._block(stmt, level)

    def _for(self, stmt: n.For, level: int) -> None:
        nest = [stmt]
        while self._joins(nest[-1]):
            body = nest[-1].body
            if isinstance(body, n.For):
                nest.append(body)
        with self._scope():
            extents = [self.printer(loop.extent) for loop in nest]
            names = [self._declare(loop.var) for loop in nest]
            if len(nest) > 1:
                self._line(level, f"for {', '.join(names)} in T.grid({', '.join(extents)}):")
            else:
                first = "" if is_const(stmt.min, 0) else f"{self.printer(stmt.min)}, "
                last = extents[0] if is_const(stmt.min, 0) else self.printer(stmt.min + stmt.extent)
                self._line(level, f"for {names[0]} in {_KINDS.get(stmt.kind, 'range')}({first}{last}):")
            self._tail(nest[-1].body, level + 1)

    def _joins(self, loop: n.For) -> bool:
        """Whether a loop and the loop directly inside it print as one grid."""
        inner = loop.body
        if not isinstance(inner, n.For) or self.views.at.get(inner):
            return False
        plain = all(f.kind is LoopKind.SERIAL and f.thread is None and is_const(f.min, 0) for f in (loop, inner))
        return plain and loop.var not in variables(inner.extent)

    def _launch(self, stmt: n.Launch, level: int) -> None:
        extents = ", ".join(f"{tag.value}: {self.printer(extent)}" for tag, _, extent in stmt.threads)
        self._line(level, f"with T.launch({stmt.name!r}, {{{extents}}}):")
        with self._scope():
            for tag, var, _ in stmt.threads:
                self._line(level + 1, f"{self._declare(var)} = {tag.value}")
            self._tail(stmt.body, level + 1)

    def _allocation(self, buffer: n.Buffer) -> str:
        shape = ", ".join(self.printer(e) for e in buffer.shape)
        scope = buffer.scope.value if isinstance(buffer, n.Buffer) else "global"  # the scope of a tensor is not decided
        return f'T.allocate([{shape}], "{buffer.dtype}", "{scope}")'

    def _views_at(self, stmt: n.Stmt, level: int) -> None:
        for buffer in self.views.at.get(stmt, ()):
            self._view(buffer, level)

    def _views_before(self, stmt: n.Seq, position: int, level: int) -> None:
        for buffer in self.views.before.get((stmt, position), ()):
            self._view(buffer, level)

    def _view(self, buffer: n.Buffer, level: int) -> None:
        base = buffer.alias_of or buffer
        data = self.names.get(base, _identifier(base.name))
        owned = buffer.alias_of is None
        shape = self._shape(buffer)
        name = self._declare(buffer, base.name if buffer.byte_offset is None else buffer.name)
        parts = [shape, f"data={data}" if owned else f"data={data}.data"]
        if buffer.dtype != "float32":
            parts.insert(1, f'"{buffer.dtype}"')
        if buffer.scope is not MemoryScope.GLOBAL:
            parts.append(f'scope="{buffer.scope.value}"')
        if buffer.align < 64:
            parts.append(f"align={buffer.align}")
        if buffer.byte_offset is not None:
            parts.append(f"byte_offset={buffer.byte_offset}")
        self._line(level, f"{name} = T.Buffer({', '.join(parts)})")


class _Views:
    """The place of each declaration of a buffer's view: at a statement, or before a part of a sequence."""

    def __init__(self, function: n.Function) -> None:
        params = set(function.buffers)
        self.at: dict[n.Stmt, list[n.Buffer]] = {}
        self.before: dict[tuple[n.Stmt, int], list[n.Buffer]] = {}
        self._uses: dict[Any, dict[n.Buffer, None]] = {}
        self._place(function.body, [b for b in self._used(function.body) if b not in params])

    def _used(self, stmt: Any) -> dict[n.Buffer, None]:
        """The buffers used within a statement, stores before loads, in order."""
        found = self._uses.get(stmt)
        if found is None and isinstance(stmt, n.Allocate):  # chains of thousands share the results of their parts
            found = self._uses[stmt] = self._used(stmt.body)
        if found is None:
            found = {}
            if isinstance(stmt, n.Store):
                found[stmt.buffer] = None
            for child in stmt.children():
                if isinstance(child, n.Stmt):
                    found.update(self._used(child))
                else:
                    found.update(
                        {
                            s: None
                            for e in post_order(child)
                            if isinstance(e, Load) and isinstance(s := e.source, n.Buffer)
                        }
                    )
            self._uses[stmt] = found
        return found

    def _place(self, stmt: n.Stmt, pending: list[n.Buffer]) -> None:
        """Declare the pending views within `stmt`, which holds all their uses, as far in as possible."""
        while isinstance(stmt, n.Allocate):
            stmt = stmt.body
        parts = [c for c in stmt.children() if isinstance(c, n.Stmt)]
        own = {e.source for c in stmt.children() if isinstance(c, Expr) for e in post_order(c) if isinstance(e, Load)}
        if isinstance(stmt, n.Store):
            own.add(stmt.buffer)
        down: dict[int, list[n.Buffer]] = {}
        found: dict[n.Buffer, list[int]] = {buffer: [] for buffer in pending}
        for i, part in enumerate(parts):
            for buffer in self._used(part):
                if buffer in found:
                    found[buffer].append(i)
        for buffer, users in found.items():
            if buffer in own or (len(users) > 1 and not isinstance(stmt, n.Seq)):
                self.at.setdefault(stmt, []).append(buffer)
            elif len(users) > 1:
                self.before.setdefault((stmt, users[0]), []).append(buffer)
            elif users:
                down.setdefault(users[0], []).append(buffer)
        for i, inner in down.items():
            self._place(parts[i], inner)


def _layout(buffer: n.Buffer) -> tuple[Expr, ...]:
    """The expressions of a buffer's size and layout."""
    return *buffer.shape, *(buffer.layout.given or ()), buffer.layout.start


def _identifier(name: str) -> str:
    """Return a name as a Python identifier, at full length and with its own letters."""
    made = re.sub(r"\W", "_", name)
    return made if made[:1].isidentifier() else f"v{made}"


TEXT[n.Stmt], TEXT[n.Function], TEXT[n.Program] = show_statement, show_function, show_program
