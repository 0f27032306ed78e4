"""Schedules for processors, under the legacy names: vectors of neighbouring elements, and all processors.

See `generic` for what they share.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..core.refusals import missing_from_module as _missing
from ..schedule.handle import ScheduleHandle
from .schedules.stages import on_processor as _on_processor
from .schedules.table import functions as _functions

if TYPE_CHECKING:

    def __getattr__(name: str) -> Callable[..., ScheduleHandle]: ...

else:
    globals().update(_functions(_on_processor, __name__))

    def __getattr__(name: str) -> object:
        raise _missing(__name__, name, globals())
