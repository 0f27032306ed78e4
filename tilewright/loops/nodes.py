"""The loop grammar, on one page.

    Program  = Function*                     what `lower` returns
    Function = name, params, body
    Stmt     = For | While | If | Store | Copy | Evaluate | Let | Allocate | LifetimeStart | Barrier | Commit | Await
             | Seq | Launch | Tensorized
    Expr     = the expressions of expr/nodes.py | AllReduce | AddressOf

A `For` of kind THREAD binds a hardware thread index. Its body runs once per thread, and two loops of one tag are the
same hardware index. In *lowered* programs such loops stay in the schedule's places. The *finished* form has one
`Launch` per kernel instead. It names the kernel, its grid and its block, and its body is the device code. `Buffer`s (in
`storage.py`) are multi-dimensional until `flatten_storage`; a flat view of a parameter is a buffer with `alias_of`. A
call that has an effect (in `calls.py`) is the whole value of an `Evaluate`, `Let` or `Store`.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from math import copysign
from typing import Any, ClassVar, NamedTuple

from ..bounds.call_checks import ReadCheck
from ..core.atoms import Atom
from ..core.errors import UserError
from ..core.hardware import LoopKind as LoopKind
from ..core.hardware import MemoryScope, ThreadTag
from ..core.node import Node, node
from ..expr.nodes import Broadcast, Call, Expr, FloatImm, IfThenElse, IntImm, Load, Select, Var
from ..expr.numerics import EXCHANGES
from ..expr.operand import TEXT
from ..expr.traverse import rewrite
from ..tensor.reduction import CommReducer
from .checked_index import REPORT as REPORT
from .checked_index import Assertion as Assertion
from .checked_index import CheckedIndex as CheckedIndex
from .storage import STATEMENTS
from .storage import AddressOf as AddressOf
from .storage import Buffer as Buffer


class Stmt(Node):
    """A statement."""

    __slots__ = ("written_below",)
    written_below: Any
    """Set by `uses.py`, as `read_below`."""

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.FIELDS)
        return f"{type(self).__name__}({fields})"

    def __str__(self) -> str:
        return TEXT[Stmt](self)


@node()
class For(Stmt):
    """`var` takes extent values from min upwards.

    `thread` is the hardware index of a THREAD loop (`ThreadTag.VTHREAD`: copies made by the compiler), else
    None. `pragmas` are (name, value) pairs from the schedule, such as ("auto_unroll_max_step", 16).
    """

    var: Var
    min: Expr
    extent: Expr
    kind: LoopKind
    thread: ThreadTag | None
    pragmas: tuple[tuple[str, Any], ...]
    body: Stmt


@node()
class While(Stmt):
    """Repeat the body while the condition holds, checked before each iteration."""

    condition: Expr
    body: Stmt


@node()
class If(Stmt):
    """`then` if the condition holds, else `orelse` (which may be None).

    A vector condition, which finished functions for the CPU may have, is a mask. The vector accesses in `then` are done
    in the lanes in which it holds. There is no `orelse` then.
    """

    condition: Expr
    then: Stmt
    orelse: Stmt | None


@node()
class Store(Stmt):
    """`buffer[indices] = value`; a `Ramp` index writes a vector."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    value: Expr

    def with_parts(self, indices: tuple[Expr, ...], value: Expr) -> Store:
        """This store, or copy, with other indices and another value."""
        return Store(self.buffer, indices, value)


STATEMENTS["Store"] = Store


@node()
class Copy(Store):
    """A store that the hardware completes on its own: the thread goes on, and the elements arrive later.

    Its meaning is that of the store, made between this statement and the `Await` that waits for its group; nobody
    accesses the elements in between. The value is a load from global memory that the kernel does not write, or a choice
    between such a load and zero. `size` is the bytes of one instruction; a vector of more bytes takes several.
    """

    buffer: Buffer
    indices: tuple[Expr, ...]
    value: Expr
    size: int

    def with_parts(self, indices: tuple[Expr, ...], value: Expr) -> Store:
        """This copy with other indices and another value."""
        return Copy(self.buffer, indices, value, self.size)


@node(derived={"dtype": "source[value_index].dtype"})
class AllReduce(Expr):
    """The `value_index`-th result of combining `source` over all values of the hardware indices `threads`.

    It is the whole value of a `Store`, and every thread of the block takes part. Thread indices that `threads` leave
    out distinguish groups with results of their own. `lower_thread_reduce` turns it into shuffles or a tree in shared
    memory.
    """

    PRINTED: ClassVar[str] = "T.tvm_thread_allreduce"
    combiner: CommReducer
    source: tuple[Expr, ...]
    threads: tuple[Expr, ...]
    value_index: int


def copied_load(value: Expr) -> Load | None:
    """The load of a value that a `Copy` may store: a load, or a choice of one condition between a load and zero; else
    None."""
    if isinstance(value, (IfThenElse, Select)) and value.condition.dtype.lanes == 1:
        zero = value.false_value.value if isinstance(value.false_value, Broadcast) else value.false_value
        if isinstance(zero, (IntImm, FloatImm)) and zero.value == 0 and copysign(1, zero.value) > 0:  # -0.0 has a bit
            value = value.true_value
    return value if isinstance(value, Load) else None


def is_exchange(e: Any) -> bool:
    """Whether an expression exchanges values between threads, which must all evaluate it together."""
    return isinstance(e, AllReduce) or (isinstance(e, Call) and e.name in EXCHANGES)


@node(interned=False)
class Evaluate(Stmt):
    """Evaluate an expression for its effect. Two equal statements have two effects."""

    value: Expr


@node()
class Let(Stmt):
    """`var` stands for `value` (computed once) within the body."""

    var: Var
    value: Expr
    body: Stmt


@node()
class Allocate(Stmt):
    """Uninitialised storage for `buffer`, alive within the body. The extents of the buffer belong to this node."""

    buffer: Buffer
    body: Stmt

    def children(self) -> tuple[Any, ...]:
        """The extents, then the body."""
        return (*self.buffer.shape, self.body)

    def map_children(self, f: Callable[[Any], Any]) -> Stmt:
        """The allocation with `f` applied to extents and body; if extents change, a new buffer replaces the old one
        throughout.
        """
        shape, body = tuple([f(extent) for extent in self.buffer.shape]), f(self.body)
        if all(new is old for new, old in zip(shape, self.buffer.shape, strict=True)):
            return self if body is self.body else Allocate(self.buffer, body)
        buffer = copy(self.buffer)
        buffer.shape = shape
        return Allocate(buffer, with_buffer(body, self.buffer, buffer))


@node(interned=False)
class LifetimeStart(Stmt):
    """The contents of `buffer` end here: all later reads see stores after this.

    It marks the former place of an `Allocate` that was moved outwards, perhaps out of loops. Programs print without it.
    """

    buffer: Buffer


@node(interned=False)
class Barrier(Stmt):
    """All threads of a block wait here, and see each other's writes to `scope` memory. Equal barriers are distinct."""

    scope: MemoryScope


@node(interned=False)
class Commit(Stmt):
    """The copies that a thread has issued since its last commit, possibly none, become a group."""


@node(interned=False)
class Await(Stmt):
    """Each thread waits until at most its `pending` latest groups of copies are under way.

    Its copies of the other groups have then arrived in memory: for itself, and for other threads of the block after a
    barrier. `buffers` are the destinations of copies in flight.
    """

    pending: int
    buffers: tuple[Buffer, ...]


@node()
class Tensorized(Stmt):
    """A warp multiplies matrices: sums[row, column] += a[row, depth] * b[depth, column], for all values of the three.

    `body`, the work of one lane, defines the result; code that does not know the instruction uses it. `a`, `b` and
    `sums` are loads in terms of the variables `row`, `column` and `depth`. The statement defines these variables, which
    run from 0 to `extents`. A lane accesses the sums that it holds. `lane` is its number in the warp. An instruction of
    a warpgroup is complete when the statement ends: back ends wait for it.
    """

    atom: Atom
    row: Var
    column: Var
    depth: Var
    extents: tuple[int, int, int]
    a: Expr
    b: Expr
    sums: Expr
    lane: Expr
    body: Stmt


@node()
class Seq(Stmt):
    """Statements in order; built by `seq`, which flattens sequences and drops empty statements."""

    stmts: tuple[Stmt, ...]


@node()
class Launch(Stmt):
    """A kernel launch: `threads` maps each hardware index used to (variable, extent).

    `resident` is the number of blocks that the compiler lets fit on a multiprocessor; with 0, the compiler decides.
    With `whole_words` 1, zeros beyond a border are chosen for whole words, before these are split into 16-bit halves.
    With 2, the load itself is predicated: `codegen/padded_loads.py`.
    """

    name: str
    threads: tuple[tuple[ThreadTag, Var, Expr], ...]
    body: Stmt
    resident: int
    whole_words: int

    def with_body(self, body: Stmt, threads: tuple[tuple[ThreadTag, Var, Expr], ...] | None = None) -> Launch:
        """This launch with another body, and with other extents if given."""
        threads = self.threads if threads is None else threads
        return Launch(self.name, threads, body, self.resident, self.whole_words)


NOTHING = Seq(())


def with_buffer(stmt: Stmt, old: Buffer, new: Buffer) -> Stmt:
    """`stmt` with every access to `old`, or to a view of `old`, replaced by an access to `new`."""
    moved: dict[Buffer, Buffer] = {old: new}

    def at(buffer: Any) -> Any:
        if isinstance(buffer, Buffer) and buffer not in moved:
            moved[buffer] = buffer
            base = None if buffer.alias_of is None else at(buffer.alias_of)
            if base is not buffer.alias_of:
                moved[buffer] = copy(buffer)
                moved[buffer].alias_of = base
        return moved.get(buffer, buffer)

    def visit(part: Any) -> Any:
        fields = [getattr(part, name) for name in part.FIELDS]
        held = [at(value) if isinstance(value, Buffer) else value for value in fields]
        if isinstance(part, Await):
            held = [part.pending, tuple([at(buffer) for buffer in part.buffers])]
        return part if all(new is value for new, value in zip(held, fields, strict=True)) else type(part)(*held)

    made: Stmt = rewrite(stmt, visit)
    return made


def seq(*stmts: Stmt) -> Stmt:
    """The statements in order, nested sequences flattened; `NOTHING` if there is none."""
    flat: list[Stmt] = []
    for stmt in stmts:
        flat.extend(stmt.stmts if isinstance(stmt, Seq) else (stmt,))
    return flat[0] if len(flat) == 1 else Seq(tuple(flat))


SIMPLE = frozenset((Store, Copy, Evaluate, LifetimeStart, Barrier, Commit, Await, Tensorized))
"""Statements without inner statements: nearly all of an unrolled program."""


def map_statements(stmt: Stmt, f: Callable[[Stmt], Stmt]) -> Stmt:
    """`stmt` with `f` applied to the statements directly below it; sequences stay flat.

    The body of a `Tensorized` is left alone: the instruction computes it as a whole.
    """
    if type(stmt) in SIMPLE:
        return stmt
    if isinstance(stmt, Seq):
        parts = [f(part) for part in stmt.stmts]
        return stmt if all(a is b for a, b in zip(stmt.stmts, parts, strict=True)) else seq(*parts)
    made: Stmt = stmt.map_children(lambda child: f(child) if isinstance(child, Stmt) else child)
    return made


class BoundChecks(NamedTuple):
    """The indices and assertions of a function that are checked, and the memory in which failures are reported, once
    allocated.
    """

    indices: tuple[CheckedIndex | Assertion, ...]
    faults: Buffer | None = None


class Function:
    """One entry point: its parameters in the caller's order, its body, and the reads that each call has to check.

    `imports` is code that comes with it and defines functions that it calls: (language, text) each.
    """

    __slots__ = ("body", "checks", "imports", "name", "params", "reads")

    def __init__(
        self,
        name: str,
        params: tuple[Buffer | Var, ...],
        body: Stmt,
        reads: tuple[ReadCheck, ...] = (),
        checks: BoundChecks | None = None,
        imports: tuple[tuple[str, str], ...] = (),
    ) -> None:
        self.name = name
        self.params = params
        self.body = body
        self.imports = imports
        self.reads = reads
        self.checks = checks

    def __repr__(self) -> str:
        kinds = (f"{p.name}: {p.dtype}{list(p.shape) if isinstance(p, Buffer) else ''}" for p in self.params)
        return f"Function({self.name}({', '.join(kinds)}))"

    def __str__(self) -> str:
        return TEXT[Function](self)

    def with_body(self, body: Stmt) -> Function:
        """This function with another body; the same object if the body is the same."""
        if body is self.body:
            return self
        return Function(self.name, self.params, body, self.reads, self.checks, self.imports)

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """The parameters that are buffers."""
        return tuple(p for p in self.params if isinstance(p, Buffer))


class Program:
    """The functions of one module, by name."""

    __slots__ = ("functions",)

    def __init__(self, functions: tuple[Function, ...]) -> None:
        self.functions = functions

    def __getitem__(self, name: str) -> Function:
        found = next((f for f in self.functions if isinstance(name, str) and f.name == name), None)
        if found is None:
            raise UserError(
                f"the program has no function {name!r}", fix=f"it has {', '.join(f.name for f in self.functions)}"
            )
        return found

    def __repr__(self) -> str:
        return f"Program({', '.join(map(repr, self.functions))})"

    def __str__(self) -> str:
        return TEXT[Program](self)
