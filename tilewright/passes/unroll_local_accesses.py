"""unroll_local_accesses: loops that index a thread's own arrays are unrolled by the back end's compiler.

A local array lives in registers only if every index is a constant once the code is unrolled. A single index that is not
constant moves the whole array to the stack, in slow memory. So the pass marks every loop in a kernel whose variable
indexes local storage as UNROLLED, within a limit on the size of the code.
"""

from __future__ import annotations

from ..core.hardware import LoopKind, MemoryScope
from ..core.options import Options
from ..core.target import Target
from ..expr.nodes import IntImm, Var
from ..loops.dataflow import index_variables
from ..loops.nodes import Evaluate, For, Function, Launch, Seq, Stmt, Store, Tensorized
from ..loops.walk import map_kernels


def unroll_local_accesses(function: Function, target: Target, options: Options) -> Function:
    """Mark serial loops of constant extent as UNROLLED if their variable indexes LOCAL storage, inside kernels.

    Loops that would become more stores than `unrolled_stores` of the hardware stay.
    """

    most = target.hardware.unrolled_stores

    def visit(stmt: Launch) -> Launch:
        wanted = index_variables(stmt.body, MemoryScope.LOCAL)
        return stmt.with_body(_visit(stmt.body, wanted, most)[0])

    return map_kernels(function, visit)


def _visit(stmt: Stmt, wanted: frozenset[Var], max_steps: int) -> tuple[Stmt, int]:
    """The statement with its loops marked, and the number of stores after unrolling."""
    if isinstance(stmt, (Store, Evaluate, Tensorized)):
        return stmt, 1
    if isinstance(stmt, For):
        body, steps = _visit(stmt.body, wanted, max_steps)
        kind = stmt.kind
        if kind in (LoopKind.SERIAL, LoopKind.UNROLLED) and isinstance(stmt.extent, IntImm):
            unrolled = steps * stmt.extent.value
            if kind is LoopKind.UNROLLED or (stmt.var in wanted and unrolled <= max_steps):
                kind, steps = LoopKind.UNROLLED, unrolled
        return For(stmt.var, stmt.min, stmt.extent, kind, stmt.thread, stmt.pragmas, body), steps
    if isinstance(stmt, Seq):
        parts = [_visit(part, wanted, max_steps) for part in stmt.stmts]
        return Seq(tuple(part for part, _ in parts)), sum(steps for _, steps in parts)
    total = 0

    def child(node: object) -> object:
        nonlocal total
        if not isinstance(node, Stmt):
            return node
        made, steps = _visit(node, wanted, max_steps)
        total += steps
        return made

    made: Stmt = stmt.map_children(child)
    return made, total
