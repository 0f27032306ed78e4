"""rolling_buffer: a stage keeps the elements that the next iteration of a loop needs again, instead of recomputing
them."""

from __future__ import annotations

from dataclasses import replace

from ...core.errors import UserError
from ..legality import has_loops, no_output
from ..schedule import At, Schedule, Stage


def rolling_buffer(schedule: Schedule, stage: Stage) -> tuple[Schedule, None]:
    """Keep the rows of `stage` that consecutive iterations of the loop it is computed at share, in a circular buffer.

        for y:                                   B = allocate(3 rows)
            for r in range(3):                   for y:
                B[r] = f(y + r)        ->            for r in range(3):
            C[y] = B[0] + B[1] + B[2]                    if y == 0 or r == 2: B[(y + r) % 3] = f(y + r)
                                                     C[y] = B[y % 3] + B[(y + 1) % 3] + B[(y + 2) % 3]

    The loop must be serial, and the region that its body needs must advance by fewer rows than it has. Both are checked
    when the schedule is lowered. Raises UserError for an output, for a stage that is not computed inside a loop, and
    for one that is pipelined.
    """
    has_loops(stage, "rolling_buffer")
    no_output(schedule, stage, "rolling_buffer", "is in the caller's memory, with room for all rows")
    if not isinstance(stage.placement, At):
        raise UserError(
            f"stage {stage.name!r} is not computed inside a loop of another stage",
            primitive="rolling_buffer",
            fix=f"call s[{stage.name}].compute_at(reader, axis) first",
        )
    if not stage.op.axis or not stage.op.values:
        raise UserError(
            f"stage {stage.name!r} has no rows that could be kept",
            primitive="rolling_buffer",
            fix="use a te.compute with at least one dimension",
        )
    if stage.stages > 1:
        raise UserError(
            f"stage {stage.name!r} is pipelined, so that the next iteration has a copy of its own",
            primitive="rolling_buffer",
            fix="choose one of the two",
        )
    return schedule.with_stage(replace(stage, rolling=True)), None
