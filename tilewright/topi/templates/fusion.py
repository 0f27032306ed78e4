"""Packaged templates within a user's own program: a convolution of the user's tensors with the user's epilogue."""

from __future__ import annotations

from typing import Any

from ...core.errors import UserError
from ...core.target import Target
from ...expr.nodes import IntImm
from ...schedule.handle import ScheduleHandle
from ...tensor.tensor import ComputeOp, Tensor
from ...tune.space.config import Config
from .convolutions import Conv2d, Depthwise
from .declarations import check_shapes
from .epilogue import Expression, finish
from .layouts import IMAGES_LAST, LAYOUTS, from_layout
from .template import ALL, PackagedTemplate
from .tensors import Tensors
from .workload import of_options

_KEYS = ("template", "workload", "target", "config")
_SUMS = "sums"
"""The attribute with the name of the stage that sums: an epilogue may read other reductions."""


def workload_of(kind: type[Any], x: Tensor, w: Tensor, options: dict[str, Any]) -> Any:
    """Return the workload of a convolution of `x` with `w`; raises UserError if there is none."""
    layout = options.get("layout", "NCHW")
    sizes, kernel = (tuple(e.value if isinstance(e, IntImm) else 0 for e in t.shape) for t in (x, w))
    if kind not in (Conv2d, Depthwise) or len(sizes) != 4 or len(kernel) != 4 or 0 in (*sizes, *kernel):
        raise UserError(
            f"data of shape {list(x.shape)} and weights of shape {list(w.shape)} are not images and filters",
            primitive=kind.name,
            fix="give two 4-dimensional tensors of constant shape; 1-D data as images of height 1",
        )
    images = from_layout(layout, sizes) if layout in (*LAYOUTS, IMAGES_LAST) else sizes
    if layout == IMAGES_LAST or options.get("weights") == "HWIO":
        kernel = (kernel[3], kernel[2], *kernel[:2])
    given = {"shape": images, "kernel": kernel[2:], "dtype": x.dtype, **options}
    if kind is Depthwise:
        of_channel = kernel[1] if kernel[0] == images[1] else max(1, kernel[0] // images[1])
        made: Any = of_options(Depthwise, {"multiplier": of_channel, **given})
    else:
        groups = max(1, images[1] // kernel[1])
        made = of_options(Conv2d, {"filters": kernel[0], "groups": groups, **given})
    check_shapes(made, x, w)
    return made


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
    """The reduction, of that name if one is given, that a tensor is or that its operation reads."""
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
