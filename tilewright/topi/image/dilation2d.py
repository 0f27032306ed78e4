"""Morphological dilation of images: the largest sum of an element and the filter's, over a window."""

from __future__ import annotations

from typing import Any

from ...expr import operators as o
from ...tensor.axis import reduce_axis
from ...tensor.reduction import max as reduce_max
from ...tensor.reduction import min_value
from ...tensor.tensor import Tensor, compute
from ..argument_checks import integers, rank_of, result_type, same, tensor
from ..nn.window import padding_sides


def dilation2d_nchw(
    input: Tensor, filter: Tensor, stride: Any, padding: Any, dilations: Any, out_dtype: Any = None
) -> Tensor:
    """Dilate images (N, C, H, W) by a filter (C, KH, KW).

    Parameters
    ----------
    input, filter
        The images, and for each channel the filter, which is added to the window.
    stride, dilations
        The distance of windows, and that of elements in a window: ints or pairs.
    padding
        How many elements surround the images, which never are the largest: see `padding_sides`.
    out_dtype
        The type of the result, by default that of `input`.

    Returns
    -------
    A tensor (N, C, OH, OW).

    Raises
    ------
    UserError
        For shapes that do not fit each other.
    """
    return _dilated(input, filter, (stride, padding, dilations), out_dtype, "NCHW", "dilation2d_nchw")


def dilation2d_nhwc(
    input: Tensor, filter: Tensor, stride: Any, padding: Any, dilations: Any, out_dtype: Any = None
) -> Tensor:
    """Dilate images (N, H, W, C) by a filter (KH, KW, C), as `dilation2d_nchw` does; returns (N, OH, OW, C)."""
    return _dilated(input, filter, (stride, padding, dilations), out_dtype, "NHWC", "dilation2d_nhwc")


def _dilated(data: Any, filter: Any, window: tuple[Any, Any, Any], out_dtype: Any, layout: str, name: str) -> Tensor:
    x = rank_of(tensor(data, "input", name), 4, "input", name, f"layout {layout}")
    w = rank_of(tensor(filter, "filter", name), 3, "filter", name, f"layout {layout[1:]}")
    sizes, taps = dict(zip(layout, x.shape, strict=True)), dict(zip(layout[1:], w.shape, strict=True))
    same(sizes["C"], taps["C"], "the channels of input and filter", name)
    (sy, sx), (dy, dx) = integers(window[0], 2, "stride", name, 1), integers(window[2], 2, "dilations", name, 1)
    covered = [(taps["H"] - 1) * dy + 1, (taps["W"] - 1) * dx + 1]
    before, after = padding_sides(window[1], covered, name)
    kind = result_type(out_dtype, x, name)
    ry, rx = reduce_axis((0, taps["H"]), name="ry"), reduce_axis((0, taps["W"]), name="rx")
    lowest = o.const(float("-inf"), kind) if kind.is_float else min_value(str(kind))
    places = {
        d: o.floordiv(sizes[d] + before[i] + after[i] - covered[i], step) + 1
        for i, (d, step) in enumerate((("H", sy), ("W", sx)))
    }

    def element(*i: Any) -> Any:
        at = dict(zip(layout, i, strict=True))
        at["H"], at["W"] = at["H"] * sy + ry * dy - before[0], at["W"] * sx + rx * dx - before[1]
        tap = {"C": at["C"], "H": ry, "W": rx}
        value = o.cast(kind, x(*(at[d] for d in layout))) + o.cast(kind, w(*(tap[d] for d in layout[1:])))
        inside = o.all_of(*(c for d in "HW" for c in (at[d] >= 0, at[d] < sizes[d])))
        return reduce_max(o.if_then_else(inside, value, lowest), axis=[ry, rx])

    made: Tensor = compute([{**sizes, **places}[d] for d in layout], element, name, name)
    return made
