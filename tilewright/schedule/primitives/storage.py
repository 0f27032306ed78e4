"""storage_align, storage_swizzle, set_store_predicate: how the result of a stage lies in memory, and who stores it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...core.errors import UserError
from ...expr.operand import Operand
from ...expr.operators import as_expr
from ...tensor.axis import AxisKind, IterVar, known_before
from ...tensor.extern import ExternOp
from ..legality import has_loops, names, no_output, of_stage, positive, whole_number, without_effect
from ..schedule import Schedule, Stage


def storage_align(schedule: Schedule, stage: Stage, axis: IterVar, factor: Any, offset: Any) -> tuple[Schedule, None]:
    """Pad the storage of `stage` so that the stride of `axis`, in elements, is offset modulo factor.

        A.shared[32][32]     ->     A.shared[32][33]         # storage_align(axis 0, 33, 0): rows start in
                                                             # different banks
    `axis` is a data axis of the stage's operation. An output stays as it is, with a warning. Raises UserError for
    another axis, or a factor below 1.
    """
    has_loops(stage, "storage_align", inlined=True)
    if isinstance(stage.op, ExternOp):
        raise UserError(
            f"stage {stage.name!r} is computed by a statement, which determines its own storage",
            primitive="storage_align",
            fix="give the array another shape in the statement",
        )
    if not isinstance(axis, IterVar) or axis not in stage.op.axis or axis.kind is not AxisKind.DATA:
        raise UserError(
            f"{getattr(axis, 'name', axis)!r} is not a data axis of the operation of stage {stage.name!r}",
            primitive="storage_align",
            fix=f"use one of s[{stage.name}].op.axis: {names(stage.op.axis)}",
        )
    every = getattr(positive(factor, "storage_align", "factor", of_stage(axis, stage)), "value", 0)
    shift = whole_number(offset)
    if stage.is_output:
        without_effect("storage_align", f"stage {stage.name!r} is an output, and the caller's arrays have its layout")
        return schedule, None
    if shift is None or not every:
        raise UserError(
            f"factor is {factor!r} and offset {offset!r}", primitive="storage_align", fix="give two whole numbers"
        )
    _one_layout(stage, stage.swizzled, "storage_align", "storage_swizzle")
    return schedule.with_stage(replace(stage, aligns={**stage.aligns, axis: (every, shift % every)})), None


def storage_swizzle(schedule: Schedule, stage: Stage) -> tuple[Schedule, None]:
    """Exchange the 16-byte pieces of each 128 bytes of `stage` in shared memory, line by line.

        piece p of line l lies at p     ->     piece p of line l lies at p xor (l mod 8)

    So the same piece of eight lines lies in different banks, without the padding that takes more memory. Lines are rows
    (the last dimension), or 128 bytes if rows are shorter; rows of a power of two bytes, of at least 16. Programs mean
    the same, and indices in programs stay as they are: code generation exchanges the pieces. Raises UserError for an
    output, an input, or a stage with `storage_align`. Building raises it outside of shared memory, for other rows, and
    for vectors that are not within a piece.
    """
    has_loops(stage, "storage_swizzle")
    no_output(schedule, stage, "storage_swizzle", "is in the caller's memory, with the caller's layout")
    if isinstance(stage.op, ExternOp):
        raise UserError(
            f"stage {stage.name!r} is computed by a statement, which determines its own storage",
            primitive="storage_swizzle",
            fix="exchange the pieces in the statement",
        )
    _one_layout(stage, bool(stage.aligns), "storage_swizzle", "storage_align")
    return schedule.with_stage(replace(stage, swizzled=True)), None


def _one_layout(stage: Stage, other: bool, primitive: str, given: str) -> None:
    if other:
        raise UserError(
            f"stage {stage.name!r} has a layout by {given} already",
            primitive=primitive,
            fix=f"choose one of the two: leave {given} out, or {primitive}",
        )


def set_store_predicate(schedule: Schedule, stage: Stage, predicate: Any) -> tuple[Schedule, None]:
    """Store the results of `stage` only if `predicate`, a condition on thread indices and loops, holds.

        B[i] = total     ->     if threadIdx.x == 0:         # set_store_predicate(tx.var.equal(0))
                                    B[i] = total

    Replaces the condition that a cross-thread reduction puts there by itself (the first thread stores). The caller
    vouches that every element is stored by some thread. Raises UserError for an input, and if `predicate` is not a
    condition.
    """
    has_loops(stage, "set_store_predicate", inlined=True)
    if isinstance(stage.op, ExternOp):
        raise UserError(
            f"stage {stage.name!r} is computed by a statement, which determines its own stores",
            primitive="set_store_predicate",
            fix="put the stores under an if of the statement",
        )
    given = as_expr(predicate) if isinstance(predicate, (Operand, bool)) else None
    if given is None or not given.dtype.is_bool:
        raise UserError(
            f"the predicate for stage {stage.name!r} is {predicate!r}, which is not a condition",
            primitive="set_store_predicate",
            fix='give one, such as tx.var.equal(0) for tx = te.thread_axis("threadIdx.x")',
        )
    known_before(
        given,
        "set_store_predicate",
        f"the predicate for stage {stage.name!r}",
        "use thread indices, data axes of the stage, loops around it and sizes; choose by values in the declaration: "
        "te.if_then_else(condition, a, b)",
    )
    return schedule.with_stage(replace(stage, store_predicate=given)), None
