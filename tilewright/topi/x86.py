"""Schedules for processors, under the legacy names: vectors of neighbouring elements, and all processors.

See `generic` for their common part. Operators that the legacy library declares here in a form of its own come from
`topi` and `topi.nn`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..core.refusals import old_name as _old_name
from ..schedule.handle import ScheduleHandle
from . import nn as _nn
from .joining import concatenate as concatenate
from .nn import batch_matmul as batch_matmul
from .nn import conv1d_ncw as conv1d_ncw
from .nn import conv1d_nwc as conv1d_nwc
from .nn import conv1d_transpose_ncw as conv1d_transpose_ncw
from .nn import conv2d_nchw as conv2d_nchw
from .nn import conv2d_NCHWc as conv2d_NCHWc
from .nn import conv2d_NCHWc_int8 as conv2d_NCHWc_int8
from .nn import conv2d_nhwc as conv2d_nhwc
from .nn import conv2d_transpose_nchw as conv2d_transpose_nchw
from .nn import conv3d_ncdhw as conv3d_ncdhw
from .nn import conv3d_ndhwc as conv3d_ndhwc
from .nn import conv3d_transpose_ncdhw as conv3d_transpose_ncdhw
from .nn import correlation_nchw as correlation_nchw
from .nn import deformable_conv2d_nchw as deformable_conv2d_nchw
from .nn import deformable_conv2d_nhwc as deformable_conv2d_nhwc
from .nn import depthwise_conv2d_nchw as depthwise_conv2d_nchw
from .nn import depthwise_conv2d_NCHWc as depthwise_conv2d_NCHWc
from .nn import group_conv2d_nchw as group_conv2d_nchw
from .nn import group_conv2d_transpose_nchw as group_conv2d_transpose_nchw
from .nn import matmul as matmul
from .nn import softmax as softmax
from .schedules.stages import on_processor as _on_processor
from .schedules.table import functions as _functions

dense_nopack = dense_pack = _nn.dense

__path__: list[str] = []  # the legacy API has modules below this one; `legacy.finder` finds their names here

if TYPE_CHECKING:

    def __getattr__(name: str) -> Callable[..., ScheduleHandle]: ...

else:
    globals().update(_functions(_on_processor, __name__))

    def __getattr__(name: str) -> object:
        return _old_name(__name__, name, globals())
