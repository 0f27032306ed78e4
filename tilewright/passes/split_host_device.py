"""split_host_device: loops bound to hardware threads become kernel launches, which `codegen/kernel.py` reads."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from ..core.errors import Suspect, UserError
from ..core.hardware import LoopKind, MemoryScope, ThreadTag
from ..core.options import Options
from ..core.target import Target
from ..expr.nodes import Var
from ..expr.operators import const, equal
from ..expr.traverse import substitute, variables
from ..loops import uses
from ..loops.calls import has_effect
from ..loops.nodes import (
    Allocate,
    Buffer,
    For,
    Function,
    If,
    Launch,
    Let,
    Seq,
    Stmt,
    Store,
    While,
    map_statements,
    seq,
)
from ..loops.thread_extents import last_stage, thread_extents, thread_loops
from ..loops.walk import statements, substatements
from ..schedule.primitives.annotate import RESIDENT_BLOCKS, WHOLE_WORDS

_Doers = tuple[frozenset[Buffer], tuple[Var, ...]]  # the buffer, and the thread indices restricted to 0
_NONE: frozenset[Buffer] = frozenset()
_ORDER = {tag: i for i, tag in enumerate(ThreadTag)}


def split_host_device(function: Function, target: Target, options: Options) -> Function:
    """Turn each outermost thread loop into a `Launch`; all loops of one tag inside are one hardware index.

    If part of a kernel does not run over a thread index that another part uses, every thread does that part. Updates of
    memory that the threads share are an exception: the first thread does them alone. Raises UserError if loops of one
    tag have different extents, and for a loop for CPU threads in a kernel.
    """
    names = _Names(f"{function.name}_kernel")
    return function.with_body(_host(function.body, names))


class _Names:
    def __init__(self, base: str) -> None:
        self.base = base
        self.count = 0

    def fresh(self) -> str:
        """`base`, then `base_1`, `base_2` ..."""
        self.count += 1
        return self.base if self.count == 1 else f"{self.base}_{self.count - 1}"


def _host(stmt: Stmt, names: _Names) -> Stmt:
    if isinstance(stmt, For) and stmt.kind is LoopKind.THREAD:
        return _launch(stmt, names)
    return map_statements(stmt, lambda child: _host(child, names))


def _launch(stmt: For, names: _Names) -> Launch:
    extents = thread_extents(stmt)
    _refuse_parallel(stmt)
    loops = [loop for loop in thread_loops(stmt) if loop.thread in extents]
    threads: dict[ThreadTag, Var] = {}
    same = {loop.var: threads.setdefault(loop.thread, loop.var) for loop in loops if loop.thread is not None}
    body = substitute(_strip(stmt), {var: index for var, index in same.items() if var is not index})
    body = _alone(body, tuple(var for tag, var in threads.items() if tag.is_thread))
    ordered = sorted(extents.items(), key=lambda item: _ORDER[item[0]])
    indices = tuple((tag, threads[tag], extent) for tag, extent in ordered)
    resident, whole_words = (_largest_pragma(loops, key) for key in (RESIDENT_BLOCKS, WHOLE_WORDS))
    return Launch(names.fresh(), indices, body, resident, whole_words)


def _largest_pragma(loops: Sequence[For], pragma: str) -> int:
    """The largest number that a pragma of the loops gives; 0 without one."""
    return max((int(value) for loop in loops for key, value in loop.pragmas if key == pragma), default=0)


def _refuse_parallel(kernel: Stmt) -> None:
    for node in statements(kernel):
        if isinstance(node, For) and node.kind is LoopKind.PARALLEL:
            raise UserError(
                f"the loop {node.var.name!r} of stage {last_stage(node)!r} is distributed over CPU threads, but is "
                "inside a kernel",
                primitive="parallel",
                fix="bind it to a thread axis, or do not make it parallel",
                suspects=(Suspect(("parallel",), (last_stage(node),)),),
            )


def _strip(stmt: Stmt) -> Stmt:
    """`stmt` without its thread loops; their variables stay."""
    if isinstance(stmt, For) and stmt.kind is LoopKind.THREAD:
        return _strip(stmt.body)
    return map_statements(stmt, _strip)


def _alone(stmt: Stmt, threads: tuple[Var, ...]) -> Stmt:
    """`stmt` of a kernel, with updates of elements that several threads share left to the first of them.

    An update reads the buffer that it writes (a reduction does), so that it must happen once. Its buffer's initial
    value is stored by the same thread. Any other store may be done by all threads, since all store the same.
    """
    updated = {buffer: group for unit in _units(stmt) for group in [_updated(unit)] for buffer in group}
    if not updated or not threads:
        return stmt
    made, (_, shared) = _guarded(stmt, threads, updated)
    return _first_thread(made, shared)


def _guarded(stmt: Stmt, threads: tuple[Var, ...], updated: dict[Buffer, frozenset[Buffer]]) -> tuple[Stmt, _Doers]:
    """Return `stmt` and who executes it: a guard encloses the largest statement that stores to one stage only."""
    if isinstance(stmt, (Store, Let)):
        buffers = uses.written(stmt)
        group = next((updated[buffer] for buffer in buffers if buffer in updated), None)
        if group is None:
            return stmt, (buffers, ())
        used = _used_by_places(stmt)
        return stmt, (group, tuple(v for v in threads if v not in used))
    if isinstance(stmt, (If, While)):  # the condition itself selects the threads that it names
        named = variables(stmt.condition)
        threads = tuple(v for v in threads if v not in named)
    parts = substatements(stmt)
    made = [_guarded(part, threads, updated) for part in parts]
    doers = {found for _, found in made if found[0]}
    if len(doers) <= 1 and not isinstance(stmt, Allocate):
        return _with_parts(stmt, [inner for inner, _ in made]), doers.pop() if doers else (_NONE, ())
    everything = _NONE.union(*(found[0] for found in doers))
    if isinstance(stmt, Seq):
        runs = groupby(made, key=lambda item: item[1])
        return seq(*(_first_thread(seq(*(part for part, _ in run)), found[1]) for found, run in runs)), (everything, ())
    return _with_parts(stmt, [_first_thread(inner, found[1]) for inner, found in made]), (everything, ())


def _used_by_places(unit: Stmt) -> frozenset[Var]:
    """The variables in the indices of a unit's stores, directly or through values that it names before."""
    parts = list(statements(unit))
    used = set(variables(*(i for part in parts if isinstance(part, Store) for i in part.indices)))
    named = [part for part in parts if isinstance(part, Let)]
    for let in reversed(named):  # a value is named before its readers
        if let.var in used:
            used |= set(variables(let.value))
    return frozenset(used)


def _with_parts(stmt: Stmt, parts: list[Stmt]) -> Stmt:
    """`stmt` with its statements replaced, in their order."""
    rest = iter(parts)
    return map_statements(stmt, lambda _: next(rest))


def _first_thread(stmt: Stmt, shared: tuple[Var, ...]) -> Stmt:
    for var in shared:
        stmt = If(equal(var, const(0, var.dtype)), stmt, None)
    return stmt


def _units(stmt: Stmt) -> list[Stmt]:
    """The stores below `stmt`, each with the values around it that are computed before."""
    if isinstance(stmt, (Store, Let)):
        return [stmt]
    return [unit for child in substatements(stmt) for unit in _units(child)]


def _updated(unit: Stmt) -> frozenset[Buffer]:
    """The buffers that a unit stores, if it reads one of them and threads share them; a call belongs to every
    thread."""
    if isinstance(unit, (Store, Let)) and has_effect(unit.value):
        return _NONE
    stored = uses.written(unit)
    shared = all(buffer.scope is not MemoryScope.LOCAL for buffer in stored)
    return stored if shared and stored & uses.read(unit) else _NONE
