"""Workloads and strategies of packaged templates for operators and tasks of the legacy API."""

from __future__ import annotations

from typing import Any

from ...core.errors import UserError
from ...core.padding import LEGACY_WORDS, padding_of
from ...core.windows import extents
from ...expr.nodes import IntImm
from ...tensor.tensor import Tensor
from ...topi.templates.convolutions import Conv2dLayer, Depthwise
from ...topi.templates.images import Images
from ...topi.templates.layouts import IMAGES_LAST, LAYOUTS, from_layout, in_layout
from ...topi.templates.template import ALL, PackagedTemplate
from ...topi.templates.workload import of_options


def workload_of(kind: type[Any], x: Tensor, w: Tensor, options: dict[str, Any]) -> Any:
    """Return the workload of a convolution of `x` with `w`; raises UserError if there is none."""
    layout = options.get("layout", "NCHW")
    sizes, kernel = (tuple(e.value if isinstance(e, IntImm) else 0 for e in t.shape) for t in (x, w))
    if kind not in (Conv2dLayer, Depthwise) or len(sizes) != 4 or len(kernel) != 4 or 0 in (*sizes, *kernel):
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
        made = of_options(Conv2dLayer, {"filters": kernel[0], "groups": groups, **given})
    check_shapes(made, x, w)
    return made


def check_shapes(of: Images, data: Tensor, weights: Tensor) -> None:
    """Check the tensors of a caller against the workload; raises UserError if they do not fit."""
    per_group = of.per_group
    wanted = {
        "data": [in_layout(of.layout, of.shape)],
        "weights": [of.weights_shape, (of.filters, per_group, *of.kernel)],
    }
    for what, tensor in (("data", data), ("weights", weights)):
        shape = tuple(e.value if isinstance(e, IntImm) else 0 for e in tensor.shape)
        if shape not in wanted[what] or tensor.dtype != of.dtype:
            raise UserError(
                f"{what} {tensor.name!r} is {tensor.dtype} of shape {list(shape)}",
                primitive=of.name,
                fix=f"give {of.dtype} of shape {list(wanted[what][-1])}",
            )


def legacy_padding(who: str, padding: Any, kernel: tuple[int, ...], dilation: Any) -> tuple[int, ...]:
    """Return a padding of the legacy API in numbers."""
    spread = dilation if isinstance(dilation, (tuple, list)) else (dilation,) * len(kernel)
    return padding_of(who, padding, extents(kernel, spread), (), LEGACY_WORDS)


def named_by(legacy: str) -> list[PackagedTemplate[Any]]:
    """Return the strategies that a legacy operator is limited to; an empty list if it takes all."""
    return [t for t in ALL if legacy in t.legacy]
