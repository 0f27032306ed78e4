"""Refusing candidates that cannot run: a limit of the target is broken, and by which step of the schedule."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ...core.hardware import MemoryScope, ThreadTag
from ...core.target import Target
from ...schedule.handle import ScheduleHandle
from .usage import KernelUse

_HOPELESS = 8
"""A thread whose arrays take this many times the registers that it can have keeps most of them in device memory."""
_MAKERS = ("cache_read", "cache_write", "rfactor")  # the primitives that add one stage each


@dataclass(frozen=True)
class Refusal:
    """Why a candidate is not compiled, and the schedule step at fault with its place in the template."""

    reason: str
    step: str = ""


def refuse(handle: ScheduleHandle, uses: list[KernelUse], target: Target) -> Refusal | None:
    """The first limit of `target` that a kernel breaks; None where all hold."""
    if not target.is_gpu:
        return None
    for use in uses:
        for found in _broken(handle, use, target):
            return found
    return None


def _broken(handle: ScheduleHandle, use: KernelUse, target: Target) -> Iterator[Refusal]:
    yield from _threads(handle, use, target)
    shared = use.bytes_in(MemoryScope.SHARED)
    if shared > target.max_shared_bytes:
        largest = use.stored(MemoryScope.SHARED)[0]
        reason = f"{shared:,} bytes of shared memory, but {target} has {target.max_shared_bytes:,} a block"
        yield Refusal(f"{reason} ({largest.name} alone takes {largest.bytes:,})", _made(handle, largest.stage))
    limit = _HOPELESS * target.registers_per_thread
    if use.local_words > limit:
        largest = use.stored(MemoryScope.LOCAL)[0]
        reason = f"{use.local_words:,} words of local arrays a thread, over {_HOPELESS} times its registers"
        yield Refusal(f"{reason} ({largest.name} alone takes {largest.bytes // 4:,})", _made(handle, largest.stage))


def _threads(handle: ScheduleHandle, use: KernelUse, target: Target) -> Iterator[Refusal]:
    own = {tag: n for tag, n in use.extents.items() if tag.is_thread and n > 1}
    if use.threads > target.max_threads_per_block:
        shown = " × ".join(f"{tag.value} {n}" for tag, n in sorted(own.items(), key=lambda item: item[0].value))
        reason = f"{use.threads:,} threads a block ({shown}), but {target} allows {target.max_threads_per_block:,}"
        yield Refusal(reason, _bound(handle, max(own, key=lambda tag: own[tag])))
    for tag, extent in use.extents.items():
        limit = (target.max_grid_dims if tag.is_block else target.max_block_dims)[tag.dimension]
        if extent > limit:
            yield Refusal(f"{tag.value} has extent {extent:,}, but {target} allows {limit:,}", _bound(handle, tag))


def _bound(handle: ScheduleHandle, tag: ThreadTag) -> str:
    """The step that bound the hardware index first."""
    for step in handle.steps:
        if step.primitive == "bind" and any(_tag(arg) == tag.value for arg in step.args):
            return f"bind {tag.value} at {step.where}"
    return ""


def _tag(arg: Any) -> str | None:
    return arg.get("tag") if isinstance(arg, dict) else None


def _made(handle: ScheduleHandle, stage: int) -> str:
    """The step that made a stage: stages beyond the declared ones are numbered in the order of their making."""
    makers = [step for step in handle.steps if step.primitive in _MAKERS]
    place = stage - (handle.value.next_id - len(makers))
    return f"{makers[place].primitive} at {makers[place].where}" if 0 <= place < len(makers) else ""
