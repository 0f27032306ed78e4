"""Schedules for the current target, under the legacy names: the schedules of `cuda` on grids of threads, else of `x86`.

    with tw.target.Target("cuda"):
        s = topi.generic.schedule_injective([B])

Without a current target, they are for the CPU. For all of them: `outs` is the output tensor or a list of them; The
result is a schedule. They raise UserError if `outs` holds anything but tensors. The names stand in `schedule_names.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ...core.refusals import old_name as _old_name
from ...schedule.handle import ScheduleHandle
from ...topi.schedules.stages import current as _target
from .schedule_names import functions as _functions

__path__: list[str] = []  # the legacy API has modules below this one; `legacy.finder` finds their names here

if TYPE_CHECKING:

    def __getattr__(name: str) -> Callable[..., ScheduleHandle]: ...

else:
    globals().update(_functions(_target, __name__))

    def __getattr__(name: str) -> object:
        return _old_name(__name__, name, globals())
