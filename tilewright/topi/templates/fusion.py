"""Packaged templates within a user's own program: a convolution of the user's tensors with the user's epilogue."""

from __future__ import annotations

from typing import Any

from ...core.errors import UserError
from ...core.target import Target
from ...schedule.handle import ScheduleHandle
from ...tensor.tensor import ComputeOp, Tensor
from ...tune.space.config import Config
from .epilogue import Expression, finish
from .template import ALL, PackagedTemplate
from .tensors import Tensors

_KEYS = ("template", "workload", "target", "config")
_SUMS = "sums"
"""The attribute with the name of the stage that sums: an epilogue may read other reductions."""


def declared(
    template: PackagedTemplate[Any],
    config: Config,
    workload: Any,
    target: Target | None,
    inputs: tuple[Tensor, Tensor],
    epilogue: Expression | None,
    dtype: str = "",
) -> Tensor:
    """Declare a convolution with an epilogue as the template's configuration needs it; `dtype` is the result's type."""
    sums = template.strategy(target).sums(workload, *inputs, config)
    attrs = dict(zip(_KEYS, (template.name, workload.args, str(target or ""), config.index), strict=True))
    attrs[_SUMS] = _reduction(sums).op.name
    return finish(sums, dtype or workload.result, epilogue, attrs, workload.out_shape)


def _reduction(tensor: Tensor, name: str = "") -> Tensor:
    """Return the reduction (of this name, if given) that computes a tensor or that its operation reads."""
    found = (tensor, *tensor.op.input_tensors)
    return next(t for t in found if isinstance(t.op, ComputeOp) and t.op.reduce_axis and name in ("", t.op.name))


def is_declared(op: ComputeOp) -> bool:
    """Whether an operation is a convolution that was declared for a template."""
    return any(template.name == op.attrs.get("template") for template in ALL)


def schedule(s: ScheduleHandle, out: Tensor, last: Tensor | None = None) -> None:
    """Schedule the operations that `declared` has declared, in a schedule of the program that it is part of.

    `last` is stored instead of `out`, which it reads element by element and which is inlined.
    """
    if not isinstance(s, ScheduleHandle) or not isinstance(out, Tensor):
        raise UserError(
            f"a schedule and a tensor are needed, got {type(s).__name__} and {type(out).__name__}",
            primitive="schedule",
            fix="give the schedule of the program, and the tensor that the template's `compute` returned",
        )
    attrs = out.op.attrs if isinstance(out.op, ComputeOp) else {}
    known = {template.name: template for template in ALL}
    if attrs.get("template") not in known:
        raise UserError(
            f"{out.name!r} was not declared by a packaged template",
            primitive="schedule",
            fix="give the tensor that the template's `compute` returned",
        )
    name, args, on, index = (attrs[key] for key in _KEYS)
    template, target = known[name], Target(on) if on else None
    workload, strategy = template.workload(args), template.strategy(target)
    sums = _reduction(out, attrs[_SUMS])
    _, weights = sums.op.input_tensors
    tensors = Tensors(weights, weights, (), sums, out if last is None else last, target=target)
    strategy.schedule(workload, strategy.space(workload).get(index), s, tensors)
