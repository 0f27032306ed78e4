"""hoist_allocations: storage is allocated once, at the head of the kernel (or of the function)."""

from __future__ import annotations

from collections.abc import Iterable

from ..core.hardware import LoopKind
from ..core.options import Options
from ..core.target import Target
from ..expr.traverse import variables
from ..loops.nodes import Allocate, Buffer, For, Function, Launch, LifetimeStart, Stmt, map_statements, seq
from ..schedule.primitives.annotate import LAUNCH_POINT


def hoist_allocations(function: Function, target: Target, options: Options) -> Function:
    """Move every allocation of constant size to the outermost thread or parallel loop around it.

    Code generators then find all storage of a kernel in one place, in the order of first use. Copies of one allocation
    (from an unrolled loop) become one. A lifetime starts at the former place of a kernel's allocation.
    """
    found: dict[Buffer, None] = {}
    body = _strip(function.body, found)
    return function.with_body(_wrap(body, found))


def _strip(stmt: Stmt, found: dict[Buffer, None], in_kernel: bool = False) -> Stmt:
    """`stmt` without its allocations. `found` collects them, except in kernels or parallel loops inside."""
    if isinstance(stmt, Allocate) and not variables(*stmt.buffer.shape):
        found[stmt.buffer] = None
        body = _strip(stmt.body, found, in_kernel)
        return seq(LifetimeStart(stmt.buffer), body) if in_kernel else body
    kernel = isinstance(stmt, Launch) or (isinstance(stmt, For) and stmt.kind is LoopKind.THREAD)
    parallel = isinstance(stmt, For) and (stmt.kind is LoopKind.PARALLEL or LAUNCH_POINT in dict(stmt.pragmas))
    if (kernel or parallel) and not in_kernel:
        own: dict[Buffer, None] = {}
        made = map_statements(stmt, lambda child: _strip(child, own, kernel))
        return map_statements(made, lambda child: _wrap(child, own))
    return map_statements(stmt, lambda child: _strip(child, found, in_kernel))


def _wrap(body: Stmt, buffers: Iterable[Buffer]) -> Stmt:
    for buffer in reversed(list(buffers)):
        body = Allocate(buffer, body)
    return body
