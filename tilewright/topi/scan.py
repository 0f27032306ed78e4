"""Running sums and products along a dimension, in two passes: over chunks, and over the totals before each chunk.

With chunks of the square root of the length, each element adds at most that many others, all elements at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..core.errors import UserError
from ..core.refusals import old_name as _old_name
from ..expr import operators as o
from ..expr.nodes import Expr
from ..tensor import reduction as te
from ..tensor.axis import reduce_axis
from ..tensor.tensor import Tensor, compute
from .argument_checks import dimension, element_type, flag, sizes, tensor
from .shapes import moved, reshape


def cumsum(data: Tensor, axis: int | None = None, dtype: Any = None, exclusive: bool | None = None) -> Tensor:
    """Add up the elements before each one along a dimension.

    Parameters
    ----------
    data
        A tensor of numbers, with a constant extent along `axis`.
    axis
        The dimension; by default the elements in row-major order.
    dtype
        The type of the sums, by default that of `data`.
    exclusive
        Whether an element itself is left out, so that the first sum is 0.

    Returns
    -------
    A tensor of the shape of `data`, or of one dimension if `axis` is None.

    Raises
    ------
    UserError
        For bool, and for an extent that is not constant.
    """
    return _running(data, axis, dtype, exclusive, (te.sum, o.add, 0), "cumsum")


def cumprod(data: Tensor, axis: int | None = None, dtype: Any = None, exclusive: bool | None = None) -> Tensor:
    """Multiply the elements up to each element along a dimension; the arguments are the same as for `cumsum`."""
    return _running(data, axis, dtype, exclusive, (te.prod, o.multiply, 1), "cumprod")


Combine = tuple[Callable[..., Any], Callable[[Any, Any], Expr], int]


def _running(data: Any, axis: Any, dtype: Any, exclusive: Any, how: Combine, primitive: str) -> Tensor:
    source = tensor(data, "data", primitive)
    if source.dtype == "bool" and dtype is None:
        raise UserError(
            f"data {source.name!r} has type bool, and no type is given for the result",
            primitive=primitive,
            fix='give a type: dtype="int32"',
        )
    kind = element_type(source.dtype if dtype is None else dtype, primitive)
    if axis is None:
        source, axis = reshape(source, (-1,)), 0
    at = dimension(axis, source.ndim, primitive)
    (length,) = sizes(source, [at], primitive)
    if not length:
        raise UserError(
            f"dimension {at} of {source.name!r} is empty",
            primitive=primitive,
            fix="give a tensor with at least one element in that dimension",
        )
    return _by_chunks(
        source, at, (length, max(1, math.isqrt(length))), kind, flag(exclusive, "exclusive", primitive), how
    )


def _by_chunks(source: Tensor, at: int, lengths: tuple[int, int], kind: Any, exclusive: bool, how: Combine) -> Tensor:
    """Combine the results within chunks of one length with the results of all earlier chunks."""
    (length, chunk), (reduce, combine, start) = lengths, how
    count = -(-length // chunk)
    neutral = o.const(start, kind)
    before, behind = list(source.shape[:at]), list(source.shape[at + 1 :])

    def element(i: Sequence[Any], place: Any, *conditions: Any) -> Expr:
        value = o.cast(kind, source(*i[:at], place, *i[at + 1 :]))
        return o.if_then_else(o.all_of(*conditions, o.less(place, length)), value, neutral)

    k, b = reduce_axis((0, chunk), name="k"), reduce_axis((0, count), name="b")

    def within(*i: Any) -> Any:
        number, place = i[at], i[at + 1]
        reached = o.less(k, place) if exclusive else o.less_equal(k, place)
        return reduce(element([*i[:at], 0, *i[at + 2 :]], number * chunk + k, reached), axis=k)

    # Each thread sums its own few terms.
    alone = {"thread_per_sum": True}
    inner = compute([*before, count, chunk, *behind], within, "T_scan_chunk", "comm_reduce", alone)
    total = compute(
        [*before, count, *behind],
        lambda *i: reduce(element(i, i[at] * chunk + k), axis=k),
        "T_scan_total",
        "comm_reduce",
        alone,
    )
    earlier = compute(
        [*before, count, *behind],
        lambda *i: reduce(o.if_then_else(o.less(b, i[at]), total(*i[:at], b, *i[at + 1 :]), neutral), axis=b),
        "T_scan_earlier",
        "comm_reduce",
        alone,
    )

    def result(i: list[Any]) -> Expr:
        number, place = o.floordiv(i[at], chunk), o.floormod(i[at], chunk)
        return combine(earlier(*i[:at], number, *i[at + 1 :]), inner(*i[:at], number, place, *i[at + 1 :]))

    return moved(source.shape, result, "scan")


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        return _old_name(__name__, name, globals())
