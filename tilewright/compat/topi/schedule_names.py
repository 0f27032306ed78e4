"""The legacy names of general schedules, in one table that `topi.generic`, `topi.cuda` and `topi.x86` read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...auto import auto_schedule
from ...core.errors import UserError
from ...core.target import Target
from ...schedule.handle import ScheduleHandle
from ...tensor.tensor import Tensor
from ...topi.schedules.injective import one_element_each
from ...topi.schedules.stages import given_outputs


@dataclass(frozen=True)
class Family:
    """Schedules of one kind: the legacy names, and whether the functions take a layout."""

    summary: str
    names: str
    has_layout: bool = False


def scheduled(outs: Any, target: Target, primitive: str) -> ScheduleHandle:
    """Return the automatic schedule of outputs, by the strategies that declarations name."""
    return auto_schedule(given_outputs(outs, primitive), target)


_CONVOLUTIONS = """schedule_conv schedule_conv1d_ncw schedule_conv1d_nwc schedule_conv1d_transpose_ncw
schedule_conv2d_nchw schedule_conv2d_nhwc schedule_conv2d_hwcn schedule_conv2d_NCHWc schedule_conv2d_transpose_nchw
schedule_conv2d_winograd_nchw schedule_conv3d_ncdhw schedule_conv3d_ndhwc schedule_conv3d_transpose_ncdhw
schedule_depthwise_conv2d_nchw schedule_depthwise_conv2d_nhwc schedule_depthwise_conv2d_NCHWc schedule_group_conv2d_nchw
schedule_group_conv2d_nhwc schedule_group_conv1d_ncw schedule_group_conv1d_transpose_ncw
schedule_group_conv2d_transpose_nchw schedule_conv2d_nchw_winograd schedule_conv2d_NCHWc_int8
schedule_depthwise_conv2d_backward_input_nhwc schedule_depthwise_conv2d_backward_weight_nhwc
schedule_group_conv1d_nwc schedule_dilation2d_nchw schedule_dilation2d_nhwc schedule_correlation_nchw
schedule_deformable_conv2d_nchw schedule_deformable_conv2d_nhwc schedule_conv2d_nhwc_tensorcore
schedule_conv2d_nhwc_winograd_direct schedule_conv2d_nhwc_winograd_tensorcore schedule_conv2d_winograd_nhwc
schedule_group_conv2d_NCHWc_int8"""

FAMILIES = (
    Family(
        "Schedule element-wise, broadcasting and reordering operators, all of them inline but the outputs.",
        "schedule_injective schedule_elemwise schedule_broadcast schedule_concatenate",
    ),
    Family(
        "Schedule reductions, and element-wise operators after them.",
        "schedule_reduce schedule_lrn schedule_pool_grad schedule_scan schedule_unique schedule_searchsorted "
        "schedule_dft schedule_stft schedule_batch_norm",
    ),
    Family(
        "Schedule pooling; `layout` is accepted for old scripts, without effect.",
        "schedule_pool schedule_adaptive_pool",
        has_layout=True,
    ),
    Family(
        "Schedule softmax and normalisation: a block, or a processor, computes a row.",
        "schedule_softmax schedule_fast_softmax schedule_norm schedule_l2_normalize",
    ),
    Family(
        "Schedule matrix products, batches of them, and element-wise operators after them.",
        "schedule_dense schedule_matmul schedule_batch_matmul schedule_einsum schedule_dense_small_batch "
        "schedule_dense_large_batch schedule_dense_nopack schedule_dense_pack schedule_dense_int8 "
        "schedule_conv2d_winograd_weight_transform schedule_lstm "
        "schedule_dense_tensorcore schedule_batch_matmul_tensorcore",
    ),
    Family(
        "Schedule convolutions of every kind, and element-wise operators after them.",
        _CONVOLUTIONS,
    ),
    Family(
        "Schedule operators given by statements, which were declared for this target and run as they stand.",
        "schedule_sort schedule_argsort schedule_topk schedule_extern schedule_scatter "
        "schedule_scatter_add schedule_scatter_nd schedule_embed_grad",
    ),
)


def functions(target: Callable[[], Target], module: str) -> dict[str, Callable[..., ScheduleHandle]]:
    """The functions of a face under their legacy names; `target` returns their target when they are called."""
    made = {name: _function(family, name, target) for family in FAMILIES for name in family.names.split()}

    def schedule_injective_from_existing(sch: ScheduleHandle, out: Any) -> ScheduleHandle:
        """Schedule the output `out` in an existing schedule."""
        if not isinstance(sch, ScheduleHandle) or not isinstance(out, Tensor):
            raise UserError(
                f"given {sch!r} and {out!r}",
                primitive="schedule_injective_from_existing",
                fix="give a schedule and the tensor that it computes",
            )
        one_element_each(sch, out.op, target())
        return sch

    found = {**made, "schedule_injective_from_existing": schedule_injective_from_existing}
    for name, function in found.items():
        function.__name__ = function.__qualname__ = name
        function.__module__ = module
    return found


def _function(family: Family, name: str, target: Callable[[], Target]) -> Callable[..., ScheduleHandle]:
    if family.has_layout:

        def with_layout(outs: Any, layout: str = "NCHW") -> ScheduleHandle:
            return scheduled(outs, target(), name)

        with_layout.__doc__ = family.summary
        return with_layout

    def schedule(outs: Any) -> ScheduleHandle:
        return scheduled(outs, target(), name)

    schedule.__doc__ = family.summary
    return schedule
