"""expand_virtual_threads: replicates the innermost statements that depend on a virtual thread.

Statements that do not depend on the vthread stay as they are and are shared by the copies: loops, loads into shared
memory, guards. Storage that is written differently by each vthread grows by their number. Nested vthreads expand from
the inside out. (The scheme, and the threshold below, come from the legacy compiler.)
"""

from __future__ import annotations

from typing import Any

from ..core.errors import Suspect, UserError
from ..core.hardware import LoopKind, ThreadTag
from ..core.options import Options
from ..core.target import Target
from ..expr.nodes import Expr, IntImm, Load, Ramp, Var
from ..expr.operators import add, const, multiply
from ..expr.traverse import post_order, substitute
from ..loops import uses
from ..loops.buffers import with_accesses
from ..loops.nodes import Allocate, Buffer, For, Function, If, Seq, Stmt, Store, map_statements, seq
from ..loops.uses import NO_SOURCES, Sources
from ..loops.walk import statements, stored_stages, substatements

MAX_COPIES = 16  # this many copies, or more, are a loop


def expand_virtual_threads(function: Function, target: Target, options: Options) -> Function:
    """Expand every loop bound to a vthread; raise UserError if its extent is not constant."""
    return function.with_body(_visit(function.body))


def _visit(stmt: Stmt) -> Stmt:
    made = map_statements(stmt, _visit)
    if not isinstance(made, For) or made.thread is not ThreadTag.VTHREAD:
        return made
    if not isinstance(made.extent, IntImm):
        raise UserError(
            f"a vthread has the extent `{made.extent}`, which is not constant",
            primitive="bind",
            fix="split the axis by a constant (nparts=) and bind that loop to the vthread",
            suspects=(Suspect(("bind",), stored_stages(made.body), tag=ThreadTag.VTHREAD.value),),
        )
    if made.extent.value == 1:
        body: Stmt = substitute(made.body, {made.var: made.min})
        return body
    return _Expansion(made.var, made.extent.value, made.body).statement(made.body)


class _Expansion:
    """Expands one vthread of `count` copies in the statements below its loop."""

    def __init__(self, var: Var, count: int, body: Stmt) -> None:
        self.var = var
        self.count = count
        own = {part.buffer for part in statements(body) if isinstance(part, Allocate)}
        self.touched = self._touched(body)
        self.grown = {b: self._grown(b) for b in self.touched if b in own}
        self.memo: dict[Any, bool] = {}

    def _touched(self, body: Stmt) -> set[Buffer]:
        """Return the buffers with contents that differ between the vthreads, found by following stores to a fixed
        point."""
        writes = [(buffers, self._uses(parts)) for buffers, parts in _writes(body, ())]
        touched: set[Buffer] = set()
        size = -1
        while size != len(touched):
            size = len(touched)
            touched.update(*(buffers for buffers, used in writes if self.var in used or used & touched))
        return touched

    def _uses(self, parts: tuple[Expr, ...]) -> set[Any]:
        """The buffers that expressions read; the vthread's variable if used."""
        nodes = post_order(*parts)
        return {n.source if isinstance(n, Load) else n for n in nodes if isinstance(n, Load) or n is self.var}

    def _depends(self, node: Any) -> bool:
        """Whether something within `node` differs between the vthreads."""
        found = self.memo.get(node)
        if found is None:
            found = (
                node is self.var
                or (isinstance(node, Load) and node.source in self.touched)
                or (isinstance(node, Store) and node.buffer in self.touched)
                or any([self._depends(child) for child in node.children()])
            )
            self.memo[node] = found
        return found

    def _grown(self, buffer: Buffer) -> Buffer:
        shape = (multiply(buffer.shape[0], const(self.count, buffer.shape[0].dtype)), *buffer.shape[1:])
        return buffer.changed(shape=shape)

    def statement(self, stmt: Stmt) -> Stmt:
        """`stmt` for all vthreads: shared if nothing depends on the vthread, else expanded in its inner statements."""
        if not self._depends(stmt):
            return stmt
        if isinstance(stmt, Seq):
            return seq(*[self.statement(part) for part in stmt.stmts])
        if isinstance(stmt, Allocate):
            return Allocate(self.grown.get(stmt.buffer, stmt.buffer), self.statement(stmt.body))
        if isinstance(stmt, For) and not self._depends(stmt.extent) and not self._depends(stmt.min):
            body = self.statement(stmt.body)
            return For(stmt.var, stmt.min, stmt.extent, stmt.kind, stmt.thread, stmt.pragmas, body)
        if isinstance(stmt, If) and not self._depends(stmt.condition):
            orelse = None if stmt.orelse is None else self.statement(stmt.orelse)
            return If(stmt.condition, self.statement(stmt.then), orelse)
        return self._copies(with_accesses(stmt, self.grown.get, self._moved))

    def _moved(self, buffer: Buffer, indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """The indices of an element in the copy of its vthread."""
        offset = multiply(self.var, buffer.shape[0])
        index = indices[0]
        if isinstance(index, Ramp):
            return (Ramp(add(offset, index.base), index.stride, index.lanes), *indices[1:])
        return (add(offset, index), *indices[1:])

    def _copies(self, stmt: Stmt) -> Stmt:
        if self.count >= MAX_COPIES:
            zero, extent = const(0, self.var.dtype), const(self.count, self.var.dtype)
            return For(self.var, zero, extent, LoopKind.SERIAL, None, (), stmt)
        values = (const(i, self.var.dtype) for i in range(self.count))
        return seq(*(substitute(stmt, {self.var: value}) for value in values))


def _writes(stmt: Stmt, conditions: tuple[Expr, ...]) -> list[tuple[Sources, tuple[Expr, ...]]]:
    """The buffers that each statement writes itself, by a store or a call, and the expressions that decide the values.

    These are its own expressions, and the conditions and loop bounds that it stands under.
    """
    own = tuple(child for child in stmt.children() if isinstance(child, Expr) and not isinstance(child, Var))
    under = (*conditions, *own)
    written = uses.given_to_write(stmt) | (frozenset((stmt.buffer,)) if isinstance(stmt, Store) else NO_SOURCES)
    found = [(written, under)] if written else []
    return found + [each for child in substatements(stmt) for each in _writes(child, under)]
