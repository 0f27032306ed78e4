"""The host part of a function as Python: checks its arguments, binds sizes, and launches its kernels.

For `A: float32[n, 64]`, `B: float32[n]` the text reads

    def main(A, B):
        if A.kind is not A_kind: wrong(A, 0)
        if B.kind is not B_kind: wrong(B, 1)
        n = A.shape[0]
        ...
        blocks_x = (n + 63) // 64
        if blocks_x > 0: main_kernel(blocks_x, 1, 1, 64, 1, 1, A.handle, B.handle, n)

The runtime supplies its free names. They are `A_layout` / `A_kind` (the expected value of an argument's field), `wrong`
and the like (which raise), `allocate`, divisions (`floordiv` ... `quotient`), and one callable per kernel. The checks
are written by `host_checks.py`.
"""

from __future__ import annotations

import keyword

from ..core.errors import InternalError, UserError
from ..core.hardware import MemoryScope
from ..core.target import Target
from ..core.text import remark
from ..expr import nodes as n
from ..expr.effects import RETURN
from ..expr.traverse import constant_value, post_order
from ..loops.calls import addresses, has_effect, is_packed, refuse_packed
from ..loops.nodes import (
    Allocate,
    Assertion,
    Buffer,
    Evaluate,
    For,
    Function,
    If,
    Let,
    Stmt,
    Store,
    While,
)
from ..loops.walk import statements
from .abi import AssertionFact, EntryPoint, IndexFact
from .fixed_launches import fixed_launches
from .host_checks import ArgumentChecks
from .host_expr import HostExpr, wrapped
from .host_walk import HostVisitor
from .kernel import Kernel, root
from .launch_limits import launch_limits
from .names import Names

HOST_WORDS = frozenset(
    {
        *keyword.kwlist,
        *"wrong wrong_extent wrong_size wrong_stride wrong_offset too_large too_many overlap apart".split(),
        *"strided beyond".split(),
        *"scalar misaligned returned element cleared noted reported allocate truncdiv truncmod packed as_array".split(),
        *"floordiv floormod quotient".split(),
        *"min max int float bool range type main".split(),
    }
)
"""Names that host code uses, and that neither its variables nor kernels can have."""
_KIN = ("_kind", "_layout", "_strides")
"""The suffixes of an array's name in its checks."""
_EXTENTS = ("blocks_x", "blocks_y", "blocks_z", "threads_x", "threads_y", "threads_z")


def write_entry(
    function: Function, kernels: tuple[Kernel, ...], aligned: frozenset[Buffer], target: Target
) -> EntryPoint:
    """The entry point of a function: its arguments and host code. `aligned`: buffers read as vectors."""
    return _HostWriter(function, kernels, aligned, target).write()


def _given_to_packed(body: Stmt) -> set[Buffer]:
    """The buffers that packed functions may write."""
    calls = (s.value for s in statements(body) if isinstance(s, (Evaluate, Let)) and is_packed(s.value))
    return {root(address.buffer) for call in calls for address in addresses(call)}


class _HostWriter(HostVisitor):
    def __init__(
        self, function: Function, kernels: tuple[Kernel, ...], aligned: frozenset[Buffer], target: Target
    ) -> None:
        super().__init__(kernels)
        self.function = function
        self.limits = {kernel.name: launch_limits(kernel, target) for kernel in kernels}
        owned = {limit.fact.name for found in self.limits.values() for limit in found}
        self.names = Names(HOST_WORDS | owned | {kernel.name for kernel in kernels}, kin=_KIN)
        self.symbol = "main" if function.name == "main" else self.names.fresh(function.name)
        self.expr = HostExpr(self.names)
        self.expr.handle = self._handle
        written = frozenset((*(b for kernel in kernels for b in kernel.written), *_given_to_packed(function.body)))
        self.checks = ArgumentChecks(function, self.expr, aligned, written, self._line)
        self.handles: dict[Buffer, str] = {}
        self.lines: list[str] = []
        self.indent = 1

    def write(self) -> EntryPoint:
        params = ", ".join(self.names(p) for p in self.function.params)
        arguments = tuple(self.checks.argument(p) for p in self.function.params)
        self.handles = {p: f"{self.names(p)}.handle" for p in self.function.buffers}
        self.lines = [f"def {self.symbol}({params}):"]
        self.checks.write()
        before = len(self.lines)
        self.visit(self.function.body)
        if len(self.lines) == before:
            self._line("pass")
        source = "\n".join(self.lines) + "\n"
        checked = self.function.checks
        indices = (
            ()
            if checked is None
            else tuple(
                AssertionFact(*index) if isinstance(index, Assertion) else IndexFact(*index)
                for index in checked.indices
            )
        )
        return EntryPoint(
            self.function.name,
            arguments,
            source,
            self.symbol,
            tuple(self.checks.facts),
            tuple(self.checks.reads),
            indices,
            tuple(limit.fact for found in self.limits.values() for limit in found),
            fixed_launches(self.function, tuple(self.kernels.values())),
        )

    # Statements

    def _line(self, text: str) -> None:
        self.lines.append("    " * self.indent + text)

    def _block(self, head: str, body: Stmt) -> None:
        self._line(head)
        self.indent += 1
        before = len(self.lines)
        self.visit(body)
        if len(self.lines) == before:
            self._line("pass")
        self.indent -= 1

    def branch(self, s: If) -> None:
        """Write a condition."""
        self._block(f"if {self.expr(s.condition)}:", s.then)
        if s.orelse is not None:
            self._block("else:", s.orelse)

    def name(self, s: Let) -> None:
        """Write an assignment."""
        self._line(f"{self.names(s.var)} = {self._value(s.value)}")
        self.visit(s.body)

    def other(self, s: Stmt) -> None:
        """Write a loop on a condition, a noted assertion, a returned result, or a call of a packed function."""
        if isinstance(s, While):
            self._block(f"while {self.expr(s.condition)}:", s.body)
        elif isinstance(s, Store):
            if self.function.checks is None or s.buffer is not self.function.checks.faults:
                for call in filter(is_packed, post_order(s.value)):
                    refuse_packed(call)
                raise self._unbound(s.buffer)
            self._line(f"noted({self.expr(s.indices[0])})")  # an assertion about sizes, which the host knows
        elif isinstance(s, Evaluate):
            if isinstance(s.value, n.Call) and s.value.name == RETURN:
                self._line(f"return {self._result(s.value.args[0])}")
            elif is_packed(s.value):
                self._line(self.expr(s.value))
            elif has_effect(s.value):
                raise UserError(
                    f"`{s.value}` is called outside of any kernel, by host code, which calls packed functions only",
                    primitive="build",
                    fix='call it inside a loop over threads: ib.scope_attr(te.thread_axis("threadIdx.x"), '
                    '"thread_extent", n), or build for "llvm"',
                )
        else:
            raise InternalError(f"host code cannot hold the statement {type(s).__name__} of {self.function.name}")

    def _value(self, e: n.Expr) -> str:
        """The text of a name's value, which may be an element of memory or the result of a packed function."""
        if is_packed(e):
            return f"returned({str(e.dtype)!r}, {self.expr(e)})"
        if isinstance(e, n.Load):
            return self.expr.element(e)
        return self.expr(e)

    def _result(self, e: n.Expr) -> str:
        """The text of a returned number, which wraps as in compiled code."""
        text = self._value(e)
        return text if not e.dtype.is_int or not e.children() or isinstance(e, n.Load) else wrapped(text, e.dtype)

    def _unbound(self, buffer: Buffer) -> UserError:
        stage = buffer.note or root(buffer).name
        return UserError(
            f"stage {stage!r} is computed outside of any kernel: none of its loops is bound to a thread axis",
            primitive="build",
            fix=f's[{stage}].bind(axis, te.thread_axis("blockIdx.x")) with one of its loops, or compute it at or '
            "inline it into a stage that has one; or have all stages scheduled: tw.auto_schedule(tensors, target)",
        )

    def loop(self, s: For) -> None:
        """Write a loop."""
        first = constant_value(s.min) == 0
        bounds = self.expr(s.extent) if first else f"{self.expr(s.min)}, {self.expr(n.Add(s.min, s.extent))}"
        self._block(f"for {self.names(s.var)} in range({bounds}):", s.body)

    def allocate(self, s: Allocate) -> None:
        """Write the allocation of memory, which Python frees."""
        if s.buffer.scope is not MemoryScope.GLOBAL:
            raise self._unbound(s.buffer)
        name = self.names(s.buffer)
        self.handles[s.buffer] = name
        if self.function.checks is not None and s.buffer is self.function.checks.faults:
            self._line(f"{name} = cleared()")
            self.visit(s.body)
            self._line("reported()")
            return
        self.checks.limit(name, None, s.buffer)
        elements = " * ".join(self.expr.operand(extent) for extent in s.buffer.shape) or "1"
        note = f"  # {remark(s.buffer.note)}" if s.buffer.note else ""
        self._line(f"{name} = allocate({name!r}, {elements} * {s.buffer.dtype.bytes}){note}")
        self.visit(s.body)

    def launch(self, kernel: Kernel) -> None:
        """Write a launch, and the checks of its extents."""
        extents = (*kernel.grid, *kernel.block)
        if any(constant_value(extent) == 0 for extent in extents):
            return  # nothing to do
        args, unsure = [], []
        for extent, wish in zip(extents, _EXTENTS, strict=True):
            text = self.expr(extent)
            if constant_value(extent) is None:
                if not isinstance(extent, n.Var):
                    name = self.names.fresh(wish)
                    self._line(f"{name} = {text}")
                    text = name
                unsure.append(f"{text} > 0")
            args.append(text)
        for limit in self.limits[kernel.name]:
            size = " * ".join(text for text in (args[place] for place in limit.places) if text != "1")
            self._line(f"if {size} > {limit.fact.name}: too_many({limit.fact.name!r}, {size})")
        args += [self._handle(p) if isinstance(p, Buffer) else self.expr(p) for p in kernel.params]
        call = f"{kernel.name}({', '.join(args)})"
        self._line(f"if {' and '.join(unsure)}: {call}" if unsure else call)

    def _handle(self, buffer: Buffer) -> str:
        found = self.handles.get(root(buffer))
        if found is None:
            raise InternalError(f"{buffer} is neither an argument of {self.function.name} nor allocated by it")
        return found
