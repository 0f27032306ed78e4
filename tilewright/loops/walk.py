"""Walking over statements without looking into their expressions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from .nodes import SIMPLE, Function, Launch, Stmt, Store, Tensorized, map_statements


def substatements(stmt: Stmt) -> list[Stmt]:
    """The statements directly below a statement."""
    return [child for child in stmt.children() if isinstance(child, Stmt)]


def statements(root: Stmt) -> Iterator[Stmt]:
    """The statements of `root`, itself included, outer ones first, in order. Expressions are not walked."""
    stack = [root]
    while stack:
        stmt = stack.pop()
        yield stmt
        if type(stmt) not in SIMPLE:
            stack += reversed(substatements(stmt))


def map_kernels(function: Function, f: Callable[[Launch], Stmt]) -> Function:
    """Return the function with `f` applied to each of its kernels."""

    def visit(stmt: Stmt) -> Stmt:
        return f(stmt) if isinstance(stmt, Launch) else map_statements(stmt, visit)

    return function.with_body(visit(function.body))


def inner_first(root: Stmt) -> list[Any]:
    """Each distinct statement of `root`, itself included, children first, loops of instructions too.

    Expressions are not walked.
    """
    found: dict[Stmt, None] = {}
    stack: list[Stmt | None] = [root]  # None: the children of the statement below it have been found
    while stack:
        stmt = stack.pop()
        if stmt is None:
            stmt = stack.pop()
            assert stmt is not None
            found[stmt] = None
        elif stmt not in found:
            stack += (stmt, None)
            stack += reversed(substatements(stmt))
    return list(found)


def stored_stages(root: Stmt) -> tuple[str, ...]:
    """Return the names of the stages with results stored in `root`, in order, each once."""
    found: dict[str, None] = {}
    for stmt in statements(root):
        inside = statements(stmt.body) if isinstance(stmt, Tensorized) else (stmt,)
        found.update({part.buffer.note or part.buffer.name: None for part in inside if isinstance(part, Store)})
    return tuple(found)
