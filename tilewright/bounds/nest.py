"""The loops around a stage, and the value of every axis in terms of their variables."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Mapping

from ..arith.facts import Facts
from ..expr.nodes import Expr, Var
from ..expr.operators import cast, const, is_const
from ..expr.traverse import substitute
from ..schedule.guarded_reads import guarded_axes, guarded_value
from ..schedule.schedule import At, Schedule, Stage
from ..schedule.schedule import Loop as Loop
from ..tensor.axis import AxisKind, IterVar, Range


def outer_loops(schedule: Schedule, stage: Stage) -> tuple[Loop, ...]:
    """The loops of other stages that `stage` is computed in, outermost first."""
    if not isinstance(stage.placement, At):
        return ()
    parent = schedule.stages[stage.placement.stage]
    own = parent.loops
    depth = next((i for i, loop in enumerate(own) if loop.axis is stage.placement.axis), len(own) - 1)
    return (*outer_loops(schedule, parent), *own[: depth + 1], *_threads_around(own, depth))


def axes_of_threads(stage: Stage) -> frozenset[IterVar]:
    """The axes bound to threads, and the axes from which these are split. They keep their extents if the stage's region
    is smaller. Users split to reach the number of threads that the rest of the kernel has.
    """
    found = {axis for axis in stage.leaves if stage.annotation(axis).thread is not None}
    for relation in reversed(stage.relations):
        if not found.isdisjoint(relation.below):
            found.update(relation.above)
    return frozenset(found)


def is_thread_reduction(stage: Stage) -> bool:
    """Whether a reduction loop of the stage is bound to threads."""
    return any(map(_combines, stage.loops))


def _combines(loop: Loop) -> bool:
    return loop.thread is not None and loop.axis.kind is AxisKind.REDUCE


def _threads_around(loops: tuple[Loop, ...], depth: int) -> tuple[Loop, ...]:
    """Return the thread loops below loop number `depth` that nevertheless run around it.

    Threads that share a reduction each run all of its unbound loops.
    """
    serial = any(loop.thread is None and loop.axis.kind is AxisKind.REDUCE for loop in loops[: depth + 1])
    if not serial or not any(map(_combines, loops)):
        return ()
    return tuple(loop for loop in loops[depth + 1 :] if loop.thread is not None)


def axis_values(
    stage: Stage, ranges: Mapping[IterVar, Range], known: Mapping[IterVar, Expr] | None = None
) -> dict[IterVar, Expr]:
    """Return the value of each axis of `stage` as an expression of loop variables.

    The axis of a plain loop of extent 1, or of a loop that is private to threads, has its minimum as its value. For an
    axis that a relation replaced, a value in `known` takes precedence over the value from the loops.
    """
    values: dict[IterVar, Expr] = {}
    for loop in stage.loops:
        single = loop.axis in stage.private or (loop.thread is None and is_const(ranges[loop.axis].extent, 1))
        value: Expr = const(0, loop.var.dtype) if single else loop.var
        values[loop.axis] = value + ranges[loop.axis].min
    for relation in reversed(stage.relations):
        values.update(relation.values_up(values, ranges))
        values.update({axis: known[axis] for axis in relation.above if axis in known} if known else {})
    return values


def cut_axes(stage: Stage, ranges: Mapping[IterVar, Range], running: Container[Var]) -> list[IterVar]:
    """Return the guarded axes with only `running` loops: guards cut off iterations beyond them."""
    guarded = guarded_axes(stage, ranges)
    whole = {loop.axis for loop in stage.loops if loop.var in running} if guarded else set()
    found = []
    for relation in reversed(stage.relations if guarded else ()):
        if relation.below and whole.issuperset(relation.below):
            whole.update(relation.above)
            found += [axis for axis in relation.above if axis in guarded]
    return found


def index_values(
    stage: Stage, ranges: Mapping[IterVar, Range], facts: Facts, cut: Collection[IterVar] = ()
) -> Callable[[Expr], Expr]:
    """Return the function from an index of a read, over the axes of the stage's operation, to its value over loops.

    The axes `cut` stand for themselves. Other guarded axes stay within their range.
    """
    alone = {axis: axis.var for axis in cut}
    values = axis_values(stage, ranges, alone)
    below = {axis: values[axis] for axis in guarded_axes(stage, ranges) if axis not in alone}
    if not below:
        roots = {root.var: cast(root.var.dtype, values[root]) for root in stage.roots}
        return lambda index: substitute(index, roots)
    above = axis_values(stage, ranges, alone | {axis: axis.var for axis in below})
    return lambda index: guarded_value(index, stage, above, below, ranges, facts)
