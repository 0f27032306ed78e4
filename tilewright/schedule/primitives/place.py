"""compute_at, compute_inline, compute_root, set_scope: the place of a stage's computation, and the memory of its
result."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...core.errors import UserError
from ...core.hardware import MemoryScope
from ...tensor.axis import IterVar
from ...tensor.reduction import Reduce
from ...tensor.scan import ScanOp
from ...tensor.tensor import PlaceholderOp
from ..legality import has_loops, leaf, no_output, without_effect
from ..schedule import At, Inlined, Schedule, Stage


def compute_at(schedule: Schedule, stage: Stage, parent: Stage, axis: IterVar) -> tuple[Schedule, None]:
    """Compute `stage` inside the loop `axis` of the stage `parent`, as much of it as one iteration needs.

        for i: B[i] = ...                 for i:
        for i: C[i] = B[i] * 2    ->          B[i] = ...
                                              C[i] = B[i] * 2

    A stage that was inlined is computed there instead. Raises UserError for an output, for an axis that is not a loop
    of `parent`, and if `parent` does not depend on `stage`.
    """
    if not isinstance(stage.placement, Inlined):
        has_loops(stage, "compute_at")
    reads = [t.name for t in stage.op.input_tensors if not isinstance(t.op, PlaceholderOp)]
    instead = f"compute the stages it reads inside it: s[{reads[0]}].compute_at(s[{stage.name}], axis)" if reads else ""
    no_output(schedule, stage, "compute_at", "cannot be computed inside another stage", instead)
    has_loops(parent, "compute_at")
    loop = leaf(parent, axis, "compute_at", "scope")
    if stage.id in _first_rows(schedule, parent):
        without_effect(
            "compute_at",
            f"stage {stage.name!r} computes the first rows of the scan {parent.name!r}, before its loop {loop.name!r}",
        )
        return schedule, None
    at = schedule.outermost(stage.id)
    if isinstance(at, At) and parent.id != at.stage and schedule.outermost(parent.id) != at:
        raise UserError(
            f"stage {stage.name!r} is a step of the scan {schedule.stages[at.stage].name!r}, but "
            f"{parent.name!r} reads the result of the scan",
            primitive="compute_at",
            fix=f"compute {stage.name!r} at a loop of the scan, or of a stage that is computed there",
        )
    if isinstance(at, At) and parent.id == at.stage and loop is not at.axis:
        raise UserError(
            f"stage {stage.name!r} is a step of the scan {parent.name!r} with the loop {at.axis.name!r}, not "
            f"{loop.name!r}",
            primitive="compute_at",
            fix=f"s[{stage.name}].compute_at(s[{parent.name}], {parent.name}.op.scan_axis)",
        )
    place = At(parent.id, loop)
    for scan in schedule.in_order():
        if stage.id in _first_rows(schedule, scan) and place != scan.placement:
            raise UserError(
                f"stage {stage.name!r} computes the first rows of the scan {scan.name!r}, so it is computed at the "
                "scan, before its loop",
                primitive="compute_at",
                fix=f"leave {stage.name!r} in place; s[{scan.name}].compute_at(...) moves it, too",
            )
    if not _depends(schedule, parent, stage):
        raise UserError(
            f"stage {parent.name!r} does not read {stage.name!r}, directly or through other stages",
            primitive="compute_at",
            fix=f"compute {stage.name!r} at a stage that reads it: "
            + (", ".join(r.name for r in schedule.readers(stage.id)) or "there is none"),
        )
    for i in (stage.id, *_first_rows(schedule, stage)):
        schedule = schedule.with_stage(replace(schedule.stages[i], placement=place))
    return schedule, None


def _first_rows(schedule: Schedule, scan: Stage) -> set[int]:
    """The stages that compute the first rows of a scan, in its memory; none of a stage that is not a scan."""
    return {schedule.stage_of[t.op] for t in scan.op.init} if isinstance(scan.op, ScanOp) else set()


def _depends(schedule: Schedule, consumer: Stage, producer: Stage) -> bool:
    seen: set[int] = set()
    todo = [consumer.id]
    while todo:
        for tensor in schedule.stages[todo.pop()].op.input_tensors:
            found = schedule.stage_of[tensor.op]
            if found == producer.id:
                return True
            if found not in seen:
                seen.add(found)
                todo.append(found)
    return False


def compute_inline(schedule: Schedule, stage: Stage) -> tuple[Schedule, None]:
    """Compute each element of `stage` anew in every reader, without storing it.

    Raises UserError for an input, an output, and a reduction.
    """
    has_loops(stage, "compute_inline") if stage.is_placeholder else None
    no_output(schedule, stage, "compute_inline", "has to be stored and cannot be inlined")
    if not stage.op.values:
        raise UserError(
            f"stage {stage.name!r} is a te.extern: its statement computes whole tensors",
            primitive="compute_inline",
            fix="leave it at the root, or compute it inside a loop of a reader with compute_at",
        )
    whole = [r.name for r in schedule.readers(stage.id) if not r.op.values]
    if whole:
        raise UserError(
            f"stage {stage.name!r} is read by {whole[0]!r}, a te.extern, which reads tensors from memory",
            primitive="compute_inline",
            fix=f"leave {stage.name!r} at the root",
        )
    if isinstance(stage.op.values[0], Reduce):
        raise UserError(
            f"stage {stage.name!r} is a reduction, which has no single expression to inline",
            primitive="compute_inline",
            fix=f"use s[{stage.name}].compute_at(reader, axis) instead",
        )
    return schedule.with_stage(replace(stage, placement=Inlined())), None


def compute_root(schedule: Schedule, stage: Stage) -> tuple[Schedule, None]:
    """Compute all of `stage` at the root, before its readers: the default.

    A stage that computes steps of a scan is computed separately in each step.
    """
    if stage.is_placeholder:
        has_loops(stage, "compute_root")
    for i in (stage.id, *_first_rows(schedule, stage)):
        schedule = schedule.at_outermost(i)
    return schedule, None


def set_scope(schedule: Schedule, stage: Stage, scope: Any) -> tuple[Schedule, None]:
    """Keep the result of `stage` in "global", "shared" or "local" memory.

    An output, which the caller owns, stays in global memory, with a warning. Raises UserError for another name.
    """
    has_loops(stage, "set_scope") if stage.is_placeholder else None
    kind = memory_scope(scope, "set_scope", stage.name)
    if kind is not MemoryScope.GLOBAL and stage.is_output:
        without_effect(
            "set_scope",
            f"stage {stage.name!r} is an output, which is memory of the caller's; "
            f"s.cache_write({stage.name}, {scope!r}) computes it in nearer memory first",
        )
        return schedule, None
    return schedule.with_stage(replace(stage, scope=kind)), None


def memory_scope(scope: Any, primitive: str, name: str) -> MemoryScope:
    """The memory scope of that name, for the tensor `name`."""
    kind = MemoryScope.parse(scope) if isinstance(scope, str) else None
    if kind is None:
        raise UserError(
            f"unknown memory scope {scope!r} for {name!r}",
            primitive=primitive,
            fix="use " + ", ".join(repr(s.value) for s in MemoryScope),
        )
    return kind
