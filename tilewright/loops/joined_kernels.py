"""Kernel fusion: loops of one thread index that share memory of a block or of a thread become one kernel.

Such memory does not outlive a kernel. Scripts allocate it before the loops that they bind to threads:

    allocate near[256]                                    for threadIdx.x in range(256):
    for threadIdx.x in range(256): near[...] = ...   ->       allocate near[256]
    for threadIdx.x in range(256): ... = near[...]            near[...] = ...
                                                              ... = near[...]

The barriers between them are placed later, like all others. Data that one block passes to another through global memory
have no barrier, so loops of blocks that do so are refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple

from ..arith.affine import Affine
from ..arith.facts import EMPTY, Facts
from ..core.errors import UserError
from ..core.hardware import MemoryScope, ThreadTag
from ..expr.nodes import Expr, Load
from ..expr.traverse import post_order, substitute
from .nodes import Allocate, Buffer, Evaluate, For, Let, Seq, Stmt, Store, map_statements, seq
from .overlap import AccessRegion, Meeting, Range, meeting
from .thread_extents import is_kernel
from .uses import given_to_write


def join_kernels(stmt: Stmt) -> Stmt:
    """The statement with thread loops moved out of the allocations of shared and local memory around them."""
    if isinstance(stmt, Allocate) and stmt.buffer.scope is not MemoryScope.GLOBAL:
        return _joined(stmt)
    return stmt if is_kernel(stmt) else map_statements(stmt, join_kernels)


def _joined(stmt: Stmt) -> Stmt:
    """Join the thread loops inside allocations to one loop around them, if they run over the same threads."""
    buffers: list[Buffer] = []
    parts = _parts(stmt, buffers)
    loops = [part for part in parts if isinstance(part, For) and is_kernel(part)]
    first = loops[0] if loops else None
    if first is None or len(loops) != len(parts):
        return stmt
    if any((loop.thread, loop.min, loop.extent) != (first.thread, first.min, first.extent) for loop in loops):
        return stmt
    bodies: list[Stmt] = [substitute(loop.body, {loop.var: first.var}) for loop in loops]
    _check_blocks(first, bodies, buffers)
    body = seq(*bodies)
    for buffer in reversed(buffers):
        body = Allocate(buffer, body)
    return For(first.var, first.min, first.extent, first.kind, first.thread, first.pragmas, _joined(body))


def _parts(stmt: Stmt, buffers: list[Buffer]) -> list[Stmt]:
    """Return the statements inside allocations of shared and local memory and sequences, and collect the buffers."""
    if isinstance(stmt, Allocate) and stmt.buffer.scope is not MemoryScope.GLOBAL:
        buffers.append(stmt.buffer)
        return _parts(stmt.body, buffers)
    if isinstance(stmt, Seq):
        return [part for each in stmt.stmts for part in _parts(each, buffers)]
    return [stmt]


class _Touch(NamedTuple):
    """An access to global memory, with the loops around it that are not over blocks; any element without indices."""

    buffer: Buffer
    writes: bool
    indices: tuple[Expr, ...] | None
    ranges: tuple[Range, ...] = ()


def _check_blocks(first: For, bodies: list[Stmt], buffers: list[Buffer]) -> None:
    """Refuse loops of one kernel if a loop stores elements that other blocks access in another loop."""
    blocks: dict[ThreadTag, For] = {}
    if first.thread is not None and first.thread.is_block:
        blocks[first.thread] = first
    touched = [list(_touches(body, (), blocks)) for body in bodies]
    facts = EMPTY.bind_all({loop.var: (loop.min, loop.extent) for loop in blocks.values()})
    for one, other in combinations(touched, 2) if blocks else ():
        for a in one:
            for b in other:
                if (a.writes or b.writes) and a.buffer.memory is b.buffer.memory and not _in_one_block(a, b, facts):
                    tags = ", ".join(tag.value for tag in blocks)
                    raise UserError(
                        f"loops over {tags} share {buffers[0].name!r} in {buffers[0].scope.value} memory, so they are "
                        f"one kernel. Blocks of one loop may access elements of {a.buffer.name!r} that other blocks "
                        "access in another loop: blocks cannot wait for each other",
                        primitive="lower",
                        fix=f"allocate {buffers[0].name} inside each of the loops, so that they are separate kernels",
                    )


def _touches(stmt: Stmt, ranges: tuple[Range, ...], blocks: dict[ThreadTag, For]) -> Iterator[_Touch]:
    """The accesses to global memory in a statement; loops over blocks are noted, one for each index."""
    if isinstance(stmt, For) and stmt.thread is not None and stmt.thread.is_block:
        known = blocks.setdefault(stmt.thread, stmt)
        yield from _touches(substitute(stmt.body, {stmt.var: known.var}), ranges, blocks)
        return
    if isinstance(stmt, Let):
        stmt = seq(Evaluate(stmt.value), substitute(stmt.body, {stmt.var: stmt.value}))
    if isinstance(stmt, Store) and stmt.buffer.scope is MemoryScope.GLOBAL:
        yield _Touch(stmt.buffer, True, stmt.indices, ranges)
    for buffer in given_to_write(stmt):
        yield _Touch(buffer, True, None)
    inside = (*ranges, (stmt.var, stmt.min, stmt.extent)) if isinstance(stmt, For) else ranges
    for child in stmt.children():
        if isinstance(child, Stmt):
            yield from _touches(child, inside, blocks)
        else:
            for e in post_order(child):
                if isinstance(e, Load) and isinstance(e.source, Buffer) and e.source.scope is MemoryScope.GLOBAL:
                    yield _Touch(e.source, False, e.indices, ranges)


def _in_one_block(a: _Touch, b: _Touch, blocks: Facts) -> bool:
    """Whether two accesses can meet only within one block, according to some dimension.

    `blocks` has the ranges of the variables that distinguish blocks.
    """
    if a.indices is None or b.indices is None or a.buffer is not b.buffer:
        return False
    variables = frozenset(blocks.ranges)
    for i, j in zip(a.indices, b.indices, strict=True):
        plain = not any(isinstance(e, Load) or e.dtype.lanes > 1 for e in post_order(i, j))
        regions = [AccessRegion(Affine.of(e), ranges=t.ranges) for e, t in ((i, a), (j, b))] if plain else []
        if regions and meeting(regions[0], regions[1], variables, blocks) is not Meeting.ANYWHERE:
            return True
    return False
