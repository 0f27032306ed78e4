"""Correlation of two images: how alike patches of one are to patches around the same place of the other."""

from __future__ import annotations

from typing import Any

from ...core.errors import UserError
from ...expr import operators as o
from ...tensor.axis import reduce_axis
from ...tensor.reduction import sum as reduce_sum
from ...tensor.tensor import Tensor, compute
from ..argument_checks import flag, integer, known, rank_of, same, tensor
from .pad import pad
from .window import padding_of

_NAME = "correlation_nchw"


def correlation_nchw(
    data1: Tensor,
    data2: Tensor,
    kernel_size: int,
    max_displacement: int,
    stride1: int,
    stride2: int,
    padding: Any,
    is_multiply: bool,
) -> Tensor:
    """Compare patches of `data1` (N, C, H, W) with displaced patches of `data2`, as (N, displacements, OH, OW).

    Parameters
    ----------
    data1, data2 : Tensor
        Images of one shape.
    kernel_size : int
        Rows and columns of a patch; odd.
    max_displacement : int
        How far a patch of `data2` may lie from that of `data1`, along each side.
    stride1, stride2 : int
        The distance of neighbouring patches of `data1`, and that of displacements.
    padding : int or tuple
        Zeros around both images, as for a convolution.
    is_multiply : bool
        Whether products are averaged; else absolute differences.

    Returns
    -------
    Tensor
        Of type float32; channel q is the displacement (q // D - r, q % D - r) * stride2, where D is 2 * r + 1 and r
        max_displacement // stride2.

    Raises
    ------
    UserError
        For shapes that differ, an even kernel, and images too small for one patch.
    """
    a, b = (
        rank_of(tensor(t, name, _NAME), 4, name, _NAME, "(N, C, H, W)")
        for t, name in ((data1, "data1"), (data2, "data2"))
    )
    for d in range(4):
        same(a.shape[d], b.shape[d], f"dimension {d} of data1 and data2", _NAME)
    size, reach = integer(kernel_size, "kernel_size", _NAME, 1), integer(max_displacement, "max_displacement", _NAME, 0)
    step, apart = integer(stride1, "stride1", _NAME, 1), integer(stride2, "stride2", _NAME, 1)
    multiplies = flag(is_multiply, "is_multiply", _NAME)
    if size % 2 == 0:
        raise UserError(f"kernel_size={size} is even", primitive=_NAME, fix="give an odd number: a patch has a centre")
    before, after = padding_of(padding, [size, size], _NAME)
    border, radius = reach + (size - 1) // 2, reach // apart
    sides = [n + p + q - 2 * border for n, p, q in zip(a.shape[2:], before, after, strict=True)]
    if any((known(n) or 1) < 1 for n in sides):
        raise UserError(
            f"images of {a.shape[2]} x {a.shape[3]} hold no patch with a border of {border}",
            primitive=_NAME,
            fix="pad more, or displace less",
        )
    width = 2 * radius + 1
    one, other = (pad(t, [0, 0, *before], [0, 0, *after]) for t in (a, b))
    rc, ry, rx = reduce_axis((0, a.shape[1]), "rc"), reduce_axis((0, size), "ry"), reduce_axis((0, size), "rx")
    terms = o.cast("float32", a.shape[1] * (size * size))

    def element(n: Any, q: Any, i: Any, j: Any) -> Any:
        y, x = i * step + reach + ry, j * step + reach + rx
        down, right = ((place - radius) * apart for place in (o.floordiv(q, width), o.floormod(q, width)))
        left, moved = (o.cast("float32", e) for e in (one(n, rc, y, x), other(n, rc, y + down, x + right)))
        value = left * moved if multiplies else o.maximum(left - moved, moved - left)
        return reduce_sum(value / terms, axis=[rc, ry, rx])

    places = [o.floordiv(n + step - 1, step) for n in sides]
    made: Tensor = compute((a.shape[0], width * width, *places), element, _NAME, _NAME)
    return made
