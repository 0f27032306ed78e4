"""Schedules for processors, under the legacy names: vectors of neighbouring elements, and all processors.

See `generic` for their common part. Operators that the legacy library declares here in a form of its own come from
`topi` and `topi.nn`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ...core.refusals import old_name as _old_name
from ...schedule.handle import ScheduleHandle
from ...topi import nn as _nn
from ...topi.joining import concatenate as concatenate
from ...topi.nn import batch_matmul as batch_matmul
from ...topi.nn import conv1d_ncw as conv1d_ncw
from ...topi.nn import conv1d_nwc as conv1d_nwc
from ...topi.nn import conv1d_transpose_ncw as conv1d_transpose_ncw
from ...topi.nn import conv2d_nchw as conv2d_nchw
from ...topi.nn import conv2d_NCHWc as conv2d_NCHWc
from ...topi.nn import conv2d_NCHWc_int8 as conv2d_NCHWc_int8
from ...topi.nn import conv2d_nhwc as conv2d_nhwc
from ...topi.nn import conv2d_transpose_nchw as conv2d_transpose_nchw
from ...topi.nn import conv3d_ncdhw as conv3d_ncdhw
from ...topi.nn import conv3d_ndhwc as conv3d_ndhwc
from ...topi.nn import conv3d_transpose_ncdhw as conv3d_transpose_ncdhw
from ...topi.nn import correlation_nchw as correlation_nchw
from ...topi.nn import deformable_conv2d_nchw as deformable_conv2d_nchw
from ...topi.nn import deformable_conv2d_nhwc as deformable_conv2d_nhwc
from ...topi.nn import depthwise_conv2d_nchw as depthwise_conv2d_nchw
from ...topi.nn import depthwise_conv2d_NCHWc as depthwise_conv2d_NCHWc
from ...topi.nn import group_conv2d_nchw as group_conv2d_nchw
from ...topi.nn import group_conv2d_transpose_nchw as group_conv2d_transpose_nchw
from ...topi.nn import matmul as matmul
from ...topi.nn import softmax as softmax
from ...topi.schedules.stages import on_processor as _on_processor
from .schedule_names import functions as _functions

dense_nopack = dense_pack = _nn.dense

__path__: list[str] = []  # the legacy API has modules below this one; `legacy.finder` finds their names here

if TYPE_CHECKING:

    def __getattr__(name: str) -> Callable[..., ScheduleHandle]: ...

else:
    globals().update(_functions(_on_processor, __name__))

    def __getattr__(name: str) -> object:
        return _old_name(__name__, name, globals())
