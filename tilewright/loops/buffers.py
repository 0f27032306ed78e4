"""Substitution of the buffers of a statement."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from ..expr.nodes import Call, Load
from ..expr.traverse import rewrite
from .calls import ARRAY, addresses, array_of
from .nodes import Buffer, Store

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
