"""The rules of well-formed functions of the loop grammar."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from ..core.dtype import DType
from ..core.errors import InternalError
from ..core.hardware import LoopKind, MemoryScope, ThreadTag
from ..core.node import Node
from ..core.recursion import deep
from ..expr import nodes as e
from .calls import addresses, has_effect
from .describe import describe
from .nodes import (
    Allocate,
    AllReduce,
    Await,
    Barrier,
    Buffer,
    Commit,
    Copy,
    Evaluate,
    For,
    Function,
    If,
    Launch,
    Let,
    LifetimeStart,
    Seq,
    Stmt,
    Store,
    Tensorized,
    While,
    copied_load,
    is_exchange,
)
from .well_typed import fault_of


class Form(enum.Flag):
    """The form that passes have established for a function, on which later ones rely."""

    BUILT = 0
    """Nothing yet: the function is as it was built."""
    FLAT = enum.auto()
    """Storage is flattened: every access has one index."""
    SCALAR = enum.auto()
    """No vectorized loop is left: vector expressions replace them."""
    EXPANDED = enum.auto()
    """No virtual thread is left."""
    HOISTED = enum.auto()
    """A kernel allocates all of its shared memory of constant size at its head, before its other statements."""
    FINISHED = enum.auto()
    """Kernels are `Launch`es: no loop over threads is left, and no virtual thread."""
    REDUCED = enum.auto()
    """No value is a reduction over threads: exchanges are written out."""
    MASKED = enum.auto()
    """A guard may be a vector, without an `else`."""


@deep
def verify(function: Function, form: Form = Form.BUILT) -> None:
    """Raise InternalError for the first node of `function` that breaks a rule of its form, naming both."""
    _Verifier(function, form).run()


class _Verifier:
    """Walks a function; `defined`, `storage` and `kernel` describe the way from the root to the node at hand."""

    def __init__(self, function: Function, form: Form) -> None:
        self.function = function
        self.form = form
        self.masks = Form.MASKED in form
        self.flat = Form.FLAT in form
        self.finished = Form.FINISHED in form
        self.heads: set[Stmt] = set()
        self.diverging: set[e.Var] = set()
        self.diverges = 0
        self.defined: set[e.Var] = set()
        self.storage: set[Buffer] = set()
        self.kernel: dict[ThreadTag, e.Expr] | None = None
        self.indices: set[e.Var] = set()
        """The thread indices of the kernel, which have a value in all of it."""
        self.launch: Launch | None = None
        self.typed: set[e.Expr] = set()
        self.used: dict[e.Expr, frozenset[Any]] = {}

    def run(self) -> None:
        """Check the parameters, then the body."""
        for param in self.function.params:
            if isinstance(param, e.Var):
                self.defined.add(param)
            else:
                self.storage.add(param)
                for size in param.shape:  # a size that no parameter gives is taken from the argument's shape
                    self.defined.update(name for name in self._names(size) if isinstance(name, e.Var))
        self.statement(self.function.body)

    def fail(self, rule: str, node: Node) -> NoReturn:
        """Say which rule the node breaks."""
        raise InternalError(f"{self.function.name}: {rule}, in `{describe(node)}`")

    # Statements.

    def statement(self, stmt: Stmt) -> None:
        """Check a statement and all below it."""
        check = _STATEMENTS.get(type(stmt))
        if check is None:
            self.fail(f"{type(stmt).__name__} is not a statement of the grammar", stmt)
        check(self, stmt)

    @contextmanager
    def _bound(self, stmt: Stmt, *names: e.Var) -> Iterator[None]:
        """A part of the function in which variables are defined."""
        for var in names:
            if var in self.defined:
                self.fail(f"variable {var.name} is defined twice", stmt)
            self.defined.add(var)
        yield
        self.defined.difference_update(names)

    def _for(self, stmt: For) -> None:
        self._integer(stmt.min, "the minimum of a loop", stmt)
        self._integer(stmt.extent, "the extent of a loop", stmt)
        if not stmt.var.dtype == stmt.min.dtype == stmt.extent.dtype:
            types = f"{stmt.min.dtype} and {stmt.extent.dtype}"
            self.fail(f"the loop variable {stmt.var.name} of type {stmt.var.dtype} has bounds of {types}", stmt)
        if stmt.kind is not LoopKind.THREAD:
            self._plain_loop(stmt)
            return
        if stmt.thread is None:
            self.fail("a THREAD loop has no hardware index", stmt)
        if self.finished or self.launch is not None:
            self.fail("a loop over threads is left in finished code", stmt)
        if Form.EXPANDED in self.form and stmt.thread is ThreadTag.VTHREAD:
            self.fail("a virtual thread is left after they were expanded", stmt)
        outermost = self.kernel is None and stmt.thread is not ThreadTag.VTHREAD
        if outermost:
            self.kernel = {}
            self._note_head(stmt.body)
        if stmt.thread is not ThreadTag.VTHREAD:
            self._one_extent(stmt.thread, stmt.extent, stmt)
            self.indices.add(stmt.var)
        with self._bound(stmt, stmt.var):
            self.statement(stmt.body)
        if outermost:
            self.kernel = None
            self.indices.clear()

    def _plain_loop(self, stmt: For) -> None:
        if stmt.thread is not None:
            self.fail(f"a {stmt.kind.value} loop has a hardware index", stmt)
        if Form.SCALAR in self.form and stmt.kind is LoopKind.VECTORIZED:
            self.fail("a loop is marked as a vector loop after vector loops became vectors", stmt)
        if stmt.kind is LoopKind.PARALLEL and self.launch is not None and self.launch.threads:
            self.fail("a loop over CPU threads stands in a kernel of a grid", stmt)
        if self._differs(stmt.min, stmt.extent):
            self.diverging.add(stmt.var)
        with self._reached_by_some(stmt.min, stmt.extent), self._bound(stmt, stmt.var):
            self.statement(stmt.body)

    def _one_extent(self, tag: ThreadTag, extent: e.Expr, stmt: Stmt) -> None:
        known = self.kernel.setdefault(tag, extent) if self.kernel is not None else extent
        if known is not extent and not _same_number(known, extent):
            self.fail(f"{tag.value} has the extents {known} and {extent} in one kernel", stmt)

    def _launch(self, stmt: Launch) -> None:
        if self.launch is not None or self.kernel is not None:
            self.fail("a kernel is launched from within a kernel", stmt)
        tags = [tag for tag, _, _ in stmt.threads]
        if ThreadTag.VTHREAD in tags or len(set(tags)) != len(tags):
            self.fail("a launch names each real hardware index at most once", stmt)
        for tag, _, extent in stmt.threads:
            self._integer(extent, f"the extent of {tag.value}", stmt)
        self.launch = stmt
        self._note_head(stmt.body)
        self.diverging = {var for tag, var, _ in stmt.threads if tag.is_thread}
        with self._bound(stmt, *(var for _, var, _ in stmt.threads)):
            self.statement(stmt.body)
        self.launch = None
        self.diverging = set()

    def _if(self, stmt: If) -> None:
        self.expression(stmt.condition, stmt)
        lanes = stmt.condition.dtype.lanes
        if not stmt.condition.dtype.is_bool or (lanes > 1 and (stmt.orelse is not None or not self.masks)):
            self.fail(f"the condition has type {stmt.condition.dtype}, not bool", stmt)
        with self._reached_by_some(stmt.condition):
            self.statement(stmt.then)
            if stmt.orelse is not None:
                self.statement(stmt.orelse)

    @contextmanager
    def _reached_by_some(self, *decide: e.Expr) -> Iterator[None]:
        """Mark a part of the function that only some threads of a block reach, if a thread index decides."""
        split = self._differs(*decide)
        self.diverges += split
        yield
        self.diverges -= split

    def _differs(self, *exprs: e.Expr) -> bool:
        """Whether threads of one block may find different values, as far as thread indices tell."""
        return bool(self.diverging) and any(not self.diverging.isdisjoint(self._names(expr)) for expr in exprs)

    def _while(self, stmt: While) -> None:
        self.expression(stmt.condition, stmt)
        if not stmt.condition.dtype.is_bool or stmt.condition.dtype.lanes > 1:
            self.fail(f"the condition has type {stmt.condition.dtype}, not bool", stmt)
        with self._reached_by_some(stmt.condition):
            self.statement(stmt.body)

    def _store(self, stmt: Store) -> None:
        for part in (*stmt.indices, stmt.value):
            self.expression(part, stmt)
        self._access(stmt.buffer, stmt.indices, stmt)
        wanted = _element(stmt.buffer, stmt.indices)
        if stmt.value.dtype is not wanted:
            self.fail(f"a value of type {stmt.value.dtype} is stored as {wanted}", stmt)

    def _let(self, stmt: Let) -> None:
        self.expression(stmt.value, stmt)
        if stmt.value.dtype is not stmt.var.dtype:
            self.fail(f"{stmt.var.name} of type {stmt.var.dtype} stands for a {stmt.value.dtype}", stmt)
        if self._differs(stmt.value):
            self.diverging.add(stmt.var)
        with self._bound(stmt, stmt.var):
            self.statement(stmt.body)

    def _allocate(self, stmt: Allocate) -> None:
        buffer = stmt.buffer
        for size in buffer.shape:
            self._integer(size, f"a size of {buffer.name}", stmt)
        if buffer in self.storage:
            self.fail(f"buffer {buffer.name} is allocated twice", stmt)
        if buffer.alias_of is not None:
            self.fail(f"buffer {buffer.name} is allocated, but is a view of {buffer.alias_of.name}", stmt)
        constant = all(isinstance(size, e.IntImm) for size in buffer.shape)
        on_chip = buffer.scope is MemoryScope.SHARED and (self.kernel is not None or self.launch is not None)
        if Form.HOISTED in self.form and on_chip and constant and stmt not in self.heads:
            self.fail(f"the shared buffer {buffer.name} is not allocated at the head of its kernel", stmt)
        self.storage.add(buffer)
        self.statement(stmt.body)
        self.storage.discard(buffer)

    def _note_head(self, body: Stmt) -> None:
        """Note the allocations at the head of a kernel, among names of values."""
        while isinstance(body, (Allocate, Let)):
            self.heads.add(body)
            body = body.body

    def _seq(self, stmt: Seq) -> None:
        for part in stmt.stmts:
            if isinstance(part, Seq):
                self.fail("a Seq stands directly in a Seq", stmt)
            self.statement(part)

    def _evaluate(self, stmt: Evaluate) -> None:
        self.expression(stmt.value, stmt)

    def _lifetime_start(self, stmt: LifetimeStart) -> None:
        self._stored(stmt.buffer, stmt)
        if stmt.buffer.alias_of is not None:
            self.fail(f"a lifetime of {stmt.buffer.name} starts, which is a view", stmt)

    def _tensorized(self, stmt: Tensorized) -> None:
        self._integer(stmt.lane, "the lane of a warp", stmt)
        if stmt.atom.by_warpgroup and self.diverges:
            self.fail("some threads of the block do not reach an instruction of a warpgroup", stmt)
        with self._bound(stmt, stmt.row, stmt.column, stmt.depth):
            for part in (stmt.a, stmt.b, stmt.sums):
                if not isinstance(part, e.Load):
                    self.fail(f"the operand `{part}` of a matrix instruction is not a load", stmt)
                self.expression(part, stmt)
        self.statement(stmt.body)

    def _barrier(self, stmt: Barrier) -> None:
        if self.kernel is None and self.launch is None:
            self.fail("a barrier stands outside any kernel", stmt)
        if self.diverges:
            self.fail("some threads of the block do not reach a barrier", stmt)

    def _copy(self, stmt: Copy) -> None:
        self._store(stmt)
        if stmt.buffer.scope is not MemoryScope.SHARED:
            self.fail(f"a copy goes to {stmt.buffer.scope.value} memory", stmt)
        load = copied_load(stmt.value)
        if load is None or not isinstance(load.source, Buffer) or load.source.scope is not MemoryScope.GLOBAL:
            self.fail("a copy is not from global memory", stmt)
        if stmt.size <= 0 or load.dtype.lanes * stmt.buffer.dtype.bytes % stmt.size:
            self.fail(f"copies of {stmt.size} bytes do not make up {load.dtype}", stmt)

    def _group(self, stmt: Commit | Await) -> None:
        if self.kernel is None and self.launch is None:
            self.fail("copies are committed or awaited outside any kernel", stmt)
        if self.diverges:
            self.fail("some threads of the block do not reach a commit or a wait for copies", stmt)

    # Expressions.

    def _integer(self, expr: e.Expr, what: str, stmt: Stmt) -> None:
        self.expression(expr, stmt)
        if not (expr.dtype.is_int and expr.dtype.lanes == 1):
            self.fail(f"{what}, `{expr}`, has type {expr.dtype}, not an integer type", stmt)

    def expression(self, expr: e.Expr, stmt: Stmt) -> None:
        """Check an expression's types, and that its names are defined."""
        if is_exchange(expr) and not (isinstance(stmt, (Store, Let)) and expr is stmt.value):
            self.fail("an exchange between threads is not the whole value of a store", stmt)
        if expr not in self.typed:
            self._types(expr, stmt)
        for name in self._names(expr):
            if isinstance(name, e.Var):
                if name not in self.defined and name not in self.indices:
                    self.fail(f"variable {name.name} is used outside of its definition", stmt)
            else:
                self._stored(name, stmt)

    def _names(self, expr: e.Expr) -> frozenset[Any]:
        """The variables and buffers that an expression uses."""
        found = self.used.get(expr)
        if found is None:
            own = [expr] if isinstance(expr, e.Var) else [expr.source] if isinstance(expr, e.Load) else []
            below = [names for child in expr.children() if (names := self._names(child))]
            found = below[0] if len(below) == 1 and not own else frozenset(own).union(*below)
            self.used[expr] = found
        return found

    def _types(self, expr: e.Expr, stmt: Stmt) -> None:
        for child in expr.children():
            if isinstance(child, (e.Call, AllReduce)):
                self._within(child, expr, stmt)
            if child not in self.typed:
                self._types(child, stmt)
        if isinstance(expr, AllReduce) and Form.REDUCED in self.form:
            self.fail("a reduction over threads is left after they were written out", stmt)
        fault = fault_of(expr)
        if fault:
            self.fail(f"{fault} (`{expr}`)", stmt)
        if isinstance(expr, e.Load):
            if not isinstance(expr.source, Buffer):
                self.fail(f"`{expr}` reads {expr.source.name}, which is not a buffer", stmt)
            self._access(expr.source, expr.indices, stmt)
        self.typed.add(expr)

    def _within(self, child: e.Expr, expr: e.Expr, stmt: Stmt) -> None:
        """Check that a call or a reduction over threads may stand inside of an expression."""
        if is_exchange(child):  # an expression may be evaluated for some threads only
            self.fail(f"an exchange between threads stands inside of `{expr}`", stmt)
        if has_effect(child) and any(True for _ in addresses(child)):  # dataflow looks at whole values only
            self.fail(f"a call that may write memory stands inside of `{expr}`", stmt)

    def _access(self, buffer: Buffer, indices: tuple[e.Expr, ...], stmt: Stmt) -> None:
        self._stored(buffer, stmt)
        if buffer.alias_of is not None and buffer.alias_of.scope is not buffer.scope:
            view = f"{buffer.name} in {buffer.scope.value} memory"
            self.fail(f"{view} is a view of {buffer.alias_of.name} in {buffer.alias_of.scope.value} memory", stmt)
        if buffer.byte_offset is not None:
            self._bytes(buffer, buffer.byte_offset, stmt)
        if self.flat and len(buffer.shape) != 1:
            self.fail(f"buffer {buffer.name} has {len(buffer.shape)} dimensions in flat code", stmt)
        if len(indices) != len(buffer.shape):
            count = f"{len(indices)} indices on the {len(buffer.shape)} dimensions"
            self.fail(f"{count} of {buffer.name}", stmt)
        for index in indices:
            if not index.dtype.is_int:
                self.fail(f"an index of {buffer.name}, `{index}`, has type {index.dtype}", stmt)
        if len({index.dtype.lanes for index in indices} - {1}) > 1:
            self.fail(f"indices of {buffer.name} have vectors of several lengths", stmt)

    def _bytes(self, buffer: Buffer, offset: int, stmt: Stmt) -> None:
        base = buffer.alias_of
        if base is None or base.alias_of is not None or base.dtype != "uint8":
            self.fail(f"{buffer.name} begins at byte {offset}, but of no buffer of bytes", stmt)
        if offset % buffer.dtype.bytes:
            self.fail(f"{buffer.name} of type {buffer.dtype} begins at byte {offset}, between two elements", stmt)
        size, room = buffer.constant_bytes, base.constant_bytes
        if offset < 0 or size is None or room is None or offset + size > room:
            self.fail(f"{buffer.name} at byte {offset} is not within {base.name}", stmt)

    def _stored(self, buffer: Buffer, stmt: Stmt) -> None:
        base = buffer.memory
        if base not in self.storage:
            self.fail(f"buffer {base.name} is neither a parameter nor allocated here", stmt)


_STATEMENTS: dict[type, Callable[[_Verifier, Any], None]] = {
    For: _Verifier._for,
    Launch: _Verifier._launch,
    If: _Verifier._if,
    While: _Verifier._while,
    Store: _Verifier._store,
    Copy: _Verifier._copy,
    Let: _Verifier._let,
    Allocate: _Verifier._allocate,
    Seq: _Verifier._seq,
    Evaluate: _Verifier._evaluate,
    LifetimeStart: _Verifier._lifetime_start,
    Barrier: _Verifier._barrier,
    Tensorized: _Verifier._tensorized,
    Commit: _Verifier._group,
    Await: _Verifier._group,
}


def _same_number(a: e.Expr, b: e.Expr) -> bool:
    return isinstance(a, e.IntImm) and isinstance(b, e.IntImm) and a.value == b.value


def _element(buffer: Buffer, indices: tuple[e.Expr, ...]) -> DType:
    """The type of the elements at `indices`: a vector if an index is one."""
    lanes = max((index.dtype.lanes for index in indices), default=1)
    return buffer.dtype.with_lanes(lanes * buffer.dtype.lanes)
