"""round_up: the extents of a stage grow to whole tiles; elements beyond the tensors that it reads are zeros."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isfinite
from typing import Any

from ...arith.facts import EMPTY, Facts
from ...arith.interval import interval
from ...arith.simplify import simplify
from ...core.errors import UserError
from ...expr.nodes import TRUE, Expr, FloatImm, IntImm, Load
from ...expr.operators import all_of, const, if_then_else
from ...expr.traverse import loads, rewrite, uses_any
from ...tensor.axis import AxisKind, IterVar, Range, extent_or
from ...tensor.reduction import Reduce, adds, ends_of
from ...tensor.tensor import ComputeOp, Tensor
from ..legality import leaf, positive, whole_number
from ..schedule import At, Schedule, Stage
from .transform_layout import plain_compute

Extents = dict[IterVar, int]
"""New extents of axes, in the order of their conditions."""


def round_up(
    schedule: Schedule, stage: Stage, multiples: Sequence[tuple[IterVar, int]]
) -> tuple[Schedule, tuple[IterVar, ...]]:
    """Round the extents of axes up to multiples: `[(i, 4), (k, 8)]`. Loops over whole tiles then need no guards.

        for i in range(10): for k in range(7):     ->     for i in range(12): for k in range(8):
            C[i] += A[i, k] * B[k]                            C[i] += A[i, k] * B[k]

    Nobody reads the further elements of the stage. The stages that it reads (here A and B, not inputs) grow as far as
    it reads them, and are zero there. Returns the axes, in the order given. Raises UserError for an input or an output,
    for an axis that has been split, and if the stage would read beyond an input. A reduction axis raises it unless
    the stage sums products of tensors with that axis as one index. (Halide: TailStrategy::RoundUp; TVM: pad_einsum.)
    """
    plain_compute(schedule, stage, "round_up")
    wanted = _extents_of(stage, multiples)
    grown = {axis: extent for axis, extent in wanted.items() if extent > extent_or(axis, 0)}
    made, axes = _with_extents(stage.op, grown), [axis for axis, _ in multiples]
    facts = _facts(made.loop_axes)
    further: dict[int, Extents] = {}
    for axis in grown:  # in this order: the conditions of the stages that it reads follow it
        for load in loads(*made.values):
            _grow_source(schedule, stage, load, axis, facts, further)
    for producer, extents in further.items():
        schedule = _with_zeros(schedule, schedule.stages[producer], extents)
    made = _reading_grown(schedule, made, further)
    for axis in grown:
        if axis.kind is AxisKind.REDUCE:
            _check_terms(schedule, stage, made, axis, further)
    schedule, places = _replaced(schedule, stage, made)
    return schedule, tuple(places[axis] for axis in axes)


def _extents_of(stage: Stage, multiples: Any) -> Extents:
    """The extents that axes of a stage should have."""
    found: Extents = {}
    for pair in multiples if isinstance(multiples, (list, tuple)) else [multiples]:
        if not isinstance(pair, (list, tuple)) or len(pair) != 2:
            raise UserError(
                f"{pair!r} is not an axis and a multiple",
                primitive="round_up",
                fix=f"give pairs: s[{stage.name}].round_up((i, 16), (k, 8))",
            )
        axis = leaf(stage, pair[0], "round_up")
        positive(pair[1], "round_up", "multiple", f"axis {axis.name!r}")
        multiple = whole_number(pair[1])
        if multiple is None or axis not in stage.roots or not isinstance(axis.dom and axis.dom.extent, IntImm):
            raise UserError(
                f"axis {axis.name!r} of stage {stage.name!r} has no constant extent, or its multiple {pair[1]} is none",
                primitive="round_up",
                fix="round up axes of constant extent, before they are split",
            )
        found[axis] = -(-extent_or(axis, 0) // multiple) * multiple
    return found


def _with_extents(op: Any, extents: Mapping[IterVar, int]) -> ComputeOp:
    """The operation with other extents of some axes; variables stay."""
    new = {axis: _resized(axis, size) for axis, size in extents.items()}

    def values() -> Any:
        for e in op.values:
            if not isinstance(e, Reduce):
                yield e
                continue
            axes = tuple(new.get(axis, axis) for axis in e.axes)
            yield Reduce(e.combiner, e.source, axes, e.condition, e.value_index, e.init, ends_of(axes))

    return ComputeOp(op.name, tuple(new.get(axis, axis) for axis in op.axis), tuple(values()), op.tag, op.attrs)


def _resized(axis: IterVar, extent: int) -> IterVar:
    first = axis.dom.min if axis.dom is not None else const(0, "int32")
    made = IterVar(axis.name, Range.from_min_extent(first, const(extent, "int32")), axis.kind)
    made.var = axis.var
    return made


def _grow_source(
    schedule: Schedule, stage: Stage, load: Load, axis: IterVar, facts: Facts, further: dict[int, Extents]
) -> None:
    """Note how far the tensor that `load` reads has to grow along the dimensions that `axis` moves over."""
    if not isinstance(load.source, Tensor) or load.source.op not in schedule.stage_of:
        return
    source = schedule.producer(load.source)
    for dimension, index in enumerate(load.indices):
        if not uses_any(index, [axis.var]):
            continue
        last, size = interval(simplify(index, facts), facts)[1], load.source.shape[dimension]
        if isinstance(size, IntImm) and last < size.value:
            continue
        if not isinstance(source.op, ComputeOp) or source.op.reduce_axis or not isfinite(last):
            raise UserError(
                f"stage {stage.name!r} would read beyond the ends of {source.name!r}, and elements there cannot be "
                f"made zero: index {dimension}, {index}, is up to {last}",
                primitive="round_up",
                fix=f"read {source.name!r} through a stage of its own, such as a padded copy",
            )
        along, extents = source.op.axis[dimension], further.setdefault(source.id, {})
        extents[along] = max(int(last) + 1, extents.get(along, 0))


def _with_zeros(schedule: Schedule, stage: Stage, extents: Extents) -> Schedule:
    """Return the schedule with larger extents of a stage, and zeros beyond the old extents."""
    plain_compute(schedule, stage, "round_up")
    made = _with_extents(stage.op, extents)
    if not all(_is_zero_beyond(made, axis, extents[axis]) for axis in extents):
        inside = all_of(*(axis.var < extent_or(axis, 0) for axis in extents))
        body = tuple(if_then_else(inside, e, const(0, e.dtype)) for e in made.values)
        made = ComputeOp(made.name, made.axis, body, made.tag, made.attrs)
    return _replaced(schedule, stage, made)[0]


def _is_zero_beyond(op: ComputeOp, axis: IterVar, extent: int) -> bool:
    """Whether an operation's own conditions make each value zero beyond the old extent of an axis."""
    old = extent_or(axis, 0)
    facts = _facts(op.axis).bind_all({axis.var: (const(old, axis.var.dtype), const(extent - old, axis.var.dtype))})
    return all(_is_zero(simplify(e, facts)) for e in op.values)


def _is_zero(e: Expr) -> bool:
    return isinstance(e, (IntImm, FloatImm)) and e.value == 0


def _reading_grown(schedule: Schedule, op: ComputeOp, grown: Mapping[int, Extents]) -> ComputeOp:
    """Return the operation with reads of the grown stages."""

    def redirect(e: Any) -> Any:
        if not isinstance(e, Load) or not isinstance(e.source, Tensor):
            return e
        source = schedule.stage_of.get(e.source.op, -1)
        if source not in grown:
            return e
        return Load(schedule.stages[source].op.outputs[e.source.value_index], e.indices)

    return ComputeOp(op.name, op.axis, tuple(rewrite(e, redirect) for e in op.values), op.tag, op.attrs)


def _check_terms(schedule: Schedule, stage: Stage, op: ComputeOp, axis: IterVar, grown: Mapping[int, Extents]) -> None:
    """Check that all terms beyond the old extent of a reduction axis are zero, and change no sum."""

    end = _end(axis)

    def is_zero(load: Load) -> bool:
        if not isinstance(load.source, Tensor):
            return False
        zeros = {along.var for along in grown.get(schedule.producer(load.source).id, {}) if _end(along) == end}
        at = (d for d, index in enumerate(load.indices) if index is axis.var)
        return any(load.source.op.axis[d].var in zeros for d in at)

    terms = _summed(op.values[0])
    if terms is None or not all(map(is_zero, loads(terms))) or not _is_zero(_without_loads(terms)):
        raise UserError(
            f"terms of stage {stage.name!r} beyond the {end} of axis {axis.name!r} are not known to be zero",
            primitive="round_up",
            fix=f"sum a product of tensors that are computed, each with {axis.name!r} as one of its indices",
        )


def _summed(body: Expr) -> Expr | None:
    """The terms of an unconditional sum; None for any other value."""
    if not isinstance(body, Reduce) or len(body.source) != 1 or body.condition is not TRUE:
        return None
    return body.source[0] if adds(body.combiner) else None


def _without_loads(e: Expr) -> Expr:
    """The value of an expression if all that it reads is zero."""
    return simplify(rewrite(e, lambda part: const(0, part.dtype) if isinstance(part, Load) else part))


def _replaced(schedule: Schedule, stage: Stage, op: ComputeOp) -> tuple[Schedule, dict[IterVar, IterVar]]:
    """The schedule with another operation of the same axes but for their extents; and the axes in place of the old."""
    new = dict(zip(stage.op.loop_axes, op.loop_axes, strict=True))
    leaves = tuple(new.get(axis, axis) for axis in stage.leaves)
    annotations = {new.get(axis, axis): annotation for axis, annotation in stage.annotations.items()}
    schedule = schedule.with_stage(replace(stage, op=op, leaves=leaves, annotations=annotations, transformed=True))
    for other in schedule.in_order():
        place = other.placement
        if isinstance(place, At) and place.stage == stage.id and place.axis in new:
            schedule = schedule.with_stage(replace(other, placement=At(stage.id, new[place.axis])))
    return schedule, new


def _facts(axes: Sequence[IterVar]) -> Facts:
    return EMPTY.bind_all({axis.var: (axis.dom.min, axis.dom.extent) for axis in axes if axis.dom is not None})


def _end(axis: IterVar) -> int:
    first = axis.dom.min if axis.dom is not None else None
    return extent_or(axis, 0) + (first.value if isinstance(first, IntImm) else 0)
