"""Uniformity analysis: which memory may hold different values for the threads of a block.

Local memory is each thread's own. All threads find the same value there if all of them store the same value. That holds
if neither the value, nor its index, nor its condition depends on a thread index. Memory that a kernel does not write
has one value for all threads.
"""

from __future__ import annotations

from ..core.hardware import MemoryScope
from ..core.node import Node
from ..expr.nodes import Expr, Load, Var
from ..expr.traverse import post_order
from . import uses
from .nodes import Buffer, For, If, Let, Stmt, Store, While


def varying_memory(body: Stmt, threads: frozenset[Var]) -> frozenset[Buffer]:
    """The memory of a kernel with contents that may differ between threads of a block that read the same index."""
    touched = uses.read(body) | uses.written(body)
    written = {buffer.memory for buffer in uses.written(body)}
    found = {b.memory for b in touched if b.scope is not MemoryScope.LOCAL and (b.memory in written)}
    found |= {b.memory for b in touched if b.scope is MemoryScope.SHARED}
    walk = _Walk(threads, found)
    before = -1
    while before != len(walk.found):  # stored values may depend on memory that is found to vary further down
        before = len(walk.found)
        walk.statement(body, False)
    return frozenset(walk.found)


def varies(e: Node, threads: frozenset[Var], memory: frozenset[Buffer] | set[Buffer]) -> bool:
    """Whether threads of a block may find different values of an expression."""
    for at in post_order(e):
        if at in threads or (
            isinstance(at, Load) and (not isinstance(at.source, Buffer) or at.source.memory in memory)
        ):
            return True
    return False


class _Walk:
    def __init__(self, threads: frozenset[Var], found: set[Buffer]) -> None:
        self.threads = set(threads)
        self.found = found

    def _varies(self, *parts: Expr) -> bool:
        return any(varies(e, frozenset(self.threads), self.found) for e in parts)

    def statement(self, stmt: Stmt, apart: bool) -> None:
        """Walk through a statement; `apart` says that threads may execute it a different number of times."""
        own = [part for part in stmt.children() if isinstance(part, Expr)]
        differs = self._varies(*own)
        if isinstance(stmt, (For, If, While)):
            apart = apart or differs
        if isinstance(stmt, (For, Let)) and (differs or apart):
            self.threads.add(stmt.var)
        if (apart or differs) and isinstance(stmt, Store):
            self.found.add(stmt.buffer.memory)
        self.found.update(buffer.memory for buffer in uses.given_to_write(stmt))
        for part in stmt.children():
            if isinstance(part, Stmt):
                self.statement(part, apart)
