"""Schedules for grids of threads (CUDA, OpenCL), under the legacy names.

The limits come from the current target, or CUDA. See `generic` for their common part. The convolutions here are
declared in the form that the packaged templates schedule, with their default configurations. The ones of `topi.nn` get
a schedule that suits every shape. The ones called `tensorcore` compute by matrix instructions if the target has them
for the type of the elements, float32 with the precision of float32.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ...core.refusals import old_name as _old_name
from ...schedule.handle import ScheduleHandle
from ...topi import nn as _nn
from ...topi.nn import batch_matmul as batch_matmul
from ...topi.nn import conv1d_ncw as conv1d_ncw
from ...topi.nn import conv1d_nwc as conv1d_nwc
from ...topi.nn import conv1d_transpose_ncw as conv1d_transpose_ncw
from ...topi.nn import conv2d_NCHWc as conv2d_NCHWc
from ...topi.nn import conv2d_transpose_nchw as conv2d_transpose_nchw
from ...topi.nn import conv3d_ncdhw as conv3d_ncdhw
from ...topi.nn import conv3d_ndhwc as conv3d_ndhwc
from ...topi.nn import conv3d_transpose_ncdhw as conv3d_transpose_ncdhw
from ...topi.nn import correlation_nchw as correlation_nchw
from ...topi.nn import deformable_conv2d_nchw as deformable_conv2d_nchw
from ...topi.nn import deformable_conv2d_nhwc as deformable_conv2d_nhwc
from ...topi.nn import depthwise_conv2d_NCHWc as depthwise_conv2d_NCHWc
from ...topi.nn import group_conv2d_transpose_nchw as group_conv2d_transpose_nchw
from ...topi.nn import matmul as matmul
from ...topi.nn import softmax as softmax
from ...topi.packed_int8 import conv2d_NCHWc_int8 as conv2d_NCHWc_int8
from ...topi.packed_int8 import group_conv2d_NCHWc_int8 as group_conv2d_NCHWc_int8
from ...topi.scan import cumprod as cumprod
from ...topi.scan import cumsum as cumsum
from ...topi.scattering import scatter_elements as scatter_elements
from ...topi.scattering import scatter_nd as scatter_nd
from ...topi.schedules.stages import on_grid as _on_grid
from ...topi.searching import searchsorted as searchsorted
from ...topi.searching import unique as unique
from ...topi.signal import dft as dft
from ...topi.signal import stft as stft
from ...topi.sort import argsort as argsort
from ...topi.sort import sort as sort
from ...topi.sort import topk as topk
from ...topi.templates import BatchMatmul as _BatchMatmul
from ...topi.templates import Conv2dLayer as _Conv2dLayer
from ...topi.templates import Dense as _Dense
from ...topi.templates import Depthwise as _Depthwise
from .by_template import by_template as _by_template
from .by_template import product_by_template as _product_by_template
from .schedule_names import functions as _functions

conv2d_nchw_winograd = _nn.conv2d_winograd_nchw
conv2d_nhwc_winograd_direct = conv2d_nhwc_winograd_tensorcore = _nn.conv2d_winograd_nhwc
dense_small_batch = dense_large_batch = _nn.dense
conv2d_nchw = _by_template(_Conv2dLayer, "NCHW", _nn.conv2d_nchw, _on_grid)
conv2d_hwcn = _by_template(_Conv2dLayer, "HWCN", _nn.conv2d_hwcn, _on_grid)
conv2d_nhwc = _by_template(_Conv2dLayer, "NHWC", _nn.conv2d_nhwc, _on_grid)
group_conv2d_nchw = _by_template(_Conv2dLayer, "NCHW", _nn.group_conv2d_nchw, _on_grid)
group_conv2d_nhwc = _by_template(_Conv2dLayer, "NHWC", _nn.group_conv2d_nhwc, _on_grid)
depthwise_conv2d_nchw = _by_template(_Depthwise, "NCHW", _nn.depthwise_conv2d_nchw, _on_grid)
conv2d_nhwc_tensorcore = _by_template(_Conv2dLayer, "NHWC", _nn.conv2d_nhwc, _on_grid, "conv2d_nhwc_tensorcore")
dense_tensorcore = _product_by_template(_Dense, _nn.dense, _on_grid, "dense_tensorcore")
batch_matmul_tensorcore = _product_by_template(_BatchMatmul, _nn.batch_matmul, _on_grid, "batch_matmul_tensorcore")

__path__: list[str] = []  # the legacy API has modules below this one; `legacy.finder` finds their names here

if TYPE_CHECKING:

    def __getattr__(name: str) -> Callable[..., ScheduleHandle]: ...

else:
    globals().update(_functions(_on_grid, __name__))

    def __getattr__(name: str) -> object:
        return _old_name(__name__, name, globals())
