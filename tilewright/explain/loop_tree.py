"""The loops of a schedule as a tree, and the region of each stage that one iteration of each loop computes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from ..arith.region import extremes
from ..arith.simplify import simplify
from ..bounds.nest import Loop
from ..bounds.stage_bounds import Bounds, StageBounds
from ..core.hardware import LoopKind, MemoryScope
from ..expr.nodes import Expr, IntImm, Var
from ..expr.operators import add, const, is_const, subtract
from ..expr.printer import ExprPrinter
from ..expr.traverse import variables
from ..schedule.schedule import At, Schedule
from ..tensor.axis import AxisKind, IterVar
from ..tensor.extern import ExternOp

_LONGEST_START = 48


@dataclass(frozen=True)
class Part:
    """A range of one axis: its beginning and its length."""

    axis: str
    start: Expr | None
    extent: Expr | None


@dataclass(frozen=True)
class TreeNode:
    """A stage (`loop` is empty) or one of its loops.

    `parts` are the computed regions. For a stage, they are all regions computed at its place in the tree; for a loop,
    the results of one iteration, including inner loops. `terms` are the same for the axes of a reduction.
    """

    depth: int
    stage: str
    loop: str
    kind: str
    extent: Expr | None
    parts: tuple[Part, ...]
    terms: tuple[Part, ...]
    scope: MemoryScope
    scattered: int = 0
    """The number of elements if they lie scattered within the region; 0 if they fill it."""

    def extents(self) -> str:
        """The size of the region, such as "1, 8, 8"."""
        return ", ".join("?" if part.extent is None else str(part.extent) for part in self.parts)

    def starts(self) -> str:
        """The beginning of the region; empty if that text would be too long."""
        written = ["?" if part.start is None else _show(part.start) for part in self.parts]
        text = ", ".join(written)
        return "" if len(text) > _LONGEST_START or set(written) <= {"0"} else text

    def over(self) -> str:
        """The part of a reduction, such as "rc 8, rx 1"."""
        return ", ".join(f"{part.axis} {'?' if part.extent is None else part.extent}" for part in self.terms)


_show = ExprPrinter(lambda thing: str(thing.name))


def loop_tree(schedule: Schedule, bounds: Bounds) -> list[TreeNode]:
    """The stages and loops of a schedule in the order in which they run.

    Parameters
    ----------
    schedule : Schedule
    bounds : Bounds
        Of the schedule, refined for a target or not.

    Returns
    -------
    list of Node
        A node's children follow it, at greater depth.
    """
    roots = [found for found in reversed(list(bounds.values())) if not isinstance(found.stage.placement, At)]
    attached: dict[tuple[int, IterVar], list[StageBounds]] = {}
    for found in reversed(list(bounds.values())):
        place = found.stage.placement
        if isinstance(place, At):
            attached.setdefault((place.stage, place.axis), []).append(found)

    def stage(found: StageBounds, depth: int) -> Iterator[TreeNode]:
        yield _node(found, None, (), depth)
        loops = found.stage.loops
        inner = depth + 1
        for k, loop in enumerate(loops):
            if not _is_hidden(found, loop):
                yield _node(found, loop, loops[: k + 1], inner)
                inner += 1
            for producer in attached.get((found.stage.id, loop.axis), []):
                yield from stage(producer, inner)

    return [node for found in roots for node in stage(found, 0)]


def _is_hidden(found: StageBounds, loop: Loop) -> bool:
    """Whether a loop runs once and is not shown."""
    return loop.thread is None and is_const(found.ranges[loop.axis].extent, 1)


def _node(found: StageBounds, loop: Loop | None, fixed: Sequence[Loop], depth: int) -> TreeNode:
    parts = _region(found, fixed, AxisKind.DATA)
    terms = _region(found, fixed, AxisKind.REDUCE)
    if loop is None:
        return TreeNode(depth, found.stage.name, "", "", None, parts, (), found.scope)
    annotation = found.stage.annotation(loop.axis)
    kind = (
        loop.tag.value if loop.tag is not None else "" if annotation.kind is LoopKind.SERIAL else annotation.kind.value
    )
    extent = found.ranges[loop.axis].extent
    apart = _scattered(found, fixed, parts)
    return TreeNode(depth, found.stage.name, loop.axis.name, kind, extent, parts, terms, found.scope, apart)


def _scattered(found: StageBounds, fixed: Sequence[Loop], parts: Sequence[Part]) -> int:
    """The number of iterations that compute different elements of a region, if that is less than its size."""
    still = {loop.var for loop in fixed}
    moving = set(variables(*(found.values[axis] for axis in found.stage.op.axis)))
    extents = [found.ranges[loop.axis].extent for loop in found.stage.loops if loop.var in moving - still]
    sizes = [part.extent for part in parts]
    if not all(isinstance(extent, IntImm) for extent in (*extents, *sizes)):
        return 0
    count, room = (prod(extent.value for extent in some if isinstance(extent, IntImm)) for some in (extents, sizes))
    return count if count < room else 0


def _region(found: StageBounds, fixed: Sequence[Loop], kind: AxisKind) -> tuple[Part, ...]:
    """Return the range of each axis of a stage while its `fixed` loops, and the loops around it, stay at one iteration.

    The regions that the loops of a statement compute are unknown.
    """
    if isinstance(found.stage.op, ExternOp):
        return ()
    still = {loop.var for loop in fixed} | {loop.var for loop in found.outer}
    zero = const(0, "int32")
    running: dict[Var, tuple[Expr, Expr]] = {
        loop.var: (zero, found.ranges[loop.axis].extent) for loop in found.stage.loops if loop.var not in still
    }
    values = found.values
    made: list[Part] = []
    for axis in found.stage.roots:
        if (axis.kind is AxisKind.REDUCE) is not (kind is AxisKind.REDUCE):
            continue
        if not fixed:
            made.append(Part(axis.name, found.ranges[axis].min, found.ranges[axis].extent))
            continue
        ends = extremes(values[axis], running, found.facts)
        if ends is None:
            made.append(Part(axis.name, None, None))
            continue
        start = simplify(ends.lo, found.facts)
        extent = simplify(add(subtract(ends.hi, ends.lo), 1), found.facts)
        made.append(Part(axis.name, start, _at_most(extent, found.ranges[axis].extent)))
    return tuple(made)


def _at_most(extent: Expr, whole: Expr) -> Expr:
    """Limit an extent to the whole, which a last partial tile may exceed."""
    if isinstance(extent, IntImm) and isinstance(whole, IntImm):
        return extent if extent.value <= whole.value else whole
    return extent
