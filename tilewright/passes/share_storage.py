"""share_storage: shared buffers of a kernel that are not in use at the same time take the same memory.

A shared buffer is in use, within the sequence that holds all its accesses, from the first part that touches it
to the last. Every stage fills its buffer before its readers read, each time around the loops that enclose it, so
nothing survives outside that lifetime. A buffer whose lifetime is free of another's of the same type becomes a view
of it; `place_barriers` then keeps the last reader of the one and the writer of the other apart.
"""

from __future__ import annotations

from typing import Any

from ..core.hardware import MemoryScope
from ..core.options import Options
from ..core.target import Target
from ..expr.nodes import IntImm, Load
from ..expr.traverse import post_order
from ..loops import uses
from ..loops.nodes import Allocate, Buffer, Function, Launch, Seq, Stmt, Store, map_statements

Lifetime = tuple[int, int]


def share_storage(function: Function, target: Target, options: Options) -> Function:
    """Let shared buffers of one type whose lifetimes are apart share memory, in each kernel."""
    return function.with_body(_host(function.body))


def _host(stmt: Stmt) -> Stmt:
    if isinstance(stmt, Launch):
        return Launch(stmt.name, stmt.threads, _kernel(stmt.body))
    return map_statements(stmt, _host)


def _kernel(body: Stmt) -> Stmt:
    allocated = [node.buffer for node in post_order(body) if isinstance(node, Allocate)]
    shared = [b for b in allocated if b.scope is MemoryScope.SHARED and isinstance(b.shape[0], IntImm)]
    if len(shared) < 2:
        return body
    numbers = _numbered(body)
    lifetimes = {buffer: lifetime for buffer in shared if (lifetime := _lifetime(body, buffer, numbers)) is not None}
    owners: dict[Buffer, list[Lifetime]] = {}
    views: dict[Buffer, Buffer] = {}
    for buffer in sorted(lifetimes, key=_elements, reverse=True):
        owner = next((o for o in owners if o.dtype == buffer.dtype and _apart(lifetimes[buffer], owners[o])), None)
        if owner is None:
            owners[buffer] = [lifetimes[buffer]]
            continue
        owners[owner].append(lifetimes[buffer])
        align = min(buffer.align, owner.align)
        views[buffer] = Buffer(
            buffer.name,
            buffer.dtype,
            buffer.shape,
            buffer.scope,
            align,
            owner,
            buffer.note,
            stages=buffer.stages,
        )
    return _with_views(body, views) if views else body


def _elements(buffer: Buffer) -> int:
    size = buffer.shape[0]
    return size.value if isinstance(size, IntImm) else 0


def _apart(lifetime: Lifetime, others: list[Lifetime]) -> bool:
    return all(lifetime[1] < other[0] or other[1] < lifetime[0] for other in others)


def _numbered(body: Stmt) -> dict[Stmt, Lifetime]:
    """For every statement, the numbers of its first and last leaf in program order (a repeated one: its last place)."""
    numbers: dict[Stmt, Lifetime] = {}
    count = 0

    def visit(stmt: Stmt) -> None:
        nonlocal count
        first = count
        inside = [child for child in stmt.children() if isinstance(child, Stmt)]
        for child in inside:
            visit(child)
        count += not inside
        before = numbers.get(stmt)
        numbers[stmt] = (first if before is None else before[0], count - 1)

    visit(body)
    return numbers


def _lifetime(stmt: Stmt, buffer: Buffer, numbers: dict[Stmt, Lifetime]) -> Lifetime | None:
    """Where the buffer is in use; None where it is read before it is written, and so lives on around a loop."""
    users = [stmt]
    while len(users) == 1:
        stmt = users[0]
        inside = [child for child in stmt.children() if isinstance(child, Stmt)]
        users = [child for child in inside if buffer in uses.written(child) or buffer in uses.read(child)]
    parts = users if isinstance(stmt, Seq) else [stmt]
    first = parts[0]
    if buffer not in uses.written(first):
        return None
    return numbers[first][0], numbers[parts[-1]][1]


def _with_views(body: Stmt, views: dict[Buffer, Buffer]) -> Stmt:
    """The kernel with the accesses of the shared-out buffers going to their views, and their allocations gone."""
    memo: dict[Any, Any] = {}

    def visit(node: Any) -> Any:
        done = memo.get(node)
        if done is None:
            done = node.map_children(visit)
            if isinstance(done, Load) and done.source in views:
                done = Load(views[done.source], done.indices)
            elif isinstance(done, Store) and done.buffer in views:
                done = Store(views[done.buffer], done.indices, done.value)
            elif isinstance(done, Allocate) and done.buffer in views:
                done = done.body
            memo[node] = done
        return done

    made: Stmt = visit(body)
    return made
