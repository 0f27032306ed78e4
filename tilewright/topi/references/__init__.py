"""NumPy references of the operators, written from their definitions and sharing nothing with the declarations."""

from typing import TYPE_CHECKING

from ...core.refusals import old_name as _old_name
from .conv1d import convolve_python as convolve_python
from .conv2d import conv2d_hwcn_python as conv2d_hwcn_python
from .conv2d import conv2d_nchw_python as conv2d_nchw_python
from .conv2d import conv2d_nhwc_python as conv2d_nhwc_python
from .conv2d import depthwise_conv2d_python_nchw as depthwise_conv2d_python_nchw
from .conv2d import depthwise_conv2d_python_nhwc as depthwise_conv2d_python_nhwc
from .convolutions import conv_transposend_python as conv_transposend_python
from .convolutions import convnd_python as convnd_python
from .convolutions import depthwise_gradients_python as depthwise_gradients_python
from .displaced import correlation_nchw_python as correlation_nchw_python
from .displaced import deformable_conv2d_nchw_python as deformable_conv2d_nchw_python
from .displaced import deformable_conv2d_nhwc_python as deformable_conv2d_nhwc_python
from .elementwise import dilate_python as dilate_python
from .elementwise import relu_python as relu_python
from .elementwise import scale_shift_nchw_python as scale_shift_nchw_python
from .gradients import depthwise_backward_python as depthwise_backward_python
from .math import BINARY as BINARY
from .math import UNARY as UNARY
from .math import ceil_log2_python as ceil_log2_python
from .math import fixed_point_multiply_python as fixed_point_multiply_python
from .normalization import batch_norm_python as batch_norm_python
from .normalization import group_norm_python as group_norm_python
from .normalization import instance_norm_python as instance_norm_python
from .normalization import l2_normalize_python as l2_normalize_python
from .normalization import layer_norm_python as layer_norm_python
from .normalization import log_softmax_python as log_softmax_python
from .normalization import lrn_python as lrn_python
from .normalization import rms_norm_python as rms_norm_python
from .normalization import softmax_python as softmax_python
from .pooling import adaptive_pool_python as adaptive_pool_python
from .pooling import pool_grad_nchw as pool_grad_nchw
from .pooling import poolnd_python as poolnd_python
from .reduction import REDUCTIONS as REDUCTIONS
from .resize import crop_and_resize_python as crop_and_resize_python
from .resize import dilation2d_nchw_python as dilation2d_nchw_python
from .resize import resize_python as resize_python
from .resize import running_python as running_python
from .scatter import affine_grid_python as affine_grid_python
from .scatter import grid_sample_python as grid_sample_python
from .scatter import nll_loss_python as nll_loss_python
from .scatter import scatter_elements_python as scatter_elements_python
from .scatter import scatter_nd_python as scatter_nd_python
from .scatter import unique_python as unique_python
from .sequences import dft_python as dft_python
from .sequences import embed_grad_python as embed_grad_python
from .sequences import fifo_buffer_python as fifo_buffer_python
from .sequences import lstm_python as lstm_python
from .sequences import stft_python as stft_python
from .transform import batch_to_space_nd_python as batch_to_space_nd_python
from .transform import depth_to_space_python as depth_to_space_python
from .transform import gather_nd_python as gather_nd_python
from .transform import layout_transform_python as layout_transform_python
from .transform import matrix_set_diag_python as matrix_set_diag_python
from .transform import one_hot_python as one_hot_python
from .transform import reverse_sequence_python as reverse_sequence_python
from .transform import sequence_mask_python as sequence_mask_python
from .transform import space_to_batch_nd_python as space_to_batch_nd_python
from .transform import space_to_depth_python as space_to_depth_python
from .transform import take_python as take_python
from .windows import conv_transpose_python as conv_transpose_python
from .windows import pool_python as pool_python

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        return _old_name(__name__, name, globals())
