"""Two-dimensional convolutions of channels in blocks (NCHWc), for vectors of channels and for dot products of int8.

All of them have these options. `stride`, `dilation`: an int or a pair. `padding`: see `padding_sides`. `layout`,
`out_layout`: such as "NCHW16c", with the blocks of the tensors. `out_dtype`: the type of the sums. They raise UserError
for shapes that do not fit each other.
"""

from __future__ import annotations

from typing import Any

from ...core.errors import UserError
from ...expr.operators import cast, floordiv, floormod
from ...tensor.axis import reduce_axis
from ...tensor.data_layout import Layout
from ...tensor.reduction import sum as reduce_sum
from ...tensor.tensor import Tensor, compute
from ..argument_checks import divisor, integer, rank_of, result_type, same, tensor
from .window import SlidingWindow

_AXES = {"H": "kh", "W": "kw"}


def conv2d_NCHWc(
    data: Tensor,
    kernel: Tensor,
    stride: Any,
    padding: Any,
    dilation: Any,
    layout: str,
    out_layout: str,
    out_dtype: Any = "float32",
) -> Tensor:
    """Convolve `data` of shape `(N, CI / b, H, W, b)` with `kernel` of shape `(CO / c, CI / b, KH, KW, b, c)`; the
    result has the shape `(N, CO / c, OH, OW, c)`."""
    x, w = _checked(data, kernel, 6, (layout, out_layout), "conv2d_NCHWc")
    same(x.shape[1], w.shape[1], "the blocks of channels of data and kernel", "conv2d_NCHWc")
    same(x.shape[4], w.shape[4], "the channels of a block of data and kernel", "conv2d_NCHWc")
    chunk, lane = reduce_axis((0, x.shape[1]), name="ic_outer"), reduce_axis((0, x.shape[4]), name="ic_inner")
    return blocked(
        x, (w.shape[0], w.shape[5]), w.shape[2:4], (stride, padding, dilation), out_dtype, "conv2d_NCHWc",
        lambda _o, kh, kw, _l: (chunk, lane), lambda o, kh, kw, i: w(o, chunk, kh, kw, lane, i), [chunk, lane],
    )  # fmt: skip


def conv2d_NCHWc_int8(
    data: Tensor,
    kernel: Tensor,
    stride: Any,
    padding: Any,
    dilation: Any,
    layout: str,
    out_layout: str,
    out_dtype: Any = "int32",
    n_elems: int = 4,
) -> Tensor:
    """`conv2d_NCHWc` with `kernel` (CO / c, CI / b, KH, KW, b / n, c, n): n = `n_elems` values are dot products."""
    name = "conv2d_NCHWc_int8"
    x, w = _checked(data, kernel, 7, (layout, out_layout), name)
    group = integer(n_elems, "n_elems", name, 1)
    same(x.shape[1], w.shape[1], "the blocks of channels of data and kernel", name)
    same(x.shape[4], w.shape[4] * group, "the channels of a block of data and kernel", name)
    same(w.shape[6], group, "the last extent of kernel and n_elems", name)
    chunk, four = reduce_axis((0, x.shape[1]), name="ic_outer"), reduce_axis((0, w.shape[4]), name="ic_f_inner")
    one = reduce_axis((0, group), name="ic_s_inner")
    return blocked(
        x, (w.shape[0], w.shape[5]), w.shape[2:4], (stride, padding, dilation), out_dtype, name,
        lambda _o, kh, kw, _l: (chunk, four * group + one),
        lambda o, kh, kw, i: w(o, chunk, kh, kw, four, i, one), [chunk, four, one],
    )  # fmt: skip


def depthwise_conv2d_NCHWc(
    Input: Tensor,
    Filter: Tensor,
    stride: Any,
    padding: Any,
    dilation: Any,
    layout: str,
    out_layout: str,
    out_dtype: Any = None,
) -> Tensor:
    """`Input` (N, C / b, H, W, b) convolved by channel with `Filter` (C·M / c, 1, KH, KW, 1, c)."""
    name = "depthwise_conv2d_NCHWc"
    x, w = _checked(Input, Filter, 6, (layout, out_layout), name, ("Input", "Filter"))
    for d in (1, 4):
        same(w.shape[d], 1, f"dimension {d} of Filter and 1", name)
    filters, channels = w.shape[0] * w.shape[5], x.shape[1] * x.shape[4]
    times = floordiv(filters, divisor(channels))
    same(times * channels, filters, "a multiple of Input's channels and Filter's filters", name)

    def channel(o: Any, kh: Any, kw: Any, lane: Any) -> tuple[Any, Any]:
        number = floordiv(o * w.shape[5] + lane, divisor(times))
        return floordiv(number, divisor(x.shape[4])), floormod(number, divisor(x.shape[4]))

    return blocked(
        x, (w.shape[0], w.shape[5]), w.shape[2:4], (stride, padding, dilation), out_dtype, name,
        channel, lambda o, kh, kw, i: w(o, 0, kh, kw, 0, i), [],
    )  # fmt: skip


def _checked(
    data: Any, kernel: Any, rank: int, layouts: tuple[Any, Any], primitive: str, names: Any = ("data", "kernel")
) -> tuple[Tensor, Tensor]:
    x = rank_of(tensor(data, names[0], primitive), 5, names[0], primitive, "(N, C / b, H, W, b)")
    w = rank_of(tensor(kernel, names[1], primitive), rank, names[1], primitive)
    for argument, text in zip(("layout", "out_layout"), layouts, strict=True):
        parsed = Layout(text, argument, primitive)
        if parsed.dims != ["N", "C", "H", "W", "c"]:
            raise UserError(
                f"argument {argument!r} is {text!r}, which is not NCHW with channels in blocks",
                primitive=primitive,
                fix='give the size of a block: "NCHW16c"',
            )
    same(
        Layout(layouts[0], "layout", primitive).blocks["C"],
        x.shape[4],
        "layout's block and that of the data",
        primitive,
    )
    return x, w


def blocked(
    x: Tensor, filters: Any, kernel: Any, window: Any, out_dtype: Any, name: str, channel: Any, weight: Any, over: Any
) -> Tensor:
    """The sums over a window and the axes `over`; `channel` and `weight` give the operands of each term."""
    view = SlidingWindow(x, "NCHWc", dict(zip("HW", kernel, strict=True)), window, name, _AXES, "data_pad")
    kind = result_type(out_dtype, x, name)

    def element(n: Any, o: Any, y: Any, z: Any, lane: Any) -> Any:
        kh, kw = view.axes["H"], view.axes["W"]
        chunk, inner = channel(o, kh, kw, lane)
        value = view.element({"N": n, "C": chunk, "H": y, "W": z, "c": inner})
        return reduce_sum(cast(kind, value) * cast(kind, weight(o, kh, kw, lane)), axis=[*over, kh, kw])

    shape = x.shape[0], filters[0], view.extents["H"], view.extents["W"], filters[1]
    made: Tensor = compute(shape, element, name, name)
    return made
