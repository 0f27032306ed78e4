"""pipeline, double_buffer: software pipelining: compute the data of the next iterations while the data of this one are
in use."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...core.errors import UserError
from ..legality import has_loops, no_output, whole_number
from ..schedule import At, Schedule, Stage


def pipeline(schedule: Schedule, stage: Stage, depth: Any) -> tuple[Schedule, None]:
    """Give `stage` as many copies of its storage as `depth`: its part is computed depth - 1 iterations ahead.

        for k in range(n):                 for k in range(2): T[k] = load(k)            # depth 3
            T = load(k)             ->     for k in range(n - 2):
            use(T)                             T[(k + 2) % 3] = load(k + 2)
                                               use(T[k % 3])
                                           for k in range(2): use(T[(k + n - 2) % 3])

    Takes effect if the stage is computed inside a serial loop. A depth of 1 is one copy, the default. Raises
    UserError for an output, for a stage that is not computed inside a loop, and for a depth that is no positive
    integer.
    """
    return _staged(schedule, stage, depth, "pipeline")


def double_buffer(schedule: Schedule, stage: Stage) -> tuple[Schedule, None]:
    """Give `stage` two copies of its storage: `pipeline` of depth 2.

        for k:                             T[0] = load(0)
            T = load(k)             ->     for k in range(n - 1):
            use(T)                             T[(k + 1) % 2] = load(k + 1)
                                               use(T[k % 2])
                                           use(T[(n - 1) % 2])

    Takes effect if the stage is computed inside a serial loop. Raises UserError for an output or an input.
    """
    return _staged(schedule, stage, 2, "double_buffer")


def _staged(schedule: Schedule, stage: Stage, depth: Any, primitive: str) -> tuple[Schedule, None]:
    has_loops(stage, primitive)
    no_output(schedule, stage, primitive, "is in the caller's memory, and cannot have several copies")
    stages = whole_number(depth)
    if stages is None or stages < 1:
        raise UserError(
            f"depth={depth!r} for stage {stage.name!r} is not a number of copies",
            primitive=primitive,
            fix="give an int >= 1: pipeline(3)",
        )
    if stage.rolling and stages > 1:
        raise UserError(
            f"stage {stage.name!r} rolls: the next iteration reads rows that this one has computed",
            primitive="pipeline",
            fix="choose one of the two: pipeline, or rolling_buffer",
        )
    if not isinstance(stage.placement, At):
        raise UserError(
            f"stage {stage.name!r} is not computed inside a loop of another stage",
            primitive=primitive,
            fix=f"call s[{stage.name}].compute_at(reader, axis) first",
        )
    return schedule.with_stage(replace(stage, stages=stages)), None
