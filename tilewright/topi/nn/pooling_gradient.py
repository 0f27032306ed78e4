"""The gradient of pooling by its data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...core.errors import UserError
from ...expr import operators as o
from ...tensor import reduction as te
from ...tensor.axis import reduce_axis
from ...tensor.tensor import Tensor, compute
from ..argument_checks import flag, known, one_of, tensor
from .pooling import HOW, Pool, lowest, pool_of
from .sums import narrowed, quotient, sum_type


def pool_grad(
    grads: Tensor,
    data: Tensor,
    kernel: Any,
    stride: Any,
    padding: Any,
    pool_type: str,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    layout: str = "NCHW",
) -> Tensor:
    """Compute the gradient of `pool2d` by its data; of equal largest elements, the first one gets all.

    Parameters
    ----------
    grads
        The gradient with respect to the result of `pool2d`.
    data
        The pooled tensor.
    kernel, stride, padding, pool_type, ceil_mode, count_include_pad, layout
        As for `pool2d`.

    Returns
    -------
    A tensor of the shape of `data`.

    Raises
    ------
    UserError
        If `grads` does not have the shape of the result.
    """
    pool = pool_of(data, (kernel, stride, 1, padding), ceil_mode, layout, "HW", "pool_grad")
    one_of(pool_type, HOW, "pool_type", "pool_grad")
    given = tensor(grads, "grads", "pool_grad")
    if [known(n) for n in given.shape] != [known(n) for n in pool.shape()]:
        raise UserError(
            f"grads {given.name!r} has the shape {list(given.shape)}, but the result of pool2d {pool.shape()}",
            primitive="pool_grad",
            fix="give the gradient with respect to the result",
        )
    whole = flag(count_include_pad, "count_include_pad", "pool_grad")
    kind = sum_type(given.dtype)
    place = _first_largest(pool) if pool_type == "max" else None
    # An element is seen by ceil(kernel / stride) windows along each dimension, at most.
    windows = [
        reduce_axis((0, -(-k // s)), name=f"w{i}")
        for i, (k, s) in enumerate(zip(pool.kernel, pool.slide.strides, strict=True))
    ]

    def element(*i: Any) -> Any:
        at, inside = list(i), []
        for number, d in enumerate(pool.dims):
            at[d] = o.floordiv(i[d] + pool.slide.before[number], pool.slide.strides[number]) - windows[number]
            inside += [o.greater_equal(at[d], 0), o.less(at[d], pool.places[number])]
            inside += [o.less(i[d], pool.slide.start(number, at[d]) + pool.kernel[number])]
        value = o.cast(kind, given(*at))
        if place is not None:
            inside.append(o.equal(place(*at), _flat(pool, i)))
        else:
            value = quotient(value, o.cast(kind, pool.counted(at, whole)))
        return te.sum(o.if_then_else(o.all_of(*inside), value, o.const(0, kind)), axis=windows)

    made: Tensor = compute(pool.data.shape, element, "pool_grad", f"pool_grad_{pool_type}")
    return narrowed(made, given.dtype)


def _flat(pool: Pool, i: Sequence[Any]) -> Any:
    """The position of an element among the elements of its image and channel."""
    rows, columns = pool.dims
    return i[rows] * pool.data.shape[columns] + i[columns]


def _first_largest(pool: Pool) -> Tensor:
    """For each window, which element is the first of the largest."""
    taps = pool.taps()
    worst = lowest(pool.data)
    beyond = o.const(2**31 - 1)

    def better(a: Any, b: Any) -> Any:
        take = o.any_of(o.greater(a[1], b[1]), o.all_of(o.equal(a[1], b[1]), o.less(a[0], b[0])))
        return o.select(take, a[0], b[0]), o.select(take, a[1], b[1])

    first = te.comm_reducer(better, lambda *_: (beyond, worst), name="first_largest")

    def element(*i: Any) -> Any:
        at, inside = pool.shown(i, taps)
        index = o.if_then_else(inside, _flat(pool, at), beyond)
        return first((index, pool.element(i, taps, worst)), axis=taps)

    pair = compute(pool.shape(), element, "pool_places", "pool_places")
    place: Tensor = pair[0]
    return place
