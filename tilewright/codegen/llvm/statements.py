"""Statements as blocks of instructions: one LLVM function for the body of a kernel or of a parallel loop.

A parallel loop becomes a function that runs a range of the iterations, and a call by which the thread pool runs all of
them. Every function returns 0, or 1 if it cannot get scratch memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from ...core.errors import InternalError
from ...core.hardware import LoopKind
from ...expr import nodes as n
from ...expr.traverse import constant_value, post_order
from ...loops.nodes import (
    Allocate,
    Barrier,
    Buffer,
    Evaluate,
    For,
    If,
    Launch,
    Let,
    LifetimeStart,
    Seq,
    Stmt,
    Store,
    Tensorized,
    While,
)
from ...schedule.primitives.annotate import NONTEMPORAL_STORES
from ..kernel import Param, product, root
from .binding import PARALLEL_FOR
from .convert import mangled
from .dots import write_dots
from .expr import LLVMExprWriter
from .mathlib import MathLibrary
from .memory import BufferAccesses
from .tasks import KEYS, Tasks, write_dealt, write_marked
from .types import LLVMValue, memory_type, value_type
from .unrolling import unroll_hint
from .writer import FunctionWriter, ModuleWriter

MOST_INLINED = 16
"""Arguments of a function that LLVM may inline."""

STACK_BYTES = 64 * 1024
"""Bytes of scratch memory that one function keeps on the stack: the rest, and unknown sizes, go to the heap."""
ONE = LLVMValue("i64", "1")


@dataclass(frozen=True)
class CodeOptions:
    """Options of the generated code."""

    contract: bool = True
    """Whether `a * b + c` may be one fused multiply-add."""


class BodyWriter:
    """Writes one function: `i32 name(params..., [i64 begin, i64 end])`."""

    def __init__(self, module: ModuleWriter, library: MathLibrary, options: CodeOptions, name: str) -> None:
        self.module = module
        self.library = library
        self.options = options
        self.name = name
        self.out = FunctionWriter(module)
        self.memory = BufferAccesses(self.out)
        self.expr = LLVMExprWriter(self.out, library, self.memory.load, options.contract)
        self.memory.expr = self.expr
        self.expr.address = self.memory.address_of
        self.stack_left = STACK_BYTES
        self.heap: list[LLVMValue] = []
        self.exits: list[str] = []
        """Blocks that leave the function: the k-th gives back the first k pieces of `heap`."""
        self.arguments: list[str] = []
        self.tasks: Tasks | None = None
        """The state of a task, if every thread runs the function; else None."""

    # The function

    def take(self, params: Iterable[Param], counters: frozenset[n.Var] = frozenset(), alone: bool = True) -> None:
        """Make parameters of the function; `counters`: variables that come in 64 bits.

        Unless it is `alone`, others change the memory while it runs, behind its calls of a barrier.
        """
        for p in params:
            name = self.out.name(p.name)
            if isinstance(p, Buffer):
                self.expr.pointers[p] = LLVMValue("ptr", f"%{name}")
                self.arguments.append(f"ptr {'noalias ' if alone else ''}noundef nonnull %{name}")
            elif p in counters:
                self.expr.counters[p] = LLVMValue("i64", f"%{name}")
                self.arguments.append(f"i64 %{name}")
            else:
                self.expr.variables[p] = LLVMValue(value_type(p.dtype), f"%{name}")
                self.arguments.append(f"{value_type(p.dtype)} %{name}")

    def write(self, body: Stmt) -> None:
        """The function with that body, into the module."""
        self._stmt(body)
        self._finish()

    def write_range(self, loop: For) -> None:
        """The function that runs the iterations `begin` to `end` of a parallel loop, counted from 0."""
        begin, end = (LLVMValue("i64", f"%{self.out.name(wish)}") for wish in ("begin", "end"))
        self.arguments += [str(begin), str(end)]
        body, heap = loop.body, len(self.heap)
        while isinstance(body, Allocate) and loop.var not in _sizes(body.buffer):
            self._place(body.buffer)  # once for the range, not for each iteration
            body = body.body
        first = self.expr.index(loop.min)
        start = self.out.binary("add nsw", first, begin, "start")
        self._counted(loop, start, self.out.binary("add nsw", first, end, "stop"), body, runs=True)
        self._free(heap)
        self._finish()

    def _finish(self) -> None:
        self.memory.order()
        self.out.give("i32 0")
        # Inlined, each access would list all other pointers as unrelated: memory and time grow with the square.
        once = "noinline " if len(self.arguments) > MOST_INLINED else ""
        head = f"define internal i32 @{self.name}({', '.join(self.arguments)}) {once}#0"
        self.module.functions.append(self.out.text(head))

    # Statements

    def _stmt(self, s: Stmt) -> None:
        write = _WRITE.get(type(s))
        if write is None:
            raise InternalError(f"the llvm target does not know the statement {type(s).__name__}")
        write(self, s)

    def _seq(self, s: Seq) -> None:
        for stmt in s.stmts:
            self._stmt(stmt)

    def _store(self, s: Store) -> None:
        with self.expr.scope():
            self.memory.store(s)

    def _evaluate(self, s: Evaluate) -> None:
        if not isinstance(s.value, n.IntImm):
            with self.expr.scope():
                self.expr(s.value)

    def _let(self, s: Let) -> None:
        with self.expr.scope():
            value = self.expr(s.value)
        self.expr.variables[s.var] = value
        self._stmt(s.body)

    def _if(self, s: If) -> None:
        if s.condition.dtype.lanes > 1:
            self._masked(s)
            return
        with self.expr.scope():
            condition = self.expr.guard(s.condition)
        out = self.out
        then, joined = out.label("then"), out.label("joined")
        otherwise = out.label("else") if s.orelse is not None else joined
        out.branch_if(condition, then, otherwise)
        for label, body in ((then, s.then), (otherwise, s.orelse)):
            if body is not None:
                out.start(label)
                self._stmt(body)
                out.branch(joined)
        out.start(joined)

    def _masked(self, s: If) -> None:
        """Write vector accesses for active lanes only; a branch skips the statement if no lane is active."""
        out, outer = self.out, self.expr.mask
        with self.expr.scope():
            mask = self.expr.guard(s.condition)
        if outer is not None:
            mask = out.binary("and", outer, mask, "mask")
        then, joined = out.label("some"), out.label("joined")
        some = out.call(f"llvm.vector.reduce.or.{mangled(mask.type)}", "i1", [mask])
        out.branch_if(some, then, joined)
        out.start(then)
        self.expr.mask = mask
        self._stmt(s.then)
        self.expr.mask = outer
        out.branch(joined)
        out.start(joined)

    def _lifetime_start(self, s: LifetimeStart) -> None:
        """Emit nothing: lifetimes are for passes."""

    def _tensorized(self, s: Tensorized) -> None:
        if not (self.module.machine.has_vnni and write_dots(self, s)):
            self._stmt(s.body)

    def _barrier(self, s: Barrier) -> None:
        """Emit nothing: one thread runs the block."""

    # Loops

    def _for(self, s: For) -> None:
        around = self.memory.past_caches
        if dict(s.pragmas).get(NONTEMPORAL_STORES) and self.tasks is None:  # barriers of tasks order other stores only
            self.memory.past_caches = True
        self._loop(s)
        self.memory.past_caches = around

    def _loop(self, s: For) -> None:
        keys = frozenset(key for key, _ in s.pragmas) & KEYS
        if keys:
            write_marked(self, s, keys)
        elif s.kind is LoopKind.PARALLEL and self.tasks is not None and not self.tasks.inside:
            write_dealt(self, s)
        elif s.kind is LoopKind.PARALLEL and self.tasks is None:
            self._parallel(s)
        elif s.kind in (LoopKind.SERIAL, LoopKind.UNROLLED, LoopKind.PARALLEL):
            with self.expr.scope():
                start = self.expr.index(s.min)
                stop = (
                    self.expr.index(n.Add(s.min, s.extent)) if constant_value(s.min) != 0 else self.expr.index(s.extent)
                )
            extent = constant_value(s.extent)
            self._counted(s, start, stop, s.body, runs=extent is not None and extent > 0)
        else:
            raise InternalError(f"a {s.kind.value} loop over {s.var.name} reached code generation")

    def _while(self, s: While) -> None:
        out = self.out
        again, inside, done = out.label("while"), out.label("while.body"), out.label("while.done")
        out.branch(again)
        out.start(again)
        with self.expr.scope():
            condition = self.expr.guard(s.condition)
        out.branch_if(condition, inside, done)
        out.start(inside)
        with self.expr.scope():
            self._stmt(s.body)
        out.branch(again)
        out.start(done)

    def _counted(
        self, s: For, start: LLVMValue, stop: LLVMValue, body: Stmt, runs: bool, step: LLVMValue = ONE
    ) -> None:
        """Write the iterations from `start` up to `stop`, tested at the bottom; `runs`: at least one iteration runs."""
        out, name = self.out, s.var.name
        inside, done = out.label(name), out.label(f"{name}.done")
        latch = out.label(f"{name}.next")
        before = out.block
        if runs:
            out.branch(inside)
        else:
            out.branch_if(out.compare("icmp slt", start, stop), inside, done)
        out.start(inside)
        following = out.name(f"{name}.step")
        counter = out.op("i64", f"phi i64 [ {start.text}, %{before} ], [ %{following}, %{latch} ]", f"{name}.at")
        self.expr.counters[s.var] = counter
        with self.expr.scope():
            self._stmt(body)
        out.branch(latch)
        out.start(latch)
        out.do(f"%{following} = add nsw i64 {counter.text}, {step.text}")
        more = out.compare("icmp slt", LLVMValue("i64", f"%{following}"), stop)
        out.branch_if(more, inside, done, self._hint(s))
        out.start(done)

    def _hint(self, s: For) -> str:
        if s.kind is not LoopKind.UNROLLED:
            return ""
        return f", !llvm.loop {self.module.loop_hint(unroll_hint(s))}"

    def _parallel(self, s: For) -> None:
        with self.expr.scope():
            extent = self.expr.index(s.extent)
        past_caches = self.memory.past_caches

        def write(inner: BodyWriter) -> None:
            inner.memory.past_caches = past_caches
            inner.write_range(s)

        function, closure = self.function_of(s, f"parallel.{s.var.name}", RANGE, write)
        status = self.out.call(PARALLEL_FOR, "i32", [function, closure, extent])
        self._leave_if(self.out.compare("icmp ne", status, LLVMValue("i32", "0")))

    def function_of(
        self, s: For, wish: str, parameters: Parameters, write: Callable[[BodyWriter], None], alone: bool = True
    ) -> tuple[LLVMValue, LLVMValue]:
        """A separate function for (a part of) a loop, which the runtime calls, and the closure to call it with."""
        captured = captures(s)
        name = self.module.symbol(f"{self.name}.{wish}")
        inner = BodyWriter(self.module, self.library, self.options, name)
        inner.take(captured, frozenset(self.expr.counters), alone)
        write(inner)
        values = [self._captured(p) for p in captured]
        trampoline = write_trampoline(self.module, name, [value.type for value in values], parameters)
        out = self.out
        closure = out.alloca("i64", max(1, len(values)), 8, "closure")
        for slot, value in enumerate(values):
            at = out.op("ptr", f"getelementptr i64, {closure}, i64 {slot}", "slot") if slot else closure
            out.do(f"store {value}, {at}")
        return LLVMValue("ptr", f"@{trampoline}"), closure

    def _captured(self, p: Param) -> LLVMValue:
        if isinstance(p, Buffer):
            return self.expr.pointer(p)
        return self.expr.counters[p] if p in self.expr.counters else self.expr(p)

    # Storage

    def _allocate(self, s: Allocate) -> None:
        heap = len(self.heap)
        self._place(s.buffer)
        self._stmt(s.body)
        self._free(heap)

    def _place(self, buffer: Buffer) -> None:
        """Allocate a buffer, on the stack if the size is known and small."""
        count = product(buffer.shape)
        kind, size = memory_type(buffer.dtype), buffer.dtype.bytes
        if count is not None and count * size <= self.stack_left:
            self.stack_left -= count * size
            align = 64 if count * size >= 64 else 16
            self.expr.pointers[buffer] = self.out.alloca(kind, max(1, count), align, buffer.name)
            return
        with self.expr.scope():
            total = LLVMValue("i64", str(size))
            for extent in buffer.shape:
                total = self.out.binary("mul", total, self.expr.index(extent), "bytes")
            rounded = self.out.binary(
                "and", self.out.binary("add", total, LLVMValue("i64", "127")), LLVMValue("i64", "-64")
            )
        self.module.declare("aligned_alloc", "noalias ptr", ["i64", "i64"], "nounwind")
        args = f"i64 64, {rounded}"
        pointer = self.out.op("ptr", f"call noalias ptr @aligned_alloc({args})", buffer.name)
        self._leave_if(self.out.compare("icmp eq", pointer, LLVMValue("ptr", "null")))
        self.expr.pointers[buffer] = pointer
        self.heap.append(pointer)

    def _free(self, down_to: int) -> None:
        while len(self.heap) > down_to:
            self._release(self.heap.pop())
        self.exits = self.exits[: down_to + 1]

    def _release(self, pointer: LLVMValue) -> None:
        self.module.declare("free", "void", ["ptr"], "nounwind")
        self.out.do(f"call void @free({pointer})")

    def _leave_if(self, failed: LLVMValue) -> None:
        """Leave the function with status 1 if `failed` holds: scratch memory, or a call, failed."""
        out = self.out
        going = out.label("going")
        depth = len(self.heap)
        known = len(self.exits)
        self.exits += [out.label("failed") for _ in range(depth + 1 - known)]
        out.branch_if(failed, self.exits[depth], going)
        for held in range(depth, known - 1, -1):  # each gives back one piece, and goes on to the next
            out.start(self.exits[held])
            if held:
                self._release(self.heap[held - 1])
                out.branch(self.exits[held - 1])
            else:
                out.give("i32 1")
        out.start(going)

    def _launch(self, s: Launch) -> None:
        raise InternalError(f"kernel {s.name} is launched within a kernel")


Parameters = tuple[tuple[str, str], ...]  # (type, name) each
RANGE: Parameters = (("i64", "begin"), ("i64", "end"))


def write_trampoline(module: ModuleWriter, name: str, types: list[str], parameters: Parameters) -> str:
    """The function that the thread pool calls, with a closure and the parameters: `i32 (ptr closure, ...)`."""
    made = module.symbol(f"{name}.range")
    out = FunctionWriter(module, ("closure", *(wish for _, wish in parameters)))
    args = []
    for slot, kind in enumerate(types):
        at = (
            out.op("ptr", f"getelementptr i64, ptr %closure, i64 {slot}", "slot")
            if slot
            else LLVMValue("ptr", "%closure")
        )
        args.append(out.op(kind, f"load {kind}, {at}", "captured"))
    own = [LLVMValue(kind, f"%{wish}") for kind, wish in parameters]
    args += own
    status = out.op("i32", f"call i32 @{name}({', '.join(map(str, args))})", "status")
    out.give(str(status))
    module.functions.append(out.text(f"define internal i32 @{made}(ptr %closure, {', '.join(map(str, own))}) #0"))
    return made


def captures(loop: For) -> list[Param]:
    """The values of the surrounding function that a loop body uses: buffers, then variables."""
    used: dict[Param, None] = {}
    own: set[Any] = {loop.var}
    for at in post_order(loop.body):
        if isinstance(at, n.Var):
            used[at] = None
        elif isinstance(at, n.Load):
            _touch(at.source, at.indices, used)
        elif isinstance(at, Store):
            _touch(at.buffer, at.indices, used)
        elif isinstance(at, Allocate):
            own.add(at.buffer)
            used.update((v, None) for v in _sizes(at.buffer))
        elif isinstance(at, (For, Let)):
            own.add(at.var)
        elif isinstance(at, Tensorized):
            own |= {at.row, at.column, at.depth}
    used.update((v, None) for v in post_order(loop.min) if isinstance(v, n.Var))
    return sorted((p for p in used if p not in own), key=lambda p: not isinstance(p, Buffer))


def _touch(buffer: Any, indices: tuple[n.Expr, ...], used: dict[Param, None]) -> None:
    used[root(buffer)] = None
    if len(indices) > 1:
        used.update((v, None) for v in _sizes(buffer))


def _sizes(buffer: Any) -> set[n.Var]:
    return {v for v in post_order(*buffer.shape) if isinstance(v, n.Var)}


_WRITE: dict[type, Callable[[BodyWriter, Any], None]] = {
    Seq: BodyWriter._seq,
    For: BodyWriter._for,
    If: BodyWriter._if,
    While: BodyWriter._while,
    Let: BodyWriter._let,
    Store: BodyWriter._store,
    Evaluate: BodyWriter._evaluate,
    Allocate: BodyWriter._allocate,
    LifetimeStart: BodyWriter._lifetime_start,
    Tensorized: BodyWriter._tensorized,
    Barrier: BodyWriter._barrier,
    Launch: BodyWriter._launch,
}
