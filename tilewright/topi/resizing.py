"""Images of another size: each element of the result is interpolated from its neighbours in the data."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from ..core.errors import UserError
from ..expr import operators as o
from ..expr.intrinsics import TABLE
from ..expr.nodes import Expr
from ..tensor.tensor import Tensor, compute
from .argument_checks import element_type, integers, known, one_of, tensor, wide_float
from .layout import spatial_of

METHODS = ("nearest_neighbor", "linear", "cubic")
MODES = ("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel", "tf_half_pixel_for_nn")
ROUNDINGS = ("", "round", "round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
_floor, _ceil, _round = TABLE["floor"], TABLE["ceil"], TABLE["round"]
_NEARLY = 1e-5
"""The rounding error of a coordinate that should be a whole number."""


def resize1d(
    data: Tensor,
    roi: Any,
    size: Any,
    layout: str = "NCW",
    method: str = "linear",
    coordinate_transformation_mode: str = "half_pixel",
    rounding_method: str = "",
    bicubic_alpha: float = -0.5,
    bicubic_exclude: int = 0,
    extrapolation_value: float = 0.0,
    out_dtype: Any = None,
    output_shape: Any = None,
) -> Tensor:
    """Resize lines, as `resize2d` does images; `size` is the length."""
    how = method, coordinate_transformation_mode, rounding_method, (bicubic_alpha, bicubic_exclude)
    return _resized(data, roi, _either(output_shape, size), (layout, "W"), how, out_dtype, "resize1d")


def _either(output_shape: Any, size: Any) -> Any:
    """Return the given size; an empty output shape, as in old scripts, means no size."""
    return (
        size if output_shape is None or (isinstance(output_shape, (list, tuple)) and not output_shape) else output_shape
    )


def resize2d(
    data: Tensor,
    roi: Any,
    size: Any,
    layout: str = "NCHW",
    method: str = "linear",
    coordinate_transformation_mode: str = "half_pixel",
    rounding_method: str = "",
    bicubic_alpha: float = -0.5,
    bicubic_exclude: int = 0,
    extrapolation_value: float = 0.0,
    out_dtype: Any = None,
    output_shape: Any = None,
) -> Tensor:
    """Resize images.

    Parameters
    ----------
    data
        A tensor of layout `layout`, with constant height and width.
    roi
        None: the whole image is resized.
    size
        The height and width of the result.
    layout
        A letter per dimension, H and W among them.
    method
        "nearest_neighbor", "linear" or "cubic".
    coordinate_transformation_mode
        The position of an element's centre in the data. "half_pixel" aligns the borders of both images, "align_corners"
        the centres of corners; "asymmetric" uses the ratio of sizes alone. "pytorch_half_pixel" differs from
        "half_pixel" at size 1, and "tf_half_pixel_for_nn" by half an element.
    rounding_method
        To which neighbour "nearest_neighbor" goes: "round", "round_prefer_floor", "round_prefer_ceil", "floor" or
        "ceil". By default "round" with "align_corners", else "floor".
    bicubic_alpha, bicubic_exclude
        The shape of the cubic, and whether it leaves out elements outside of the image, instead of repeating edges.
    extrapolation_value
        Accepted for old scripts, without effect, since no crop is declared.
    out_dtype
        The type of the result, by default that of `data`.
    output_shape
        The height and width of the result, in place of `size`.

    Returns
    -------
    A tensor of the same layout. Places and sums are computed in float32, or float64 for float64.

    Raises
    ------
    UserError
        For a region, an unknown method, and images of unknown size.
    """
    how = method, coordinate_transformation_mode, rounding_method, (bicubic_alpha, bicubic_exclude)
    return _resized(data, roi, _either(output_shape, size), (layout, "HW"), how, out_dtype, "resize2d")


def resize3d(
    data: Tensor,
    roi: Any,
    size: Any,
    layout: str = "NCDHW",
    method: str = "linear",
    coordinate_transformation_mode: str = "half_pixel",
    rounding_method: str = "",
    bicubic_alpha: float = -0.5,
    bicubic_exclude: int = 0,
    extrapolation_value: float = 0.0,
    out_dtype: Any = None,
    output_shape: Any = None,
) -> Tensor:
    """Resize volumes, as `resize2d` does images; `size` is depth, height and width."""
    how = method, coordinate_transformation_mode, rounding_method, (bicubic_alpha, bicubic_exclude)
    return _resized(data, roi, _either(output_shape, size), (layout, "DHW"), how, out_dtype, "resize3d")


Tap = tuple[Any, Any]
"""A place in the data, and its weight."""


def _resized(
    data: Any, roi: Any, size: Any, layouts: tuple[Any, str], how: tuple[Any, Any, Any, Any], kind: Any, primitive: str
) -> Tensor:
    source, (layout, spatial) = tensor(data, "data", primitive), layouts
    empty = roi is None or (isinstance(roi, (list, tuple)) and all(isinstance(e, (int, float)) and e == 0 for e in roi))
    if not empty:  # old scripts give a region of zeros for none
        raise UserError(
            f"argument 'roi' is {roi!r}, but regions are not supported",
            primitive=primitive,
            fix="give None, and cut with topi.strided_slice first",
        )
    dims = spatial_of(source, layout, spatial, primitive)
    wanted = integers(size, len(dims), "size", primitive, 1)
    method, mode, rounding, cubic = how
    one_of(method, METHODS, "method", primitive)
    one_of(mode, MODES, "coordinate_transformation_mode", primitive)
    one_of(rounding, ROUNDINGS, "rounding_method", primitive)
    pairs = [(known(source.shape[d]) or 0, m) for d, m in zip(dims, wanted, strict=True)]
    if not all(n for n, _ in pairs):
        raise UserError(
            f"data {source.name!r} has the shape {list(source.shape)}, but its spatial extents must be constant",
            primitive=primitive,
            fix="give a tensor of constant height and width",
        )
    shape = [o.const(wanted[dims.index(d)]) if d in dims else n for d, n in enumerate(source.shape)]
    wide = wide_float(source.dtype)
    rounding = rounding or ("round" if mode == "align_corners" else "floor")
    taps: Callable[[Expr, int], list[Tap]] = {
        "nearest_neighbor": lambda at, n: _nearest(at, n, rounding),
        "linear": _linear,
        "cubic": lambda at, n: _cubic(at, n, cubic),
    }[method]
    out = element_type(kind or source.dtype, primitive)

    def element(*i: Any) -> Expr:
        each = [taps(_coordinate(o.cast(wide, i[d]), n, m, mode), n) for d, (n, m) in zip(dims, pairs, strict=True)]
        return o.cast(out, _interpolated(source, i, dims, each))

    made: Tensor = compute(shape, element, "resize", "injective")
    return made


def _interpolated(source: Tensor, i: Sequence[Any], dims: Sequence[int], each: Sequence[list[Tap]]) -> Expr:
    """The sum of the neighbours of a place, weighted by the product of their weights along each dimension."""
    total: Any = None
    for corner in itertools.product(*each):
        at, weight = list(i), None
        for d, (place, share) in zip(dims, corner, strict=True):
            at[d] = place
            if share is not None:
                weight = share if weight is None else weight * share
        value = source(*at)
        value = value if weight is None else o.cast(weight.dtype, value) * weight
        total = value if total is None else total + value
    return o.as_expr(total)


def _coordinate(at: Expr, n: int, m: int, mode: str) -> Expr:
    """The position of element `at` of `m` among `n`, a float."""
    kind = at.dtype
    if mode == "align_corners":
        return at * o.const((n - 1) / (m - 1) if m > 1 else 0.0, kind)
    scale = o.const(n / m, kind)
    if mode == "asymmetric":
        return at * scale
    half = o.const(0.5, kind)
    if mode == "tf_half_pixel_for_nn":
        return (at + half) * scale
    if mode == "pytorch_half_pixel" and m == 1:
        return o.const(0.0, kind)
    return (at + half) * scale - half


def _inside(place: Any, n: int) -> Expr:
    return o.minimum(o.maximum(place, 0), n - 1)


def _nearest(at: Expr, n: int, rounding: str) -> list[Tap]:
    nearly, half = o.const(_NEARLY, at.dtype), o.const(0.5, at.dtype)
    rounded = {
        "round": lambda: _round(at),
        "round_prefer_floor": lambda: _ceil(at - half - nearly),
        "round_prefer_ceil": lambda: _floor(at + half + nearly),
        "floor": lambda: _floor(at + nearly),
        "ceil": lambda: _ceil(at - nearly),
    }[rounding]()
    return [(_inside(o.cast("int32", rounded), n), None)]


def _linear(at: Expr, n: int) -> list[Tap]:
    low = _floor(at)
    share, first = at - low, o.cast("int32", low)
    return [(_inside(first, n), o.const(1.0, at.dtype) - share), (_inside(first + 1, n), share)]


def _cubic(at: Expr, n: int, options: tuple[Any, Any]) -> list[Tap]:
    alpha, exclude = float(options[0]), bool(options[1])
    low = _floor(at)
    t, first = at - low, o.cast("int32", low)

    def number(value: float) -> Expr:
        return o.const(value, at.dtype)

    t2 = t * t
    t3 = t2 * t
    weights = [
        number(alpha) * (t3 - number(2.0) * t2 + t),
        number(alpha + 2) * t3 - number(3 + alpha) * t2 + number(1.0),
        number(-(alpha + 2)) * t3 + number(3 + 2 * alpha) * t2 - number(alpha) * t,
        number(-alpha) * t3 + number(alpha) * t2,
    ]
    places = [first + step for step in (-1, 0, 1, 2)]
    if exclude:
        inside = [o.all_of(o.greater_equal(p, 0), o.less(p, n)) for p in places]
        weights = [o.select(there, w, number(0.0)) for there, w in zip(inside, weights, strict=True)]
        total = weights[0] + weights[1] + weights[2] + weights[3]
        weights = [w / total for w in weights]
    return [(_inside(p, n), w) for p, w in zip(places, weights, strict=True)]
