"""prefetch: data of a later iteration are brought into the cache while this one computes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...core.errors import UserError
from ...tensor.axis import IterVar
from ...tensor.tensor import Tensor
from ..legality import has_loops, leaf, of_stage
from ..value import Inlined, Prefetch, Schedule, Stage


def prefetch(schedule: Schedule, stage: Stage, tensor: Any, axis: IterVar, offset: Any) -> tuple[Schedule, None]:
    """In each iteration of the loop `axis`, fetch into the cache what `stage` reads of `tensor` `offset` iterations on.

        for i:                             for i:
            B[i] = f(A[i])      ->             prefetch(A[i + offset])
                                               B[i] = f(A[i])

    A hint for the CPU: one instruction per cache line of the region. GPUs run without it. Raises UserError where the
    stage does not read the tensor, for an axis that is not a loop of the stage or that runs on threads or as vectors,
    and for an offset that is not an int of at least 1.
    """
    has_loops(stage, "prefetch", inlined=True)
    known = _read(schedule, stage)
    if not isinstance(tensor, Tensor) or not any(schedule.same(t, tensor) for t in known):
        reads = ", ".join(t.name for t in known)
        raise UserError(
            f"stage {stage.name!r} does not read {getattr(tensor, 'name', tensor)!r} by a formula",
            primitive="prefetch",
            fix=f"give one of the tensors that it reads ({reads or 'none'}); after cache_read, prefetch for the stage "
            "that copies",
        )
    loop = leaf(stage, axis, "prefetch", "var")
    if stage.note(loop).thread is not None:
        raise UserError(
            f"{of_stage(loop, stage)} is bound to a thread, whose iterations do not follow each other",
            primitive="prefetch",
            fix="give a loop that runs one iteration after the other",
        )
    ahead = getattr(offset, "value", offset)
    if isinstance(ahead, bool) or not isinstance(ahead, int) or ahead < 1:
        raise UserError(
            f"offset={offset!r} is not a number of iterations", primitive="prefetch", fix="give an int >= 1"
        )
    wanted = Prefetch(tensor, loop, ahead)
    return schedule.with_stage(replace(stage, prefetches=(*stage.prefetches, wanted))), None


def _read(schedule: Schedule, stage: Stage) -> list[Tensor]:
    """The tensors that the formula of a stage reads, with those that stages inlined into it read."""
    found: dict[Tensor, None] = {}
    todo = list(stage.op.input_tensors) if stage.op.body else []
    while todo:
        tensor = todo.pop(0)
        if tensor not in found:
            found[tensor] = None
            producer = schedule.producer(tensor)
            todo += producer.op.input_tensors if isinstance(producer.placement, Inlined) else ()
    return list(found)
