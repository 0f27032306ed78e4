"""bind, env_threads: loops become hardware thread indices."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...core.errors import UserError, caller_location, warn_caller
from ...core.hardware import LoopKind, ThreadTag
from ...tensor.axis import AxisKind, IterVar
from ...tensor.scan import ScanOp
from ..legality import enclose, has_loops, leaf, not_mixed, of_stage
from ..schedule import Schedule, Stage


def bind(schedule: Schedule, stage: Stage, axis: IterVar, thread: IterVar) -> tuple[Schedule, None]:
    """Run the iterations of the loop `axis` on the hardware threads of `thread`.

        for i in range(64)     ->     i = threadIdx.x                # 64 threads per block

    The threads of a block combine their parts of a reduction loop (a cross-thread reduction). Each of them gets the
    result, and the first one stores it to memory that several threads see. Binding a bound axis again replaces the
    binding, with a warning. Raises UserError if `thread` is no thread axis, or another loop of the stage has the same
    tag. Raises it also for a reduction axis bound to blocks or virtual threads.
    """
    has_loops(stage, "bind", inlined=True)
    loop = leaf(stage, axis, "bind")
    if not isinstance(thread, IterVar) or thread.thread is None:
        shown = f"axis {thread.name!r}" if isinstance(thread, IterVar) else repr(thread)
        raise UserError(
            f"{of_stage(loop, stage)} cannot be bound to {shown}, which is not a thread axis",
            primitive="bind",
            fix='bind to te.thread_axis("blockIdx.x") or the like',
        )
    not_mixed(stage, "bind", loop)
    if loop.kind is AxisKind.REDUCE and not thread.thread.is_thread:
        raise UserError(
            f"{of_stage(loop, stage)} is a reduction axis, and {thread.thread_tag} cannot combine results: "
            "only the threads of one block can",
            primitive="bind",
            fix='bind it to te.thread_axis("threadIdx.x"), or make it a data axis first: '
            f"s.rfactor({stage.name}, {loop.name})",
        )
    for other in stage.leaves:
        bound = stage.annotation(other).thread
        same = bound is not None and bound.thread is thread.thread and thread.thread is not ThreadTag.VTHREAD
        if other is not loop and (same or bound is thread) and enclose(stage, other, loop):
            raise UserError(
                f"axes {other.name!r} and {loop.name!r} of stage {stage.name!r} would both be {thread.thread_tag}",
                primitive="bind",
                fix=f"bind {loop.name!r} to another thread axis, or fuse the two loops",
            )
    before = stage.annotation(loop).thread
    if before is not None and before is not thread:
        warn_caller(
            f"{caller_location()}: axis {loop.name!r} of stage {stage.name!r} was bound to {before.thread_tag}; it is "
            f"now bound to {thread.thread_tag}",
            UserWarning,
        )
    return schedule.with_stage(stage.with_annotation(loop, thread=thread, kind=LoopKind.THREAD)), None


def env_threads(schedule: Schedule, stage: Stage, threads: Any) -> tuple[Schedule, None]:
    """Run a whole scan on hardware threads: its loop stands inside the kernel instead of around one.

        for t:                                    j = threadIdx.x
            j = threadIdx.x              ->       for t:
            S[t, j] = f(S[t - 1, j])                  S[t, j] = f(S[t - 1, j])

    `threads` are thread axes with an extent; the loops of the update are bound to the same. Raises UserError for a
    stage that is not a scan, and for axes without an extent.
    """
    has_loops(stage, "env_threads")
    if not isinstance(stage.op, ScanOp):
        raise UserError(
            f"stage {stage.name!r} is not a scan",
            primitive="env_threads",
            fix=f"bind its loops: s[{stage.name}].bind(axis, thread)",
        )
    given = tuple(threads) if isinstance(threads, (list, tuple)) else (threads,)
    for thread in given:
        if not isinstance(thread, IterVar) or thread.thread is None or thread.dom is None:
            shown = f"axis {thread.name!r}" if isinstance(thread, IterVar) else repr(thread)
            raise UserError(
                f"{shown} is not a thread axis with an extent",
                primitive="env_threads",
                fix='give te.thread_axis((0, 64), "threadIdx.x")',
            )
    for thread in given:
        stage = stage.with_annotation(thread, thread=thread, kind=LoopKind.THREAD)
    return schedule.with_stage(replace(stage, leaves=(*given, *stage.op.loop_axes))), None
