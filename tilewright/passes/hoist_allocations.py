"""hoist_allocations: storage is allocated once, at the head of the kernel (or of the function)."""

from __future__ import annotations

from ..core.hardware import LoopKind
from ..expr.traverse import variables
from ..loops.nodes import Allocate, Buffer, For, Function, Launch, Stmt


def hoist_allocations(function: Function) -> Function:
    """Move every allocation of constant size to the outermost thread or parallel loop around it.

    Code generators then meet all storage of a kernel in one place. In what order: that of the first use.
    """
    found: list[Buffer] = []
    body = _strip(function.body, found)
    return function.with_body(_wrap(body, found))


def _strip(stmt: Stmt, found: list[Buffer]) -> Stmt:
    """`stmt` without its allocations, which are collected unless a kernel inside takes them."""
    if isinstance(stmt, Allocate) and not variables(*stmt.buffer.shape):
        found.append(stmt.buffer)
        return _strip(stmt.body, found)
    if isinstance(stmt, Launch) or (isinstance(stmt, For) and stmt.kind in (LoopKind.THREAD, LoopKind.PARALLEL)):
        own: list[Buffer] = []
        body = _strip_inside(stmt.body, own)
        return stmt.map_children(lambda child: _wrap(body, own) if child is stmt.body else child)  # type: ignore[no-any-return]
    return stmt.map_children(lambda child: _strip(child, found) if isinstance(child, Stmt) else child)  # type: ignore[no-any-return]


def _strip_inside(stmt: Stmt, found: list[Buffer]) -> Stmt:
    """As `_strip`, within a kernel: thread loops further in take nothing."""
    if isinstance(stmt, Allocate):
        found.append(stmt.buffer)
        return _strip_inside(stmt.body, found)
    return stmt.map_children(lambda child: _strip_inside(child, found) if isinstance(child, Stmt) else child)  # type: ignore[no-any-return]


def _wrap(body: Stmt, buffers: list[Buffer]) -> Stmt:
    for buffer in reversed(buffers):
        body = Allocate(buffer, body)
    return body
