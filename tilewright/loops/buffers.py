"""Substitution of the buffers of a statement, and moves of their accesses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from ..expr.nodes import Call, Expr, Load
from ..expr.traverse import rewrite
from .calls import ARRAY, addresses, array_of
from .nodes import Allocate, Buffer, Store

Indices = tuple[Expr, ...]

T = TypeVar("T")


def with_buffers(stmt: T, theirs: Mapping[Buffer, Buffer]) -> T:
    """A statement or an expression with each buffer that is a key of `theirs` replaced by its value."""

    def replaced(node: Any) -> Any:
        if isinstance(node, Load) and node.source in theirs:
            return Load(theirs[node.source], node.indices)  # type: ignore[index]  # a buffer: it is a key
        if isinstance(node, Store) and node.buffer in theirs:
            return Store(theirs[node.buffer], node.indices, node.value)
        if isinstance(node, Call) and node.name == ARRAY:
            (address,) = addresses(node)
            return array_of(address.buffer)
        return node

    made: T = rewrite(stmt, replaced)
    return made


def with_accesses(
    root: T, moved: Callable[[Buffer], Buffer | None], indices: Callable[[Buffer, Indices], Indices]
) -> T:
    """Move the loads and stores of buffers, and their allocations, to other buffers.

    `moved` returns the new buffer; None leaves the accesses as they are. `indices` gets the old buffer and indices, and
    returns the new ones.
    """

    def rule(node: Any) -> Any:
        if isinstance(node, Load) and isinstance(node.source, Buffer):
            there = moved(node.source)
            return node if there is None else Load(there, indices(node.source, node.indices))
        if isinstance(node, Store):
            there = moved(node.buffer)
            return node if there is None else Store(there, indices(node.buffer, node.indices), node.value)
        if isinstance(node, Allocate):
            there = moved(node.buffer)
            return node if there is None else Allocate(there, node.body)
        return node

    made: T = rewrite(root, rule)
    return made
