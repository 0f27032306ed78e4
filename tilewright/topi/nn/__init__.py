"""Neural-network operators as tensor declarations (schedules are the user's, or a template's)."""

from typing import TYPE_CHECKING

from ...core.refusals import old_name as _old_name
from . import utils as utils
from .adaptive_pooling import adaptive_pool as adaptive_pool
from .adaptive_pooling import adaptive_pool1d as adaptive_pool1d
from .adaptive_pooling import adaptive_pool3d as adaptive_pool3d
from .adaptive_pooling import global_pool as global_pool
from .blocks import batch_flatten as batch_flatten
from .blocks import batch_to_space_nd as batch_to_space_nd
from .blocks import depth_to_space as depth_to_space
from .blocks import flatten as flatten
from .blocks import space_to_batch_nd as space_to_batch_nd
from .blocks import space_to_depth as space_to_depth
from .channel_normalization import batch_norm as batch_norm
from .channel_normalization import group_norm as group_norm
from .conv1d import conv1d as conv1d
from .conv1d import conv1d_ncw as conv1d_ncw
from .conv1d import conv1d_nwc as conv1d_nwc
from .conv2d import conv2d as conv2d
from .conv2d import conv2d_hwcn as conv2d_hwcn
from .conv2d import conv2d_nchw as conv2d_nchw
from .conv2d import conv2d_nhwc as conv2d_nhwc
from .conv2d import group_conv2d_nchw as group_conv2d_nchw
from .conv2d import group_conv2d_nhwc as group_conv2d_nhwc
from .conv2d_blocked import conv2d_NCHWc as conv2d_NCHWc
from .conv2d_blocked import conv2d_NCHWc_int8 as conv2d_NCHWc_int8
from .conv2d_blocked import depthwise_conv2d_NCHWc as depthwise_conv2d_NCHWc
from .conv3d import conv3d_ncdhw as conv3d_ncdhw
from .conv3d import conv3d_ndhwc as conv3d_ndhwc
from .conv3d import group_conv1d_ncw as group_conv1d_ncw
from .conv3d import group_conv1d_nwc as group_conv1d_nwc
from .conv_transpose import conv1d_transpose_ncw as conv1d_transpose_ncw
from .conv_transpose import conv2d_transpose_nchw as conv2d_transpose_nchw
from .conv_transpose import conv3d_transpose_ncdhw as conv3d_transpose_ncdhw
from .conv_transpose import group_conv1d_transpose_ncw as group_conv1d_transpose_ncw
from .conv_transpose import group_conv2d_transpose_nchw as group_conv2d_transpose_nchw
from .correlation import correlation_nchw as correlation_nchw
from .deformable_conv2d import deformable_conv2d_nchw as deformable_conv2d_nchw
from .deformable_conv2d import deformable_conv2d_nhwc as deformable_conv2d_nhwc
from .dense import dense as dense
from .depthwise_conv2d import depthwise_conv2d as depthwise_conv2d
from .depthwise_conv2d import depthwise_conv2d_nchw as depthwise_conv2d_nchw
from .depthwise_conv2d import depthwise_conv2d_nhwc as depthwise_conv2d_nhwc
from .depthwise_gradients import depthwise_conv2d_backward_input_nhwc as depthwise_conv2d_backward_input_nhwc
from .depthwise_gradients import depthwise_conv2d_backward_weight_nhwc as depthwise_conv2d_backward_weight_nhwc
from .dilate import dilate as dilate
from .elementwise import leaky_relu as leaky_relu
from .elementwise import prelu as prelu
from .elementwise import relu as relu
from .elementwise import scale_shift as scale_shift
from .elementwise import scale_shift_nchw as scale_shift_nchw
from .elementwise import scale_shift_nchwc as scale_shift_nchwc
from .elementwise import scale_shift_nhwc as scale_shift_nhwc
from .embedding import embed as embed
from .embedding import embed_grad as embed_grad
from .fifo_buffer import fifo_buffer as fifo_buffer
from .loss import nll_loss as nll_loss
from .lstm import lstm as lstm
from .matmul import batch_matmul as batch_matmul
from .matmul import matmul as matmul
from .normalization import instance_norm as instance_norm
from .normalization import l2_normalize as l2_normalize
from .normalization import layer_norm as layer_norm
from .normalization import lrn as lrn
from .normalization import rms_norm as rms_norm
from .pad import mirror_pad as mirror_pad
from .pad import pad as pad
from .pooling import pool1d as pool1d
from .pooling import pool2d as pool2d
from .pooling import pool3d as pool3d
from .pooling_gradient import pool_grad as pool_grad
from .softmax import fast_softmax as fast_softmax
from .softmax import log_softmax as log_softmax
from .softmax import softmax as softmax
from .softmax import softmax_common as softmax_common
from .upsampling import upsampling as upsampling
from .upsampling import upsampling3d as upsampling3d
from .winograd import conv2d_winograd_nchw as conv2d_winograd_nchw
from .winograd import conv2d_winograd_nhwc as conv2d_winograd_nhwc
from .winograd import conv2d_winograd_weight_transform as conv2d_winograd_weight_transform
from .winograd import winograd_transform_matrices as winograd_transform_matrices

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        return _old_name(__name__, name, globals())
