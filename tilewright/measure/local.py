"""The session that measures on this machine: by forked builders, or by a worker on platforms without forks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..core.system import FORKS
from .option import LocalBuilder, LocalRunner

if TYPE_CHECKING:
    from .base_session import BaseSession


def local_session(target: Any, builder: LocalBuilder | None = None, runner: LocalRunner | None = None) -> BaseSession:
    """Open the session; modules of the other kind stay unloaded, as the platform lacks facilities that they need."""
    if FORKS:
        from .session import MeasureSession

        return MeasureSession(target, builder, runner)
    from .spawned import SpawnedSession

    return SpawnedSession(target, builder, runner)
