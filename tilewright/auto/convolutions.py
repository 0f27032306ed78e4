"""Convolutions and their gradients, by the packaged strategies."""

from __future__ import annotations

from functools import partial
from typing import Any

from ..core.target import Target
from ..schedule.handle import ScheduleHandle
from ..tensor.tensor import ComputeOp, PlaceholderOp, topological
from ..topi.idioms.convolutions import recognised
from ..topi.idioms.redeclared import schedule_convolution, strategies_for
from ..topi.schedules.blocked import fits_blocks
from ..topi.schedules.injective import one_element_each
from ..topi.templates.template import PackagedTemplate
from ..tune.space.config import Config
from .dataflow import Dataflow
from .kernels import FusedKernel
from .ways import Way


def ways(flow: Dataflow, kernel: FusedKernel, target: Target, precision: str) -> list[Way]:
    """Return a way per strategy, the default one first; an empty list if the kernel is not a convolution."""
    op = kernel.reductions[0] if len(kernel.reductions) == 1 else None
    layer = recognised(op) if op is not None else None
    if op is None or layer is None or kernel.places[op] != tuple((a, 1) for a in kernel.out.axis):
        return []
    if not target.is_gpu and not layer.is_gradient and fits_blocks(op):
        return []  # blocks of results in registers are faster
    inputs = topological([layer.data.op, layer.weights.op])
    others = [each for each in kernel.members if each is not op and (each in inputs or each not in topological([op]))]
    stored = all(isinstance(t.op, PlaceholderOp) or t.op in flow.stored for t in (layer.data, layer.weights))
    if others or not stored:
        return []
    found = strategies_for(op, target, precision)
    return [_way(kernel, op, template, default, layer.workload, target) for template, default in found]


def _way(
    kernel: FusedKernel, op: ComputeOp, template: PackagedTemplate[Any], default: int, of: Any, target: Target
) -> Way:
    strategy = template.strategy(target)
    space = strategy.space(of)

    def steps(s: ScheduleHandle, config: Config) -> None:
        index = space.find(config)
        assert index is not None
        for left in schedule_convolution(s, op, kernel.out, template, index, target):
            one_element_each(s, left, target)
        for operand in kernel.operands:
            if operand in s:
                one_element_each(s, operand, target)

    modelled = strategy.own_model is not None
    return Way(
        f"{of.name} {template.strategy_name}",
        f"{op.name} is a {of.title}: the strategy {template.name}",
        space,
        default,
        steps,
        partial(strategy.expected, of) if modelled else None,
        partial(strategy.ranked, of, space) if modelled else None,
    )
