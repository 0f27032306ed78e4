"""hoist_allocations: storage is allocated once, at the head of the kernel (or of the function)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ..core.hardware import LoopKind
from ..expr.traverse import variables
from ..loops.nodes import Allocate, Buffer, For, Function, Launch, Seq, Stmt, seq


def hoist_allocations(function: Function) -> Function:
    """Move every allocation of constant size to the outermost thread or parallel loop around it.

    Code generators then meet all storage of a kernel in one place. In what order: that of the first use. Copies of
    one allocation (of an unrolled loop) become one.
    """
    found: dict[Buffer, None] = {}
    body = _strip(function.body, found)
    return function.with_body(_wrap(body, found))


def _strip(stmt: Stmt, found: dict[Buffer, None]) -> Stmt:
    """`stmt` without its allocations, which are collected unless a kernel inside takes them."""
    if isinstance(stmt, Allocate) and not variables(*stmt.buffer.shape):
        found[stmt.buffer] = None
        return _strip(stmt.body, found)
    if isinstance(stmt, Launch) or (isinstance(stmt, For) and stmt.kind in (LoopKind.THREAD, LoopKind.PARALLEL)):
        own: dict[Buffer, None] = {}
        body = _strip_inside(stmt.body, own)
        return stmt.map_children(lambda child: _wrap(body, own) if child is stmt.body else child)  # type: ignore[no-any-return]
    return _each(stmt, lambda child: _strip(child, found))


def _strip_inside(stmt: Stmt, found: dict[Buffer, None]) -> Stmt:
    """As `_strip`, within a kernel: thread loops further in take nothing."""
    if isinstance(stmt, Allocate):
        found[stmt.buffer] = None
        return _strip_inside(stmt.body, found)
    return _each(stmt, lambda child: _strip_inside(child, found))


def _each(stmt: Stmt, f: Callable[[Stmt], Stmt]) -> Stmt:
    """`stmt` with `f` applied to the statements in it."""
    if isinstance(stmt, Seq):
        return seq(*(f(part) for part in stmt.stmts))
    return stmt.map_children(lambda child: f(child) if isinstance(child, Stmt) else child)  # type: ignore[no-any-return]


def _wrap(body: Stmt, buffers: Iterable[Buffer]) -> Stmt:
    for buffer in reversed(list(buffers)):
        body = Allocate(buffer, body)
    return body
