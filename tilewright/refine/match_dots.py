"""Matching of the instructions that one thread executes: sums of four products.

They take operands and sums from the schedule's places, so no loop is distributed and no memory moves: the tensorized
loops only become one statement. This file checks an instruction's requirements on the layout of its operands.
"""

from __future__ import annotations

from dataclasses import replace

from ..arith.affine import Affine
from ..arith.simplify import simplify
from ..bounds.stage_bounds import Bounds, StageBounds, StageContraction
from ..core.hardware import LoopKind
from ..core.target import Target
from ..expr.nodes import Expr, IntImm, Known, Load, Var
from ..expr.traverse import substitute
from ..schedule.schedule import Schedule, Stage
from ..schedule.tensor_intrin import refuse
from ..tensor.tensor import Tensor
from .contraction import check_hardware, extent, local_indices


def match_dot(
    schedule: Schedule, bounds: Bounds, found: StageBounds, matched: StageContraction, target: Target
) -> StageBounds:
    """The stage with its instruction, if the target may have the instruction; else with unchanged loops."""
    check_hardware(target, found, matched.atom)
    if matched.atom.n > 1:
        _check_packed(schedule, bounds, found, matched)
    if target.kind != matched.atom.target:
        return found
    stage = found.stage
    inside = {*matched.rows, *matched.columns, *matched.depth}
    # The instruction takes the place of vectors and of unrolling.
    annotations = {
        x: replace(annotation, kind=LoopKind.SERIAL) if x in inside else annotation
        for x, annotation in stage.annotations.items()
    }
    return replace(found, stage=replace(stage, annotations=annotations), contraction=matched)


def _check_packed(schedule: Schedule, bounds: Bounds, found: StageBounds, matched: StageContraction) -> None:
    """Check the order in memory: four terms of a column, then of the next column; sums of neighbouring columns."""
    stage, atom = found.stage, matched.atom
    depth, column = matched.depth[-1], matched.columns[-1]
    for axis, count in ((depth, atom.k), (column, atom.n)):
        size = extent(found, axis)
        if size % count:
            refuse(
                f"axis {axis.name!r} of stage {stage.name!r} has {size} iterations, but {atom.name} takes {count} "
                "neighbours along it",
                f"split so that it has a multiple of {count}",
            )
    # The loads of one instruction: the innermost digit of each loop.
    term, place = (Var(x.name, "int32", Known(0, n - 1)) for x, n in ((depth, atom.k), (column, atom.n)))
    digits: dict[Var, Expr] = {depth.var: term, column.var: place}
    forms, shape = _forms(schedule, bounds, matched.b, found, digits)
    packed = (
        len(forms) > 1 and shape[-1] == atom.k and (forms[-1].terms.get(term), forms[-2].terms.get(place)) == (1, 1)
    )
    if not packed:
        _refuse_layout(stage, matched, f"`{', '.join(str(form.to_expr()) for form in forms)}`")
    forms, _ = _forms(schedule, bounds, matched.a, found, digits)
    if forms[-1].terms.get(term) != 1:
        refuse(
            f"{atom.name} loads {atom.k} terms of a row as neighbours, but the last dimension of "
            f"{matched.a.source.name!r} does not run along axis {depth.name!r} of stage {stage.name!r}",
            "declare that operand with the terms of the product as its last dimension",
        )
    last = found.values[stage.op.axis[-1]]
    if Affine.of(simplify(substitute(last, digits), found.facts)).terms.get(place) != 1:
        refuse(
            f"{atom.name} stores {atom.n} neighbouring sums, but the last dimension of stage {stage.name!r} does not "
            f"run along the columns (axis {column.name!r})",
            "declare the result with the columns of the packed operand as its last dimension",
        )


def _refuse_layout(stage: Stage, matched: StageContraction, at: str) -> None:
    atom, column, depth = matched.atom, matched.columns[-1], matched.depth[-1]
    name = matched.b.source.name
    refuse(
        f"{atom.name} loads {atom.n} columns of {atom.k} terms each as {atom.n * atom.k} neighbouring bytes. Stage "
        f"{stage.name!r} reads {name!r} at {at}, but the last two dimensions must be a column (axis {column.name!r}) "
        f"and {atom.k} of its terms (axis {depth.name!r})",
        f"pack it: `te.compute((k // {atom.k}, n, {atom.k}), lambda ko, j, ki: {name}[ko * {atom.k} + ki, j])`. Sum "
        f"over an axis of extent {atom.k} inside of one over ko",
    )


def _forms(
    schedule: Schedule, bounds: Bounds, operand: Load, found: StageBounds, digits: dict[Var, Expr]
) -> tuple[list[Affine], list[int | None]]:
    """The indices of an operand within its stored region, and its extents if they are constant."""
    assert isinstance(operand.source, Tensor)
    held = bounds.get(schedule.stage_of[operand.source.op])
    extents = operand.source.shape if held is None else [part.extent for part in held.region]
    shape = [extent.value if isinstance(extent, IntImm) else None for extent in extents]
    return local_indices(operand, found, held, digits), shape
