"""rfactor: a reduction in two steps; the first is parallel along one of its loops."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...arith.simplify import simplify
from ...core.errors import UserError, warn_caller
from ...expr import nodes as n
from ...expr.nodes import Expr
from ...expr.operators import add, as_expr, cast, if_then_else, likely, logical_and
from ...expr.traverse import substitute
from ...tensor.axis import AxisKind, IterVar, Range
from ...tensor.partial_results import check_parts
from ...tensor.reduction import Reduce, ends_of
from ...tensor.tensor import ComputeOp, Tensor
from ..legality import has_loops, leaf, names, not_mixed, of_fixed_range, of_stage, whole_number
from ..relations import Split
from ..schedule import At, Schedule, Stage
from .cache_write import is_even, loop_layout


def rfactor(
    schedule: Schedule, stage: Stage, axis: IterVar, factor_axis: int = 0
) -> tuple[Schedule, tuple[Tensor, ...]]:
    """A new stage keeps one partial result per iteration of the reduction loop `axis`; `stage` combines them.

        B[i] = sum(A[i, k])     ->     B.rf[k.inner, i] = sum(A[i, k.outer * 16 + k.inner])     # over k.outer
                                       B[i] = sum(B.rf[k.inner.v, i])                           # over k.inner.v

    The new stage has the data axes of `stage`, with the factored loop at position `factor_axis`. Its reduction axes are
    the remaining reduction loops of `stage`, beginning with loops that were never split or fused. It inherits the
    annotations of these loops, including a thread binding of the factored loop. `stage` starts over with its own data
    axes and one reduction axis. Returns the partial result(s). Raises UserError if `stage` is not a reduction, or its
    reducer does not combine parts to the whole. Raises it also if `axis` is not one of its reduction loops, or
    `factor_axis` is not a dimension of the partial result.
    """
    has_loops(stage, "rfactor")
    body = stage.op.values[0] if stage.op.values else None
    if not isinstance(body, Reduce):
        raise UserError(
            f"stage {stage.name!r} is not a reduction",
            primitive="rfactor",
            fix="factor a stage with the value te.sum(..., axis=k) or another reduction",
        )
    check_parts(body, stage.name, "rfactor")
    loop = leaf(stage, axis, "rfactor")
    if loop.kind is not AxisKind.REDUCE:
        reductions = names(a for a in stage.leaves if a.kind is AxisKind.REDUCE)
        raise UserError(
            f"{of_stage(loop, stage)} is a data axis", primitive="rfactor", fix=f"use a reduction axis: {reductions}"
        )
    not_mixed(stage, "rfactor")
    of_fixed_range(stage, "rfactor")
    position = _position(factor_axis, stage)
    ranges, _ = loop_layout(stage)
    twins = {a: IterVar(a.name, a.dom, AxisKind.DATA) for a in stage.op.axis}
    factor = IterVar(loop.name, Range(ranges[loop].extent), AxisKind.DATA)
    inner = tuple(a for a in stage.leaves if a.kind is AxisKind.REDUCE and a is not loop)
    remaining = {a: a if a.dom is not None else _with_range(a, ranges[a].extent) for a in inner}
    data = list(twins.values())
    data.insert(position, factor)
    values = _root_values(stage, {**remaining, **twins, loop: factor}, ranges)
    partial = ComputeOp(
        f"{stage.op.name}.rf", tuple(data), _partial_body(stage, body, values, remaining, ranges), stage.op.tag
    )
    combined = IterVar(f"{loop.name}.v", Range(ranges[loop].extent), AxisKind.REDUCE)
    indices: list[Any] = list(stage.op.axis)
    indices.insert(position, combined)
    sources = tuple(t(*indices) for t in partial.outputs)
    final = tuple(
        Reduce(body.combiner, sources, (combined,), n.TRUE, k, body.init, ()) for k in range(len(stage.op.values))
    )
    schedule, made = schedule.with_new_stage(partial, before=stage.id)
    annotations = {
        new: stage.annotations[old] for old, new in {**remaining, loop: factor}.items() if old in stage.annotations
    }
    leaves = (*data, *remaining.values())
    schedule = schedule.with_stage(replace(made, annotations=annotations, leaves=leaves))
    out = ComputeOp(stage.op.name, stage.op.axis, final, stage.op.tag, stage.op.attrs)
    schedule = schedule.with_stage(
        replace(stage, op=out, leaves=(*out.axis, combined), relations=(), annotations={}, prefetches=())
    )
    schedule = schedule.at_outermost(made.id)
    return _moved_inside(schedule, stage, made.id, {**twins, **remaining, loop: factor}), partial.outputs


def _with_range(axis: IterVar, extent: Expr) -> IterVar:
    """Return a loop from a split or fuse as a separate axis with the same variable."""
    made = IterVar(axis.name, Range(extent), axis.kind)
    made.var = axis.var
    return made


def _position(factor_axis: Any, stage: Stage) -> int:
    """The dimension of the partial result for the factored loop; negative numbers count from the end."""
    dims, position = len(stage.op.axis) + 1, whole_number(factor_axis)
    if position is None or not -dims <= position < dims:
        raise UserError(
            f"factor_axis={factor_axis!r} is not a dimension of the partial result of {stage.name!r}, which has {dims}",
            primitive="rfactor",
            fix=f"give an int from {-dims} to {dims - 1}",
        )
    return position % dims


def _root_values(stage: Stage, axes: dict[IterVar, IterVar], ranges: dict[IterVar, Range]) -> dict[IterVar, Expr]:
    """The values of the operation's own axes in terms of the partial result's axes."""
    roots = set(stage.roots)
    values: dict[IterVar, Expr] = {}
    for old, new in axes.items():
        value: Expr = as_expr(new)
        starts_late = old in roots and old is not new and old.kind is AxisKind.REDUCE
        values[old] = add(value, ranges[old].min) if starts_late else value
    for relation in reversed(stage.relations):
        if any(a.kind is AxisKind.REDUCE for a in relation.above):
            values.update(relation.values_up(values, ranges))
    return values


def _partial_body(
    stage: Stage,
    body: Reduce,
    values: dict[IterVar, Expr],
    remaining: dict[IterVar, IterVar],
    ranges: dict[IterVar, Range],
) -> tuple[Expr, ...]:
    """One partial result per output, guarded if a split of the reduction is uneven."""
    mapping: dict[Any, Expr] = {a.var: simplify(cast(a.var.dtype, values[a])) for a in stage.roots}
    inside: Expr = n.TRUE
    for relation in stage.relations:
        if isinstance(relation, Split) and relation.parent.kind is AxisKind.REDUCE and not is_even(relation, ranges):
            guard = relation.guard(values, ranges)
            if guard is not None:
                inside = logical_and(inside, likely(simplify(guard)))
    # The condition may contain reads that only the guard keeps inside their tensor.
    condition: Expr = logical_and(inside, substitute(body.condition, mapping))
    source, combiner = tuple(substitute(e, mapping) for e in body.source), body.combiner.where(mapping)
    if remaining:
        whole = [new for old, new in remaining.items() if old in stage.roots]
        axes = (*whole, *(new for new in remaining.values() if new not in whole))
        ends = ends_of(axes)
        return tuple(Reduce(combiner, source, axes, condition, k, (), ends) for k in range(len(stage.op.values)))
    if isinstance(condition, n.IntImm):
        return source
    return tuple(if_then_else(condition, e, z) for e, z in zip(source, combiner.identity, strict=True))


def _moved_inside(schedule: Schedule, stage: Stage, partial: int, axes: dict[IterVar, IterVar]) -> Schedule:
    """The stages that were computed inside `stage`, now computed inside the partial result, which reads them."""
    for other in schedule.in_order():
        at = other.placement
        if isinstance(at, At) and at.stage == stage.id:
            loop = axes.get(at.axis)
            if loop is None:  # a part of a data axis; its loops start over
                loop = schedule.stages[partial].op.axis[-1]
                warn_caller(
                    f"stage {other.name!r} was computed at {at.axis.name!r}, a loop that ends with rfactor: until it "
                    f"is placed elsewhere, it is computed at {loop.name!r} of {schedule.stages[partial].name!r}",
                    UserWarning,
                )
            schedule = schedule.with_stage(replace(other, placement=At(partial, loop)))
    return schedule
