"""Sampling images at given places, and the places of an affine map."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ...core.errors import UserError
from ...core.refusals import old_name as _old_name
from ...expr import operators as o
from ...expr.nodes import Expr
from ...tensor.tensor import Tensor, compute
from ..argument_checks import flag, integers, one_of, rank_of, same, tensor, wide_float

_CUBIC = -0.75
Tap = tuple[Expr, Expr]
"""An integer coordinate, and its weight."""


def affine_grid(data: Tensor, target_shape: Sequence[int]) -> Tensor:
    """Map the places of a regular grid by an affine map for each image of a batch.

    Parameters
    ----------
    data
        The maps: a tensor of floats of shape (batch, 2, 3) for images, (batch, 3, 4) for volumes.
    target_shape
        The height and width of the grid; for volumes its depth, height and width.

    Returns
    -------
    A tensor of shape (batch, 2, height, width), or (batch, 3, depth, height, width): x, y (and z) of each place, for
    `grid_sample`. The corners of the grid are -1 and 1; a dimension of one place has the centre, 0.

    Raises
    ------
    UserError
        For maps of another shape.
    """
    maps = rank_of(tensor(data, "data", "affine_grid"), 3, "data", "affine_grid", "(batch, 2, 3)")
    rank = getattr(maps.shape[1], "value", 0)
    if rank not in (2, 3) or getattr(maps.shape[2], "value", 0) != rank + 1 or not maps.dtype.is_float:
        raise UserError(
            f"data {maps.name!r} is {maps.dtype} of shape {list(maps.shape)}, which are not affine maps",
            primitive="affine_grid",
            fix="give floats of shape (batch, 2, 3), or (batch, 3, 4) for volumes",
        )
    extents = integers(target_shape, rank, "target_shape", "affine_grid", 1)

    wide = wide_float(maps.dtype)

    def element(n: Any, k: Any, *place: Any) -> Expr:
        total = o.cast(wide, maps(n, k, rank))
        for d, (at, extent) in enumerate(zip(reversed(place), reversed(extents), strict=True)):
            if extent > 1:
                step = o.const(2.0 / (extent - 1), wide)
                total = total + o.cast(wide, maps(n, k, d)) * (o.cast(wide, at) * step - 1)
        return o.cast(maps.dtype, total)

    made: Tensor = compute((maps.shape[0], o.const(rank), *map(o.const, extents)), element, "affine_grid", "injective")
    return made


def grid_sample(
    data: Tensor,
    grid: Tensor,
    method: str = "bilinear",
    layout: str = "NCHW",
    padding_mode: str = "zeros",
    align_corners: bool = True,
) -> Tensor:
    """Sample images, or volumes, at the places of a grid.

    Parameters
    ----------
    data
        Images of floats, of layout "NCHW", or volumes, of layout "NCDHW".
    grid
        The positions: a tensor of shape `(batch, 2, height, width)` with x and y, or of shape `(batch, 3, depth,
        height, width)` with x, y and z. The borders are -1 and 1.
    method
        "nearest", "bilinear", or for images "bicubic".
    layout
        "NCHW" or "NCDHW".
    padding_mode
        The values outside of an image: "zeros", its "border", or its "reflection".
    align_corners
        Whether -1 and 1 are the centres of the elements at the border, instead of their outer edges.

    Returns
    -------
    A tensor of the images, or volumes, of the grid's size. Places and sums are computed in float32, or float64 for
    float64.

    Raises
    ------
    UserError
        For shapes that do not fit each other, and for a method that there is not.

    Notes
    -----
    PyTorch's `grid_sample`, with the coordinates of the grid in dimension 1 instead of the last one.
    """
    source, places, rank = _checked(data, grid, method, layout, padding_mode)
    corners = flag(align_corners, "align_corners", "grid_sample")

    def element(n: Any, c: Any, *at: Any) -> Expr:
        taps = []
        for d, extent in enumerate(source.shape[2:]):
            given = o.cast(wide_float(source.dtype), places(n, rank - 1 - d, *at))
            taps.append(_TAPS[method](_coordinate(given, extent, corners), extent, padding_mode, corners))
        total: Any = None
        for corner in itertools.product(*taps):
            value = _read(source, (n, c), [place for place, _ in corner], padding_mode)
            for _, weight in corner:
                value = value * weight
            total = value if total is None else total + value
        return o.cast(source.dtype, total)

    shape = (source.shape[0], source.shape[1], *places.shape[2:])
    made: Tensor = compute(shape, element, "grid_sample", "injective")
    return made


def _checked(data: Any, grid: Any, method: str, layout: str, padding_mode: str) -> tuple[Tensor, Tensor, int]:
    """Return the images, the grid, and the dimensions of an image; raises UserError for arguments that do not fit."""
    volume = one_of(layout, ("NCHW", "NCDHW"), "layout", "grid_sample") == "NCDHW"
    rank = 3 if volume else 2
    source = rank_of(tensor(data, "data", "grid_sample"), rank + 2, "data", "grid_sample", layout)
    places = rank_of(tensor(grid, "grid", "grid_sample"), rank + 2, "grid", "grid_sample")
    one_of(method, ("nearest", "bilinear") if volume else ("nearest", "bilinear", "bicubic"), "method", "grid_sample")
    one_of(padding_mode, ("zeros", "border", "reflection"), "padding_mode", "grid_sample")
    same(places.shape[1], rank, "coordinates of grid and dimensions of an image", "grid_sample")
    same(places.shape[0], source.shape[0], "batches of grid and data", "grid_sample")
    if not source.dtype.is_float or not places.dtype.is_float:
        raise UserError(
            f"data {source.name!r} is {source.dtype}, and grid {places.name!r} is {places.dtype}",
            primitive="grid_sample",
            fix='give floats: topi.cast(data, "float32")',
        )
    return source, places, rank


def _coordinate(given: Expr, extent: Any, corners: bool) -> Expr:
    """The position of a place from -1 to 1 among the elements of a dimension."""
    size = o.cast(given.dtype, extent)
    return (given + 1.0) * (size - 1.0) / 2.0 if corners else ((given + 1.0) * size - 1.0) / 2.0


def _bounded(at: Expr, extent: Any, mode: str, corners: bool) -> Expr:
    """A coordinate moved inside of the image, as `mode` says."""
    size, zero = o.cast(at.dtype, extent), o.const(0.0, at.dtype)
    if mode == "reflection":
        low, span = (zero, size - 1.0) if corners else (o.const(-0.5, at.dtype), size)
        away = o.call_of("fabs", at - low)
        turns = o.call_of("floor", away / o.maximum(span, o.const(1e-6, at.dtype)))
        rest = away - turns * span
        even = o.equal(turns - o.call_of("floor", turns / 2.0) * 2.0, zero)
        at = o.select(even, rest + low, span - rest + low)
    return at if mode == "zeros" else o.minimum(o.maximum(at, zero), size - 1.0)


def _nearest(at: Expr, extent: Any, mode: str, corners: bool) -> list[Tap]:
    return [(o.cast("int32", o.call_of("nearbyint", _bounded(at, extent, mode, corners))), o.const(1.0, at.dtype))]


def _linear(at: Expr, extent: Any, mode: str, corners: bool) -> list[Tap]:
    at = _bounded(at, extent, mode, corners)
    low = o.call_of("floor", at)
    share, first = at - low, o.cast("int32", low)
    return [(first, 1.0 - share), (first + 1, share)]


def _cubic(at: Expr, extent: Any, mode: str, corners: bool) -> list[Tap]:
    """Four neighbours, each moved inside of the image separately."""
    low = o.call_of("floor", at)
    t, a = at - low, _CUBIC

    def near(x: Expr) -> Expr:
        return ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0

    def far(x: Expr) -> Expr:
        return ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a

    weights = [far(t + 1.0), near(t), near(1.0 - t), far(2.0 - t)]
    steps = (-1.0, 0.0, 1.0, 2.0)
    places = [o.cast("int32", _bounded(low + step, extent, mode, corners)) for step in steps]
    return list(zip(places, weights, strict=True))


_TAPS: dict[str, Callable[[Expr, Any, str, bool], list[Tap]]] = {
    "nearest": _nearest,
    "bilinear": _linear,
    "bicubic": _cubic,
}


def _read(source: Tensor, image: tuple[Any, Any], places: Sequence[Expr], mode: str) -> Expr:
    """An element as a wide float: 0 outside of the image, or, if its weight is 0 anyway, any present element."""
    wide = wide_float(source.dtype)
    inside = [
        condition
        for at, extent in zip(places, source.shape[2:], strict=True)
        for condition in (o.greater_equal(at, 0), o.less(at, extent))
    ]
    if mode == "zeros":
        return o.if_then_else(o.all_of(*inside), o.cast(wide, source(*image, *places)), o.const(0.0, wide))
    bounded = [o.minimum(o.maximum(at, 0), n - 1) for at, n in zip(places, source.shape[2:], strict=True)]
    return o.cast(wide, source(*image, *bounded))


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        return _old_name(__name__, name, globals())
