"""The region of a stage that its readers need.

Each read index is an expression of the reader's loop variables. Loops outside of the stage's place are fixed; the
others run, including indices of threads that share the stage's memory. The bounds of the index over the running loops,
joined over all reads, are the region.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ..arith.facts import Facts
from ..arith.region import Extremes, extremes, solve_extent
from ..arith.simplify import prove, simplify
from ..core.errors import Suspect, UserError
from ..core.hardware import MemoryScope, ThreadTag
from ..expr.nodes import Expr, IntImm, Max, Min, Var
from ..expr.operators import const, equal, floormod, greater_equal, less_equal, subtract
from ..expr.traverse import loads as loads_in
from ..expr.traverse import substitute, uses_any, variables
from ..schedule.schedule import At, Stage
from ..tensor.axis import IterVar, Range
from ..tensor.extern import ExternOp
from ..tensor.scan import ScanOp
from ..tensor.tensor import Tensor
from .nest import Loop, cut_axes, index_values
from .stage_bounds import StageBounds
from .visibility import check_owners, shares

NO_LOOPS: Mapping[IterVar, tuple[int, Expr | None]] = {}


@dataclass(frozen=True)
class Region:
    """The computed part of a dimension; `widened` is the reason if it is larger than needed, else ""."""

    range: Range
    widened: str


def demand(
    stage: Stage,
    scope: MemoryScope,
    outer: tuple[Loop, ...],
    consumers: tuple[StageBounds, ...],
    is_read: Callable[[Tensor], bool],
    hidden: frozenset[Var] = frozenset(),
    private: Mapping[IterVar, tuple[int, Expr | None]] = NO_LOOPS,
) -> tuple[Region, ...]:
    """Return the region of `stage`: one range per dimension.

    `hidden` are variables of the readers without a value at the stage's place of computation. `private` is the result
    of `private_steps`. Raises UserError if a consumer is outside the loop that the stage is computed in. Raises it also
    if a thread needs elements beyond the first iteration of its private loops.
    """
    spans: list[Extremes | None] = []
    visible = {loop.var for loop in (*outer, *(loop for loop in stage.loops if loop.axis in private))}
    read_at: list[tuple[tuple[Expr, ...], Facts]] = []
    visible_indices = {loop.tag: loop.var for loop in outer if loop.tag is not None and loop.tag.is_thread}
    facts: Facts | None = None
    for consumer in consumers:
        facts = consumer.facts
        relaxed = running_loops(stage, scope, consumer)
        if isinstance(consumer.stage.op, ExternOp):
            return tuple(Region(Range(extent), "") for extent in stage.op.shape)
        cut = cut_axes(consumer.stage, consumer.ranges, relaxed)
        relaxed |= {axis.var: (consumer.ranges[axis].min, consumer.ranges[axis].extent) for axis in cut}
        if isinstance(consumer.stage.op, ScanOp):
            row = consumer.values[consumer.stage.op.scan_axis] if any(map(is_read, consumer.stage.op.update)) else None
            found = _rows(stage, row)
            spans = found if not spans else [_join(a, b, facts) for a, b in zip(spans, found, strict=True)]
            continue
        same = _same_numbers(consumer, visible, visible_indices)
        value_of = index_values(consumer.stage, consumer.ranges, facts, cut)
        reads = [e for e in loads_in(*consumer.body) if isinstance(e.source, Tensor) and is_read(e.source)]
        for indices in dict.fromkeys(read.indices for read in reads):
            places = tuple(simplify(value_of(i), facts) for i in indices)
            read_at.append((places, facts))
            found = [extremes(place, relaxed, facts) for place in places]
            found = [_substituted(span, same) for span in found]
            _check_visible(stage, consumer, found, visible)
            spans = found if not spans else [_join(a, b, facts) for a, b in zip(spans, found, strict=True)]
    if facts is None:
        return tuple(Region(Range(extent), "") for extent in stage.op.shape)
    regions = tuple(_region(span, extent, facts, hidden) for span, extent in zip(spans, stage.op.shape, strict=True))
    own = {loop.axis: _numbers(loop, outer) for loop in stage.loops if loop.axis in private}
    if not all(
        _computed(regions[d].range.min, step, [(at[d], known) for at, known in read_at], own[axis])
        for axis, (d, step) in private.items()
    ):
        check_owners(stage, scope)
    return regions


def _numbers(own: Loop, outer: tuple[Loop, ...]) -> list[Var]:
    """The variables that have a thread's number: of a loop, and of the outer loops over the same thread index."""
    return [own.var, *(loop.var for loop in outer if loop.tag is own.tag)]


def _computed(first: Expr, step: Expr | None, places: list[tuple[Expr, Facts]], numbers: list[Var]) -> bool:
    """Whether all places equal one thread number or, with a step, lie at `first` plus multiples of the step."""
    if step is None:
        return any(all(prove(equal(place, number), facts) for place, facts in places) for number in numbers)
    return all(prove(equal(floormod(subtract(place, first), step), 0), facts) for place, facts in places)


def _rows(stage: Stage, row: Expr | None) -> list[Extremes | None]:
    """Return the part of a stage that a scan needs: the row that it computes, or all first rows."""
    found: list[Extremes | None] = [
        Extremes(const(0, extent.dtype), subtract(extent, 1), True) for extent in stage.op.shape
    ]
    return found if row is None else [Extremes(row, row, True), *found[1:]]


def running_loops(stage: Stage, scope: MemoryScope, consumer: StageBounds) -> dict[Var, tuple[Expr, Expr]]:
    """The loop variables that run while one copy of the stage's result is in use.

    All virtual threads of the stage inside its place of computation share the copy. Raises UserError if `consumer` is
    outside the loop that the stage is computed in.
    """
    path = (*consumer.outer, *consumer.stage.loops)
    inside = 0
    if isinstance(stage.placement, At):
        at = stage.placement
        inside = next((i + 1 for i, loop in enumerate(path) if loop.stage == at.stage and loop.axis is at.axis), -1)
        if inside < 0:
            raise UserError(
                f"stage {stage.name!r} is computed inside the loop {at.axis.name!r}, but {consumer.stage.name!r}, "
                "which reads it, is outside that loop",
                primitive="compute_at",
                fix=f"compute {stage.name!r} at a loop around all its readers, or compute "
                f"{consumer.stage.name!r} inside {at.axis.name!r} as well",
                suspects=(Suspect(("compute_at",), (stage.name,)),),
            )
    running = {}
    virtual = {loop.var for loop in stage.loops if loop.tag is ThreadTag.VTHREAD}
    for i, loop in enumerate(path):
        within = i >= inside and (loop.tag is None or loop.var in virtual)
        if within or (loop.tag is not None and shares(scope, loop.tag)):
            known = consumer.facts.range_of(loop.var)
            if known is not None:
                running[loop.var] = known
    return running


def _same_numbers(consumer: StageBounds, visible: set[Var], indices: dict[ThreadTag, Var]) -> dict[Var, Var]:
    """The visible variable for each hidden loop over a hardware index, which is the same number in all loops over it.

    Only for loops of equal length: if a hidden one ends earlier, not all threads have such a number.
    """
    same = {}
    for loop in (*consumer.outer, *consumer.stage.loops) if indices else ():
        outer = indices.get(loop.tag) if loop.tag is not None and loop.var not in visible else None
        if outer is not None and _as_far(consumer.facts.range_of(loop.var), consumer.facts.range_of(outer)):
            same[loop.var] = outer
    return same


def _substituted(span: Extremes | None, same: dict[Var, Var]) -> Extremes | None:
    if span is None or not same:
        return span
    return Extremes(substitute(span.lo, same), substitute(span.hi, same), span.exact)


def _as_far(one: tuple[Expr, Expr] | None, other: tuple[Expr, Expr] | None) -> bool:
    """Whether two loops have the same known range."""
    return one is not None and other is not None and all(a is b for a, b in zip(one, other, strict=True))


def _check_visible(stage: Stage, consumer: StageBounds, found: list[Extremes | None], visible: set[Var]) -> None:
    path = (*consumer.outer, *consumer.stage.loops)
    hidden = {loop.var: loop for loop in path if loop.var not in visible}
    for span in found:
        for var in variables(*span[:2]) if span is not None else ():
            if var in hidden:
                loop = hidden[var]
                raise UserError(
                    f"the part of {stage.name!r} that {consumer.stage.name!r} needs depends on {loop.axis.name!r} "
                    f"({loop.thread.thread_tag if loop.thread else 'a loop'}), a loop inside the loop of compute_at",
                    primitive="compute_at",
                    fix=f"compute {stage.name!r} at {loop.axis.name!r}, or keep {stage.name!r} in memory that the "
                    f"iterations of {loop.axis.name!r} share",
                    suspects=(Suspect(("compute_at", "set_scope", "cache_read", "cache_write"), (stage.name,)),),
                )


def _join(a: Extremes | None, b: Extremes | None, facts: Facts) -> Extremes | None:
    if a is None or b is None:
        return None
    return Extremes(simplify(Min(a.lo, b.lo), facts), simplify(Max(a.hi, b.hi), facts), a.exact and b.exact)


def _region(span: Extremes | None, extent: Expr, facts: Facts, hidden: frozenset[Var]) -> Region:
    whole = Range(extent)
    if span is None:
        return Region(whole, "the index has no bounds that can be found")
    low, high, exact = span
    if loads_in(low, high) or uses_any(low, hidden) or uses_any(high, hidden):
        return Region(whole, "the index is read from memory")
    last = subtract(extent, 1)
    if prove(less_equal(low, 0), facts) and prove(greater_equal(high, last), facts):
        return Region(whole, "")
    try:
        size, exact_size = solve_extent(low, high, facts)
    except OverflowError:
        return Region(whole, f"from `{low}` to `{high}` are more elements than {low.dtype} counts")
    if isinstance(extent, IntImm) and not isinstance(size, IntImm):
        return Region(whole, f"the extent `{size}` is not constant")
    why = "" if exact and exact_size else f"bounds of `{low}` to `{high}` are not exact"
    return Region(Range.from_min_extent(low, size), why)
