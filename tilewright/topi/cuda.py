"""Schedules for grids of threads (CUDA, OpenCL), under the legacy names.

The limits are those of the current target, or of CUDA. See `generic` for what they share.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..core.refusals import missing_from_module as _missing
from ..schedule.handle import ScheduleHandle
from .nn import conv2d_hwcn as conv2d_hwcn
from .nn import conv2d_nchw as conv2d_nchw
from .nn import depthwise_conv2d_nchw as depthwise_conv2d_nchw
from .schedules.stages import on_grid as _on_grid
from .schedules.table import functions as _functions

if TYPE_CHECKING:

    def __getattr__(name: str) -> Callable[..., ScheduleHandle]: ...

else:
    globals().update(_functions(_on_grid, __name__))

    def __getattr__(name: str) -> object:
        raise _missing(__name__, name, globals())
