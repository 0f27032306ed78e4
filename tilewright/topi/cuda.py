"""Schedules for grids of threads (CUDA, OpenCL), under the legacy names.

The limits are those of the current target, or of CUDA. See `generic` for what they share.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..core.refusals import missing_from_module as _missing
from ..schedule.handle import ScheduleHandle
from ..tensor.tensor import Tensor
from .nn import conv2d_hwcn as conv2d_hwcn
from .nn import conv2d_nchw as conv2d_nchw
from .nn import depthwise_conv2d_nchw as depthwise_conv2d_nchw
from .schedules import injective, products, reduce, rows
from .schedules.stages import on_grid


def schedule_injective(outs: Any) -> ScheduleHandle:
    """Schedule element-wise, broadcasting and reordering operators, all of them inline but the outputs."""
    return injective.schedule_injective(outs, on_grid())


def schedule_injective_from_existing(sch: ScheduleHandle, out: Tensor) -> ScheduleHandle:
    """Schedule the one output `out` of a schedule that is there already."""
    injective.one_element_each(sch, out.op, on_grid())
    return sch


def schedule_reduce(outs: Any) -> ScheduleHandle:
    """Schedule reductions, and what follows them element by element."""
    return reduce.schedule_reduce(outs, on_grid())


def schedule_softmax(outs: Any) -> ScheduleHandle:
    """Schedule softmax and log_softmax: a block, or a processor, computes a row."""
    return rows.schedule_rows(outs, on_grid(), "schedule_softmax")


def schedule_norm(outs: Any) -> ScheduleHandle:
    """Schedule layer_norm, rms_norm, instance_norm and l2_normalize: a block, or a processor, computes a row."""
    return rows.schedule_rows(outs, on_grid(), "schedule_norm")


def schedule_lrn(outs: Any) -> ScheduleHandle:
    """Schedule lrn, whose sums have few terms."""
    return reduce.schedule_reduce(outs, on_grid(), "schedule_lrn")


def schedule_pool(outs: Any, layout: str = "NCHW") -> ScheduleHandle:
    """Schedule pooling of windows; `layout` is accepted for old scripts, without effect."""
    return reduce.schedule_reduce(outs, on_grid(), "schedule_pool")


def schedule_pool_grad(outs: Any) -> ScheduleHandle:
    """Schedule the gradient of pooling."""
    return reduce.schedule_reduce(outs, on_grid(), "schedule_pool_grad")


def schedule_adaptive_pool(outs: Any, layout: str = "NCHW") -> ScheduleHandle:
    """Schedule global and adaptive pooling; `layout` is accepted for old scripts, without effect."""
    return reduce.schedule_reduce(outs, on_grid(), "schedule_adaptive_pool")


def schedule_dense(outs: Any) -> ScheduleHandle:
    """Schedule matrix products, batches of them, and what follows element by element."""
    return products.schedule_products(outs, on_grid(), "schedule_dense")


def schedule_conv(outs: Any) -> ScheduleHandle:
    """Schedule convolutions of every kind, and what follows element by element."""
    return products.schedule_products(outs, on_grid(), "schedule_conv")


schedule_matmul = schedule_batch_matmul = schedule_dense
# The legacy names, one per kind of convolution.
schedule_conv1d_ncw = schedule_conv
schedule_conv1d_nwc = schedule_conv
schedule_conv1d_transpose_ncw = schedule_conv
schedule_conv2d_nchw = schedule_conv
schedule_conv2d_nhwc = schedule_conv
schedule_conv2d_hwcn = schedule_conv
schedule_conv2d_NCHWc = schedule_conv  # noqa: N816
schedule_conv2d_transpose_nchw = schedule_conv
schedule_conv2d_winograd_nchw = schedule_conv
schedule_conv3d_ncdhw = schedule_conv
schedule_conv3d_ndhwc = schedule_conv
schedule_conv3d_transpose_ncdhw = schedule_conv
schedule_depthwise_conv2d_nchw = schedule_conv
schedule_depthwise_conv2d_nhwc = schedule_conv
schedule_depthwise_conv2d_NCHWc = schedule_conv  # noqa: N816
schedule_group_conv2d_nchw = schedule_conv
schedule_group_conv2d_nhwc = schedule_conv
schedule_group_conv1d_ncw = schedule_conv


def schedule_scan(outs: Any) -> ScheduleHandle:
    """Schedule cumsum and cumprod."""
    return reduce.schedule_reduce(outs, on_grid(), "schedule_scan")


def schedule_sort(outs: Any) -> ScheduleHandle:
    """Schedule sort, argsort and topk, which were declared for this target: their network runs as it stands."""
    return injective.schedule_injective(outs, on_grid(), "schedule_sort")


schedule_argsort = schedule_topk = schedule_sort
schedule_elemwise = schedule_broadcast = schedule_injective

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        raise _missing(__name__, name, globals())
