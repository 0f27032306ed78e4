"""place_barriers: block-wide barriers where one thread's shared data reaches another, and nowhere else.

Bottom-up, each statement gives its accesses to shared memory before its first barrier and after its last. Two
neighbours in a sequence need a barrier between them where the accesses pending before meet conflicting ones
after; a loop needs one at the head of its body where the end of an iteration conflicts with the start of the
next. Barriers stand directly in the sequence or loop that holds both accesses, so outside of guards that only
some threads pass.

A shared buffer is written by one stage only, whose threads each own the elements that they write: what the
stage reads of its own result, and writing the same element again, needs no barrier. Only readers of another
stage do.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..core.errors import InternalError
from ..core.hardware import MemoryScope
from ..core.options import Options
from ..core.target import Target
from ..expr.nodes import IntImm, Var
from ..expr.traverse import post_order, variables
from ..loops.nodes import Allocate, Barrier, For, Function, If, Launch, Seq, Stmt, map_statements, seq
from .shared_accesses import NONE, Accesses, accesses

_BARRIER = Barrier(MemoryScope.SHARED)


@dataclass(frozen=True)
class _Placed:
    """A statement with its barriers: accesses before the first, accesses after the last, whether there is one.

    Without a barrier on every way through, `first` and `last` hold all accesses that may reach the ends.
    """

    stmt: Stmt
    first: Accesses
    last: Accesses
    parted: bool


def place_barriers(function: Function, target: Target, options: Options) -> Function:
    """Insert barriers into every kernel (a `Launch`) of more than one thread a block."""
    return function.with_body(_kernels(function.body))


def _kernels(stmt: Stmt) -> Stmt:
    if isinstance(stmt, Launch):
        threads = frozenset(var for tag, var, _ in stmt.threads if tag.is_thread)
        alone = all(isinstance(e, IntImm) and e.value == 1 for tag, _, e in stmt.threads if tag.is_thread)
        return stmt if alone else Launch(stmt.name, stmt.threads, _place(stmt.body, threads).stmt)
    return map_statements(stmt, _kernels)


def _place(stmt: Stmt, threads: frozenset[Var]) -> _Placed:
    """The statement with its barriers; `threads` are the variables that differ between the threads of a block."""
    if isinstance(stmt, Seq):
        return _sequence(stmt, threads)
    if isinstance(stmt, For):
        return _loop(stmt, threads)
    if isinstance(stmt, If):
        return _branch(stmt, threads)
    if isinstance(stmt, Allocate):
        placed = _place(stmt.body, threads)
        return _Placed(Allocate(stmt.buffer, placed.stmt), placed.first, placed.last, placed.parted)
    found = accesses(stmt)
    return _Placed(stmt, found, found, False)


def _sequence(stmt: Seq, threads: frozenset[Var]) -> _Placed:
    parts: list[Stmt] = []
    first, pending, parted = NONE, NONE, False
    for part in stmt.stmts:
        placed = _place(part, threads)
        if pending.conflicts(placed.first):
            parts.append(_BARRIER)
            pending, parted = NONE, True
        parts.append(placed.stmt)
        first = first if parted else first | placed.first
        pending = placed.last if placed.parted else pending | placed.last
        parted = parted or placed.parted
    return _Placed(seq(*parts), first, pending, parted)


def _loop(stmt: For, threads: frozenset[Var]) -> _Placed:
    placed = _place(stmt.body, threads)
    body, first, parted = placed.stmt, placed.first, placed.parted
    if placed.last.conflicts(first.next_iteration(stmt.var)):
        body, first, parted = seq(_BARRIER, body), NONE, True
    runs = isinstance(stmt.extent, IntImm) and stmt.extent.value > 0
    made = For(stmt.var, stmt.min, stmt.extent, stmt.kind, stmt.thread, stmt.pragmas, body)
    return _Placed(made, first.without(stmt.var), placed.last.without(stmt.var), parted and runs)


def _branch(stmt: If, threads: frozenset[Var]) -> _Placed:
    then = _place(stmt.then, threads)
    orelse = None if stmt.orelse is None else _place(stmt.orelse, threads)
    made = If(stmt.condition, then.stmt, None if orelse is None else orelse.stmt)
    if threads & set(variables(stmt.condition)) and any(isinstance(n, Barrier) for n in post_order(made)):
        raise InternalError(f"a barrier is needed under `{stmt.condition}`, which differs between threads")
    own = accesses(stmt.condition)
    first, last, parted = own | then.first, own | then.last, False
    if orelse is not None:
        first, last, parted = first | orelse.first, last | orelse.last, then.parted and orelse.parted
    return _Placed(made, first, last, parted)
