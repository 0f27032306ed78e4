"""A pipelined loop around a matrix product, with the first fragments of an iteration loaded at the end of the last one.

Behind the barrier at the head of an iteration, a warp would wait for its first fragments without other work:

    for k: await; barrier                      await; barrier; load fragments (0, 0)
           copies for k + d - 1            ->  for k: copies for k + d - 1
           for step: load (k, step)                   for step: load (k, step + 1); multiply (k, step)
                     multiply (k, step)               await; barrier; load (k + 1, 0)
                                                      multiply (k, last)

The awaited number of groups is the same, since the commit of iteration k stays in front. The last iteration loads
fragments that nobody uses: from the slot that is next in turn, or its own ones again if none follows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..arith.simplify import simplify
from ..core.hardware import LoopKind
from ..expr.nodes import Expr, IntImm, Load, Var
from ..expr.operators import add, minimum, subtract
from ..expr.traverse import post_order, substitute
from ..loops.nodes import Await, Barrier, Buffer, Commit, For, Let, Seq, Stmt, Store, Tensorized
from .copies import gathered, is_copying, tests_borders
from .matrix import MatrixKernelWriter, MatrixWriter

_MOST_SLOTS = 16
"""How many iterations back to look for the same indices."""


@dataclass(frozen=True)
class _Loop:
    """The parts of such a loop; `first` and `following` give the values of names in the first and in the next
    iteration."""

    loop: For
    names: tuple[Let, ...]
    waits: tuple[Stmt, ...]
    copies: tuple[Stmt, ...]
    product: Tensorized
    counts: tuple[Store, ...]
    first: dict[Var, Expr]
    following: dict[Var, Expr]

    @property
    def hurries(self) -> bool:
        """Whether copies that test borders are awaited in the iteration that issues them.

        The wait before the last step would come too soon for them.
        """
        soon = any(isinstance(part, Await) and not part.pending for part in self.waits)
        return soon and any(map(tests_borders, self.copies))


def write_product_loop(writer: MatrixKernelWriter, s: For) -> bool:
    """Write a loop in that way; False for one that has another shape."""
    found = _taken_apart(s)
    if found is None:
        return False
    made = MatrixWriter(writer, found.product)
    if not made.loads_ahead or found.hurries:
        return False
    inside = (found.loop.var, *(let.var for let in found.names))
    with writer._block(""), made.kept_apart(inside):
        made.declare()
        for part in found.waits:
            writer._stmt(part)
        made.load_first(found.first)
        made.writer.held_back = []
        loop, name = found.loop, writer.names(found.loop.var)
        kind = writer.dialect.scalar_type(loop.var.dtype)
        start, end = writer.expr(loop.min), writer.expr(add(loop.min, loop.extent), 10)
        with writer._block(f"for ({kind} {name} = {start}; {name} < {end}; ++{name})"):
            for let in found.names:
                kind = writer.dialect.scalar_type(let.var.dtype)
                writer._line(f"const {kind} {writer.names(let.var)} = {writer.expr(let.value)};")
            made.copies = gathered(writer, found.copies)
            made.steps_ahead(found.waits, found.following)
            for part in found.counts:
                writer._stmt(part)
    return True


def _taken_apart(s: For) -> _Loop | None:
    body, names = s.body, []
    while isinstance(body, Let):
        names.append(body)
        body = body.body
    parts = list(body.stmts) if isinstance(body, Seq) else []
    if s.kind is not LoopKind.SERIAL or len(parts) < 4 or not isinstance(s.extent, IntImm):
        return None
    if not (isinstance(parts[0], Await) and isinstance(parts[1], Barrier)):
        return None
    at = next((i for i, part in enumerate(parts) if isinstance(part, Tensorized)), 0)
    copies, counts = parts[2:at], parts[at + 1 :]
    product: Any = parts[at]
    if (
        not at
        or product.atom.by_thread
        or product.atom.by_warpgroup
        or not all(isinstance(part, Commit) or is_copying(part) for part in copies)
    ):
        return None
    stored = [part for part in counts if isinstance(part, Store)]
    counters: dict[Buffer, Expr] = {store.buffer: store.value for store in stored}
    if len(stored) < len(counts) or len(counters) < len(counts):
        return None
    counted: dict[Var, Expr] = {}
    for let in names:
        source: Any = getattr(let.value, "source", None)
        if source in counters:
            counted[let.var] = counters[source]
    values = [store.value for store in stored] + [let.value for let in names if let.var not in counted]
    if any(isinstance(node, Load) for value in values for node in post_order(value)):
        return None
    first: dict[Var, Expr] = {s.var: s.min}
    for let in names:
        first[let.var] = substitute(let.value, first)
    following = _following(s, s.extent.value, names, counted, product)
    return _Loop(s, tuple(names), tuple(parts[:2]), tuple(copies), product, tuple(stored), first, following)


def _following(
    loop: For, extent: int, names: list[Let], counted: dict[Var, Expr], product: Tensorized
) -> dict[Var, Expr]:
    """The values of the loop's variable and names in the next iteration.

    Behind the last iteration, the indices of a ring wrap around to the indices of an earlier one. In a ring with a slot
    per iteration they would be out of range, so the last iteration then returns its own values.
    """

    def at(iteration: Expr) -> dict[Var, Expr]:
        found: dict[Var, Expr] = {loop.var: iteration}
        for let in names:
            found[let.var] = counted[let.var] if let.var in counted else substitute(let.value, found)
        return found

    def indices(iteration: Expr) -> list[Expr]:
        return [simplify(substitute(operand, at(iteration))) for operand in (product.a, product.b)]

    last = add(loop.min, extent - 1)
    behind, slots = indices(add(last, 1)), range(min(extent, _MOST_SLOTS))
    if any(indices(subtract(last, back)) == behind for back in slots):
        return at(add(loop.var, 1))
    return at(minimum(add(loop.var, 1), last))
