"""Kernels as C-like source: statements, storage and the signature. Expressions are in `c_expr.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from ..core.dtype import DType
from ..core.errors import InternalError
from ..core.hardware import MemoryScope
from ..core.text import remark
from ..expr import nodes as n
from ..expr import operators as op
from ..expr.traverse import loads
from ..loops.nodes import (
    Allocate,
    Await,
    Barrier,
    Buffer,
    Commit,
    Copy,
    Evaluate,
    For,
    If,
    Launch,
    Let,
    LifetimeStart,
    LoopKind,
    Seq,
    Stmt,
    Store,
    Tensorized,
    While,
)
from .arrays import array_size, note_of, shared_offsets, strict_align
from .c_expr import SUM, ExprWriter
from .calls import vector_argument
from .copies import Pieces, write_copies_where, write_copy, write_copy_loop, write_sequence
from .dialect import Dialect, KernelParameter
from .divisors import positive_in
from .dots import write_dots
from .kernel import Kernel, not_in_kernels, root
from .lasting_sums import LowSums, write_lasting_sums
from .matrix import write_product
from .matrix_loop import write_product_loop
from .merged_loads import loads_at_risk
from .names import Names
from .padded_loads import unrolled_loops
from .vector_accesses import VectorAccesses
from .vectors import flat_index
from .warpgroups import write_warpgroup


def write_source(dialect: Dialect, kernels: tuple[Kernel, ...]) -> tuple[str, frozenset[Buffer]]:
    """The source of all kernels: a preamble, the helper functions that they use, then each kernel.

    Also returns the buffers that vector accesses need aligned.
    """
    aligned: set[Buffer] = set()
    helpers: dict[str, str] = {}
    dtypes: set[DType] = set()
    texts = []
    for kernel in kernels:
        writer = KernelWriter(dialect, kernel)
        texts.append(writer.write())
        helpers.update(writer.expr.helpers)
        dtypes |= writer.expr.dtypes
        aligned |= writer.aligned
    parts = ["\n".join(dialect.preamble(frozenset(dtypes))), *helpers.values(), *texts]
    return "\n\n".join(part for part in parts if part) + "\n", frozenset(aligned)


class KernelWriter:
    """Writes one kernel."""

    def __init__(self, dialect: Dialect, kernel: Kernel) -> None:
        self.dialect = dialect
        self.kernel = kernel
        self.names = Names(dialect.reserved | {kernel.name} | kernel.called, dialect.owned)
        self.expr = ExprWriter(dialect, self.names, self._element)
        self.expr.positive = positive_in(kernel)
        self.expr.keep = self._keep
        self.vectors = VectorAccesses(self)
        self.expr.vector = partial(vector_argument, self.vectors)
        self.expr.address = lambda place: self._pointer(place.source, self.vectors.index(place))
        self.lines: list[str] = []
        self.waits = 0  # the barriers written so far
        self.indent = 1
        self.scopes: list[set[Any]] = [set()]
        self.aligned: set[Buffer] = set()
        self.dynamic: dict[Buffer, int] = {}
        self.views: dict[Buffer, None] = {}
        self.held_back: list[Stmt] = []
        self.pieces: Pieces | None = None
        self.copies_where, self.has_matrices = "", False
        self.low_sums = LowSums(kernel.launch.body)
        self.at_risk = loads_at_risk(kernel)
        self.unrolled = unrolled_loops(kernel.launch)

    def write(self) -> str:
        """The whole kernel."""
        parameters = [self._parameter(p) for p in self.kernel.params]
        self._thread_indices()
        top = len(self.lines)
        self._stmt(self.kernel.launch.body)
        self.lines[top:top] = self._shared_arrays()
        # With one block per multiprocessor asked for, ptxas spends registers on loading ahead, not on more blocks.
        resident = self.kernel.launch.resident or int(self.has_matrices)
        head = self.dialect.header(self.kernel.name, parameters, self.kernel.threads, resident)
        buffers = [p for p in self.kernel.params if isinstance(p, Buffer)]
        notes = [f"// {self.names(b)}: {remark(b.note)}" for b in buffers if b.note not in ("", b.name, self.names(b))]
        return "\n".join([*notes, head + " {", *self.lines, "}"])

    def _parameter(self, p: Buffer | n.Var) -> KernelParameter:
        if isinstance(p, Buffer):
            self.expr.dtypes.add(p.dtype)
            constant = p not in self.kernel.written
            return KernelParameter(self.names(p), p.dtype, True, constant, not (constant and self.at_risk))
        self.expr.dtypes.add(p.dtype)
        return KernelParameter(self.names(p), p.dtype, False, True)

    def _thread_indices(self) -> None:
        for tag, var, _ in self.kernel.launch.threads:
            if var in self.kernel.used:
                kind = self.dialect.scalar_type(var.dtype)
                self._line(f"const {kind} {self.names(var)} = {self.dialect.thread_index(tag)};")

    # Storage

    def _shared_arrays(self) -> list[str]:
        """Declare shared arrays at the top, whichever loop allocates them."""
        lines = []
        offsets, _ = shared_offsets(self.kernel.shared)
        if self.kernel.dynamic_shared_bytes:
            pool, align = self.names.fresh("shared_memory"), max(128, *map(strict_align, offsets))
            lines.append(f"  extern __shared__ __align__({align}) unsigned char {pool}[];")
        for buffer in self.kernel.shared:
            size, name = array_size(buffer), self.names(buffer)
            if self.kernel.dynamic_shared_bytes:
                kind = self.dialect.storage_type(buffer.dtype)
                text = f"{kind}* const {name} = ({kind}*)({pool} + {offsets[buffer]});"
            else:
                align = self._alignment(buffer)
                text = self.dialect.array(MemoryScope.SHARED, buffer.dtype, name, size, align)
            lines.append(f"  {text}{note_of(buffer)}")
        return lines + [self._view(buffer, buffer.byte_offset) for buffer in self.views]

    def _view(self, buffer: Buffer, offset: int | None) -> str:
        """A name for the place of a view in an array of bytes."""
        kind = f"{self.dialect.space(buffer.scope)}{self.dialect.aliasing_type(buffer.dtype)}*"
        place = f"{self.names(buffer.memory)} + {offset}" if offset else self.names(buffer.memory)
        return f"  {kind} const {self.names(buffer)} = ({kind})({place});{note_of(buffer)}"

    def _alignment(self, buffer: Buffer) -> int:
        if any(view.memory is buffer for view in self.views):
            return buffer.align
        if strict_align(buffer) > 16 and buffer.scope is MemoryScope.SHARED:
            return buffer.align
        return 16 if buffer in self.aligned else 0

    def _allocate(self, s: Allocate) -> None:
        buffer = s.buffer
        if buffer.scope is MemoryScope.GLOBAL:
            raise not_in_kernels(buffer)
        if buffer.scope is MemoryScope.LOCAL and not self._visible(buffer):
            self.scopes[-1].add(buffer)
            at = len(self.lines)
            self._stmt(s.body)
            text = self.dialect.array(
                MemoryScope.LOCAL,
                buffer.dtype,
                self.names(buffer),
                array_size(buffer),
                self._alignment(buffer),
            )
            self.lines.insert(at, "  " * self.indent + text + note_of(buffer))
        else:
            self._stmt(s.body)

    def _visible(self, thing: Any) -> bool:
        return any(thing in scope for scope in self.scopes)

    # Statements

    def _line(self, text: str) -> None:
        self.lines.append("  " * self.indent + text)
        self.expr.forget()

    def _keep(self, e: n.Expr, text: str) -> str:
        """A variable of the value of an expression, declared above the statement that is being written."""
        name = self.names.fresh("part")
        self.lines.append("  " * self.indent + f"const {self.dialect.scalar_type(e.dtype)} {name} = {text};")
        return name

    @contextmanager
    def _block(self, head: str) -> Iterator[None]:
        self._line(f"{head} {{" if head else "{")
        self.indent += 1
        self.scopes.append(set())
        yield
        self.scopes.pop()
        self.indent -= 1
        self._line("}")

    def _stmt(self, s: Stmt) -> None:
        write = _WRITE.get(type(s))
        if write is None:
            raise InternalError(f"code generation does not know the statement {type(s).__name__}")
        write(self, s)

    def _seq(self, s: Seq) -> None:
        write_sequence(self, s.stmts)

    def _for(self, s: For) -> None:
        if (named := with_named_range(s)) is not s:
            self._stmt(named)
            return
        if write_copy_loop(self, s):
            return
        if self.dialect.has_matrix_instructions and (write_product_loop(self, s) or write_lasting_sums(self, s)):
            return
        if s.kind not in (LoopKind.SERIAL, LoopKind.UNROLLED):
            raise InternalError(f"a {s.kind.value} loop over {s.var.name} reached code generation")
        if s.kind is LoopKind.UNROLLED:
            self._line("#pragma unroll")
        kind, name = self.dialect.scalar_type(s.var.dtype), self.names(s.var)
        end = op.add(s.min, s.extent)
        with self._block(f"for ({kind} {name} = {self.expr(s.min)}; {name} < {self.expr(end, SUM)}; ++{name})"):
            self._stmt(s.body)

    def _while(self, s: While) -> None:
        before = len(self.lines)
        condition = self.expr(s.condition)
        parts, self.lines[before:] = self.lines[before:], []
        with self._block("while (true)" if parts else f"while ({condition})"):
            if parts:  # the condition is too long for one expression
                self.lines += [*parts, "  " * self.indent + f"if (!({condition})) break;"]
                self.expr.forget()
            self._stmt(s.body)

    def _if(self, s: If) -> None:
        if write_copies_where(self, s):
            return
        with self._block(f"if ({self.expr(s.condition)})"):
            self._branch(s.then)
        if s.orelse is not None:
            self.lines[-1] += " else {"
            self.indent += 1
            self.scopes.append(set())
            self._branch(s.orelse)
            self.scopes.pop()
            self.indent -= 1
            self._line("}")

    def _branch(self, s: Stmt) -> None:
        """Write a branch; all threads that wait at its barriers take it."""
        before = self.waits
        self._stmt(s)
        if self.waits > before and self.dialect.branches_end_with_barriers:
            self._line(self.dialect.barrier(MemoryScope.SHARED))

    def _let(self, s: Let) -> None:
        if self._visible(s.var):  # the same binding again, after the first one's body
            with self._block(""):
                self._bind(s)
        else:
            self._bind(s)

    def _bind(self, s: Let) -> None:
        self.scopes[-1].add(s.var)
        value = self.expr(s.value)
        self._line(f"const {self.dialect.scalar_type(s.var.dtype)} {self.names(s.var)} = {value};")
        self._stmt(s.body)

    def _evaluate(self, s: Evaluate) -> None:
        if not isinstance(s.value, n.IntImm):
            self._line(f"{self.expr(s.value)};")

    def _lifetime_start(self, s: LifetimeStart) -> None:
        """Emit nothing: lifetimes are for passes."""

    def _barrier(self, s: Barrier) -> None:
        if self.kernel.warpgroups and self.dialect.has_matrix_instructions and s.scope is MemoryScope.SHARED:
            self._line(f"{self.expr.helper('fence_async')}();")
        self._line(self.dialect.barrier(s.scope))
        self.waits += 1

    def _tensorized(self, s: Tensorized) -> None:
        if self.dialect.has_matrix_instructions:
            write = write_dots if s.atom.by_thread else write_warpgroup if s.atom.by_warpgroup else write_product
            write(self, s)
        else:
            self._stmt(s.body)

    def _commit(self, s: Commit) -> None:
        self._line(self.dialect.commit())

    def _await(self, s: Await) -> None:
        self._line(self.dialect.await_groups(s.pending))

    def _launch(self, s: Launch) -> None:
        raise InternalError(f"kernel {s.name} is launched within kernel {self.kernel.name}")

    # Memory accesses

    def _element(self, e: n.Load) -> str:
        return self._unmerged(e, self._access(e.source, self.vectors.index(e)))

    def _unmerged(self, load: n.Load, text: str) -> str:
        """The load as `text`, or kept apart from others if the compiler would merge them wrongly."""
        apart = root(load.source) in self.at_risk and "unmerged" in self.dialect.helpers
        return f"{self.expr.helper('unmerged')}({text})" if apart else text

    def _access(self, buffer: Any, index: n.Expr) -> str:
        return f"{self._pointer_name(buffer)}[{self.expr(index)}]"

    def _pointer_name(self, buffer: Any) -> str:
        base = root(buffer)
        if buffer.byte_offset is not None:
            self.views[buffer] = None
            return self.names(buffer)
        if base.dtype.scalar == buffer.dtype.scalar:
            return self.names(base)
        const = "" if base in self.kernel.written or base not in self.kernel.params else "const "
        kind = f"{self.dialect.space(base.scope)}{const}{self.dialect.storage_type(buffer.dtype)}"
        return f"(({kind}*){self.names(base)})"

    def _pointer(self, buffer: Any, index: n.Expr) -> str:
        name = self._pointer_name(buffer)
        return name if op.is_const(index, 0) else f"{name} + {self.expr(index, SUM)}"

    def _store(self, s: Store) -> None:
        index = flat_index(s.buffer, s.indices)
        if index.dtype.lanes == 1:
            self.expr.dtypes.add(s.buffer.dtype)
            self._line(f"{self._access(s.buffer, index)} = {self.expr.stored(s.value, s.buffer.dtype)};")
        else:
            self.vectors.store(s, index)


def with_named_range(s: For) -> Stmt:
    """The loop with names for the ends of its range that are read: C reads the end again in each iteration."""
    if not loads(s.min, s.extent):
        return s
    low, extent = (n.Var(f"{s.var.name}.{name}", e.dtype) for name, e in (("start", s.min), ("extent", s.extent)))
    fixed = not loads(s.min)
    loop = For(s.var, s.min if fixed else low, extent, s.kind, s.thread, s.pragmas, s.body)
    made: Stmt = Let(extent, s.extent, loop)
    return made if fixed else Let(low, s.min, made)


_WRITE: dict[type, Callable[[KernelWriter, Any], None]] = {
    Seq: KernelWriter._seq,
    For: KernelWriter._for,
    If: KernelWriter._if,
    While: KernelWriter._while,
    Let: KernelWriter._let,
    Store: KernelWriter._store,
    Copy: write_copy,
    Evaluate: KernelWriter._evaluate,
    Allocate: KernelWriter._allocate,
    LifetimeStart: KernelWriter._lifetime_start,
    Barrier: KernelWriter._barrier,
    Tensorized: KernelWriter._tensorized,
    Commit: KernelWriter._commit,
    Await: KernelWriter._await,
    Launch: KernelWriter._launch,
}
