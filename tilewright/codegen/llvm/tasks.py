"""Tasks: a loop that every thread runs, in which parallel loops are distributed over the threads
(`parallel_launch_point`).

    # pragma parallel_launch_point              every thread t of T runs this loop
    for k in range(n):
        # pragma parallel_stride_pattern        thread t takes i = t, t + T, t + 2 T ...; without it, one stretch
        # pragma parallel_barrier_when_finish   nobody goes on before all threads are here
        parallel for i in range(m): ...

Every thread runs the statements beside the parallel loops, in memory of its own. The threads start once, not once per
parallel loop. A barrier is also placed without a request if later iterations on other threads may read a loop's stores,
or overwrite its reads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...core.errors import UserError
from ...core.hardware import LoopKind
from ...loops import uses
from ...loops.nodes import NOTHING, Allocate, Buffer, For, Stmt, Store, While, map_statements
from ...loops.walk import statements, substatements
from ...schedule.primitives.annotate import BARRIER_WHEN_FINISH as BARRIER
from ...schedule.primitives.annotate import LAUNCH_POINT, TASKS
from ...schedule.primitives.annotate import STRIDE_PATTERN as STRIDE
from .binding import LAUNCH, TASK_BARRIER
from .types import LLVMValue

KEYS = frozenset(TASKS)
PARAMETERS = (("i64", "task"), ("i64", "tasks"), ("ptr", "barrier"))
"""The parameters of a task's function after its captures."""


@dataclass
class Tasks:
    """The surroundings of a task: its number, the number of tasks, and their barrier."""

    task: LLVMValue
    tasks: LLVMValue
    barrier: LLVMValue
    region: Stmt
    strided: bool = False
    inside: bool = False
    """Whether a distributed loop is around."""


def write_marked(writer: Any, s: For, keys: frozenset[str]) -> None:
    """A loop with pragmas of tasks."""
    if LAUNCH_POINT in keys and writer.tasks is None:
        _launch(writer, s)
        return
    tasks = writer.tasks
    wanted = [key for key in (STRIDE, BARRIER) if key in keys]
    if tasks is None or (tasks.inside and BARRIER in keys):
        place = "outside of any parallel_launch_point" if tasks is None else "inside of a parallel loop"
        raise UserError(
            f"the loop {s.var.name!r} has the pragma {wanted[-1]}, {place}",
            primitive="pragma",
            fix='give a loop around it the pragma: s[B].pragma(axis, "parallel_launch_point")'
            if tasks is None
            else "give it to the parallel loop, or to one around it",
        )
    before, tasks.strided = tasks.strided, tasks.strided or STRIDE in keys
    plain = For(s.var, s.min, s.extent, s.kind, s.thread, tuple(p for p in s.pragmas if p[0] not in KEYS), s.body)
    if s.kind is LoopKind.PARALLEL and not tasks.inside:
        write_dealt(writer, plain, BARRIER in keys)
    else:
        writer._for(plain)
        if BARRIER in keys:
            _wait(writer)
    tasks.strided = before


def write_dealt(writer: Any, s: For, barrier: bool = False) -> None:
    """Write a parallel loop; each task runs its share of the iterations."""
    tasks, out = writer.tasks, writer.out
    with writer.expr.scope():
        first, extent = writer.expr.index(s.min), writer.expr.index(s.extent)
    one = LLVMValue("i64", "1")
    if tasks.strided:
        begin, end, step = tasks.task, extent, tasks.tasks
    else:
        rounded = out.binary("sub", out.binary("add", extent, tasks.tasks), one)
        size = out.binary("sdiv", rounded, tasks.tasks, "share")
        begin = out.call("llvm.smin.i64", "i64", [out.binary("mul", tasks.task, size), extent])
        end, step = out.call("llvm.smin.i64", "i64", [out.binary("add", begin, size), extent]), one
    start, stop = (out.binary("add nsw", first, bound) for bound in (begin, end))
    tasks.inside = True
    writer._counted(s, start, stop, s.body, runs=False, step=step)
    tasks.inside = False
    if barrier or _is_used_elsewhere(s, tasks.region):
        _wait(writer)


def _wait(writer: Any) -> None:
    status = writer.out.call(TASK_BARRIER, "i32", [writer.tasks.barrier])
    writer._leave_if(writer.out.compare("icmp ne", status, LLVMValue("i32", "0")))


def _is_used_elsewhere(loop: For, region: Stmt) -> bool:
    """Whether other statements of the region, or a later run of the loop, conflict with the loop's stores and reads."""
    stored, read = (frozenset(b.memory for b in found) for found in (uses.written(loop), uses.read(loop)))
    around = (at for at in statements(region) if isinstance(at, (For, While)) and not _same(at, loop))
    if stored & read and any(_holds(at, loop) for at in around):
        return True
    others = _without(region, loop)
    written, used = (frozenset(b.memory for b in found) for found in (uses.written(others), uses.read(others)))
    return bool(stored & (written | used) or read & (written - own_memory(region)))


def own_memory(region: Stmt) -> frozenset[Buffer]:
    """The memory that each thread has for itself."""
    held = {at.buffer for at in _outside_parallel(region) if isinstance(at, Allocate)}
    return frozenset(buffer for buffer in held if not _is_dealt(buffer, region))


def _without(stmt: Stmt, loop: For) -> Stmt:
    """Return a statement with the body of a loop in it left out."""
    if isinstance(stmt, For) and _same(stmt, loop):
        return NOTHING
    return map_statements(stmt, lambda child: _without(child, loop))


def _holds(stmt: Stmt, loop: For) -> bool:
    return any(_same(at, loop) for at in statements(stmt))


def _same(a: Stmt, b: For) -> bool:
    """Whether two loops are the same, regardless of pragmas."""
    return isinstance(a, For) and a.var is b.var and a.body is b.body


def _launch(writer: Any, s: For) -> None:
    """Run a loop on every thread."""
    _check(s)
    shared = [at.buffer for at in _outside_parallel(s) if isinstance(at, Allocate) and _is_dealt(at.buffer, s)]
    heap = len(writer.heap)
    for buffer in shared:  # memory that parallel loops store to is shared by all
        writer._place(buffer)
    plain = For(s.var, s.min, s.extent, s.kind, s.thread, tuple(p for p in s.pragmas if p[0] != LAUNCH_POINT), s.body)
    body = _allocated_outside(plain, set(shared))
    function, closure = writer.function_of(
        body, f"tasks.{s.var.name}", PARAMETERS, lambda inner: _write_task(inner, body), alone=False
    )
    status = writer.out.call(LAUNCH, "i32", [function, closure])
    writer._leave_if(writer.out.compare("icmp ne", status, LLVMValue("i32", "0")))
    writer._free(heap)


def _write_task(inner: Any, body: Stmt) -> None:
    values = [LLVMValue(kind, f"%{inner.out.name(wish)}") for kind, wish in PARAMETERS]
    inner.arguments += map(str, values)
    task, tasks, barrier = values
    inner.tasks = Tasks(task, tasks, barrier, body)
    inner._stmt(body)
    inner._finish()


def _outside_parallel(stmt: Stmt) -> list[Stmt]:
    """The statements that every task runs: all outside of parallel loops."""
    if isinstance(stmt, For) and stmt.kind is LoopKind.PARALLEL:
        return [stmt]
    children = substatements(stmt)
    return [stmt, *(part for child in children for part in _outside_parallel(child))]


def _is_dealt(buffer: Buffer, region: Stmt) -> bool:
    """Whether a parallel loop stores to a buffer."""
    loops = (at for at in _outside_parallel(region) if isinstance(at, For) and at.kind is LoopKind.PARALLEL)
    return any(buffer in {b.memory for b in uses.written(loop)} for loop in loops)


def _check(region: For) -> None:
    """Raise UserError if every thread would update memory that all threads share."""
    own, read = own_memory(region), {buffer.memory for buffer in uses.read(region)}
    for at in _outside_parallel(region):
        if isinstance(at, Store) and at.buffer.memory not in own and at.buffer.memory in read:
            raise UserError(
                f"every thread would update {at.buffer.memory.name!r}, inside of the parallel_launch_point "
                f"{region.var.name!r} and outside of any parallel loop",
                primitive="pragma",
                fix="make a loop around the update parallel, or move the launch point further in",
            )


def _allocated_outside(stmt: Stmt, shared: set[Buffer]) -> Stmt:
    if isinstance(stmt, Allocate) and stmt.buffer in shared:
        return _allocated_outside(stmt.body, shared)
    if isinstance(stmt, For) and stmt.kind is LoopKind.PARALLEL:
        return stmt
    return map_statements(stmt, lambda child: _allocated_outside(child, shared))
