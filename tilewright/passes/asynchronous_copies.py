"""asynchronous_copies: fill rings in shared memory by the hardware's asynchronous copies.

A store that only moves elements of global memory to a ring, or zeros if a condition does not hold (padding), becomes a
`Copy`. Its data bypass the registers, and the thread continues at once. A copy has the largest size that the hardware
supports and that is provably aligned on both sides. Other stores, such as stores of computed values, stay as they are,
and `register_prefetch` may run their loads ahead.
"""

from __future__ import annotations

from ..arith.digits import cancel_digits
from ..arith.facts import EMPTY, Facts
from ..arith.modular import modular
from ..core.hardware import LoopKind, MemoryScope
from ..core.options import Options
from ..core.target import Target
from ..expr.nodes import Expr, IntImm, Load, Ramp, Var
from ..expr.operators import const
from ..expr.traverse import post_order, reads_memory, substitute, variables
from ..loops import uses
from ..loops.nodes import (
    NOTHING,
    Barrier,
    Buffer,
    Commit,
    Copy,
    For,
    Function,
    If,
    Launch,
    Let,
    Seq,
    Stmt,
    Store,
    Tensorized,
    While,
    copied_load,
    map_statements,
    seq,
)
from ..loops.walk import map_kernels, statements


def asynchronous_copies(function: Function, target: Target, options: Options) -> Function:
    """Convert the stores that fill rings of several stages to copies, if a `Commit` follows them."""
    return map_kernels(function, lambda kernel: _in_kernel(kernel, target.hardware.copy_bytes))


def _in_kernel(stmt: Launch, sizes: tuple[int, ...]) -> Launch:
    if not any(isinstance(part, Commit) for part in statements(stmt.body)):
        return stmt
    facts = EMPTY.bind_all({var: (const(0, var.dtype), extent) for _, var, extent in stmt.threads})
    threads = frozenset(var for tag, var, _ in stmt.threads if tag.is_thread)
    return stmt.with_body(_Copier(sizes, uses.written(stmt.body)).visit(stmt.body, facts, threads))


def without_commits(stmt: Stmt) -> Stmt:
    """The statement without the ends of groups."""
    return NOTHING if isinstance(stmt, Commit) else map_statements(stmt, without_commits)


class _Copier:
    """Makes copies in one kernel, which writes the buffers `written`."""

    def __init__(self, sizes: tuple[int, ...], written: uses.Sources) -> None:
        self.sizes = sizes
        self.written = {buffer.memory for buffer in written}

    def visit(self, stmt: Stmt, facts: Facts, varying: frozenset[Var]) -> Stmt:
        """The statement with its copies; the variables `varying` differ between the threads of a block."""
        if isinstance(stmt, Seq):
            return self._sequence(stmt, facts, varying)
        if isinstance(stmt, While):  # the number of iterations is unknown
            return without_commits(stmt)
        if isinstance(stmt, (For, If)):
            decides = (stmt.min, stmt.extent) if isinstance(stmt, For) else (stmt.condition,)
            if any(_varies(e, varying) for e in decides):  # groups are counted alike in all threads of a block
                return without_commits(stmt)
        if isinstance(stmt, Let) and _varies(stmt.value, varying):
            varying |= {stmt.var}
        inside = facts.bind(stmt.var, stmt.min, stmt.extent) if isinstance(stmt, For) else facts
        return map_statements(stmt, lambda child: self.visit(child, inside, varying))

    def _sequence(self, stmt: Seq, facts: Facts, varying: frozenset[Var]) -> Stmt:
        """Turn the fills directly before each commit into copies, as one group.

        Loops after them are unrolled to a moderate size. Left to itself, the target's compiler unrolled the same work
        only in some kernels; others ran at a quarter of the speed.
        """
        made: list[Stmt] = []
        fills: list[int] = []
        copied = False
        for part in stmt.stmts:
            if isinstance(part, Commit):
                for i in fills:
                    made[i] = self.copies(made[i], facts)
                    copied = copied or any(isinstance(node, Copy) for node in statements(made[i]))
                fills = []
            elif is_fill(part):
                fills.append(len(made))
            else:
                fills = []
                part = self.visit(part, facts, varying)
                part = _unrolled(part)[0] if copied else part
            made.append(part)
        return seq(*made)

    def copies(self, stmt: Stmt, facts: Facts) -> Stmt:
        """Return a fill with copies in place of the stores that can be copies."""
        if isinstance(stmt, Store):
            size = self._size(stmt, facts)
            return Copy(stmt.buffer, stmt.indices, _addressed(stmt.value, facts), size) if size else stmt
        inside = facts.bind(stmt.var, stmt.min, stmt.extent) if isinstance(stmt, For) else facts
        return map_statements(stmt, lambda child: self.copies(child, inside))

    def _size(self, stmt: Store, facts: Facts) -> int:
        """Return the bytes of the largest copies that can replace a store; 0 if none can."""
        load, buffer = copied_load(stmt.value), stmt.buffer
        if load is None or buffer.slices < 2 or not isinstance(load.source, Buffer):
            return 0
        source = load.source
        if source.scope is not MemoryScope.GLOBAL or source.dtype != buffer.dtype or source.memory in self.written:
            return 0
        whole, element = load.dtype.lanes * buffer.dtype.bytes, buffer.dtype.bytes
        places = [(buffer, stmt.indices[0]), (source, load.indices[0])]
        if load.dtype.lanes > 1 and not all(_is_contiguous(index) for _, index in places):
            return 0
        fitting = (s for s in self.sizes if s >= element and whole % s == 0 and s % element == 0)
        return max((s for s in fitting if all(_is_aligned(*place, s, facts) for place in places)), default=0)


def _addressed(value: Expr, facts: Facts) -> Expr:
    """The value of a copy with the simplest address, because every thread computes its own address."""
    load = copied_load(value)
    if load is None:
        return value
    index = load.indices[0]
    base = cancel_digits(index.base if isinstance(index, Ramp) else index, facts)
    place = Ramp(base, index.stride, index.dtype.lanes) if isinstance(index, Ramp) else base
    made: Expr = substitute(value, {load: Load(load.source, (place,))})
    return made


UNROLLED_STORES = 1024
"""Stores that a loop of a pipelined iteration is unrolled to: some 16 KB of code."""


def _unrolled(stmt: Stmt) -> tuple[Stmt, int]:
    """The statement with its short serial loops unrolled, and its number of stores; 0 if the number is unknown."""
    if isinstance(stmt, (Commit, Barrier)):
        return stmt, 0
    if isinstance(stmt, (Store, Tensorized)):
        return stmt, 1
    weights: list[int] = []

    def visit(child: Stmt) -> Stmt:
        made, weight = _unrolled(child)
        weights.append(weight)
        return made

    made = map_statements(stmt, visit)
    total = sum(weights) if all(weights) else 0
    if not isinstance(made, For):
        return made, total if weights else 1
    total *= made.extent.value if isinstance(made.extent, IntImm) else 0
    if not 0 < total <= UNROLLED_STORES:
        return made, 0
    kind = LoopKind.UNROLLED if made.kind is LoopKind.SERIAL else made.kind
    return For(made.var, made.min, made.extent, kind, made.thread, made.pragmas, made.body), total


def is_fill(stmt: Stmt) -> bool:
    """Return whether a statement only stores to shared memory and does not read it."""
    stored = uses.written(stmt)
    if not stored or any(buffer.scope is not MemoryScope.SHARED for buffer in stored):
        return False
    plain = all(isinstance(node, (For, If, Let, Seq, Store)) for node in post_order(stmt) if isinstance(node, Stmt))
    return plain and not any(buffer.scope is MemoryScope.SHARED for buffer in uses.read(stmt))


def _varies(e: Expr, varying: frozenset[Var]) -> bool:
    """Whether an expression may have different values in the threads of a block."""
    return not varying.isdisjoint(variables(e)) or reads_memory(e)


def _is_contiguous(index: Expr) -> bool:
    return isinstance(index, Ramp) and isinstance(index.stride, IntImm) and index.stride.value == 1


def _is_aligned(buffer: Buffer, index: Expr, size: int, facts: Facts) -> bool:
    """Whether the address of an element, the first of a vector, is a multiple of `size` bytes."""
    element = buffer.dtype.bytes
    if size == element:
        return True
    if buffer.memory.align % size or (buffer.byte_offset or 0) % size:
        return False
    known = modular(index.base if isinstance(index, Ramp) else index, facts)
    return known.coeff * element % size == 0 and known.base * element % size == 0
