"""Questions that rules for sketches ask about states, under the names of the legacy API's C++ functions."""

from __future__ import annotations

from typing import Any

from ...expr.nodes import Load
from ...expr.traverse import post_order
from ...tensor.tensor import ComputeOp, Operation, Tensor
from .loop_state import Stage, State

_NEW_STAGES = ("CHR", "CHW", "RF")
"""The steps that make a stage, which raises the numbers of later stages."""


class Numbers(dict[int, int]):
    """Numbers by themselves; `items()` is a list, as of a map of the legacy API."""

    def items(self) -> list[tuple[int, int]]:  # type: ignore[override]  # the legacy API has a list
        return list(super().items())


def SearchPolicyUtilsGetConsumers(task: Any, state: State, stage_id: int) -> Numbers:
    """Return the numbers of the stages that read a stage; for an inlined reader, of the stages that read it."""
    found: set[int] = set()
    for reader in state.readers_of(stage_id):
        inlined = state.stages[reader].compute_at == Stage.COMPUTE_AT_TRANS_TABLE["inlined"]
        found |= set(SearchPolicyUtilsGetConsumers(task, state, reader)) if inlined else {reader}
    return Numbers((number, number) for number in sorted(found))


def SearchPolicyUtilsIsElementwiseMatch(task: Any, state: State, stage_id: int, target_stage_id: int) -> bool:
    """Return whether each stage on the way to a later one is read once, element by element, by one stage."""
    number = stage_id
    while number != target_stage_id:
        readers = state.readers_of(number)
        if len(readers) != 1 or not _is_elementwise(state.stage_ops[readers[0]], state, number):
            return False
        number = readers[0]
    return True


def _is_elementwise(reader: Operation, state: State, number: int) -> bool:
    if not isinstance(reader, ComputeOp) or reader.reduce_axis:
        return False
    axes = tuple(axis.var for axis in reader.axis)
    loads = [e for e in post_order(*reader.body) if isinstance(e, Load) and isinstance(e.source, Tensor)]
    reads = [e for e in loads if isinstance(e.source, Tensor) and state.number_of(e.source.op) == number]
    return state.stage_ops[number].shape == reader.shape and all(tuple(read.indices) == axes for read in reads)


def SearchPolicyUtilsIsTiled(stage: Stage) -> bool:
    """Return whether loops of a stage were split or fused."""
    return len(stage.iters) != len(stage.op.axis) + len(stage.op.reduce_axis)


def SearchPolicyUtilsHasCacheReadStage(state: State, stage_id: int) -> bool:
    """Return whether other stages read a copy of a stage."""
    return _has_step("CHR", state, stage_id)


def SearchPolicyUtilsHasCacheWriteStage(state: State, stage_id: int) -> bool:
    """Return whether a stage is computed in other memory first."""
    return _has_step("CHW", state, stage_id)


def SearchPolicyUtilsHasRfactorStage(state: State, stage_id: int) -> bool:
    """Return whether a stage combines partial results."""
    return _has_step("RF", state, stage_id)


def _has_step(code: str, state: State, stage_id: int) -> bool:
    for step in reversed(state.transform_steps):
        if step[0] == code and step[1] == stage_id:
            return True
        stage_id -= step[0] in _NEW_STAGES and stage_id > step[1]
    return False


def SearchPolicyUtilsHasCrossThreadReduction(state: State, stage_id: int) -> bool:
    """Return whether threads share a reduction of a stage, or of a stage that is computed inside it."""
    return any(
        loop.annotation == State.ANNOTATION_TRANS_TABLE["threadIdx.x"] and loop.iter_kind == 1
        for number in (stage_id, *state.stages_inside(stage_id))
        for loop in state.stages[number].iters
    )
