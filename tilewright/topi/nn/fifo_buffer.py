"""A buffer of the last elements of a stream."""

from __future__ import annotations

from typing import Any

from ...core.errors import UserError
from ...expr import operators as o
from ...expr.nodes import Expr
from ...tensor.tensor import Tensor
from ..argument_checks import dimension, known, rank_of, same, tensor
from ..shapes import moved


def fifo_buffer(data: Tensor, buffer: Tensor, axis: int) -> Tensor:
    """Append new elements to a buffer along a dimension, and drop as many of the oldest.

    Parameters
    ----------
    data
        The new elements: a tensor of the type and, but for `axis`, of the shape of `buffer`.
    buffer
        The elements so far, the oldest first.
    axis
        The dimension.

    Returns
    -------
    A tensor of the shape of `buffer`.

    Raises
    ------
    UserError
        For shapes that do not fit each other, and for more new elements than the buffer has.
    """
    new, old = tensor(data, "data", "fifo_buffer"), tensor(buffer, "buffer", "fifo_buffer")
    at = dimension(axis, old.ndim, "fifo_buffer")
    rank_of(new, old.ndim, "data", "fifo_buffer")
    for d in range(old.ndim):
        if d != at:
            same(new.shape[d], old.shape[d], f"extents of dimension {d} of data and buffer", "fifo_buffer")
    count, size = known(new.shape[at]), known(old.shape[at])
    if count is not None and size is not None and count > size:
        raise UserError(
            f"data has {count} elements along dimension {at}, and buffer {size}",
            primitive="fifo_buffer",
            fix="give at most as many new elements as the buffer has",
        )
    if new.dtype != old.dtype:
        raise UserError(
            f"data has type {new.dtype}, and buffer {old.dtype}", primitive="fifo_buffer", fix="give one type"
        )
    kept = old.shape[at] - new.shape[at]

    def element(i: list[Any]) -> Expr:
        before = old(*i[:at], i[at] + new.shape[at], *i[at + 1 :])
        return o.if_then_else(o.less(i[at], kept), before, new(*i[:at], i[at] - kept, *i[at + 1 :]))

    return moved(old.shape, element, "fifo_buffer")
