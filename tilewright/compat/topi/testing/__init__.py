"""Tools to check programs: NumPy references of the operators, and schedules by target.

`topi/references/` holds the references that the templates use too, written from definitions and sharing nothing with
the declarations.
"""

from typing import TYPE_CHECKING

from ....core.refusals import old_name as _old_name
from ....topi.references import BINARY as BINARY
from ....topi.references import REDUCTIONS as REDUCTIONS
from ....topi.references import UNARY as UNARY
from ....topi.references import adaptive_pool_python as adaptive_pool_python
from ....topi.references import affine_grid_python as affine_grid_python
from ....topi.references import batch_norm_python as batch_norm_python
from ....topi.references import batch_to_space_nd_python as batch_to_space_nd_python
from ....topi.references import ceil_log2_python as ceil_log2_python
from ....topi.references import conv2d_hwcn_python as conv2d_hwcn_python
from ....topi.references import conv2d_nchw_python as conv2d_nchw_python
from ....topi.references import conv2d_nhwc_python as conv2d_nhwc_python
from ....topi.references import conv_transpose_python as conv_transpose_python
from ....topi.references import conv_transposend_python as conv_transposend_python
from ....topi.references import convnd_python as convnd_python
from ....topi.references import convolve_python as convolve_python
from ....topi.references import correlation_nchw_python as correlation_nchw_python
from ....topi.references import crop_and_resize_python as crop_and_resize_python
from ....topi.references import deformable_conv2d_nchw_python as deformable_conv2d_nchw_python
from ....topi.references import deformable_conv2d_nhwc_python as deformable_conv2d_nhwc_python
from ....topi.references import depth_to_space_python as depth_to_space_python
from ....topi.references import depthwise_conv2d_python_nchw as depthwise_conv2d_python_nchw
from ....topi.references import depthwise_conv2d_python_nhwc as depthwise_conv2d_python_nhwc
from ....topi.references import depthwise_gradients_python as depthwise_gradients_python
from ....topi.references import dft_python as dft_python
from ....topi.references import dilate_python as dilate_python
from ....topi.references import dilation2d_nchw_python as dilation2d_nchw_python
from ....topi.references import embed_grad_python as embed_grad_python
from ....topi.references import fifo_buffer_python as fifo_buffer_python
from ....topi.references import fixed_point_multiply_python as fixed_point_multiply_python
from ....topi.references import gather_nd_python as gather_nd_python
from ....topi.references import grid_sample_python as grid_sample_python
from ....topi.references import group_norm_python as group_norm_python
from ....topi.references import instance_norm_python as instance_norm_python
from ....topi.references import l2_normalize_python as l2_normalize_python
from ....topi.references import layer_norm_python as layer_norm_python
from ....topi.references import layout_transform_python as layout_transform_python
from ....topi.references import log_softmax_python as log_softmax_python
from ....topi.references import lrn_python as lrn_python
from ....topi.references import lstm_python as lstm_python
from ....topi.references import matrix_set_diag_python as matrix_set_diag_python
from ....topi.references import nll_loss_python as nll_loss_python
from ....topi.references import one_hot_python as one_hot_python
from ....topi.references import pool_grad_nchw as pool_grad_nchw
from ....topi.references import pool_python as pool_python
from ....topi.references import poolnd_python as poolnd_python
from ....topi.references import relu_python as relu_python
from ....topi.references import resize_python as resize_python
from ....topi.references import reverse_sequence_python as reverse_sequence_python
from ....topi.references import rms_norm_python as rms_norm_python
from ....topi.references import running_python as running_python
from ....topi.references import scale_shift_nchw_python as scale_shift_nchw_python
from ....topi.references import scatter_elements_python as scatter_elements_python
from ....topi.references import scatter_nd_python as scatter_nd_python
from ....topi.references import sequence_mask_python as sequence_mask_python
from ....topi.references import softmax_python as softmax_python
from ....topi.references import space_to_batch_nd_python as space_to_batch_nd_python
from ....topi.references import space_to_depth_python as space_to_depth_python
from ....topi.references import stft_python as stft_python
from ....topi.references import take_python as take_python
from ....topi.references import unique_python as unique_python
from .arrays import adaptive_pool as adaptive_pool
from .arrays import batch_matmul as batch_matmul
from .arrays import batch_norm as batch_norm
from .arrays import bilinear_resize_python as bilinear_resize_python
from .arrays import dense as dense
from .arrays import gather_python as gather_python
from .arrays import matrix_set_diag as matrix_set_diag
from .arrays import nll_loss as nll_loss
from .arrays import one_hot as one_hot
from .arrays import resize1d_python as resize1d_python
from .arrays import resize2d_python as resize2d_python
from .arrays import resize3d_python as resize3d_python
from .arrays import searchsorted_ref as searchsorted_ref
from .arrays import sequence_mask as sequence_mask
from .arrays import slice_axis_python as slice_axis_python
from .arrays import strided_set_python as strided_set_python
from .arrays import strided_slice_python as strided_slice_python
from .arrays import upsampling3d_python as upsampling3d_python
from .arrays import upsampling_python as upsampling_python
from .convolutions import conv1d_ncw_python as conv1d_ncw_python
from .convolutions import conv1d_transpose_ncw_python as conv1d_transpose_ncw_python
from .convolutions import conv2d_backward_weight_python as conv2d_backward_weight_python
from .convolutions import conv2d_transpose_nchw_python as conv2d_transpose_nchw_python
from .convolutions import conv2d_transpose_nhwc_python as conv2d_transpose_nhwc_python
from .convolutions import conv3d_ncdhw_python as conv3d_ncdhw_python
from .convolutions import conv3d_ndhwc_python as conv3d_ndhwc_python
from .convolutions import conv3d_transpose_ncdhw_python as conv3d_transpose_ncdhw_python
from .convolutions import depthwise_conv2d_python_nchwc as depthwise_conv2d_python_nchwc
from .convolutions import group_conv1d_ncw_python as group_conv1d_ncw_python
from .convolutions import group_conv1d_transpose_ncw_python as group_conv1d_transpose_ncw_python
from .dispatch import compare_numpy_tvm as compare_numpy_tvm
from .dispatch import dispatch as dispatch
from .dispatch import get_broadcast_schedule as get_broadcast_schedule
from .dispatch import get_conv2d_nchw_implement as get_conv2d_nchw_implement
from .dispatch import get_elemwise_schedule as get_elemwise_schedule
from .dispatch import get_injective_schedule as get_injective_schedule
from .dispatch import get_reduce_schedule as get_reduce_schedule

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        return _old_name(__name__, name, globals())
