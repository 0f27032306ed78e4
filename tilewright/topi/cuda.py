"""Schedules for grids of threads (CUDA, OpenCL), under the legacy names.

The limits are those of the current target, or of CUDA. See `generic` for what they share. The convolutions here are
declared in the form that the packaged templates schedule, with their first configurations; those of `topi.nn` get a
schedule that suits every shape.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..core.refusals import missing_from_module as _missing
from ..schedule.handle import ScheduleHandle
from . import nn as _nn
from .schedules.stages import on_grid as _on_grid
from .schedules.table import functions as _functions
from .templates import Conv2d as _Conv2d
from .templates import Depthwise as _Depthwise
from .templates.planned import by_template as _by_template

conv2d_nchw = _by_template(_Conv2d, "NCHW", _nn.conv2d_nchw, _on_grid)
conv2d_hwcn = _by_template(_Conv2d, "HWCN", _nn.conv2d_hwcn, _on_grid)
depthwise_conv2d_nchw = _by_template(_Depthwise, "NCHW", _nn.depthwise_conv2d_nchw, _on_grid)

if TYPE_CHECKING:

    def __getattr__(name: str) -> Callable[..., ScheduleHandle]: ...

else:
    globals().update(_functions(_on_grid, __name__))

    def __getattr__(name: str) -> object:
        raise _missing(__name__, name, globals())
