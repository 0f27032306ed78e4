"""Declarations that name their workload, and the strategy and the configuration that shall compute it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ...core.target import Target
from ...tensor.tensor import ComputeOp, Operation, Tensor
from ...tune.space.config import Config
from ..templates.declarations import same_shape
from ..templates.template import ALL, PackagedTemplate

_KEYS = ("template", "workload", "target", "config")


class ChosenStrategy(NamedTuple):
    """A strategy, the workload that it computes, the target of the choice, and the index of the configuration."""

    template: PackagedTemplate[Any]
    workload: Any
    target: Target
    config: int


def with_choice(made: Tensor, template: PackagedTemplate[Any], config: Config, workload: Any, target: Target) -> Tensor:
    """Return a workload's declaration over its data and weights, which names a configuration that computes it."""
    op: Any = made.op
    chosen = dict(zip(_KEYS, (template.name, workload.args, str(target), config.index), strict=True))
    return ComputeOp(op.name, op.axis, op.body, op.tag, {**op.attrs, **chosen}).output(0)


def choice_of(op: Operation) -> ChosenStrategy | None:
    """Return the choice that a declaration names; None if it names none."""
    attrs = op.attrs if isinstance(op, ComputeOp) else {}
    template = next((t for t in ALL if t.name == attrs.get("template")), None)
    if template is None:
        return None
    _, args, target, index = (attrs[key] for key in _KEYS)
    return ChosenStrategy(template, template.workload(args), Target(target), index)


def operands_of(op: ComputeOp, workload: Any) -> tuple[Tensor, Tensor]:
    """Return data and weights of a workload's declaration, which may read its data with a border."""
    read, *weights = op.input_tensors
    behind = read.op.input_tensors if read.op.tag.startswith("injective,pad") else []
    data = next((t for t in behind if same_shape(t, tuple(int(e) for e in workload.placeholders()[0].shape))), read)
    return data, (weights or [read])[0]


def weights_index(weights: Tensor, shape: tuple[int, ...]) -> Callable[..., Sequence[Any]]:
    """Return a function of an index in weights of a workload's shape; it returns the index in the given weights.

    They may differ in the first two dimensions: PyTorch counts all filters in one, templates the filters of a channel.
    """
    if same_shape(weights, shape):
        return lambda *at: at
    return lambda channel, filter_of_channel, *rest: (channel * shape[1] + filter_of_channel, 0, *rest)
