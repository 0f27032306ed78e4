"""The rule for each kernel: which kind of schedule computes it."""

from __future__ import annotations

from ..core.target import Target
from ..schedule.handle import ScheduleHandle
from ..tensor.tensor import ComputeOp
from ..topi.schedules.injective import one_element_each
from ..topi.schedules.products import sums_to
from ..topi.schedules.reduce import reduce_to
from .cpu_rows import schedule_rows_on_processors
from .dataflow import Dataflow
from .gpu_elements import are_elements, schedule_elements
from .gpu_elements import default_tile as element_tile
from .gpu_products import schedule_product, ways
from .gpu_rows import default_tile, schedule_rows
from .kernels import FusedKernel
from .products import is_sum, product_of


def schedule_kernel(s: ScheduleHandle, flow: Dataflow, kernel: FusedKernel, target: Target) -> None:
    """Schedule one kernel by the rule of its kind."""
    out = kernel.out
    if not isinstance(out, ComputeOp) or out.call is not None:
        return
    reductions = kernel.reductions
    if target.is_gpu and len(reductions) == 1 and kernel.one_each and flow.is_product(reductions[0]):
        form = product_of(flow, kernel, reductions[0])
        found = ways(form[1], target) if form is not None and is_sum(reductions[0]) else []
        if form is not None and found:
            config = found[0].space.get(found[0].default)
            schedule_product(s, kernel, reductions[0], form, found[0], config, target)
            return
    for op in kernel.operands:
        one_element_each(s, op, target)
    if target.is_gpu and are_elements(kernel):
        schedule_elements(s, kernel, element_tile(flow, kernel, target))
        return
    if not kernel.members and not reductions:
        one_element_each(s, out, target)
    elif len(reductions) == 1 and len(kernel.members) == (out is not reductions[0]) and kernel.one_each:
        (op,) = reductions
        if flow.is_product(op):
            sums_to(s, op, out, target)
        else:
            reduce_to(s, op, out, target)
    elif target.is_gpu:
        schedule_rows(s, flow, kernel, target, default_tile(flow, kernel, target))
    else:
        schedule_rows_on_processors(s, flow, kernel)
