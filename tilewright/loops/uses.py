"""Which buffers statements and expressions read and write, every node looked at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.node import Node
from ..expr.nodes import Load
from .nodes import Stmt, Store

Sources = frozenset[Any]
NO_SOURCES: Sources = frozenset()


class Uses:
    """Remembers what it was asked, so that asking about every statement of a program takes one walk over it."""

    __slots__ = ("_read", "_written")

    def __init__(self) -> None:
        self._read: dict[Node, Sources] = {}
        self._written: dict[Node, Sources] = {}

    def read(self, node: Node) -> Sources:
        """The buffers (before lowering: tensors) that are loaded below `node`."""
        found = self._read.get(node)
        if found is None:
            found = _union(node.children(), self.read)
            if isinstance(node, Load):
                found = found | {node.source}
            self._read[node] = found
        return found

    def written(self, stmt: Node) -> Sources:
        """The buffers that are stored to below `stmt`."""
        if not isinstance(stmt, Stmt):
            return NO_SOURCES
        found = self._written.get(stmt)
        if found is None:
            found = frozenset((stmt.buffer,)) if isinstance(stmt, Store) else _union(stmt.children(), self.written)
            self._written[stmt] = found
        return found


def _union(nodes: tuple[Node, ...], of: Callable[[Node], Sources]) -> Sources:
    whole = NO_SOURCES
    for node in nodes:
        part = of(node)
        if part is not whole and not part <= whole:
            whole = whole | part
    return whole
