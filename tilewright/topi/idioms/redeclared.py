"""Convolutions of a program, recognised in its declaration and scheduled by packaged strategies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...core.errors import UserError
from ...core.target import Target
from ...schedule.handle import ScheduleHandle
from ...tensor.tensor import ComputeOp, Operation, Tensor
from ..templates.convolutions import Conv2dLayer
from ..templates.epilogue import finish
from ..templates.template import ALL, GENERAL, PackagedTemplate, default_first
from ..templates.tensors import Tensors
from .chosen import choice_of
from .convolutions import recognised

_NAME = "convolution"
_FINISHED = "convolution,epilogue"
"""The tag of results that convert sums."""
_COPY_TERMS = 16
"""Terms of a sum from which on a strategy that needs a copy of the result is faster than general rules."""
_PRODUCTS = "products"
"""The name of a contraction, which sums select elements of; results read it at once."""


def strategies_for(
    op: ComputeOp, target: Target, precision: str = "fp32"
) -> Iterator[tuple[PackagedTemplate[Any], int]]:
    """Yield the strategies that compute a convolution or the gradient of one on a target, the default one first.

    Each comes with the index of its default configuration, and computes float32 at least as precisely as `precision`.
    There is none if the operation is no convolution. Convolutions without groups are products of matrices, which have
    rules of their own. If the declaration names a choice, only that one is yielded.
    """
    choice, layer = choice_of(op), recognised(op)
    if choice is not None and choice.target.kind == target.kind:
        yield choice.template, choice.config
    if choice is not None or layer is None:
        return
    if not layer.is_gradient and isinstance(layer.workload, Conv2dLayer) and layer.workload.groups == 1:
        return
    if layer.reorders(op.shape) and layer.workload.terms < _COPY_TERMS:
        return  # a copy of the result to its order takes longer than such short sums
    kind = type(layer.workload)
    general = next(t for t in ALL if t.kind is kind and t.strategy_name == GENERAL)
    able = [t for t in general.of_precision(precision) if t.covers(layer.workload, target)]
    for template in default_first(able, layer.workload, target) if able else ():
        yield template, template.default_config(layer.workload, target).index or 0


def declared(op: ComputeOp, options: Any) -> Tensor:
    """Declare a convolution as a configuration of a strategy needs it: `options` are its name, index and target."""
    layer = recognised(op)
    given = options if isinstance(options, (list, tuple)) and len(options) == 3 else (None, 0, "")
    template = next((t for t in ALL if t.name == given[0]), None)
    fits = layer is not None and template is not None and template.kind is type(layer.workload)
    if layer is None or template is None or not fits or not template.covers(layer.workload, Target(given[2])):
        raise UserError(
            f"{op.name!r} is not a convolution that {options!r} computes",
            primitive="redeclare",
            fix="give the options of the step that auto_schedule printed, on a schedule of the same declaration",
        )
    strategy = template.strategy(Target(given[2]))
    config = strategy.space(layer.workload).get(given[1])
    sums = strategy.sums(layer.workload, *layer.inputs(), config)
    made = finish(sums, str(op.dtypes[0]), None, layer.workload.out_shape)
    return layer.result(made, op.shape)


def schedule_convolution(
    s: ScheduleHandle, op: Operation, last: Operation, template: PackagedTemplate[Any], index: int, target: Target
) -> list[Operation]:
    """Schedule a recognised convolution by a configuration of a strategy.

    `last` is the convolution, or the operation that reads it element by element and is stored in its place. Returns the
    operations that are left to schedule: the one that stores the result in another order than the strategy's.
    """
    layer = recognised(op)
    assert layer is not None
    made, *new = s[op].redeclare(_NAME, [template.name, index, str(target)])
    views = {tag: t for t in new for tag in ("data", "weights", "view") if t.op.tag == f"injective,{tag}"}
    data, weights = views.get("data", layer.data), views.get("weights", layer.weights)
    if weights is not layer.weights:
        s[weights].compute_inline()
    stored, rest = last.output(0), []
    if made.op.tag == "injective,view":
        (made,) = made.op.input_tensors
        if last is not op:
            s[op].compute_inline()
        stored, rest = made, [s[last].op]
    elif last is not op and made.op.tag in (_FINISHED, "contraction"):
        s[op].compute_inline()
    if stored.op is op:
        stored = s[op].op.output(0)
    read = made.op.input_tensors[0]
    sums = read if made.op.tag == _FINISHED and read.op.name != _PRODUCTS else made
    strategy = template.strategy(target)
    config = strategy.space(layer.workload).get(index)
    strategy.schedule(layer.workload, config, s, Tensors(data, weights, (), sums, stored, target=target))
    if data is not layer.data:
        s[data].compute_inline()
    return rest
