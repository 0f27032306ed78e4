"""cache_write: a stage computes into nearer memory, and copies the result out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ...arith.facts import EMPTY
from ...arith.simplify import simplify
from ...core.errors import UserError
from ...expr.nodes import Expr
from ...expr.operators import add, as_expr, cast, const, if_then_else, likely, subtract
from ...expr.traverse import substitute, uses_any
from ...tensor.axis import AxisKind, IterVar, Range
from ...tensor.reduction import Reduce
from ...tensor.tensor import ComputeOp, Tensor
from ..guarded_reads import guarded_axes, guarded_value
from ..legality import has_loops, names
from ..relations import Fuse, Split
from ..schedule import At, Schedule, Stage
from .place import memory_scope


def cache_write(schedule: Schedule, stage: Stage, scope: str) -> tuple[Schedule, tuple[Tensor, ...]]:
    """A new stage computes the values of `stage` into `scope` memory; `stage` only copies them out.

        B[i] = sum(A[i, k])     ->     B.local[i.c] = sum(A[i.c, k])
                                       B[i] = B.local[i]

    `stage` starts over with its own data axes as its loops. The cache has data axes of its own, one for each loop of
    `stage`, in their order; so earlier splits change the cache's layout. Its reduction axes are the same; an axis with
    a range that depends on a data axis is replaced. Stages computed inside `stage` are now computed inside the cache.
    Returns the cached tensor(s). Raises UserError for an input, and if a reduction axis has been split already.
    """
    has_loops(stage, "cache_write")
    if not stage.op.values:
        raise UserError(
            f"stage {stage.name!r} is a te.extern: its statement names the buffers that it writes",
            primitive="cache_write",
            fix=f"copy its result with a te.compute that reads {stage.name!r}",
        )
    kind = memory_scope(scope, "cache_write", stage.name)
    split_up = [r for r in stage.relations if any(a.kind is AxisKind.REDUCE for a in r.above)]
    if split_up:
        raise UserError(
            f"the reduction axes {names(split_up[0].above)} of stage {stage.name!r} are split already",
            primitive="cache_write",
            fix="call cache_write before scheduling the reduction, then split the cache's reduction axes",
        )
    data = tuple(a for a in stage.leaves if a.kind is not AxisKind.REDUCE)
    moved = tuple(a for a in stage.leaves if a.kind is AxisKind.REDUCE)
    ranges, values = loop_layout(stage)
    axes = tuple(IterVar(f"{a.name}.c", Range(ranges[a].extent), AxisKind.DATA) for a in data)
    own = dict(zip(data, axes, strict=True))
    terms = _reduction_axes_of_cache(stage, own, ranges)
    body = tuple(_moved_body(stage, e, own, terms, ranges) for e in stage.op.values)
    cache = ComputeOp(f"{stage.op.name}.{scope}", axes, body, stage.op.tag, stage.op.attrs)
    written = [values[a] if _is_fused(stage) else simplify(values[a]) for a in data]
    copy = tuple(t(*written) for t in cache.outputs)
    schedule, made = schedule.with_new_stage(cache, before=stage.id)
    twin = {**own, **terms}
    prefetches = tuple(p._replace(axis=twin[p.axis]) for p in stage.prefetches)
    leaves = tuple(twin[a] for a in stage.leaves) if stage.declared else (*axes, *(terms[a] for a in moved))
    declared = (twin[stage.declared[0]], stage.declared[1]) if stage.declared else None
    schedule = schedule.with_stage(replace(made, scope=kind, leaves=leaves, prefetches=prefetches, declared=declared))
    out = ComputeOp(stage.op.name, stage.op.axis, copy, "", stage.op.attrs)
    schedule = schedule.with_stage(
        replace(stage, op=out, leaves=out.axis, relations=(), annotations={}, prefetches=(), declared=None)
    )
    for other in schedule.in_order():
        if isinstance(other.placement, At) and other.placement.stage == stage.id:
            schedule = schedule.with_stage(replace(other, placement=At(made.id, twin[other.placement.axis])))
    return schedule.at_outermost(made.id), cache.outputs


def loop_layout(stage: Stage) -> tuple[dict[IterVar, Range], dict[IterVar, Expr]]:
    """The ranges of all axes, and the value of each in terms of the operation's own axes."""
    ranges = {a: a.dom for a in stage.roots if a.dom is not None}
    values: dict[IterVar, Expr] = {a: as_expr(a) for a in stage.roots}
    for relation in stage.relations:
        ranges.update(relation.ranges_down(ranges, lambda _: False, simplify))
        values.update(relation.values_down(values, ranges))
    return ranges, values


def _values(
    stage: Stage, axes: dict[IterVar, IterVar], ranges: dict[IterVar, Range], alone: Sequence[IterVar] = ()
) -> dict[IterVar, Expr]:
    """The value of each axis of `stage` in terms of the cache's axes, which follow its loops, and of the axes
    `alone`."""
    values: dict[IterVar, Expr] = {a: as_expr(axes.get(a, a)) for a in stage.leaves}
    for relation in reversed(stage.relations):
        values.update(relation.values_up(values, ranges))
        values.update({a: as_expr(a) for a in relation.above if a in alone})
    return values


def _on_axes_of_cache(stage: Stage, values: dict[IterVar, Expr], whole: bool = False) -> dict[Any, Expr]:
    """The values of a stage's axes; each is simplified separately, unless `whole`."""
    found = {a.var: cast(a.var.dtype, values[a]) for a in stage.op.axis}
    return found if whole else {var: simplify(value) for var, value in found.items()}


def _reduction_axes_of_cache(
    stage: Stage, axes: dict[IterVar, IterVar], ranges: dict[IterVar, Range]
) -> dict[IterVar, IterVar]:
    """The cache's reduction axis for each one of the stage: the same if its range depends on no data axis."""
    own = {a.var for a in stage.op.axis}
    found = {a: a for a in stage.leaves if a.kind is AxisKind.REDUCE}
    for a in found:
        if a.dom is not None and (uses_any(a.dom.min, own) or uses_any(a.dom.extent, own)):
            there = _on_axes_of_cache(stage, _values(stage, axes, ranges))
            low, extent = (simplify(substitute(e, there)) for e in (a.dom.min, a.dom.extent))
            found[a] = IterVar(a.name, Range.from_min_extent(low, extent), a.kind)
    return found


def _moved_body(
    stage: Stage,
    body: Expr,
    axes: dict[IterVar, IterVar],
    terms: dict[IterVar, IterVar],
    ranges: dict[IterVar, Range],
) -> Expr:
    """The body in terms of the cache's axes, which follow the loops of `stage`; guarded if a split is uneven."""
    values = _values(stage, axes, ranges)
    guards: list[Expr] = []
    for relation in reversed(stage.relations):
        if isinstance(relation, Split) and not is_even(relation, ranges):
            guard = relation.guard(values, ranges)
            guards.extend([] if guard is None else [simplify(guard)])
    facts = EMPTY.bind_all({axes[a].var: (const(0, a.var.dtype), ranges[a].extent) for a in axes})
    alone = [] if isinstance(body, Reduce) else guarded_axes(stage, ranges)
    if alone:
        above, below = _values(stage, axes, ranges, alone), {a: values[a] for a in alone}
        body = guarded_value(body, stage, above, below, ranges, facts)
    fused = not isinstance(body, Reduce) and _is_fused(stage)
    mapping = _on_axes_of_cache(stage, values, whole=fused) | {a.var: b.var for a, b in terms.items() if b is not a}
    made: Expr = body if alone else substitute(body, mapping)
    if isinstance(made, Reduce):
        own = tuple(terms.get(a, a) for a in made.axes)
        combiner = made.combiner.where(mapping)
        made = Reduce(combiner, made.source, own, made.condition, made.value_index, made.init, made.ends)
    if fused:
        made = simplify(made, facts)
    for guard in guards:
        if isinstance(made, Reduce):
            neutral = made.combiner.identity
            source = tuple(if_then_else(likely(guard), e, z) for e, z in zip(made.source, neutral, strict=True))
            made = Reduce(made.combiner, source, made.axes, made.condition, made.value_index, made.init, made.ends)
        else:
            made = if_then_else(likely(guard), made, as_expr(0, made.dtype))
    return made


def _is_fused(stage: Stage) -> bool:
    """Whether axes of a stage are digits of a fused loop.

    Digits that are simplified apart may no longer combine to the fused index.
    """
    return any(isinstance(relation, Fuse) for relation in stage.relations)


def is_even(relation: Split, ranges: dict[IterVar, Range]) -> bool:
    """Whether the two loops of a split cover exactly the range that it splits."""
    span = ranges[relation.outer].extent * ranges[relation.inner].extent
    return simplify(subtract(add(span, 0), ranges[relation.parent].extent)) is simplify(as_expr(0, span.dtype))
