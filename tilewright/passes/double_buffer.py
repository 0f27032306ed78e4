"""double_buffer: load the next iteration's data while this one's is used.

For a buffer that the schedule doubles, the loop around its writer runs the writer one iteration ahead, into
the other half of the storage; the first load stands before the loop and the last use after it.
"""

from __future__ import annotations

from typing import Any

from ..core.hardware import LoopKind
from ..core.options import Options
from ..core.target import Target
from ..expr.nodes import Expr, IntImm, Load, Ramp
from ..expr.operators import add, const, floormod, multiply, subtract
from ..expr.traverse import post_order, substitute
from ..loops.nodes import Allocate, Buffer, For, Function, Seq, Stmt, Store, map_statements, seq


def double_buffer(function: Function, target: Target, options: Options) -> Function:
    """Pipeline the loops directly around the writers of doubled buffers. Works on flat storage.

    A loop must be serial and of a constant extent of at least 2, and the writers must read nothing else that the
    loop computes; elsewhere the buffer stays single.
    """
    wanted = any(isinstance(node, Allocate) and node.buffer.doubled for node in post_order(function.body))
    return function.with_body(_visit(function.body)) if wanted else function


def _visit(stmt: Stmt) -> Stmt:
    made = map_statements(stmt, _visit)
    if not isinstance(made, For) or made.kind is not LoopKind.SERIAL:
        return made
    if not isinstance(made.extent, IntImm) or made.extent.value < 2:
        return made
    return _pipelined(made, made.extent.value)


def _pipelined(loop: For, extent: int) -> Stmt:
    """The loop with the writers of the doubled buffers allocated at the head of its body run ahead."""
    body, held = loop.body, []
    while isinstance(body, Allocate):
        held.append(body.buffer)
        body = body.body
    doubled = {buffer for buffer in held if buffer.doubled}
    parts = body.stmts if isinstance(body, Seq) else (body,)
    writers = [part for part in parts if _written(part) and _written(part) <= doubled]
    taken = set(writers)
    others = [part for part in parts if part not in taken]
    if not writers or _read(*writers) & _written(*others):  # what a writer reads would have to run ahead with it
        return loop
    uses = seq(*others)
    for buffer in reversed(held):
        uses = uses if buffer in doubled else Allocate(buffer, uses)
    halves = {buffer: _two_halves(buffer) for buffer in doubled}
    first = loop.min
    ahead, last = add(loop.var, 1), add(first, extent - 1)

    def half(root: Stmt, step: Expr) -> Stmt:
        moved: Stmt = _in_half(root, halves, floormod(subtract(step, first), 2))
        return moved

    load = seq(*writers)
    start = half(substitute(load, {loop.var: first}), first)
    middle = seq(half(substitute(load, {loop.var: ahead}), ahead), half(uses, loop.var))
    end = half(substitute(uses, {loop.var: last}), last)
    steady = For(loop.var, first, const(extent - 1, loop.var.dtype), loop.kind, None, loop.pragmas, middle)
    made = seq(start, steady, end)
    for buffer in reversed([b for b in held if b in doubled]):
        made = Allocate(halves[buffer], made)
    return made


def _written(*stmts: Stmt) -> set[Buffer]:
    return {node.buffer for node in post_order(*stmts) if isinstance(node, Store)}


def _read(*stmts: Stmt) -> set[object]:
    return {node.source for node in post_order(*stmts) if isinstance(node, Load)}


def _two_halves(buffer: Buffer) -> Buffer:
    shape = (multiply(buffer.shape[0], 2),)
    return Buffer(buffer.name, buffer.dtype, shape, buffer.scope, buffer.align, note=buffer.note, has_halves=True)


def _in_half(root: Any, halves: dict[Buffer, Buffer], which: Expr) -> Any:
    """`root` with every access to a doubled buffer moved to one of its halves."""
    memo: dict[Any, Any] = {}

    def moved(buffer: Buffer, index: Expr) -> tuple[Expr, ...]:
        offset = multiply(which, buffer.shape[0])
        if isinstance(index, Ramp):
            return (Ramp(add(offset, index.base), index.stride, index.lanes),)
        return (add(offset, index),)

    def visit(node: Any) -> Any:
        done = memo.get(node)
        if done is None:
            done = node.map_children(visit)
            if isinstance(done, Load) and done.source in halves:
                done = Load(halves[done.source], moved(done.source, done.indices[0]))
            elif isinstance(done, Store) and done.buffer in halves:
                done = Store(halves[done.buffer], moved(done.buffer, done.indices[0]), done.value)
            memo[node] = done
        return done

    return visit(root)
