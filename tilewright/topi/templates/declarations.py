"""Convolutions of images as tensor expressions, in every layout, for kernels of PyTorch's shape.

The sums are declared over a view of the padded input. Schedules need a plain view, or a view with rows in aligned
chunks. A chunk lies wholly inside or wholly outside the input, and one load fetches it.
"""

from __future__ import annotations

from typing import Any

from ...expr.convert import cast, const
from ...expr.nodes import IntImm
from ...expr.operators import all_of, floordiv, floormod, if_then_else
from ...tensor.axis import reduce_axis
from ...tensor.reduction import sum as reduce_sum
from ...tensor.tensor import Tensor, compute
from .images import Images
from .layouts import from_layout, in_layout
from .workload import sum_dtype


def same_shape(tensor: Tensor, shape: tuple[int, ...]) -> bool:
    """Whether a tensor has exactly these extents."""
    return tuple(e.value if isinstance(e, IntImm) else 0 for e in tensor.shape) == shape


def sums_of(
    of: Images,
    data: Tensor,
    weights: Tensor,
    chunk: int = 0,
    transposed: bool = False,
    sliding: int = 0,
    tile: tuple[int, int] = (1, 1),
    bias: Tensor | None = None,
    widened: bool = False,
) -> Tensor:
    """Return the convolution without its epilogue, in the type in which it is summed.

    Parameters
    ----------
    data, weights : Tensor
        Tensors of the workload's shapes. Weights may have PyTorch's shape instead.
    chunk : int
        With 0, the padded input keeps its type. Otherwise it is converted to the type of the sums, and in the layout
        NCHW its rows are divided into chunks of `chunk` elements. The chunks are aligned with the input's rows, so the
        input's width must be a multiple of `chunk`.
    transposed : bool
        Whether the weights are read from a transposed copy, in the type of the sums, with filters last.
    sliding : int
        With 0, a sum runs over the rows of the window. Otherwise it runs over all input rows of `sliding` rows of
        results, so that a schedule may load each input row once. Terms that belong to other rows of results are left
        out.
    tile : pair of int
        Rows and columns of a tile. Sums are declared for whole tiles, even beyond the results: a surplus sum costs less
        than a guard around each of its terms.
    bias : Tensor, optional
        The start value of each filter's sums. Adding it afterwards takes one more instruction per result.
    widened : bool
        Whether the padded input has the type of the sums. If it is stored, each element is then converted once instead
        of once per product.
    """
    rows, columns = (-(-count // whole) * whole for count, whole in zip(of.places, tile, strict=True))
    kernels = (
        _transposed_weights(of, weights) if transposed else lambda f, rc, ry, rx: _weight(of, weights, f, rc, ry, rx)
    )
    per_group, kind = of.per_group, sum_dtype(of.dtype)
    stored, around = kind if chunk or widened else of.dtype, border_for(of, of.seen(rows, columns))
    element = padded_view(of, data, around, stored, chunk if of.layout == "NCHW" else 0)
    sy, dy = of.stride[0], of.dilation[0]
    channels = [reduce_axis((0, per_group), name="rc")] if per_group > 1 else []
    reached = of.seen_along(0, sliding) if sliding else of.kernel[0]
    ry, rx = reduce_axis((0, reached), name="ry"), reduce_axis((0, of.kernel[1]), name="rx")

    def term(n: Any, f: Any, y: Any, x: Any) -> Any:
        rc = channels[0] if channels else 0
        row, column = of.source(y, x, ry, rx)
        tap: Any = ry
        seen_by: Any = None
        if sliding:
            ahead = ry - floormod(y, sliding) * sy
            row, tap = floordiv(y, sliding) * (sliding * sy) + ry, floordiv(ahead, dy)
            seen_by = all_of(ahead >= 0, tap < of.kernel[0], *([floormod(ahead, dy).equal(0)] if dy > 1 else []))
        value = element(n, of.group_of(f)[0] * per_group + rc, row, column)
        start = None if bias is None else bias(f)
        return sum_of_products(kind, value, kernels(f, rc, tap, rx), [*channels, ry, rx], start, seen_by)

    return image_tensor(of.layout, (of.shape[0], of.filters, rows, columns), term, "sums", f"convolution,{of.layout}")


def sum_of_products(kind: str, a: Any, b: Any, axes: list[Any], start: Any = None, where: Any = None) -> Any:
    """Return the sum of products a * b over `axes` in the type `kind`, from a start value if there is one."""
    init = None if start is None else cast(kind, start)
    return reduce_sum(cast(kind, a) * cast(kind, b), axes, where=where, init=init)


def image_tensor(
    layout: str, sizes: tuple[int, ...], element: Any, name: str, tag: str = "", letters: str = "nfyx"
) -> Tensor:
    """Declare images in the order of a layout. `element` is called with the indices of batch, channel, row and
    column."""

    def value(*position: Any) -> Any:
        return element(*from_layout(layout, position))

    names = in_layout(layout, tuple(letters))
    made: Tensor = compute(in_layout(layout, sizes), value, name, tag, varargs_names=names)
    return made


def within(*bounds: tuple[Any, int, int, int]) -> list[Any]:
    """Return the conditions that indices lie within bounds. Conditions that always hold are left out.

    Each bound is an index, the first valid value, the end of valid values, and the end of all values.
    """
    found = []
    for at, first, end, size in bounds:
        found += [at >= first] if first > 0 else []
        found += [at < end] if end < size else []
    return found


def or_zero(conditions: list[Any], value: Any, dtype: str) -> Any:
    """Return a value if all conditions hold, else zero."""
    return if_then_else(all_of(*conditions), value, const(0, dtype)) if conditions else value


def bordered(of: Images, data: Tensor, top: int, left: int) -> Any:
    """Return a function that reads the input at (n, c, y, x), with zeros around it: `top` rows above and `left` columns
    to its left."""
    height, width = of.shape[2:]

    def element(n: Any, c: Any, y: Any, x: Any) -> Any:
        inside = [y >= top, y < height + top, x >= left, x < width + left]
        return or_zero(inside, data(*in_layout(of.layout, (n, c, y - top, x - left))), of.dtype)

    return element


def _weight(of: Images, weights: Tensor, f: Any, rc: Any, ry: Any, rx: Any) -> Any:
    """Read a weight of the filter `f`. Weights have one dimension of filters, or two: channels, and filters of a
    channel."""
    order = getattr(of, "weights", "OIHW")
    if order != "OIHW":
        return weights(f, ry, rx, rc) if order == "OHWI" else weights(ry, rx, rc, f)
    per_channel = of.filters // of.shape[1]
    if per_channel > 1 and same_shape(weights, (of.shape[1], per_channel, *of.kernel)):
        return weights(floordiv(f, per_channel), floormod(f, per_channel), ry, rx)
    return weights(f, rc, ry, rx)


def _transposed_weights(of: Images, weights: Tensor) -> Any:
    """Return a function that reads weights at (filter, channel of a group, row, column), from a tensor with filters
    last."""
    kind, per_group = sum_dtype(of.dtype), of.per_group

    def value(rc: Any, ry: Any, rx: Any, f: Any) -> Any:
        return cast(kind, _weight(of, weights, f, rc, ry, rx))

    made = compute((per_group, *of.kernel, of.filters), value, "turned")
    return lambda f, rc, ry, rx: made(rc, ry, rx, f)


Border = tuple[int, int, int, int]
"""Zeros above, to the left, below, to the right."""


def border_for(of: Images, seen: tuple[int, int]) -> Border:
    """Return the zeros around an input, if `seen` rows and columns are read: the zeros behind it may exceed the
    padding."""
    top, left, bottom, right = of.padding
    more = (count - size for count, size in zip(seen, of.shape[2:], strict=True))
    below, beside = (count - before for count, before in zip(more, (top, left), strict=True))
    return top, left, max(bottom, below), max(right, beside)


def padded_view(of: Images, data: Tensor, border: Border, dtype: str, chunk: int = 0, name: str = "") -> Any:
    """Return a function that reads the input with a border at (n, c, y, x), from a tensor of a type.

    With a `chunk`, the tensor is (n, c, y, chunk of a row, place in it), and the border has whole chunks at both sides.
    """
    (batch, channels, height, width), (top, left, bottom, right), size = of.shape, border, chunk or 1
    before, inner, after = -(-left // size), width // size, -(-right // size)

    def value(n: Any, c: Any, y: Any, xo: Any, xi: Any) -> Any:
        _, _, rows, columns = shape
        inside = within((y, top, top + height, rows), (xo, before, before + inner, columns))
        found = data(*in_layout(of.layout, (n, c, y - top, (xo - before) * size + xi)))
        return cast(dtype, or_zero(inside, found, of.dtype))

    shape, tag = (batch, channels, height + top + bottom, before + inner + after), "injective,pad"
    if chunk:
        chunks, shift = compute((*shape, chunk), value, name or "chunks", tag), before * chunk - left
        return lambda n, c, y, x: chunks(n, c, y, floordiv(x + shift, chunk), floormod(x + shift, chunk))

    made = image_tensor(of.layout, shape, lambda n, c, y, x: value(n, c, y, x, 0), name or "padded", tag, "ncyx")
    return lambda *position: made(*in_layout(of.layout, position))
