"""The session that measures on this machine: by forked builders, or by a worker on platforms without forks."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..core.system import FORKS
from .option import LocalBuilder, LocalRunner

if TYPE_CHECKING:
    from .session import MeasureSession
    from .spawned import SpawnedSession


def local_session(
    target: Any, builder: LocalBuilder | None = None, runner: LocalRunner | None = None
) -> MeasureSession | SpawnedSession:
    """Open the session; modules of the other kind stay unloaded, as the platform lacks facilities that they need."""
    name, session = ("session", "MeasureSession") if FORKS else ("spawned", "SpawnedSession")
    made: MeasureSession | SpawnedSession = getattr(import_module(f".{name}", __package__), session)(
        target, builder, runner
    )
    return made
