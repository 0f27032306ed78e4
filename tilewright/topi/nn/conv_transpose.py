"""Transposed convolutions: each element of the data spreads a kernel's worth of values over the result.

`stride` is the distance of the places that neighbours of the data spread around. `padding` is cut off the border of the
result, see `padding_sides`, and `output_padding` is added at its ends. `out_dtype` is the type to accumulate in. All of
them raise UserError for shapes that do not fit each other, and for groups that do not divide the channels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...core.errors import UserError
from ...expr import operators as o
from ...tensor.axis import reduce_axis
from ...tensor.reduction import sum as reduce_sum
from ...tensor.tensor import Tensor, compute
from ..argument_checks import divisor, integer, integers, known, rank_of, result_type, same, tensor
from .sliding import Sliding
from .window import padding_sides


def conv1d_transpose_ncw(
    data: Tensor, kernel: Tensor, stride: Any, padding: Any, out_dtype: Any, output_padding: Any
) -> Tensor:
    """Spread `data` (N, CI, W) through `kernel` (CI, CO, KW), as (N, CO, OW)."""
    given = {"data": data, "kernel": kernel}
    return transposed(given, (stride, padding, output_padding), out_dtype, 1, 1, "conv1d_transpose_ncw")


def group_conv1d_transpose_ncw(
    data: Tensor, kernel: Tensor, stride: Any, padding: Any, out_dtype: Any, output_padding: Any, groups: int
) -> Tensor:
    """Spread each group of channels of `data` (N, CI, W) through its part of `kernel` (CI, CO / groups, KW)."""
    given = {"data": data, "kernel": kernel}
    return transposed(given, (stride, padding, output_padding), out_dtype, groups, 1, "group_conv1d_transpose_ncw")


def conv2d_transpose_nchw(
    Input: Tensor, Filter: Tensor, strides: Any, padding: Any, out_dtype: Any, output_padding: Any
) -> Tensor:
    """Spread `Input` (N, CI, H, W) through `Filter` (CI, CO, KH, KW), as (N, CO, OH, OW)."""
    given = {"Input": Input, "Filter": Filter}
    return transposed(given, (strides, padding, output_padding), out_dtype, 1, 2, "conv2d_transpose_nchw")


def group_conv2d_transpose_nchw(
    data: Tensor, kernel: Tensor, stride: Any, padding: Any, out_dtype: Any, output_padding: Any, groups: int
) -> Tensor:
    """Spread each group of channels of `data` (N, CI, H, W) through its part of `kernel` (CI, CO / groups, KH, KW)."""
    given = {"data": data, "kernel": kernel}
    return transposed(given, (stride, padding, output_padding), out_dtype, groups, 2, "group_conv2d_transpose_nchw")


def conv3d_transpose_ncdhw(
    Input: Tensor, Filter: Tensor, strides: Any, padding: Any, out_dtype: Any, output_padding: Any
) -> Tensor:
    """Spread `Input` (N, CI, D, H, W) through `Filter` (CI, CO, KD, KH, KW), as (N, CO, OD, OH, OW)."""
    given = {"Input": Input, "Filter": Filter}
    return transposed(given, (strides, padding, output_padding), out_dtype, 1, 3, "conv3d_transpose_ncdhw")


def transposed(
    given: dict[str, Any], window: tuple[Any, Any, Any], out_dtype: Any, groups: Any, rank: int, primitive: str
) -> Tensor:
    """The transposed convolution over `rank` dimensions; `window` are stride, padding and output padding."""
    (x_name, w_name), shown = given, ("N", "C", *"DHW"[3 - rank :])
    x, w = (
        rank_of(tensor(t, n, primitive), rank + 2, n, primitive, f"({', '.join(s)})")
        for (n, t), s in zip(given.items(), (shown, ("CI", "CO", *(f"K{d}" for d in shown[2:]))), strict=True)
    )
    parts = integer(groups, "groups", primitive, 1)
    same(x.shape[1], w.shape[0], f"the channels of {x_name} and {w_name}", primitive)
    if (known(x.shape[1]) or 0) % parts:
        raise UserError(
            f"argument 'groups' is {parts}, which does not divide the {x.shape[1]} channels of {x_name} {x.name!r}",
            primitive=primitive,
            fix=f"give a divisor of {x.shape[1]}",
        )
    stride, padding, more = window
    steps = integers(stride, rank, "strides", primitive, 1)
    extra = integers(more, rank, "output_padding", primitive, 0)
    before, after = padding_sides(padding, w.shape[2:], primitive)
    sizes = [
        (n - 1) * s + k - b - a + e
        for n, k, s, b, a, e in zip(x.shape[2:], w.shape[2:], steps, before, after, extra, strict=True)
    ]
    if any((least := known(n)) is not None and least < 1 for n in sizes):
        raise UserError(
            f"argument 'padding' is {padding!r}, which leaves an empty result of {' x '.join(map(str, sizes))}",
            primitive=primitive,
            fix="give less padding",
        )
    return _spread(x, w, (steps, before, sizes), result_type(out_dtype, x, primitive), parts, primitive)


def _spread(
    x: Tensor, w: Tensor, window: tuple[Sequence[int], Sequence[int], Sequence[Any]], kind: Any, groups: int, name: str
) -> Tensor:
    steps, before, sizes = window
    slide = Sliding(steps, before, [1] * len(steps))
    per_in, per_out = o.floordiv(x.shape[1], groups), divisor(w.shape[1])
    channel = reduce_axis((0, per_in), name="dc")
    taps = [reduce_axis((0, k), name=f"d{'dhw'[-len(steps) :][i]}") for i, k in enumerate(w.shape[2:])]

    def element(n: Any, f: Any, *at: Any) -> Any:
        source, inside = slide.showing(at, taps, x.shape[2:])
        group = o.floordiv(f, per_out) * per_in if groups > 1 else 0
        weight = w(group + channel, o.floormod(f, per_out) if groups > 1 else f, *taps)
        value = o.if_then_else(o.all_of(*inside), x(n, group + channel, *source), o.const(0, x.dtype))
        return reduce_sum(o.cast(kind, value) * o.cast(kind, weight), axis=[channel, *taps])

    made: Tensor = compute((x.shape[0], w.shape[1] * groups, *sizes), element, name, name)
    return made
