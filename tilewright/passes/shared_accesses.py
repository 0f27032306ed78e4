"""Accesses to shared memory as data: which buffer, and which half of a double buffer."""

from __future__ import annotations

from dataclasses import dataclass

from ..arith.simplify import simplify
from ..core.hardware import MemoryScope
from ..core.node import Node
from ..expr.nodes import Expr, FloorMod, IntImm, Load, Mul, Ramp, Var
from ..expr.operators import add, subtract
from ..expr.traverse import post_order, substitute, variables
from ..loops import uses
from ..loops.nodes import Buffer, Store

# A buffer, and the expression whose parity is the half that is accessed (None: either, or not two halves).
Place = tuple[Buffer, Expr | None]


@dataclass(frozen=True)
class Accesses:
    """Places in shared memory that are written, and that are read."""

    written: frozenset[Place] = frozenset()
    read: frozenset[Place] = frozenset()

    def __or__(self, other: Accesses) -> Accesses:
        return Accesses(self.written | other.written, self.read | other.read)

    def conflicts(self, later: Accesses) -> bool:
        """Whether a later access needs these to have ended.

        That is so where one reads what the other writes, and where two buffers that share memory meet.
        """
        every = self.written | self.read, later.written | later.read
        return _meet(self.written, later.read) or _meet(self.read, later.written) or _overlay(*every)

    def next_iteration(self, var: Var) -> Accesses:
        """The same accesses one iteration of the loop over `var` later."""
        step = {var: add(var, 1)}

        def later(places: frozenset[Place]) -> frozenset[Place]:
            return frozenset((b, None if phase is None else substitute(phase, step)) for b, phase in places)

        return Accesses(later(self.written), later(self.read))

    def without(self, var: Var) -> Accesses:
        """The same accesses seen from outside the loop over `var`, where the half is not known."""

        def seen(places: frozenset[Place]) -> frozenset[Place]:
            return frozenset((b, None if phase is None or var in variables(phase) else phase) for b, phase in places)

        return Accesses(seen(self.written), seen(self.read))


NONE = Accesses()


def _meet(some: frozenset[Place], others: frozenset[Place]) -> bool:
    return any(a is b and not _different_halves(p, q) for a, p in some for b, q in others)


def _overlay(some: frozenset[Place], others: frozenset[Place]) -> bool:
    """Whether two different buffers of the same memory are accessed."""
    return any(a is not b and (a.alias_of or a) is (b.alias_of or b) for a, _ in some for b, _ in others)


def _different_halves(p: Expr | None, q: Expr | None) -> bool:
    if p is None or q is None:
        return False
    apart = simplify(subtract(p, q))
    return isinstance(apart, IntImm) and apart.value % 2 == 1


def accesses(root: Node) -> Accesses:
    """The accesses of a statement of one stage, or of an expression.

    What a stage reads of its own result does not count: each thread owns the elements that it writes.
    """
    if not any(map(_shared, uses.written(root) | uses.read(root))):
        return NONE
    nodes = list(post_order(root))
    written = [(n.buffer, n.indices) for n in nodes if isinstance(n, Store) and _shared(n.buffer)]
    own = {buffer for buffer, _ in written}
    loads = [(n.source, n.indices) for n in nodes if isinstance(n, Load)]
    read = [(s, i) for s, i in loads if isinstance(s, Buffer) and _shared(s) and s not in own]
    return Accesses(frozenset((b, _half(b, i)) for b, i in written), frozenset((b, _half(b, i)) for b, i in read))


def _half(buffer: Buffer, indices: tuple[Expr, ...]) -> Expr | None:
    """x where the index is (x % 2) * (half the buffer) + ..., None for any other index."""
    size = buffer.shape[0]
    if not isinstance(size, IntImm) or len(indices) != 1:
        return None
    index = indices[0].base if isinstance(indices[0], Ramp) else indices[0]
    halves = (node.a for node in post_order(index) if isinstance(node, Mul) and _times(node.b, size.value // 2))
    return next((e.a for e in halves if isinstance(e, FloorMod) and _times(e.b, 2)), None)


def _times(e: Expr, value: int) -> bool:
    return isinstance(e, IntImm) and e.value == value


def _shared(buffer: Buffer) -> bool:
    return buffer.scope is MemoryScope.SHARED
