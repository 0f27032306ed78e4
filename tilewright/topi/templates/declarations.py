"""Convolutions of images as tensor expressions, in every layout, for kernels of PyTorch's shape.

The sums are declared over a view of the padded input. Which view suits a schedule: plain, or with its rows in aligned
chunks, each of which is wholly inside or outside of the input and is loaded at once.
"""

from __future__ import annotations

from typing import Any

from ...core.errors import UserError
from ...expr.convert import cast, const
from ...expr.nodes import IntImm
from ...expr.operators import all_of, floordiv, floormod, if_then_else
from ...tensor.axis import reduce_axis
from ...tensor.reduction import sum as reduce_sum
from ...tensor.tensor import Tensor, compute, placeholder
from .images import Images
from .layouts import from_layout, in_layout
from .workload import sum_dtype


def placeholders(of: Images) -> tuple[Tensor, Tensor]:
    """Return fresh tensors for data and weights."""
    data = placeholder(in_layout(of.layout, of.shape), of.dtype, "data")
    return data, placeholder(of.weights_shape, of.dtype, "weights")


def same_shape(tensor: Tensor, shape: tuple[int, ...]) -> bool:
    """Whether a tensor has exactly these extents."""
    return tuple(e.value if isinstance(e, IntImm) else 0 for e in tensor.shape) == shape


def check_shapes(of: Images, data: Tensor, weights: Tensor) -> None:
    """Check the tensors of a caller against the workload; UserError where they do not fit."""
    per_group = of.shape[1] // of.groups
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


def sums_of(of: Images, data: Tensor, weights: Tensor, chunk: int = 0, turned: bool = False) -> Tensor:
    """Return the convolution without its epilogue, in the type in which it is summed.

    Parameters
    ----------
    data, weights : Tensor
        As `check_shapes` accepts them.
    chunk : int
        With 0 the input is padded as it is, in its own type. Otherwise the padded input is converted to the type of
        the sums, and in the layout NCHW its rows are divided into chunks of so many elements, aligned with those of
        the input, whose width must be a multiple of it.
    turned : bool
        Whether the weights are read from a copy of the type of the sums in which filters are neighbours.
    """
    kernels = _turned(of, weights) if turned else lambda f, rc, ry, rx: _weight(of, weights, f, rc, ry, rx)
    element = _chunked(of, data, chunk) if chunk and of.layout == "NCHW" else _padded(of, data, converted=bool(chunk))
    per_group, per_filters, kind = of.shape[1] // of.groups, of.filters // of.groups, sum_dtype(of.dtype)
    (sy, sx), (dy, dx) = of.stride, of.dilation
    channels = [reduce_axis((0, per_group), name="rc")] if per_group > 1 else []
    ry, rx = reduce_axis((0, of.kernel[0]), name="ry"), reduce_axis((0, of.kernel[1]), name="rx")

    def value(*position: Any) -> Any:
        n, f, y, x = from_layout(of.layout, position)
        rc = channels[0] if channels else 0
        group = floordiv(f, per_filters) if of.groups > 1 else 0
        seen = element(n, group * per_group + rc, y * sy + ry * dy, x * sx + rx * dx)
        return reduce_sum(cast(kind, seen) * cast(kind, kernels(f, rc, ry, rx)), [*channels, ry, rx])

    shape = in_layout(of.layout, (of.shape[0], of.filters, *of.places))
    names = in_layout(of.layout, ("n", "f", "y", "x"))
    made: Tensor = compute(shape, value, "sums", f"convolution,{of.layout}", varargs_names=names)
    return made


def _weight(of: Images, weights: Tensor, f: Any, rc: Any, ry: Any, rx: Any) -> Any:
    """Read a weight, of the filter `f` whose kernels stand one after another, or in rows of a channel's."""
    order = getattr(of, "weights", "OIHW")
    if order != "OIHW":
        return weights(f, ry, rx, rc) if order == "OHWI" else weights(ry, rx, rc, f)
    per_channel = of.filters // of.shape[1]
    if per_channel > 1 and same_shape(weights, (of.shape[1], per_channel, *of.kernel)):
        return weights(floordiv(f, per_channel), floormod(f, per_channel), ry, rx)
    return weights(f, rc, ry, rx)


def _turned(of: Images, weights: Tensor) -> Any:
    """Return how weights are read at (filter, channel of a group, row, column), from a tensor with filters last."""
    kind, per_group = sum_dtype(of.dtype), of.shape[1] // of.groups

    def value(rc: Any, ry: Any, rx: Any, f: Any) -> Any:
        return cast(kind, _weight(of, weights, f, rc, ry, rx))

    made = compute((per_group, *of.kernel, of.filters), value, "turned")
    return lambda f, rc, ry, rx: made(rc, ry, rx, f)


def _padded(of: Images, data: Tensor, converted: bool) -> Any:
    """Return how the padded input is read at (n, c, y, x)."""
    top, left, bottom, right = of.padding
    _, _, height, width = of.shape
    kind = sum_dtype(of.dtype) if converted else of.dtype

    def value(*position: Any) -> Any:
        n, c, y, x = from_layout(of.layout, position)
        inside = []
        inside += [y >= top, y < height + top] if top or bottom else []
        inside += [x >= left, x < width + left] if left or right else []
        seen = data(*in_layout(of.layout, (n, c, y - top, x - left)))
        return cast(kind, if_then_else(all_of(*inside), seen, const(0.0, of.dtype)) if inside else seen)

    around = (*of.shape[:2], height + top + bottom, width + left + right)
    shape = in_layout(of.layout, around)
    names = in_layout(of.layout, ("n", "c", "y", "x"))
    made = compute(shape, value, "padded", "injective,pad", varargs_names=names)
    return lambda *position: made(*in_layout(of.layout, position))


def _chunked(of: Images, data: Tensor, chunk: int) -> Any:
    """Return how the padded input is read at (n, c, y, x), from a tensor (n, c, y, chunk of a row, place in it)."""
    top, left, bottom, right = of.padding
    count, channels, height, width = of.shape
    before, inner, after = -(-left // chunk), width // chunk, -(-right // chunk)

    def value(n: Any, c: Any, y: Any, xo: Any, xi: Any) -> Any:
        inside = []
        inside += [y >= top, y < height + top] if top or bottom else []
        inside += [xo >= before] if before else []
        inside += [xo < before + inner] if after else []
        seen = data(n, c, y - top, (xo - before) * chunk + xi)
        return cast(sum_dtype(of.dtype), if_then_else(all_of(*inside), seen, const(0.0, of.dtype)) if inside else seen)

    shape = (count, channels, height + top + bottom, before + inner + after, chunk)
    made = compute(shape, value, "chunks", "injective,pad")
    shift = before * chunk - left
    return lambda n, c, y, x: made(n, c, y, floordiv(x + shift, chunk), floormod(x + shift, chunk))
