"""Deformable convolutions: each tap of the window reads at an offset, linearly between neighbours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...core.errors import UserError
from ...expr import operators as o
from ...tensor.axis import reduce_axis
from ...tensor.reduction import sum as reduce_sum
from ...tensor.tensor import Tensor, compute
from ..argument_checks import divisor, integer, known, rank_of, result_type, same, tensor, wide_float
from .window import numbers, padding_sides, positions

_DOCUMENTED = """

    Parameters
    ----------
    data : Tensor
        The images.
    offset : Tensor
        How far each tap reads from its place: for each deformable group and tap, rows and then columns, as channels.
    kernel : Tensor
        The filters.
    strides, padding, dilation
        As for a convolution.
    deformable_groups, groups : int
        Into how many equal parts the channels fall that have offsets, and filters, of their own.
    out_dtype : str, optional
        The type to accumulate in, by default that of `data`.

    Returns
    -------
    Tensor
        What lies outside of an image is zero. Places and what lies between elements are computed in float32, or float64
        for float64.

    Raises
    ------
    UserError
        For shapes that do not fit each other, and for groups that do not divide the channels.
    """


def deformable_conv2d_nchw(
    data: Tensor,
    offset: Tensor,
    kernel: Tensor,
    strides: Any,
    padding: Any,
    dilation: Any,
    deformable_groups: int,
    groups: int,
    out_dtype: str | None = None,
) -> Tensor:
    """Convolve `data` (N, CI, H, W) with `kernel` (CO, CI / groups, KH, KW) at displaced taps, as (N, CO, OH, OW)."""
    given, window = (data, offset, kernel), (strides, padding, dilation)
    return _deformed(given, window, (deformable_groups, groups), out_dtype, False, "deformable_conv2d_nchw")


def deformable_conv2d_nhwc(
    data: Tensor,
    offset: Tensor,
    kernel: Tensor,
    strides: Any,
    padding: Any,
    dilation: Any,
    deformable_groups: int,
    groups: int,
    out_dtype: str | None = None,
) -> Tensor:
    """Convolve `data` (N, H, W, CI) with `kernel` (KH, KW, CI / groups, CO) at displaced taps, as (N, OH, OW, CO)."""
    given, window = (data, offset, kernel), (strides, padding, dilation)
    return _deformed(given, window, (deformable_groups, groups), out_dtype, True, "deformable_conv2d_nhwc")


for _function in (deformable_conv2d_nchw, deformable_conv2d_nhwc):
    _function.__doc__ = f"{_function.__doc__}{_DOCUMENTED}"


def _deformed(
    given: tuple[Any, Any, Any], window: tuple[Any, Any, Any], parts: tuple[Any, Any], kind: Any, last: bool, name: str
) -> Tensor:
    shown = ("(N, H, W, C)", "(KH, KW, I, O)") if last else ("(N, C, H, W)", "(O, I, KH, KW)")
    x, moves, w = (
        rank_of(tensor(t, n, name), 4, n, name, s)
        for t, n, s in zip(given, ("data", "offset", "kernel"), (shown[0], shown[0], shown[1]), strict=True)
    )
    images, taps = (1, 2) if last else (2, 3), (0, 1) if last else (2, 3)
    channels, filters = x.shape[3 if last else 1], w.shape[3 if last else 0]
    height, width, rows, columns = (*(x.shape[d] for d in images), *(w.shape[d] for d in taps))
    step, spread = (numbers(v, 2, n, name) for v, n in ((window[0], "strides"), (window[2], "dilation")))
    before, after = padding_sides(
        window[1], [(k - 1) * d + 1 for k, d in zip((rows, columns), spread, strict=True)], name
    )
    deformed, grouped = (integer(v, n, name, 1) for v, n in zip(parts, ("deformable_groups", "groups"), strict=True))
    divided = ((channels, "channels", deformed, "deformable_groups"), (channels, "channels", grouped, "groups"))
    for extent, what, count, of in (*divided, (filters, "filters", grouped, "groups")):
        if (known(extent) or 0) % count:
            raise UserError(
                f"argument {of!r} is {count}, which does not divide the {extent} {what}",
                primitive=name,
                fix=f"give a divisor of {extent}",
            )
    same(w.shape[2 if last else 1] * grouped, channels, "the channels of kernel, times groups, and of data", name)
    wanted = deformed * rows * columns * 2
    same(moves.shape[3 if last else 1], wanted, "the channels of offset, and two for each tap and group", name)
    places = [
        positions(n, (k - 1) * d + 1, p, q, s, name, letter)
        for letter, n, p, q, k, d, s in zip(
            "HW", (height, width), before, after, (rows, columns), spread, step, strict=True
        )
    ]
    wide = wide_float(x.dtype)

    def at(tensor: Tensor, n: Any, c: Any, y: Any, x: Any) -> Any:
        return tensor(n, y, x, c) if last else tensor(n, c, y, x)

    def tap(n: Any, c: Any, i: Any, j: Any, y: Any, x_at: Any) -> Any:
        first = o.floordiv(c, divisor(o.floordiv(channels, deformed))) * (rows * columns * 2) + (i * columns + j) * 2
        place = [
            o.cast(wide, v * s - b + t * d) + o.cast(wide, at(moves, n, first + k, y, x_at))
            for k, (v, s, b, t, d) in enumerate(zip((y, x_at), step, before, (i, j), spread, strict=True))
        ]
        return _between(lambda r, q: at(x, n, c, r, q), place, (height, width), x.dtype)

    read: Tensor = compute((x.shape[0], channels, rows, columns, *places), tap, f"{name}_taps")
    return _summed(read, w, filters, grouped, result_type(kind, x, name), last, name)


def _between(read: Callable[[Any, Any], Any], place: list[Any], sizes: tuple[Any, Any], dtype: Any) -> Any:
    """The value at a place between elements, computed in the type of the place; zero outside of the image."""
    wide = place[0].dtype
    inside = [o.all_of(o.greater_equal(p, 0.0), o.less(p, o.cast(wide, n))) for p, n in zip(place, sizes, strict=True)]
    low = [o.cast("int32", o.call_of("floor", p)) for p in place]
    part = [p - o.cast(wide, k) for p, k in zip(place, low, strict=True)]

    def corner(i: int, j: int) -> Any:
        r, q = (o.minimum(o.maximum(k + e, 0), n - 1) for k, e, n in zip(low, (i, j), sizes, strict=True))
        weight = (part[0] if i else 1.0 - part[0]) * (part[1] if j else 1.0 - part[1])
        beyond = [o.greater_equal(k + 1, n) for k, e, n in zip(low, (i, j), sizes, strict=True) if e]
        value = o.cast(wide, read(r, q)) * weight
        return o.if_then_else(o.any_of(*beyond), o.const(0, wide), value) if beyond else value

    value = corner(0, 0) + corner(0, 1) + corner(1, 0) + corner(1, 1)
    return o.if_then_else(o.all_of(*inside), o.cast(dtype, value), o.const(0, dtype))


def _summed(read: Tensor, w: Tensor, filters: Any, groups: int, kind: Any, last: bool, name: str) -> Tensor:
    """The convolution of the taps' values."""
    n, channels, rows, columns, height, width = read.shape
    per_in, per_out = o.floordiv(channels, groups), divisor(o.floordiv(filters, groups))
    c, i, j = reduce_axis((0, per_in), "rc"), reduce_axis((0, rows), "ry"), reduce_axis((0, columns), "rx")

    def element(image: Any, f: Any, y: Any, x: Any) -> Any:
        channel = o.floordiv(f, per_out) * per_in + c if groups > 1 else c
        weight = w(i, j, c, f) if last else w(f, c, i, j)
        return reduce_sum(o.cast(kind, read(image, channel, i, j, y, x)) * o.cast(kind, weight), axis=[c, i, j])

    made: Tensor
    if last:
        made = compute((n, height, width, filters), lambda b, y, x, f: element(b, f, y, x), name, name)
    else:
        made = compute((n, filters, height, width), element, name, name)
    return made
