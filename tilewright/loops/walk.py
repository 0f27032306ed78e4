"""Walking over statements without looking into their expressions."""

from __future__ import annotations

from collections.abc import Iterator

from .nodes import SIMPLE, Stmt


def statements(root: Stmt) -> Iterator[Stmt]:
    """The statements of `root`, itself included, outer ones first, in order. Expressions are not walked."""
    stack = [root]
    while stack:
        stmt = stack.pop()
        yield stmt
        if type(stmt) not in SIMPLE:
            stack += [child for child in reversed(stmt.children()) if isinstance(child, Stmt)]
