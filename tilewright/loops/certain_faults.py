"""Faults of a statement that are certain, found before anything runs: accesses beyond a buffer, and races.

For statements that users write themselves (`te.extern`, hybrid scripts); the schedule of a `te.compute` leads to
neither. Only certain faults are found: an access that leaves its buffer at a reached point, and stores of different
values by concurrent iterations.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from ..arith.region import extremes
from ..arith.simplify import prove, simplify
from ..bounds.witnesses import MOST_CONDITIONS, Condition, witness
from ..core.hardware import LoopKind, MemoryScope, ThreadTag
from ..expr import nodes as n
from ..expr.nodes import Expr, IntImm, Load, Var
from ..expr.operators import greater_equal, less
from ..expr.printer import show
from ..expr.traverse import loads, post_order, substitute, variables
from .nodes import Allocate, Buffer, Evaluate, For, If, Launch, Let, Seq, Stmt, Store, is_exchange

Fault = tuple[str, str]
"""A fault and its fix."""


@dataclass(frozen=True)
class _Scene:
    """The facts in the context of a statement.

    `ends` has the values of loops of constant extent, `ranges` the range of every loop, `values` the values of names.
    `certain`: if its conditions hold, the statement is certainly reached.
    """

    ends: dict[Var, tuple[int, int]]
    ranges: dict[Var, tuple[Expr, Expr]]
    values: dict[Var, Expr]
    conditions: tuple[Condition, ...] = ()
    together: tuple[For, ...] = ()
    private: frozenset[Buffer] = frozenset()
    certain: bool = True

    def under(self, e: Expr, holds: bool) -> _Scene:
        """The scene in which a condition holds, or does not."""
        if len(self.conditions) >= MOST_CONDITIONS:
            return replace(self, certain=False)
        return replace(self, conditions=(*self.conditions, Condition(substitute(e, self.values), holds)))


def certain_faults(stmt: Stmt) -> Iterator[Fault]:
    """The certain faults of a statement, in the order of the program."""
    yield from _walk(stmt, _Scene({}, {}, {}))


def _walk(stmt: Stmt, scene: _Scene) -> Iterator[Fault]:
    if isinstance(stmt, Seq):
        for part in stmt.stmts:
            yield from _walk(part, scene)
    elif isinstance(stmt, For):
        yield from _walk(stmt.body, _inside(stmt, scene))
    elif isinstance(stmt, If):
        yield from _reads(stmt.condition, scene)
        yield from _walk(stmt.then, scene.under(stmt.condition, True))
        if stmt.orelse is not None:
            yield from _walk(stmt.orelse, scene.under(stmt.condition, False))
    elif isinstance(stmt, Let):
        yield from _reads(stmt.value, scene)
        yield from _walk(
            stmt.body, replace(scene, values={**scene.values, stmt.var: substitute(stmt.value, scene.values)})
        )
    elif isinstance(stmt, Allocate):
        own = scene.private if not _is_private(stmt.buffer) else scene.private | {stmt.buffer}
        yield from _walk(stmt.body, replace(scene, private=own))
    elif isinstance(stmt, Store):
        yield from _reads(stmt.value, scene)
        for index in stmt.indices:
            yield from _reads(index, scene)
        yield from _beyond(stmt.buffer, stmt.indices, scene, f"stores to {stmt.buffer.name}")
        yield from _race(stmt, scene)
    elif isinstance(stmt, Evaluate):
        yield from _reads(stmt.value, scene)
    elif not isinstance(stmt, Launch):  # other statements, such as `while`, run an unknown number of times
        for child in stmt.children():
            if isinstance(child, Stmt):
                yield from _walk(child, replace(scene, certain=False))


def _is_private(buffer: Buffer) -> bool:
    return buffer.scope is MemoryScope.LOCAL


def _inside(loop: For, scene: _Scene) -> _Scene:
    low, extent = (simplify(substitute(e, scene.values)) for e in (loop.min, loop.extent))
    ends = {var: span for var, span in scene.ends.items() if var is not loop.var}
    certain = scene.certain
    if isinstance(low, IntImm) and isinstance(extent, IntImm):
        ends[loop.var] = (low.value, low.value + extent.value - 1)
        certain = certain and extent.value > 0
    concurrent = loop.kind in (LoopKind.PARALLEL, LoopKind.THREAD) and loop.thread is not ThreadTag.VTHREAD
    together = (*scene.together, loop) if concurrent else scene.together
    return replace(
        scene, ends=ends, ranges={**scene.ranges, loop.var: (low, extent)}, together=together, certain=certain
    )


# Accesses beyond a buffer


def _reads(e: Expr, scene: _Scene) -> Iterator[Fault]:
    """The loads of an expression that certainly leave their buffers."""
    seen: set[Expr] = set()

    def visit(at: Any, here: _Scene) -> Iterator[Fault]:
        if at in seen:
            return
        seen.add(at)
        if isinstance(at, Load) and isinstance(at.source, Buffer):
            yield from _beyond(at.source, at.indices, here, f"reads {at.source.name}")
        for child, condition in _parts(at):
            yield from visit(child, here if condition is None else here.under(*condition))

    yield from visit(e, scene)


def _parts(e: Any) -> Iterator[tuple[Expr, tuple[Expr, bool] | None]]:
    """The parts of an expression, each with the condition under which it is evaluated, if there is one."""
    if isinstance(e, (n.IfThenElse, n.Select)):
        yield e.condition, None
        yield e.true_value, (e.condition, True)
        yield e.false_value, (e.condition, False)
    elif isinstance(e, (n.And, n.Or)):
        yield e.a, None
        yield e.b, (e.a, isinstance(e, n.And))
    else:
        yield from ((child, None) for child in e.children() if isinstance(child, Expr))


def _beyond(buffer: Buffer, indices: tuple[Expr, ...], scene: _Scene, does: str) -> Iterator[Fault]:
    if not scene.certain or len(indices) != len(buffer.shape):
        return
    for d, (index, extent) in enumerate(zip(indices, buffer.shape, strict=True)):
        if index.dtype.lanes > 1:
            continue
        meant = substitute(index, scene.values)
        where = _constant_point(meant, extent, scene) or _symbolic_end(meant, extent, scene)
        if where:
            written = f"{buffer.name}[{', '.join(show(i) for i in indices)}]"
            last = f"{extent.value - 1}" if isinstance(extent, IntImm) else f"{extent} - 1"
            yield (
                f"{does} beyond its ends, of shape {list(buffer.shape)}: in {written}, index {d} {where}, but must "
                f"stay within 0 to {last}",
                f"mend the index or the loops around it, or access under a condition: with ib.if_scope({show(index)} "
                f"< {extent})",
            )


def _constant_point(index: Expr, extent: Expr, scene: _Scene) -> str:
    """A point of constant loops at which an index is beyond an extent, in words."""
    stated = [condition.expr for condition in scene.conditions]
    used = variables(index, *stated)
    if not isinstance(extent, IntImm) or any(var not in scene.ends for var in used) or loads(index, *stated):
        return ""
    found = witness(index, extent.value, scene.conditions, {var: scene.ends[var] for var in used})
    if found is None:
        return ""
    values, at = found
    point = ", ".join(f"{var.name} = {value}" for var, value in values.items() if var in variables(index))
    return f"is {at}" + (f" at {point}" if point else "")


def _symbolic_end(index: Expr, extent: Expr, scene: _Scene) -> str:
    """The end of an index that no condition guards, over loops of any extent, if it is beyond a buffer's."""
    if scene.conditions or loads(index):
        return ""
    used = {var: scene.ranges[var] for var in variables(index) if var in scene.ranges}
    if any(var in used for ends in used.values() for var in variables(*ends)):
        return ""  # in a triangle of loops, not every value of one variable reaches the ends of the other
    found = extremes(simplify(index), used)
    if found is None or not found.exact:
        return ""
    low, high = simplify(found.lo), simplify(found.hi)
    if prove(less(low, 0)) or prove(greater_equal(high, extent)):
        return f"runs from {show(low)} to {show(high)}"
    return ""


# Races


def _race(stmt: Store, scene: _Scene) -> Iterator[Fault]:
    """Yield a fault if all iterations of a concurrent loop store to one element, and each stores another value."""
    if stmt.buffer in scene.private or not scene.certain:
        return
    indices = [substitute(index, scene.values) for index in stmt.indices]
    value = substitute(stmt.value, scene.values)
    guards = [condition.expr for condition in scene.conditions]
    if any(is_exchange(e) or isinstance(e, n.Call) for e in post_order(value)) or loads(*indices):
        return
    for loop in scene.together:
        shared_by_blocks = stmt.buffer.scope is MemoryScope.GLOBAL
        if loop.thread is not None and loop.thread.is_block and not shared_by_blocks:
            continue
        ends = scene.ends.get(loop.var)
        several = ends is None or ends[1] > ends[0]
        # An inner loop with a range that depends on the iteration may differ in each iteration, or run in only one of
        # them.
        ranges = (end for ends in scene.ranges.values() for end in ends)
        if several and loop.var in variables(value) and loop.var not in variables(*indices, *guards, *ranges):
            written = f"{stmt.buffer.name}[{', '.join(map(show, stmt.indices))}]"
            how = loop.thread.value if loop.thread is not None else "a parallel loop"
            yield (
                f"stores another value to {written} in each iteration of {loop.var.name!r} ({how}), which run at the "
                "same time: which of them stays is not known",
                f"let the index depend on {loop.var.name}, store in one of them: with ib.if_scope({loop.var.name} "
                "== 0), or add up by tir.atomic_add",
            )
