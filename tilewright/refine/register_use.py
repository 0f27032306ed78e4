"""Remarks on kernels with threads that need more registers than their blocks leave them: such kernels run, but
slowly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..bounds.infer import Bounds
from ..core.errors import Suspect
from ..core.hardware import MemoryScope
from ..core.target import Target
from ..schedule.culprits import culprits
from ..schedule.schedule import Schedule
from ..schedule.steps import Step
from .usage import KernelUse, kernel_uses

_MAKERS = ("cache_write", "cache_read", "rfactor", "set_scope", "compute_at")
"""The primitives that decide the contents of a thread's registers."""


def register_remarks(schedule: Schedule, bounds: Bounds, target: Target, steps: Sequence[Step]) -> Iterator[str]:
    """Return a remark on each kernel with local arrays that exceed its registers by the launch bound, with its
    steps."""
    if not target.has_warps:
        return
    for use in kernel_uses(bounds):
        most = target.hardware.registers_at(use.threads)
        if use.local_words > most:
            largest = use.stored(MemoryScope.LOCAL)[0]
            named = culprits(steps, _suspects(use, largest.name))
            lines = [
                f"each thread keeps {use.local_words:,} 32-bit words ({largest.name} alone "
                f"{-(-largest.bytes // 4):,}), but has {most} registers in blocks of {use.threads:,} threads: the "
                "rest is in slow memory",
                *(f"  step: {step}" for step in named),
                "  fix: let each thread compute less, or bind fewer threads per block",
            ]
            yield "\n".join(lines)


def _suspects(use: KernelUse, largest: str) -> list[Suspect]:
    threads = [tag for tag, extent in use.extents.items() if tag.is_thread and extent > 1]
    return [Suspect(_MAKERS, (largest,)), *(Suspect(("bind",), tag=tag.value) for tag in threads)]
