"""Boxes of images, each resized to one size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...core.dtype import DType
from ...core.errors import UserError
from ...expr import operators as o
from ...expr.nodes import Expr
from ...tensor.tensor import Tensor, compute
from ..argument_checks import element_type, index_tensor, integers, one_of, rank_of, same, tensor, wide_float

_NAME = "crop_and_resize"
_METHODS = ("bilinear", "nearest_neighbor")
_ENDS = ((0, 2), (1, 3))
"""The positions of the first and last row, and the first and last column, among the four coordinates of a box."""


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
        Floats of shape (boxes, 4): the first row and column, then the last row and column. 0 and 1 are the centres of
        the border elements. If the last place comes before the first, the crop is turned over.
    box_indices
        Which image each box lies in: integers of shape (boxes,). One that is out of range is moved to the nearest end.
    crop_size
        The height and width of a crop.
    layout
        "NCHW" or "NHWC".
    method
        "bilinear" or "nearest_neighbor".
    extrapolation_value
        The value outside of an image; by default 0.
    out_dtype
        The type of the result; by default that of `data`.

    Returns
    -------
    A tensor of the crops, in the layout of `data`. Places and sums are computed in float32, or float64 for float64.

    Raises
    ------
    UserError
        For shapes and types that do not fit each other, and for a method or a layout that there is not.
    """
    last = one_of(layout, ("NCHW", "NHWC"), "layout", _NAME) == "NHWC"
    images = _Images(rank_of(tensor(data, "data", _NAME), 4, "data", _NAME, layout), last)
    sample = images.bilinear if one_of(method, _METHODS, "method", _NAME) == "bilinear" else images.nearest
    places, image_of = _boxes(boxes, box_indices)
    crop = integers(crop_size, 2, "crop_size", _NAME, 1)
    kind = images.data.dtype if out_dtype is None else element_type(out_dtype, _NAME)
    outside = o.const(float(extrapolation_value or 0.0), images.wide)

    def element(*indices: Any) -> Expr:
        n, c, *at = images.by_channel(indices)
        image = _clamped(o.cast("int32", image_of(n)), images.data.shape[0])
        ends = ([o.cast(images.wide, places(n, end)) for end in pair] for pair in _ENDS)
        row, column = (_coordinate(*each) for each in zip(ends, at, crop, images.sides, strict=True))
        seen = o.all_of(*_within(row, images.sides[0]), *_within(column, images.sides[1]))
        return o.cast(kind, o.select(seen, sample(image, c, row, column), outside))

    height, width = map(o.const, crop)
    channels = images.channels
    shape = (image_of.shape[0], height, width, channels) if last else (image_of.shape[0], channels, height, width)
    made: Tensor = compute(shape, element, _NAME, "injective")
    return made


def _boxes(boxes: Tensor, box_indices: Tensor) -> tuple[Tensor, Tensor]:
    """Return both as tensors of as many boxes."""
    places = rank_of(tensor(boxes, "boxes", _NAME), 2, "boxes", _NAME, "(boxes, 4)")
    image_of = rank_of(index_tensor(box_indices, "box_indices", _NAME), 1, "box_indices", _NAME, "(boxes,)")
    same(places.shape[1], 4, "coordinates of a box", _NAME)
    same(places.shape[0], image_of.shape[0], "boxes and box_indices", _NAME)
    if not places.dtype.is_float:
        raise UserError(
            f"boxes {places.name!r} is {places.dtype}, but coordinates are floats",
            primitive=_NAME,
            fix='convert it: topi.cast(boxes, "float32")',
        )
    return places, image_of


@dataclass(frozen=True)
class _Images:
    """Images that are read at places between their elements; beyond a border, the element at the border is read."""

    data: Tensor
    channels_last: bool

    @property
    def wide(self) -> DType:
        """The type for places, and for interpolated values."""
        return wide_float(self.data.dtype)

    @property
    def sides(self) -> tuple[Any, Any]:
        """The height and the width."""
        height, width = self.data.shape[1:3] if self.channels_last else self.data.shape[2:4]
        return height, width

    @property
    def channels(self) -> Any:
        return self.data.shape[3 if self.channels_last else 1]

    def by_channel(self, indices: tuple[Any, ...]) -> tuple[Any, Any, Any, Any]:
        """Return indices in the order of the layout as image, channel, row, column."""
        n, *rest = indices
        return (n, rest[2], rest[0], rest[1]) if self.channels_last else (n, rest[0], rest[1], rest[2])

    def pixel(self, image: Expr, c: Any, row: Expr, column: Expr) -> Expr:
        y, x = (_clamped(at, side) for at, side in zip((row, column), self.sides, strict=True))
        return o.cast(self.wide, self.data(image, y, x, c) if self.channels_last else self.data(image, c, y, x))

    def nearest(self, image: Expr, c: Any, row: Expr, column: Expr) -> Expr:
        return self.pixel(image, c, *(o.cast("int32", o.call_of("round", at)) for at in (row, column)))

    def bilinear(self, image: Expr, c: Any, row: Expr, column: Expr) -> Expr:
        (top, share_y), (left, share_x) = _split(row), _split(column)
        above, below = (
            _between(self.pixel(image, c, y, left), self.pixel(image, c, y, left + 1), share_x) for y in (top, top + 1)
        )
        return _between(above, below, share_y)


def _coordinate(ends: list[Expr], at: Any, size: int, extent: Any) -> Expr:
    """The place of row or column `at` of a crop of `size` of them among the `extent` of its image."""
    first, last = (end * (o.cast(end.dtype, extent) - 1.0) for end in ends)
    if size == 1:
        return (first + last) * 0.5
    return first + o.cast(first.dtype, at) * ((last - first) / float(size - 1))


def _within(at: Expr, extent: Any) -> tuple[Expr, Expr]:
    return at >= 0.0, at <= o.cast(at.dtype, extent) - 1.0


def _clamped(at: Expr, extent: Any) -> Expr:
    return o.minimum(o.maximum(at, 0), o.cast("int32", extent) - 1)


def _split(at: Expr) -> tuple[Expr, Expr]:
    """Return the integer coordinate below `at`, and the distance from there to `at`."""
    low = o.call_of("floor", at)
    return o.cast("int32", low), at - low


def _between(a: Expr, b: Expr, share: Expr) -> Expr:
    return a + (b - a) * share
