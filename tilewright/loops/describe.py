"""A statement in one line, for messages."""

from __future__ import annotations

from ..core.node import Node
from ..expr.nodes import Expr
from ..expr.printer import show
from .nodes import Allocate, Await, Barrier, Commit, Copy, Evaluate, For, If, Launch, Let, LifetimeStart, Store, While


def describe(node: Node) -> str:
    """The head of a statement, or an expression, as text."""
    if isinstance(node, Expr):
        return show(node)
    if isinstance(node, Store):
        late = " (asynchronous)" if isinstance(node, Copy) else ""
        return f"{node.buffer.name}[{', '.join(map(show, node.indices))}] = {show(node.value)}{late}"
    if isinstance(node, Let):
        return f"{node.var.name} = {show(node.value)}"
    if isinstance(node, If):
        return f"if {show(node.condition)}"
    if isinstance(node, While):
        return f"while {show(node.condition)}"
    if isinstance(node, For):
        return _loop(node)
    if isinstance(node, Evaluate):
        return show(node.value)
    if isinstance(node, Allocate):
        shape = ", ".join(map(show, node.buffer.shape))
        return f"allocate {node.buffer.name}[{shape}] ({node.buffer.dtype}, {node.buffer.scope.value})"
    if isinstance(node, LifetimeStart):
        return f"lifetime of {node.buffer.name} starts"
    if isinstance(node, Barrier):
        return f"barrier ({node.scope.value})"
    if isinstance(node, Commit):
        return "commit copies"
    if isinstance(node, Await):
        return f"await copies, all but {node.pending} groups"
    if isinstance(node, Launch):
        return f"launch {node.name}"
    return type(node).__name__


def _loop(node: For) -> str:
    low, extent = show(node.min), show(node.extent)
    what = node.thread.value if node.thread is not None else node.kind.value
    span = f"range({extent})" if low == "0" else f"range({low}, {low} + {extent})"
    return f"for {node.var.name} in {span}  ({what})"
