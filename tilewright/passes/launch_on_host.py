"""launch_on_host: for the CPU, the body of a function becomes one launch, without thread indices.

    Allocate(C.local[64], Allocate(packed[1048576], body))   ->
    Allocate(packed[1048576], Launch(main_kernel, Allocate(C.local[64], body)))

Large storage at the head of the function stays outside of the launch. The runtime then keeps it from call to call,
while the kernel would have to get it from the system, page by page, each time.

A long row of loops becomes several launches, since the time of LLVM's passes grows with the square of a function's
loops.

Host code calls packed functions. Statements around such a call are host code too; statements beside it become separate
launches:

    For(i, Seq(Evaluate(call_packed), body))   ->   For(i, Seq(Evaluate(call_packed), Launch(main_kernel, body)))
"""

from __future__ import annotations

import math
from copy import copy
from itertools import groupby

from ..core.errors import Suspect, UserError
from ..core.hardware import LoopKind, MemoryScope
from ..core.options import Options
from ..core.target import Target
from ..expr.nodes import IntImm
from ..expr.traverse import post_order
from ..loops import uses
from ..loops.calls import is_packed
from ..loops.nodes import (
    Allocate,
    Buffer,
    Evaluate,
    For,
    Function,
    Launch,
    Let,
    Seq,
    Stmt,
    Store,
    map_statements,
    seq,
    with_buffer,
)
from ..loops.walk import statements


def launch_on_host(function: Function, target: Target, options: Options) -> Function:
    """Wrap the body in a `Launch`; raise UserError if a loop is bound to a hardware thread."""
    _refuse_threads(function, target)
    stack = target.hardware.memory(MemoryScope.LOCAL).capacity
    body = function.body
    if _calls_packed(body):
        return function.with_body(_Parts(f"{function.name}_kernel").host(body))
    inside: list[Buffer] = []
    outside: list[Buffer] = []
    while isinstance(body, Allocate):
        (outside if _is_large(body.buffer, stack) else inside).append(body.buffer)
        body = body.body
    parts = _runs_of_loops(body)
    used = [uses.read(part) | uses.written(part) for part in parts]
    for buffer in reversed(inside):
        users = [i for i, found in enumerate(used) if any(b.memory is buffer.memory for b in found)]
        if len(users) > 1:
            outside.append(buffer)
        for i in users[: len(users) == 1]:
            parts[i] = Allocate(buffer, parts[i])
    names = [f"{function.name}_kernel" + (f"_{i}" if i else "") for i in range(len(parts))]
    made = seq(*(Launch(name, (), part, 0, False) for name, part in zip(names, parts, strict=True)))
    for buffer in reversed(outside):
        made = _allocated_by_host(buffer, made)
    return function.with_body(made)


MOST_LOOPS_OF_A_LAUNCH = 128
"""The most consecutive loops in one launch."""


def _runs_of_loops(body: Stmt) -> list[Stmt]:
    """Divide a statement into parts with a limited number of consecutive loops."""
    runs: list[list[Stmt]] = [[]]
    loops = 0
    for stmt in body.stmts if isinstance(body, Seq) else (body,):
        loops += isinstance(stmt, For)
        if loops > MOST_LOOPS_OF_A_LAUNCH:
            runs.append([])
            loops = 1
        runs[-1].append(stmt)
    return [seq(*run) for run in runs]


def _allocated_by_host(buffer: Buffer, body: Stmt) -> Stmt:
    """`body` within the allocation of a buffer in the memory that host code has."""
    if buffer.scope is MemoryScope.GLOBAL:
        return Allocate(buffer, body)
    shared = copy(buffer)
    shared.scope = MemoryScope.GLOBAL
    return Allocate(shared, with_buffer(body, buffer, shared))


def _calls_packed(stmt: Stmt) -> bool:
    return any(isinstance(at, (Evaluate, Let)) and is_packed(at.value) for at in statements(stmt))


class _Parts:
    """Splits a function into host code and launches."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.count = 0

    def host(self, stmt: Stmt) -> Stmt:
        """Rewrite a statement that calls packed functions; its other parts become launches."""
        if isinstance(stmt, Evaluate) and is_packed(stmt.value):
            return stmt
        if not _calls_packed(stmt):
            self.count += 1
            return Launch(self.name if self.count == 1 else f"{self.name}_{self.count - 1}", (), stmt, 0, False)
        if isinstance(stmt, Seq):
            groups = groupby(stmt.stmts, _calls_packed)
            parts = ([self.host(part) for part in run] if called else [self.host(seq(*run))] for called, run in groups)
            return seq(*(part for group in parts for part in group))
        if isinstance(stmt, Allocate):
            return _allocated_by_host(stmt.buffer, self.host(stmt.body))
        if isinstance(stmt, For):
            return For(stmt.var, stmt.min, stmt.extent, LoopKind.SERIAL, None, stmt.pragmas, self.host(stmt.body))
        return map_statements(stmt, self.host)


def _is_large(buffer: Buffer, stack: int) -> bool:
    extents = [extent.value for extent in buffer.shape if isinstance(extent, IntImm)]
    known = len(extents) == len(buffer.shape)
    return buffer.scope is MemoryScope.GLOBAL and not (known and math.prod(extents) * buffer.dtype.bytes < stack)


def _refuse_threads(function: Function, target: Target) -> None:
    bound: dict[str, str] = {}
    for loop in post_order(function.body):
        if isinstance(loop, For) and loop.kind is LoopKind.THREAD and loop.thread is not None:
            stores = [node.buffer for node in post_order(loop.body) if isinstance(node, Store)]
            bound.setdefault(loop.thread.value, stores[-1].note or stores[-1].name if stores else "?")
    if bound:
        threads = ", ".join(f"{tag} (stage {stage!r})" for tag, stage in sorted(bound.items()))
        raise UserError(
            f"the schedule binds loops to {threads}, but the {target.kind} target has no hardware threads",
            primitive="build",
            fix="for the CPU use s[stage].parallel(axis) and s[stage].vectorize(axis) instead of bind, "
            'or build for "opencl" or "cuda"',
            suspects=tuple(Suspect(("bind", "env_threads"), tag=tag) for tag in sorted(bound)),
        )
