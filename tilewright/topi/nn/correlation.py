"""Correlation of two images: the similarity of patches of one to patches around the same place of the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...core.errors import UserError
from ...expr import operators as o
from ...tensor.axis import reduce_axis
from ...tensor.reduction import sum as reduce_sum
from ...tensor.tensor import Tensor, compute
from ..argument_checks import flag, integer, known, rank_of, same, tensor
from .pad import pad
from .window import padding_sides

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
        Of type float32. Channel q is the displacement `(q // D - r, q % D - r) * stride2`, with `D = 2 * r + 1` and `r
        = max_displacement // stride2`.

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
    pairs = _Pairs.of(kernel_size, max_displacement, stride1, stride2)
    multiplies = flag(is_multiply, "is_multiply", _NAME)
    before, after = padding_sides(padding, [pairs.size, pairs.size], _NAME)
    one, other = (pad(t, [0, 0, *before], [0, 0, *after]) for t in (a, b))
    places = [pairs.places(n + p + q) for n, p, q in zip(a.shape[2:], before, after, strict=True)]
    if any((count := known(n)) is not None and count < 1 for n in places):
        raise UserError(
            f"images of {a.shape[2]} x {a.shape[3]} hold no patch with a border of {pairs.border}",
            primitive=_NAME,
            fix="pad more, or displace less",
        )
    channels, (rows, columns) = a.shape[1], (pairs.size, pairs.size)
    rc, ry, rx = reduce_axis((0, channels), "rc"), reduce_axis((0, rows), "ry"), reduce_axis((0, columns), "rx")
    terms = o.cast("float32", channels) * float(rows * columns)

    def element(n: Any, q: Any, i: Any, j: Any) -> Any:
        y, x = i * pairs.step + pairs.reach + ry, j * pairs.step + pairs.reach + rx
        down, right = pairs.displacement(q)
        left, moved = (o.cast("float32", e) for e in (one(n, rc, y, x), other(n, rc, y + down, x + right)))
        value = left * moved if multiplies else o.maximum(left - moved, moved - left)
        return reduce_sum(value / terms, axis=[rc, ry, rx])

    made: Tensor = compute((a.shape[0], pairs.width * pairs.width, *places), element, _NAME, _NAME)
    return made


@dataclass(frozen=True)
class _Pairs:
    """The compared patches: their places in the first image, and their displacements in the second."""

    size: int
    """Rows and columns of a patch."""
    reach: int
    """How far a patch may be displaced at most."""
    step: int
    """Between neighbouring patches of the first image."""
    apart: int
    """Between neighbouring displacements."""

    @classmethod
    def of(cls, kernel_size: Any, max_displacement: Any, stride1: Any, stride2: Any) -> _Pairs:
        size = integer(kernel_size, "kernel_size", _NAME, 1)
        reach = integer(max_displacement, "max_displacement", _NAME, 0)
        step, apart = integer(stride1, "stride1", _NAME, 1), integer(stride2, "stride2", _NAME, 1)
        if size % 2 == 0:
            raise UserError(
                f"kernel_size={size} is even", primitive=_NAME, fix="give an odd number: a patch has a centre"
            )
        return cls(size, reach, step, apart)

    @property
    def border(self) -> int:
        """Elements along each edge of an image that are the centre of no patch."""
        return self.reach + (self.size - 1) // 2

    @property
    def width(self) -> int:
        """Displacements along one side."""
        return 2 * (self.reach // self.apart) + 1

    def places(self, extent: Any) -> Any:
        """How many patches lie along a side of `extent` elements."""
        return o.floordiv(extent - 2 * self.border + self.step - 1, self.step)

    def displacement(self, q: Any) -> tuple[Any, Any]:
        """How far down and to the right the patch of channel `q` lies."""
        radius = self.reach // self.apart
        down, right = o.floordiv(q, self.width), o.floormod(q, self.width)
        return (down - radius) * self.apart, (right - radius) * self.apart
