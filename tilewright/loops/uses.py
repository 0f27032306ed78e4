"""The buffers that statements and expressions read and write.

The result stays with the node for the node's lifetime, so that all passes together look at each node once.
"""

from __future__ import annotations

from typing import Any

from ..core.node import Node
from ..expr.nodes import FloatImm, IntImm, Load, SizeVar, Var
from .calls import addresses, has_effect
from .nodes import Evaluate, Let, Stmt, Store

Sources = frozenset[Any]
NO_SOURCES: Sources = frozenset()
LEAVES = frozenset((Var, SizeVar, IntImm, FloatImm))
"""Expressions in which there is nothing to find: half of all nodes."""


def read(node: Node) -> Sources:
    """The buffers (before lowering: tensors) that are loaded below `node`."""
    found: Sources | None = getattr(node, "read_below", None)
    if found is None:
        found = frozenset((node.source,)) if isinstance(node, Load) else NO_SOURCES
        for child in node.children():
            if type(child) not in LEAVES:
                part = read(child)
                if part is not found and not part <= found:
                    found = found | part
        node.read_below = found
    return found


def written(stmt: Node) -> Sources:
    """The buffers that are stored to below `stmt`, or that a function is given to write."""
    if not isinstance(stmt, Stmt):
        return NO_SOURCES
    found: Sources | None = getattr(stmt, "written_below", None)
    if found is None:
        found = frozenset((stmt.buffer,)) if isinstance(stmt, Store) else NO_SOURCES
        given = given_to_write(stmt)
        for child in () if found else stmt.children():
            part = written(child)
            if part is not found and not part <= found:
                found = found | part
        if given:
            found = found | given
        stmt.written_below = found
    return found


def given_to_write(stmt: Node) -> Sources:
    """Return the buffers that a call in the statement itself may write to by their addresses."""
    if isinstance(stmt, (Evaluate, Store, Let)) and has_effect(stmt.value):
        return frozenset(address.buffer for address in addresses(stmt.value) if address.writes)
    return NO_SOURCES
