"""Schedules for grids of threads (CUDA, OpenCL), under the legacy names.

The limits come from the current target, or CUDA. See `generic` for their common part. The convolutions here are
declared in the form that the packaged templates schedule, with their first configurations; the ones of `topi.nn` get a
schedule that suits every shape. The ones called `tensorcore` compute by matrix instructions if the target has them for
the type of the elements, float32 with the precision of float32.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..core.refusals import old_name as _old_name
from ..schedule.handle import ScheduleHandle
from . import nn as _nn
from .nn import batch_matmul as batch_matmul
from .nn import conv1d_ncw as conv1d_ncw
from .nn import conv1d_nwc as conv1d_nwc
from .nn import conv1d_transpose_ncw as conv1d_transpose_ncw
from .nn import conv2d_NCHWc as conv2d_NCHWc
from .nn import conv2d_transpose_nchw as conv2d_transpose_nchw
from .nn import conv3d_ncdhw as conv3d_ncdhw
from .nn import conv3d_ndhwc as conv3d_ndhwc
from .nn import conv3d_transpose_ncdhw as conv3d_transpose_ncdhw
from .nn import correlation_nchw as correlation_nchw
from .nn import deformable_conv2d_nchw as deformable_conv2d_nchw
from .nn import deformable_conv2d_nhwc as deformable_conv2d_nhwc
from .nn import depthwise_conv2d_NCHWc as depthwise_conv2d_NCHWc
from .nn import group_conv2d_transpose_nchw as group_conv2d_transpose_nchw
from .nn import matmul as matmul
from .nn import softmax as softmax
from .packed_int8 import conv2d_NCHWc_int8 as conv2d_NCHWc_int8
from .packed_int8 import group_conv2d_NCHWc_int8 as group_conv2d_NCHWc_int8
from .scan import cumprod as cumprod
from .scan import cumsum as cumsum
from .scattering import scatter_elements as scatter_elements
from .scattering import scatter_nd as scatter_nd
from .schedules.stages import on_grid as _on_grid
from .schedules.table import functions as _functions
from .searching import searchsorted as searchsorted
from .searching import unique as unique
from .sort import argsort as argsort
from .sort import sort as sort
from .sort import topk as topk
from .templates import BatchMatmul as _BatchMatmul
from .templates import Conv2d as _Conv2d
from .templates import Dense as _Dense
from .templates import Depthwise as _Depthwise
from .templates.planned import by_template as _by_template
from .templates.planned import product_by_template as _product_by_template

conv2d_nchw_winograd = _nn.conv2d_winograd_nchw
conv2d_nhwc_winograd_direct = conv2d_nhwc_winograd_tensorcore = _nn.conv2d_winograd_nhwc
dense_small_batch = dense_large_batch = _nn.dense
conv2d_nchw = _by_template(_Conv2d, "NCHW", _nn.conv2d_nchw, _on_grid)
conv2d_hwcn = _by_template(_Conv2d, "HWCN", _nn.conv2d_hwcn, _on_grid)
conv2d_nhwc = _by_template(_Conv2d, "NHWC", _nn.conv2d_nhwc, _on_grid)
group_conv2d_nchw = _by_template(_Conv2d, "NCHW", _nn.group_conv2d_nchw, _on_grid)
group_conv2d_nhwc = _by_template(_Conv2d, "NHWC", _nn.group_conv2d_nhwc, _on_grid)
depthwise_conv2d_nchw = _by_template(_Depthwise, "NCHW", _nn.depthwise_conv2d_nchw, _on_grid)
conv2d_nhwc_tensorcore = _by_template(_Conv2d, "NHWC", _nn.conv2d_nhwc, _on_grid, "conv2d_nhwc_tensorcore")
dense_tensorcore = _product_by_template(_Dense, _nn.dense, _on_grid, "dense_tensorcore")
batch_matmul_tensorcore = _product_by_template(_BatchMatmul, _nn.batch_matmul, _on_grid, "batch_matmul_tensorcore")

__path__: list[str] = []  # the legacy API has modules below this one; `legacy.finder` finds their names here

if TYPE_CHECKING:

    def __getattr__(name: str) -> Callable[..., ScheduleHandle]: ...

else:
    globals().update(_functions(_on_grid, __name__))

    def __getattr__(name: str) -> object:
        return _old_name(__name__, name, globals())
