"""One extent per thread index and kernel: the extents that the stages of a kernel bind to one index must agree.

A loop of extent 1 fits any extent of its index: all threads along the index run its body.

    for threadIdx.z in range(4): ...          for threadIdx.z in range(4): ...
    for threadIdx.z in range(1): f(z)   ->    for threadIdx.z in range(4): f(0)
"""

from __future__ import annotations

from typing import Any

from ..bounds.kernels import index_extents
from ..core.errors import Suspect, UserError
from ..core.hardware import LoopKind, ThreadTag
from ..expr.nodes import Expr
from ..expr.operators import const, is_const
from ..expr.traverse import substitute
from .nodes import For, Let, Stmt, Store, is_exchange, map_statements
from .walk import statements


def is_kernel(stmt: Any) -> bool:
    """Whether a statement is a loop over blocks or threads of the hardware."""
    return isinstance(stmt, For) and stmt.thread is not None and stmt.thread.is_hardware


def thread_loops(stmt: Stmt) -> list[For]:
    """The thread loops within a statement, outermost and first ones first."""
    return [loop for loop in statements(stmt) if isinstance(loop, For) and loop.kind is LoopKind.THREAD]


def thread_extents(kernel: Stmt) -> dict[ThreadTag, Expr]:
    """The extent of each thread index of a kernel, in the order of their loops. Raises UserError if two differ."""
    indices = _indices(kernel)
    found = index_extents(indices)
    for tag, extent in indices:
        if tag in found and extent is not found[tag]:
            raise _mismatch(tag, found[tag], extent, kernel)
    return found


def _indices(kernel: Stmt) -> list[tuple[ThreadTag | None, Expr]]:
    """The index and the extent of each thread loop of a kernel."""
    return [(loop.thread, loop.extent) for loop in thread_loops(kernel)]


def unify_thread_extents(stmt: Stmt) -> Stmt:
    """Unify the extents of each kernel's thread indices. Raises UserError if loops of one index disagree."""
    if not is_kernel(stmt):
        return map_statements(stmt, unify_thread_extents)
    indices = _indices(stmt)
    extents = index_extents(indices)
    if all(extents.get(tag, extent) is extent for tag, extent in indices if tag is not None):
        return stmt
    kernel = _widened(stmt, extents)
    thread_extents(kernel)
    return kernel


def _widened(kernel: Stmt, extents: dict[ThreadTag, Expr]) -> Stmt:
    """Return a kernel with loops of extent 1 extended to the other loops of their thread index."""

    def visit(stmt: Stmt) -> Stmt:
        made = map_statements(stmt, visit)
        if not isinstance(made, For) or made.thread not in extents or not is_const(made.extent, 1) or _exchanges(made):
            return made
        assert made.thread is not None
        extent = extents[made.thread]
        if is_const(extent, 1):
            return made
        body: Stmt = substitute(made.body, {made.var: const(0, made.var.dtype)})
        return For(made.var, made.min, extent, made.kind, made.thread, made.pragmas, body)

    return visit(kernel)


def _exchanges(stmt: Stmt) -> bool:
    """Whether threads combine values within a statement: how many take part then matters."""
    return any(isinstance(part, (Store, Let)) and is_exchange(part.value) for part in statements(stmt))


def last_stage(stmt: Stmt) -> str:
    """Return the stage of the result that a statement stores last."""
    wrote = [part.buffer.note or part.buffer.name for part in statements(stmt) if isinstance(part, Store)]
    return wrote[-1] if wrote else "?"


def _mismatch(tag: ThreadTag, first: Expr, second: Expr, kernel: Stmt) -> UserError:
    stages: dict[str, str] = {}
    for loop in thread_loops(kernel):
        if loop.thread is tag:
            stages.setdefault(str(loop.extent), last_stage(loop.body))
    return UserError(
        f"{tag.value} has extent {first} for stage {stages.get(str(first))!r} and {second} for stage "
        f"{stages.get(str(second))!r}, but a kernel has one extent per thread index",
        primitive="bind",
        fix=f"split so that both loops bound to {tag.value} have the same extent",
        suspects=(Suspect(("bind",), tuple(stages.values()), tag=tag.value),),
    )
