"""The statements of a loop nest as numbers: loops around each store, and how each access moves with them.

The nest is the one before any pass: multi-dimensional buffers, vthreads as loops.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...core.hardware import LoopKind, ThreadTag
from ...expr import nodes as n
from ...expr.arrays import evaluated
from ...expr.nodes import Expr, IntImm, Load, Var
from ...expr.traverse import post_order
from ...loops.nodes import Allocate, Buffer, For, Function, If, Let, Seq, Stmt, Store


@dataclass(frozen=True)
class LoopFact:
    """One loop around a statement."""

    var: Var
    extent: int
    kind: LoopKind
    thread: ThreadTag | None


@dataclass(frozen=True)
class AffineAccess:
    """One buffer that a statement reads or writes.

    `moves[d, l]` is the change of the index of dimension d per step of loop l, at the origin of all loops. `shape` has
    the extent of each dimension.
    """

    buffer: Buffer
    writes: bool
    moves: np.ndarray
    shape: np.ndarray

    @cached_property
    def strides(self) -> np.ndarray:
        """Return the number of elements in memory that each loop advances per step."""
        weights = np.concatenate([np.cumprod(self.shape[::-1])[::-1][1:], [1]]) if len(self.shape) else np.ones(0)
        strides: np.ndarray = weights @ self.moves if len(self.shape) else np.zeros(self.moves.shape[1])
        return strides

    def touched(self, extents: np.ndarray) -> np.ndarray:
        """Return, for each depth, the number of elements touched by the loops from there inwards. The last entry is
        1."""
        reach = np.abs(self.moves) * (extents - 1)
        inner = np.concatenate([np.cumsum(reach[:, ::-1], axis=1)[:, ::-1], np.zeros((len(self.shape), 1))], axis=1)
        counts: np.ndarray = np.minimum(1 + inner, self.shape[:, None]).prod(axis=0)
        return counts


@dataclass(frozen=True)
class Statement:
    """A store: its loops, outermost first, its accesses, and the operations of one execution.

    `arithmetic` counts floating-point operations: additions and subtractions, products, divisions and remainders.
    """

    name: str
    loops: tuple[LoopFact, ...]
    accesses: tuple[AffineAccess, ...]
    operations: int
    arithmetic: tuple[int, int, int] = (0, 0, 0)

    @cached_property
    def extents(self) -> np.ndarray:
        """The extents of the loops."""
        return np.array([loop.extent for loop in self.loops], dtype=np.float64)


def statements(function: Function) -> list[Statement]:
    """Return the stores of a function, in order. A loop of unknown extent counts as one iteration."""
    return list(_visit(function.body, ()))


def _visit(stmt: Stmt, loops: tuple[LoopFact, ...]) -> Iterator[Statement]:
    if isinstance(stmt, For):
        extent = stmt.extent.value if isinstance(stmt.extent, IntImm) else 1
        yield from _visit(stmt.body, (*loops, LoopFact(stmt.var, extent, stmt.kind, stmt.thread)))
    elif isinstance(stmt, Seq):
        for part in stmt.stmts:
            yield from _visit(part, loops)
    elif isinstance(stmt, If):
        yield from _visit(stmt.then, loops)
        if stmt.orelse is not None:
            yield from _visit(stmt.orelse, loops)
    elif isinstance(stmt, (Allocate, Let)):
        yield from _visit(stmt.body, loops)
    elif isinstance(stmt, Store):
        yield _statement(stmt, loops)


def _statement(store: Store, loops: tuple[LoopFact, ...]) -> Statement:
    accesses = [_access(store.buffer, store.indices, True, loops)]
    operations, counts = 0, [0, 0, 0]
    for e in post_order(store.value):
        if isinstance(e, Load) and isinstance(e.source, Buffer):
            accesses.append(_access(e.source, e.indices, False, loops))
        elif isinstance(e, n.Binary):
            operations += 1
            if e.dtype.is_float and type(e) in _COUNTED:
                counts[_COUNTED[type(e)]] += 1
    return Statement(store.buffer.name, loops, tuple(accesses), operations, (counts[0], counts[1], counts[2]))


def _access(buffer: Buffer, indices: tuple[Expr, ...], writes: bool, loops: tuple[LoopFact, ...]) -> AffineAccess:
    shape = np.array([e.value if isinstance(e, IntImm) else 1 for e in buffer.shape], dtype=np.float64)
    moves = np.zeros((len(indices), len(loops)))
    for d, index in enumerate(indices):
        used = {e for e in post_order(index) if isinstance(e, Var)}
        at_origin = evaluated(index, {}, unknown=0)
        for place, loop in enumerate(loops):
            if loop.var in used:
                moves[d, place] = evaluated(index, {loop.var: 1}, unknown=0) - at_origin
    return AffineAccess(buffer, writes, moves, shape)


_COUNTED: dict[type[Expr], int] = {n.Add: 0, n.Sub: 0, n.Mul: 1, n.Div: 2, n.Mod: 2}
