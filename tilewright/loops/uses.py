"""Which buffers statements and expressions read and write, every node looked at once."""

from __future__ import annotations

from typing import Any

from ..core.node import Node
from ..expr.nodes import FloatImm, IntImm, Load, SizeVar, Var
from .nodes import Stmt, Store

Sources = frozenset[Any]
NO_SOURCES: Sources = frozenset()
_LEAVES = frozenset((Var, SizeVar, IntImm, FloatImm))
"""Expressions in which there is nothing to find: half of all nodes."""


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
            found = frozenset((node.source,)) if isinstance(node, Load) else NO_SOURCES
            for child in node.children():
                if type(child) not in _LEAVES:
                    part = self.read(child)
                    if part is not found and not part <= found:
                        found = found | part
            self._read[node] = found
        return found

    def written(self, stmt: Node) -> Sources:
        """The buffers that are stored to below `stmt`."""
        if not isinstance(stmt, Stmt):
            return NO_SOURCES
        found = self._written.get(stmt)
        if found is None:
            found = frozenset((stmt.buffer,)) if isinstance(stmt, Store) else NO_SOURCES
            for child in () if found else stmt.children():
                part = self.written(child)
                if part is not found and not part <= found:
                    found = found | part
            self._written[stmt] = found
        return found
