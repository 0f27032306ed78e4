"""prefetch: data of a later iteration are loaded into the cache while the present iteration computes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...core.errors import UserError
from ...tensor.axis import IterVar
from ...tensor.script import ScriptOp
from ...tensor.tensor import Tensor
from ..legality import has_loops, leaf, of_stage, whole_number, without_effect
from ..schedule import Prefetch, Schedule, Stage


def prefetch(schedule: Schedule, stage: Stage, tensor: Any, axis: IterVar, offset: Any) -> tuple[Schedule, None]:
    """In each iteration of the loop `axis`, fetch into the cache the elements that `stage` reads of `tensor` `offset`
    iterations later.

        for i:                             for i:
            B[i] = f(A[i])      ->             prefetch(A[i + offset])
                                               B[i] = f(A[i])

    Reads of stages that are computed inside the loop count, too. A hint for the CPU: one instruction per cache line of
    the region. GPUs run without it. Raises UserError if the stage reads the tensor neither itself nor through others,
    and for an offset that is no positive integer. Raises it also for an axis that is no loop of the stage, or runs on
    threads or as vectors.
    """
    has_loops(stage, "prefetch", inlined=True)
    known = _read(schedule, stage)
    if not isinstance(tensor, Tensor) or not any(schedule.same(t, tensor) for t in known):
        reads = ", ".join(t.name for t in known)
        raise UserError(
            f"stage {stage.name!r} reads {getattr(tensor, 'name', tensor)!r} neither itself nor through other stages",
            primitive="prefetch",
            fix=f"give one of the tensors that it reads ({reads or 'none'})",
        )
    loop = leaf(stage, axis, "prefetch", "var")
    if stage.annotation(loop).thread is not None:
        raise UserError(
            f"{of_stage(loop, stage)} is bound to a thread: its iterations do not follow each other",
            primitive="prefetch",
            fix="give a loop that runs one iteration after the other",
        )
    ahead = whole_number(offset)
    if ahead is None or ahead < 1:
        raise UserError(
            f"offset={offset!r} is not a number of iterations", primitive="prefetch", fix="give an int >= 1"
        )
    if isinstance(stage.op, ScriptOp):
        without_effect("prefetch", f"stage {stage.name!r} is a script, which runs its statements as they are written")
        return schedule, None
    wanted = Prefetch(tensor, loop, ahead)
    return schedule.with_stage(replace(stage, prefetches=(*stage.prefetches, wanted))), None


def _read(schedule: Schedule, stage: Stage) -> list[Tensor]:
    """The tensors that a stage reads, direct reads first, then reads through other stages."""
    found: dict[Tensor, None] = {}
    todo = list(stage.op.input_tensors)
    while todo:
        tensor = todo.pop(0)
        if tensor not in found:
            found[tensor] = None
            todo += schedule.producer(tensor).op.input_tensors
    return list(found)
