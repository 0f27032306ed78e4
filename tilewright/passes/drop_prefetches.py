"""drop_prefetches: remove prefetches on GPUs, which hide latency by switching between threads."""

from __future__ import annotations

from ..core.options import Options
from ..core.target import Target
from ..expr.effects import PREFETCH
from ..expr.nodes import Call
from ..loops.nodes import NOTHING, Evaluate, For, Function, If, Stmt, map_statements


def drop_prefetches(function: Function, target: Target, options: Options) -> Function:
    """Remove every `prefetch` statement, with the loops and conditions that contain nothing else."""
    return function.with_body(_visit(function.body))


def _visit(stmt: Stmt) -> Stmt:
    if isinstance(stmt, Evaluate) and isinstance(stmt.value, Call) and stmt.value.name == PREFETCH:
        return NOTHING
    made = map_statements(stmt, _visit)
    if made is stmt:
        return stmt
    empty = (isinstance(made, For) and made.body is NOTHING) or (
        isinstance(made, If) and made.then is NOTHING and made.orelse is None
    )
    return NOTHING if empty else made
