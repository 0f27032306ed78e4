"""Boxes of images, each resized to one size."""

from __future__ import annotations

from typing import Any

from ...core.errors import UserError
from ...expr import operators as o
from ...expr.nodes import Expr
from ...tensor.tensor import Tensor, compute
from ..argument_checks import element_type, index_tensor, integers, one_of, rank_of, same, tensor

_ROW, _COLUMN = (0, 2), (1, 3)
"""Where the first and the last place of a box stand among its four coordinates."""


def crop_and_resize(
    data: Tensor,
    boxes: Tensor,
    box_indices: Tensor,
    crop_size: Any,
    layout: str = "NCHW",
    method: str = "bilinear",
    extrapolation_value: float | None = None,
    out_dtype: Any = None,
) -> Tensor:
    """Cut boxes out of images, and resize each to the same size.

    Parameters
    ----------
    data
        Images of layout `layout`.
    boxes
        Floats of shape (boxes, 4): the first row and column, then the last ones, where 0 and 1 are the centres of the
        elements at the border. Where the last place comes before the first, the crop is turned over.
    box_indices
        Which image each box lies in: integers of shape (boxes,). One that is out of range is moved to the nearest end.
    crop_size
        The height and width of a crop.
    layout
        "NCHW" or "NHWC".
    method
        "bilinear" or "nearest_neighbor".
    extrapolation_value
        What lies outside of an image; by default 0.
    out_dtype
        The type of the result; by default that of `data`.

    Returns
    -------
    A tensor of the crops, in the layout of `data`.

    Raises
    ------
    UserError
        For shapes and types that do not fit each other, and for a method or a layout that there is not.
    """
    who = "crop_and_resize"
    last = one_of(layout, ("NCHW", "NHWC"), "layout", who) == "NHWC"
    source = rank_of(tensor(data, "data", who), 4, "data", who, layout)
    places = rank_of(tensor(boxes, "boxes", who), 2, "boxes", who, "(boxes, 4)")
    of = rank_of(index_tensor(box_indices, "box_indices", who), 1, "box_indices", who, "(boxes,)")
    linear = one_of(method, ("bilinear", "nearest_neighbor"), "method", who) == "bilinear"
    same(places.shape[1], 4, "coordinates of a box", who)
    same(places.shape[0], of.shape[0], "boxes and box_indices", who)
    if not places.dtype.is_float:
        raise UserError(
            f"boxes {places.name!r} is {places.dtype}", primitive=who, fix='give floats: topi.cast(boxes, "float32")'
        )
    height, width = integers(crop_size, 2, "crop_size", who, 1)
    kind = source.dtype if out_dtype is None else element_type(out_dtype, who)
    rows, columns = (source.shape[1], source.shape[2]) if last else (source.shape[2], source.shape[3])
    outside = o.const(float(extrapolation_value or 0.0), "float32")

    def element(*indices: Any) -> Expr:
        n, y, x, c = indices if last else (indices[0], indices[2], indices[3], indices[1])
        image = o.minimum(o.maximum(o.cast("int32", of(n)), 0), o.cast("int32", source.shape[0]) - 1)
        at_y = _coordinate(places, n, _ROW, y, height, rows)
        at_x = _coordinate(places, n, _COLUMN, x, width, columns)

        def pixel(row: Expr, column: Expr) -> Expr:
            inside = (_within(row, rows), _within(column, columns))
            value = source(image, *inside, c) if last else source(image, c, *inside)
            return o.cast("float32", value)

        if linear:
            (top, share_y), (left, share_x) = _split(at_y), _split(at_x)
            above = _between(pixel(top, left), pixel(top, left + 1), share_x)
            value = _between(above, _between(pixel(top + 1, left), pixel(top + 1, left + 1), share_x), share_y)
        else:
            value = pixel(*(o.cast("int32", o.call_of("round", at)) for at in (at_y, at_x)))
        seen = o.all_of(at_y >= 0.0, at_y <= _float(rows) - 1.0, at_x >= 0.0, at_x <= _float(columns) - 1.0)
        return o.cast(kind, o.select(seen, value, outside))

    crops = (of.shape[0], o.const(height), o.const(width))
    shape = (*crops, source.shape[3]) if last else (crops[0], source.shape[1], *crops[1:])
    made: Tensor = compute(shape, element, "crop_and_resize", "injective")
    return made


def _float(value: Any) -> Expr:
    return o.cast("float32", o.as_expr(value))


def _coordinate(boxes: Tensor, n: Any, ends: tuple[int, int], at: Any, size: int, extent: Any) -> Expr:
    """Where a row or a column of a crop lies in its image."""
    first, last = (o.cast("float32", boxes(n, end)) * (_float(extent) - 1.0) for end in ends)
    if size == 1:
        return (first + last) * 0.5
    return first + _float(at) * ((last - first) / float(size - 1))


def _within(at: Expr, extent: Any) -> Expr:
    return o.minimum(o.maximum(at, 0), o.cast("int32", extent) - 1)


def _split(at: Expr) -> tuple[Expr, Expr]:
    low = o.call_of("floor", at)
    return o.cast("int32", low), at - low


def _between(a: Expr, b: Expr, share: Expr) -> Expr:
    return a + (b - a) * share
