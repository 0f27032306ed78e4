"""cache_read: readers get a copy of a tensor in nearer memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ...core.errors import UserError
from ...core.hardware import OPERAND_SCOPES
from ...expr.nodes import Expr, Load
from ...expr.traverse import rewrite
from ...tensor.axis import AxisKind, IterVar, Range
from ...tensor.extern import ExternOp
from ...tensor.scan import ScanOp
from ...tensor.tensor import ComputeOp, Tensor
from ..schedule import Schedule, Stage
from .place import memory_scope


def cache_read(schedule: Schedule, tensor: Tensor, scope: str, readers: Sequence[Stage]) -> tuple[Schedule, Tensor]:
    """A new stage that copies `tensor` into `scope` memory, read by the stages `readers` in its place.

        B[i] = A[i] + 1     ->     A.shared[ax0] = A[ax0]
                                   B[i] = A.shared[i] + 1

    If a scan reads the tensor, the copy replaces its first rows, or the rows of its steps. For any `scope`, the copy
    lies in the scan's memory, and `tensor` gets separate memory. Returns the copy. Raises UserError if a reader does
    not read the tensor.
    """
    kind = memory_scope(scope, "cache_read", tensor.name)
    source = schedule.stage_of[tensor.op]
    tensor = schedule.stages[source].op.outputs[tensor.value_index]  # the tensor with its present dimensions
    if not readers:
        raise UserError(
            f"no reader of {tensor.name!r} is given",
            primitive="cache_read",
            fix="give the stages that should read the cache, out of: "
            + (", ".join(r.name for r in schedule.readers(source)) or "there is none"),
        )
    for reader in readers:
        if not any(_same(schedule, t, source, tensor.value_index) for t in reader.op.input_tensors):
            reads = ", ".join(t.name for t in reader.op.input_tensors) or "nothing"
            raise UserError(
                f"stage {reader.name!r} does not read {tensor.name!r}; it reads {reads}",
                primitive="cache_read",
                fix="after cache_write, the reader is the cache stage that cache_write returned",
            )
    axes = tuple(IterVar(f"ax{i}", Range(extent), AxisKind.DATA) for i, extent in enumerate(tensor.shape))
    copy = ComputeOp(_name(schedule, tensor.name, scope), axes, (tensor(*axes),))
    schedule, stage = schedule.with_new_stage(copy, before=min((r.id for r in readers), key=schedule.order.index))
    schedule = schedule.with_stage(replace(stage, scope=kind, is_operand=scope in OPERAND_SCOPES))
    cached = copy.outputs[0]

    def redirect(e: Any) -> Any:
        if (
            isinstance(e, Load)
            and isinstance(e.source, Tensor)
            and _same(schedule, e.source, source, tensor.value_index)
        ):
            return Load(cached, e.indices)
        return e

    for reader in readers:
        stage_now = schedule.stages[reader.id]
        if isinstance(reader.op, ExternOp):
            known = (t if not _same(schedule, t, source, tensor.value_index) else cached for t in reader.op.inputs)
            schedule = schedule.with_stage(replace(stage_now, op=reader.op.reading(tuple(known))))
        elif isinstance(reader.op, ScanOp):
            first, rows = (
                tuple([cached if _same(schedule, t, source, tensor.value_index) else t for t in part])
                for part in (reader.op.init, reader.op.update)
            )
            schedule = schedule.with_stage(replace(stage_now, op=reader.op.reading(first, rows)))
            copied = replace(schedule.stages[stage.id], scope=None, is_operand=False)
            if cached not in rows:
                copied = replace(copied, placement=stage_now.placement)
            schedule = schedule.with_stage(copied)
        else:
            schedule = with_body(schedule, stage_now, tuple(rewrite(e, redirect) for e in reader.op.values))
    begins = any(isinstance(r.op, ScanOp) and cached in r.op.init for r in schedule.readers(stage.id))
    return schedule if begins else schedule.at_outermost(stage.id), cached


def _name(schedule: Schedule, tensor: str, scope: str) -> str:
    """The name of a copy, as the legacy API has it: `A.shared`, of a second copy `A.d.shared`."""
    names = {stage.name for stage in schedule.in_order()}
    while f"{tensor}.{scope}" in names:
        tensor += ".d"
    return f"{tensor}.{scope}"


def _same(schedule: Schedule, tensor: Tensor, source: int, value_index: int) -> bool:
    return schedule.stage_of.get(tensor.op) == source and tensor.value_index == value_index


def with_body(schedule: Schedule, stage: Stage, body: tuple[Expr, ...]) -> Schedule:
    """Return the schedule with a new body for the stage's operation; the axes stay the same."""
    op = ComputeOp(stage.op.name, stage.op.axis, body, stage.op.tag, stage.op.attrs)
    return schedule.with_stage(replace(stage, op=op))
