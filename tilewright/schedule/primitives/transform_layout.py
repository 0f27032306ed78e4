"""transform_layout: store and compute the elements of a stage in another order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

from ...arith.facts import EMPTY
from ...arith.interval import interval
from ...arith.iter_map import detect_iter_map, inverse_affine_iter_map
from ...arith.iter_marks import IterMapLevel
from ...arith.simplify import simplify
from ...core.errors import UserError
from ...core.own_code import calling
from ...expr.nodes import Expr, IntImm, Load, Var
from ...expr.operand import Operand
from ...expr.operators import as_expr, cast, const
from ...expr.traverse import rewrite, substitute
from ...tensor.axis import AxisKind, IterVar, Range
from ...tensor.reduction import Reduce
from ...tensor.tensor import ComputeOp, Tensor
from ..legality import attached_to, has_loops, names, no_output, of_fixed_range
from ..schedule import Schedule, Stage
from .cache_read import with_body

AXIS_SEPARATOR = "axis_separator"
"""Separates groups of dimensions that share a dimension of memory; here memory has one dimension."""


def indices_of(schedule: Schedule, stage: Stage, mapping: Any) -> tuple[Expr, ...]:
    """The indices that the caller's function makes of the axes of a stage, in the order of the new dimensions."""
    plain_compute(schedule, stage, "transform_layout")
    if not callable(mapping):
        raise UserError(
            f"the mapping of stage {stage.name!r} is {mapping!r}, which is not a function",
            primitive="transform_layout",
            fix="give a function from indices to indices: lambda n, c: [n, c // 4, c % 4]",
        )
    with calling(f"the mapping of stage {stage.name!r}"):
        made = mapping(*(axis.var for axis in stage.op.axis))
    given = [e for e in made if not (isinstance(e, str) and e == AXIS_SEPARATOR)] if _is_list(made) else []
    if not given or not all(isinstance(e, (int, Operand)) and as_expr(e).dtype.is_int for e in given):
        raise UserError(
            f"the mapping of stage {stage.name!r} returns {made!r}",
            primitive="transform_layout",
            fix="return a list of integer expressions, one for each new dimension",
        )
    return tuple(as_expr(e) for e in given)


def transform_layout(schedule: Schedule, stage: Stage, indices: Sequence[Expr]) -> tuple[Schedule, tuple[IterVar, ...]]:
    """Give `stage` other dimensions: its element at (i, j) lies, and is computed, at `indices` of i and j.

        for i: for j:                      for j0: for i: for j1:                 # [j // 4, i, j % 4]
            B[i, j] = A[i, j]      ->          B[j0, i, j1] = A[i, j0 * 4 + j1]
        C[i, j] = B[i, j]                  C[i, j] = B[j // 4, i, j % 4]

    Returns the new data axes, which are the outermost loops; reduction loops stay inside. Raises UserError for an input
    or an output, which have the caller's memory, and for a stage with split data axes. Raises it also if the indices
    are no one-to-one mapping of elements to places.
    """
    plain_compute(schedule, stage, "transform_layout")
    old, indices = stage.op.axis, [as_expr(e) for e in indices]
    iters = {axis.var: axis.dom for axis in old}
    found = detect_iter_map(indices, iters, True, IterMapLevel.Bijective)
    facts = EMPTY.bind_all({axis.var: (const(0, axis.var.dtype), as_expr(_extent(axis))) for axis in old})
    reached = [interval(simplify(e, facts), facts) for e in indices]
    places = prod(part.hi + 1 for part in reached)
    if not found.indices or places != prod(int(_extent(axis)) for axis in old):
        raise UserError(
            f"the indices ({', '.join(map(str, indices))}) do not number the elements of stage {stage.name!r}, "
            f"({', '.join(f'{axis.name}: {_extent(axis)}' for axis in old)}): "
            + ("; ".join(found.errors) or f"they have {places} places"),
            primitive="transform_layout",
            fix="map each element to one index, and each index to one element; split extents by factors that divide "
            "them",
        )
    axes = tuple(
        IterVar(_name(e, d), Range(const(int(part.hi) + 1, "int32")), AxisKind.DATA)
        for d, (e, part) in enumerate(zip(indices, reached, strict=True))
    )
    there = inverse_affine_iter_map(found.indices, [axis.var for axis in axes])
    values: dict[Any, Expr] = {axis.var: const(0, axis.var.dtype) for axis in old}
    values.update({var: simplify(cast(var.dtype, e)) for var, e in there.items()})
    op = ComputeOp(stage.op.name, axes, tuple(_moved(e, values) for e in stage.op.values), stage.op.tag, stage.op.attrs)
    terms = tuple(a for a in stage.leaves if a.kind is AxisKind.REDUCE)
    schedule = schedule.with_stage(
        replace(stage, op=op, leaves=(*axes, *terms), annotations=_kept(stage, terms), transformed=True)
    )
    place = [axis.var for axis in old]
    for reader in schedule.readers(stage.id):
        schedule = _reading(schedule, schedule.stages[reader.id], stage, op, place, tuple(indices))
    return schedule, axes


def plain_compute(schedule: Schedule, stage: Stage, primitive: str) -> None:
    """Check that a stage can get other dimensions: no input or output, of constant extents, and with untouched axes."""
    has_loops(stage, primitive)
    no_output(schedule, stage, primitive, "is laid out by its caller", "take a stage that it reads")
    if not isinstance(stage.op, ComputeOp) or stage.declared or stage.tensorized or _has_more(stage):
        raise UserError(
            f"stage {stage.name!r} is not a plain te.compute",
            primitive=primitive,
            fix=f"call {primitive} before tensorize, storage_align, prefetch and set_store_predicate",
        )
    of_fixed_range(stage, primitive)
    changed = next((r for r in stage.relations if any(a.kind is not AxisKind.REDUCE for a in r.above)), None)
    if changed is not None:
        raise UserError(
            f"the data axes {names(changed.above)} of stage {stage.name!r} are split or fused already",
            primitive=primitive,
            fix=f"call {primitive} first, then split the axes that it returns",
        )
    inside = next((s for axis in stage.op.axis for s in attached_to(schedule, stage, axis)), None)
    if inside is not None:
        raise UserError(
            f"stage {inside.name!r} is computed at a data axis of stage {stage.name!r}, which the new ones replace",
            primitive=primitive,
            fix=f"call {primitive} first, then s[{inside.name}].compute_at(...)",
        )
    strange = next((r for r in schedule.readers(stage.id) if not isinstance(r.op, ComputeOp)), None)
    if strange is not None or any(not isinstance(axis.dom and axis.dom.extent, IntImm) for axis in stage.op.axis):
        raise UserError(
            f"stage {stage.name!r} is read by {strange.name!r}, a statement or a scan, which knows its dimensions"
            if strange is not None
            else f"stage {stage.name!r} has extents that are not constant",
            primitive=primitive,
            fix="declare the tensor with the dimensions that it should have",
        )


def _has_more(stage: Stage) -> bool:
    """Whether a schedule holds other decisions about the dimensions of a stage."""
    return bool(stage.aligns or stage.prefetches or stage.store_predicate is not None)


def _reading(
    schedule: Schedule, reader: Stage, stage: Stage, op: ComputeOp, place: list[Var], indices: tuple[Expr, ...]
) -> Schedule:
    """The schedule with a reader that finds the elements of the stage at their new places."""

    def redirect(e: Any) -> Any:
        if not isinstance(e, Load) or not isinstance(e.source, Tensor) or e.source.op in (None, op):
            return e
        if schedule.stage_of.get(e.source.op) != stage.id:
            return e
        at = dict(zip(place, e.indices, strict=True))
        return Load(op.outputs[e.source.value_index], tuple(simplify(substitute(i, at)) for i in indices))

    return with_body(schedule, reader, tuple(rewrite(e, redirect) for e in reader.op.values))


def _moved(body: Expr, values: dict[Any, Expr]) -> Expr:
    made: Expr = substitute(body, values)
    if isinstance(made, Reduce):
        combiner = made.combiner.where(values)
        made = Reduce(combiner, made.source, made.axes, made.condition, made.value_index, made.init, made.ends)
    return made


def _kept(stage: Stage, terms: tuple[IterVar, ...]) -> dict[IterVar, Any]:
    return {axis: annotation for axis, annotation in stage.annotations.items() if axis in terms}


def _name(e: Expr, d: int) -> str:
    return e.name if isinstance(e, Var) else f"ax{d}"


def _extent(axis: IterVar) -> Any:
    return axis.dom.extent if axis.dom is not None else 0


def _is_list(made: Any) -> bool:
    return isinstance(made, (list, tuple))
