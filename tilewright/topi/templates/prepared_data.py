"""Convolutions in NCHW as contractions of data that a kernel before them has laid out along the depth.

Rows of a window begin anywhere in NCHW, so an implicit product copies single elements and tests borders for each. Data
that lies along the depth is copied in vectors of 16 bytes instead. Two ways to lay it out, each a kernel of its own:

- unfolded (im2col): each position's whole window lies together. That multiplies the data by the window, which pays for
  few positions and many filters.
- channels last: channels of a pixel lie together, as in NHWC. The weights are repacked too.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

from ...core.dtype import DType
from ...expr.convert import const
from ...expr.operators import if_then_else
from ...tensor.tensor import Tensor, compute
from .contraction import Contraction, MatrixOperand, Views, rounded
from .contraction_mma import PreparedForm
from .contraction_schedule import TRANSPOSED
from .convolutions import Conv2d
from .implicit_gemm import contraction_of, turned, views_of

_MOST_UNFOLDED = 1 << 25
"""Bytes of unfolded data up to which it stays in the L2 cache."""


def unfolds(of: Conv2d) -> bool:
    """Whether a layer's data may be unfolded: windows in NCHW, with little data."""
    size = of.shape[0] * prod(of.places) * _row_of(of) * DType(of.dtype).bytes
    return _is_plain_nchw(of) and of.kernel != (1, 1) and size <= _MOST_UNFOLDED


def unfolded(of: Conv2d) -> Contraction:
    """Return the contraction over unfolded data: as in NCHW, with positions along the depth."""
    made, row, word = contraction_of(of), _row_of(of), DType(of.dtype).bytes
    columns = MatrixOperand(made.columns.extent, True, 16 // word)
    return replace(made, columns=columns, depth=row, period=1, prepared=(columns.extent * row * word,))


def views_of_unfolded(of: Conv2d, data: Tensor, weights: Tensor) -> Views:
    """Return the elements of that contraction."""
    direct, depth, row = views_of(of, data, weights), contraction_of(of).depth, _row_of(of)

    def within(value: Any, k: Any) -> Any:
        return value if row == depth else if_then_else(k < depth, value, const(0, of.dtype))

    made = compute(
        (of.shape[0] * prod(of.places), row), lambda j, k: within(direct.right(0, k, j), k), "unfolded"
    )  # fmt: skip
    return replace(
        direct, left=lambda b, i, k: within(direct.left(b, i, k), k), right=lambda b, k, j: made(j, k)
    )  # fmt: skip


def _row_of(of: Conv2d) -> int:
    """Elements of an unfolded window, rounded up to whole vectors."""
    return rounded(of.shape[1] * prod(of.kernel), 16 // DType(of.dtype).bytes)


def turns(of: Conv2d) -> bool:
    """Whether a layer's data may be put channels last: whole vectors of channels in NCHW."""
    return _is_plain_nchw(of) and of.shape[1] % (32 // DType(of.dtype).bytes) == 0


def channels_last(of: Conv2d) -> Contraction:
    """Return the contraction over data with its channels last: that of NHWC, with filters as rows."""
    made, last = contraction_of(of), contraction_of(_last(of))
    word = DType(of.dtype).bytes
    moved = (prod(of.shape) * word, *([of.filters * made.depth * word] if of.kernel != (1, 1) else []))
    return replace(made, rows=last.columns, columns=last.rows, period=last.period, prepared=moved)


def views_of_channels_last(of: Conv2d, data: Tensor, weights: Tensor) -> Views:
    """Return the elements of that contraction."""
    images, channels, height, width = of.shape
    image = compute((images, height, width, channels), lambda n, y, x, c: data(n, c, y, x), "image", TRANSPOSED)
    by_channel = weights if of.kernel == (1, 1) else turned(of, weights)
    direct, last = views_of(of, data, weights), views_of(_last(of), image, by_channel)
    left = direct.left if by_channel is weights else lambda b, i, k: last.right(b, k, i)
    return replace(direct, left=left, right=lambda b, k, j: last.left(b, j, k))


def _last(of: Conv2d) -> Conv2d:
    """The same layer with channels last."""
    return replace(of, layout="NHWC", weights="OHWI")


def _is_plain_nchw(of: Conv2d) -> bool:
    return of.layout == "NCHW" and of.groups == 1


FORMS = {
    "unfolded": PreparedForm(unfolded, views_of_unfolded, unfolds),
    "channels last": PreparedForm(channels_last, views_of_channels_last, turns),
}
"""The forms by their names, as the knob `data` of the templates has them."""
