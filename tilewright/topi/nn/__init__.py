"""Neural-network operators as tensor declarations (schedules are the user's, or a template's)."""

from typing import TYPE_CHECKING

from ...core.refusals import missing as _missing
from .blocks import batch_flatten as batch_flatten
from .blocks import batch_to_space_nd as batch_to_space_nd
from .blocks import depth_to_space as depth_to_space
from .blocks import flatten as flatten
from .blocks import space_to_batch_nd as space_to_batch_nd
from .blocks import space_to_depth as space_to_depth
from .conv1d import conv1d as conv1d
from .conv1d import conv1d_ncw as conv1d_ncw
from .conv1d import conv1d_nwc as conv1d_nwc
from .conv2d import conv2d as conv2d
from .conv2d import conv2d_hwcn as conv2d_hwcn
from .conv2d import conv2d_nchw as conv2d_nchw
from .conv2d import conv2d_nhwc as conv2d_nhwc
from .conv2d import group_conv2d_nchw as group_conv2d_nchw
from .conv2d import group_conv2d_nhwc as group_conv2d_nhwc
from .dense import dense as dense
from .depthwise_conv2d import depthwise_conv2d as depthwise_conv2d
from .depthwise_conv2d import depthwise_conv2d_nchw as depthwise_conv2d_nchw
from .depthwise_conv2d import depthwise_conv2d_nhwc as depthwise_conv2d_nhwc
from .dilate import dilate as dilate
from .elementwise import leaky_relu as leaky_relu
from .elementwise import relu as relu
from .elementwise import scale_shift as scale_shift
from .elementwise import scale_shift_nchw as scale_shift_nchw
from .elementwise import scale_shift_nhwc as scale_shift_nhwc
from .normalization import batch_norm as batch_norm
from .normalization import group_norm as group_norm
from .normalization import instance_norm as instance_norm
from .normalization import l2_normalize as l2_normalize
from .normalization import layer_norm as layer_norm
from .normalization import lrn as lrn
from .normalization import rms_norm as rms_norm
from .pad import mirror_pad as mirror_pad
from .pad import pad as pad
from .softmax import fast_softmax as fast_softmax
from .softmax import log_softmax as log_softmax
from .softmax import softmax as softmax

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        raise _missing("topi.nn", name, globals())
