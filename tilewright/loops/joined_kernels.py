"""Kernel fusion: loops of one thread index that share memory of a block or of a thread become one kernel.

Such memory does not outlive a kernel. Scripts allocate it before the loops that they bind to threads:

    allocate near[256]                                    for threadIdx.x in range(256):
    for threadIdx.x in range(256): near[...] = ...   ->       allocate near[256]
    for threadIdx.x in range(256): ... = near[...]            near[...] = ...
                                                              ... = near[...]

The barriers between them are placed later, like all others.
"""

from __future__ import annotations

from ..core.hardware import LoopKind, MemoryScope, ThreadTag
from ..expr.traverse import substitute
from .nodes import Allocate, Buffer, For, Seq, Stmt, map_statements, seq


def join_kernels(stmt: Stmt) -> Stmt:
    """The statement with thread loops moved out of the allocations of shared and local memory around them."""
    if isinstance(stmt, Allocate) and stmt.buffer.scope is not MemoryScope.GLOBAL:
        return _joined(stmt)
    return stmt if _is_kernel(stmt) else map_statements(stmt, join_kernels)


def _is_kernel(stmt: Stmt) -> bool:
    return isinstance(stmt, For) and stmt.kind is LoopKind.THREAD and stmt.thread is not ThreadTag.VTHREAD


def _joined(stmt: Stmt) -> Stmt:
    """Allocations with the thread loops inside as one loop around them, where these run over the same threads."""
    buffers: list[Buffer] = []
    parts = _parts(stmt, buffers)
    loops = [part for part in parts if isinstance(part, For) and _is_kernel(part)]
    first = loops[0] if loops else None
    if first is None or len(loops) != len(parts):
        return stmt
    if any((loop.thread, loop.min, loop.extent) != (first.thread, first.min, first.extent) for loop in loops):
        return stmt
    bodies: list[Stmt] = [substitute(loop.body, {loop.var: first.var}) for loop in loops]
    body = seq(*bodies)
    for buffer in reversed(buffers):
        body = Allocate(buffer, body)
    return For(first.var, first.min, first.extent, first.kind, first.thread, first.pragmas, _joined(body))


def _parts(stmt: Stmt, buffers: list[Buffer]) -> list[Stmt]:
    """The statements within allocations of shared and local memory and sequences, whose buffers are collected."""
    if isinstance(stmt, Allocate) and stmt.buffer.scope is not MemoryScope.GLOBAL:
        buffers.append(stmt.buffer)
        return _parts(stmt.body, buffers)
    if isinstance(stmt, Seq):
        return [part for each in stmt.stmts for part in _parts(each, buffers)]
    return [stmt]
