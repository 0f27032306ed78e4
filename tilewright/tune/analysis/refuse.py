"""Refusals of candidates that cannot run: the exceeded limit of the target, and the schedule step at fault."""

from __future__ import annotations

from collections.abc import Callable

from ...core.errors import Suspect
from ...core.hardware import MemoryScope, ThreadTag
from ...core.limits import Limit, ResourceNeed, exceeded
from ...core.target import Target
from ...measure.outcome import Refused
from ...refine.usage import KernelUse
from ...schedule.culprits import culprits
from ...schedule.handle import ScheduleHandle

_MAKERS = ("cache_read", "cache_write", "rfactor")  # the primitives that add one stage each


def refuse(handle: ScheduleHandle, uses: list[KernelUse], target: Target) -> Refused | None:
    """Return the first limit of `target` that a kernel exceeds; None if there is none."""
    if not target.is_gpu:
        return None
    for use in uses:
        shared = use.bytes_in(MemoryScope.SHARED)
        for broken in exceeded(target.hardware, use.extents, shared, use.local_words):
            return _REASONS[broken.limit](handle, use, target, broken)
    return None


def _threads(handle: ScheduleHandle, use: KernelUse, target: Target, broken: ResourceNeed) -> Refused:
    own = {tag: n for tag, n in use.extents.items() if tag.is_thread and n > 1}
    shown = " × ".join(f"{tag.value} {n}" for tag, n in sorted(own.items(), key=lambda item: item[0].value))
    reason = f"{broken.needed:,} threads per block ({shown}), but {target} allows {broken.allowed:,}"
    return Refused(reason=reason, step=_bound(handle, max(own, key=lambda tag: own[tag])))


def _extent(handle: ScheduleHandle, use: KernelUse, target: Target, broken: ResourceNeed) -> Refused:
    tag = broken.tag or ThreadTag.THREAD_X
    reason = f"{tag.value} has extent {broken.needed:,}, but {target} allows {broken.allowed:,}"
    return Refused(reason=reason, step=_bound(handle, tag))


def _shared(handle: ScheduleHandle, use: KernelUse, target: Target, broken: ResourceNeed) -> Refused:
    largest = use.stored(MemoryScope.SHARED)[0]
    reason = f"{broken.needed:,} bytes of shared memory, but {target} has {broken.allowed:,} per block"
    alone = f"{largest.name} alone takes {largest.bytes:,}"
    return Refused(reason=f"{reason} ({alone})", step=_made(handle, largest.stage))


def _local(handle: ScheduleHandle, use: KernelUse, target: Target, broken: ResourceNeed) -> Refused:
    largest = use.stored(MemoryScope.LOCAL)[0]
    reason = f"{broken.needed:,} words of local arrays per thread, and {target} holds {broken.allowed:,} at most"
    alone = f"{largest.name} alone takes {largest.bytes // 4:,}"
    return Refused(reason=f"{reason} ({alone})", step=_made(handle, largest.stage))


_REASONS: dict[Limit, Callable[[ScheduleHandle, KernelUse, Target, ResourceNeed], Refused]] = {
    Limit.THREADS: _threads,
    Limit.EXTENT: _extent,
    Limit.SHARED: _shared,
    Limit.LOCAL: _local,
}


def _bound(handle: ScheduleHandle, tag: ThreadTag) -> str:
    """Return the step that bound a hardware index first."""
    found = culprits(handle.steps, [Suspect(("bind",), tag=tag.value)])
    return str(found[0]) if found else ""


def _made(handle: ScheduleHandle, stage: int) -> str:
    """Return the step that made a stage."""
    found = culprits(handle.steps, [Suspect(_MAKERS, (handle.value.stages[stage].name,))])
    return str(found[0]) if found else ""
