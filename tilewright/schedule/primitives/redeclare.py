"""redeclare: a stage computed by another declaration of the same values."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...core.errors import UserError
from ...core.views import view
from ...tensor.tensor import ComputeOp, Operation, Tensor, topological
from ..legality import has_loops
from ..schedule import Schedule, Stage

_DECLARED = {"convolution": "redeclared convolution"}
"""Kinds of declarations, and the views that return the tensor of a declaration, from an operation and the options."""


def redeclare(schedule: Schedule, stage: Stage, name: str, options: Any = None) -> tuple[Schedule, tuple[Tensor, ...]]:
    """Compute a stage by another declaration of the same values, such as a convolution by partial sums.

        C[f, y] = sum(A[y + t] * W[f, t])     ->     C.padded[y] = A[y]                         # new stages of
                                                     C[f, y] = sum(C.padded[y + t] * W[f, t])   # the declaration

    `name` is the kind of the declaration, a function in the library of operators, and `options` are its options. The
    function checks that the stage computes the values which it declares. Stages that nothing reads any more leave the
    schedule. Returns the tensor of the stage, then the tensors of new stages, the first producer last. Raises UserError
    if the stage has been scheduled already, if there is no such function, and if the function does not know the
    computation.
    """
    has_loops(stage, "redeclare")
    if not isinstance(stage.op, ComputeOp) or stage.relations or stage.annotations or stage.op is not stage.origin:
        raise UserError(
            f"stage {stage.name!r} has been scheduled already, or is not declared by te.compute",
            primitive="redeclare",
            fix="call redeclare first, on a stage as it was declared",
        )
    if name not in _DECLARED:
        known = ", ".join(map(repr, _DECLARED))
        raise UserError(f"there is no declaration {name!r}", primitive="redeclare", fix=f"give one of these: {known}")
    made = view(_DECLARED[name], stage.op, options).op
    new = [op for op in topological([made]) if op not in schedule.stage_of and op is not made]
    for op in new:
        schedule, _ = schedule.with_new_stage(op, before=stage.id)
    out = ComputeOp(stage.op.name, made.axis, made.body, made.tag, stage.op.attrs)
    schedule = schedule.with_stage(replace(stage, op=out, leaves=out.loop_axes))
    return _without_unread(schedule, stage.op), (out.outputs[0], *(op.output(0) for op in reversed(new)))


def _without_unread(schedule: Schedule, replaced: Operation) -> Schedule:
    """Take away the producers of an operation that no stage reads any more."""
    for op in reversed(topological([replaced])[:-1]):
        stage = schedule.stages.get(schedule.stage_of[op])
        if stage is None or not isinstance(op, ComputeOp) or stage.is_output or list(schedule.readers(stage.id)):
            continue
        schedule = replace(
            schedule,
            stages={i: other for i, other in schedule.stages.items() if i != stage.id},
            order=tuple(i for i in schedule.order if i != stage.id),
            stage_of={each: i for each, i in schedule.stage_of.items() if i != stage.id},
        )
    return schedule
