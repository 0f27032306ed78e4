"""Operators that choose parts of tensors: by several tensors of indices, by windows, and by slices that are written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..core.errors import UserError
from ..core.refusals import old_name as _old_name
from ..core.text import quantity
from ..expr import operators as o
from ..expr.nodes import Expr
from ..tensor.tensor import Tensor
from .argument_checks import dimension, index_tensor, integer, integers, known, rank_of, same, sizes, tensor
from .broadcast import broadcast_shape
from .shapes import moved


def adv_index(data: Tensor, indices: Sequence[Tensor]) -> Tensor:
    """Take the elements, or parts, at given first indices; each index has its own tensor.

    Parameters
    ----------
    data
        The tensor.
    indices
        Tensors of integers from 0 on, for the first dimensions of `data`; they broadcast against each other.

    Returns
    -------
    A tensor of the shape of the indices, followed by the dimensions of `data` that are not indexed.

    Raises
    ------
    UserError
        If there are more indices than dimensions.
    """
    source = tensor(data, "data", "adv_index")
    given = list(indices) if isinstance(indices, (list, tuple)) else []
    if not 1 <= len(given) <= source.ndim:
        raise UserError(
            f"argument 'indices' is {indices!r}, but data {source.name!r} has {quantity(source.ndim, 'dimension')}",
            primitive="adv_index",
            fix="give a list of tensors of integers, one for each of the first dimensions",
        )
    each = [index_tensor(one, f"indices[{d}]", "adv_index") for d, one in enumerate(given)]
    shape: Sequence[Any] = each[0].shape
    for one in each[1:]:
        shape = broadcast_shape(shape, one.shape, "adv_index")

    def read(one: Tensor, at: list[Any]) -> Expr:
        near = at[len(at) - one.ndim :]
        return one(*(o.const(0) if known(n) == 1 else i for n, i in zip(one.shape, near, strict=True)))

    def element(i: list[Any]) -> Expr:
        return source(*(read(one, i[: len(shape)]) for one in each), *i[len(shape) :])

    return moved([*shape, *source.shape[len(each) :]], element, "adv_index")


def sliding_window(data: Tensor, axis: int, window_shape: Sequence[int], strides: Sequence[int]) -> Tensor:
    """Cut windows out of the last dimensions of a tensor.

    Parameters
    ----------
    data
        The tensor.
    axis
        The first of the dimensions that the windows slide over; all behind it are among them.
    window_shape
        The extents of a window, one per dimension from `axis` on.
    strides
        The steps of the windows.

    Returns
    -------
    A tensor of the dimensions before `axis`, then one counting the windows along each, then the dimensions of a window.

    Raises
    ------
    UserError
        If a window is larger than the tensor.
    """
    source = tensor(data, "data", "sliding_window")
    at = dimension(axis, source.ndim, "sliding_window")
    count = source.ndim - at
    window = integers(window_shape, count, "window_shape", "sliding_window", 1)
    steps = integers(strides, count, "strides", "sliding_window", 1)
    numbers = []
    for d, (size, step) in enumerate(zip(window, steps, strict=True)):
        extent = source.shape[at + d]
        if (known(extent) or size) < size:
            raise UserError(
                f"a window of {size} does not fit dimension {at + d} of {source.name!r}, of extent {extent}",
                primitive="sliding_window",
                fix="give a smaller window, or pad the tensor: topi.nn.pad",
            )
        numbers.append(o.floordiv(extent - size, step) + 1)

    def element(i: list[Any]) -> Expr:
        places = zip(i[at : at + count], i[at + count :], steps, strict=True)
        return source(*i[:at], *(number * step + inside for number, inside, step in places))

    return moved([*source.shape[:at], *numbers, *map(o.const, window)], element, "sliding_window")


def strided_set(a: Tensor, v: Tensor, begin: Sequence[int], end: Sequence[int], strides: Any = None) -> Tensor:
    """Copy a tensor with a part of it replaced.

    Parameters
    ----------
    a
        The tensor; its extents must be constant.
    v
        The replacement of the part, of its shape.
    begin, end
        The begin and end of the part along the first dimensions, as in Python's slices: lists, or tensors of one
        dimension that hold them.
    strides
        The steps, by default 1; below 0 they go backwards. A list or a tensor, as `begin`.

    Returns
    -------
    A tensor of the shape of `a`.

    Raises
    ------
    UserError
        If `v` does not have the shape of the part.
    """
    source, new = tensor(a, "a", "strided_set"), tensor(v, "v", "strided_set")
    if isinstance(begin, Tensor) or isinstance(end, Tensor) or isinstance(strides, Tensor):
        return _set_where_tensors_say(source, new, (begin, end, strides))
    parts = _parts(source, begin, end, strides)
    rank_of(new, source.ndim, "v", "strided_set")
    for d, part in enumerate(parts):
        same(len(part), new.shape[d], f"elements of the part along dimension {d} and extent of v", "strided_set")

    def element(i: list[Any]) -> Expr:
        conditions: list[Expr] = []
        places: list[Any] = []
        for at, part, extent in zip(i, parts, source.shape, strict=True):
            first, last, step = part.start, part[-1] if len(part) else part.start, part.step
            offset = (at - first) if step > 0 else (first - at)
            places.append(o.floordiv(offset, abs(step)))
            if len(part) != known(extent):
                low, high = min(first, last), max(first, last)
                conditions += [o.greater_equal(at, low), o.less_equal(at, high)]
                conditions.append(o.equal(o.floormod(offset, abs(step)), 0))
        inside = new(*places)
        kept = source(*i)
        return o.if_then_else(o.all_of(*conditions), o.cast(source.dtype, inside), kept) if conditions else inside

    if not all(len(part) for part in parts):
        return moved(source.shape, lambda i: source(*i), "strided_set")
    return moved(source.shape, element, "strided_set")


def _set_where_tensors_say(source: Tensor, new: Tensor, bounds: tuple[Any, Any, Any]) -> Tensor:
    """Write a part as `strided_set` does; the part is known when the program runs."""
    rank_of(new, source.ndim, "v", "strided_set")
    each = [_held(given, name) for given, name in zip(bounds, ("begin", "end", "strides"), strict=True)]

    def element(i: list[Any]) -> Expr:
        conditions: list[Expr] = []
        places: list[Any] = []
        for d, (at, extent) in enumerate(zip(i, source.shape, strict=True)):
            begin, end, step = (held(d) if d < count else None for held, count in each)
            by = o.const(1) if step is None else step
            low = _clamped(o.const(0) if begin is None else begin, extent, by)
            high = _clamped(extent if end is None else end, extent, by)
            up = o.greater(by, 0)
            conditions.append(o.select(up, o.greater_equal(at, low), o.less_equal(at, low)))
            conditions.append(o.select(up, o.less(at, high), o.greater(at, high)))
            conditions.append(o.equal(o.floormod(at - low, by), 0))
            places.append(o.floordiv(at - low, by))
        return o.if_then_else(o.all_of(*conditions), o.cast(source.dtype, new(*places)), source(*i))

    return moved(source.shape, element, "strided_set")


def _clamped(at: Any, extent: Any, step: Any) -> Expr:
    """Return an end of a slice, counted from the start; for negative steps, the position before the first element is
    -1."""
    counted = o.select(o.less(at, 0), at + extent, at)
    return o.select(
        o.greater(step, 0), o.minimum(o.maximum(counted, 0), extent), o.minimum(o.maximum(counted, -1), extent - 1)
    )


def _held(given: Any, name: str) -> tuple[Callable[[int], Expr], int]:
    """Return the entries for the dimensions, from a list or a tensor, and their number."""
    if given is None:
        return (lambda d: o.const(1)), 0
    if isinstance(given, Tensor):
        held = rank_of(index_tensor(given, name, "strided_set"), 1, name, "strided_set", "(dimensions,)")
        (count,) = sizes(held, [0], "strided_set")
        return (lambda d: o.cast("int32", held(d))), count
    listed = [integer(n, name, "strided_set") for n in given]
    return (lambda d: o.const(listed[d])), len(listed)


def _parts(source: Tensor, begin: Any, end: Any, strides: Any) -> list[range]:
    """The places along each dimension that slices name."""
    lists = [list(each) if isinstance(each, (list, tuple)) else None for each in (begin, end, strides)]
    first, last, steps = lists
    if first is None or last is None or len(first) != len(last) or len(first) > source.ndim:
        raise UserError(
            f"begin={begin!r} and end={end!r} do not fit {source.name!r} of {quantity(source.ndim, 'dimension')}",
            primitive="strided_set",
            fix="give two lists of one length, with one entry each per leading dimension",
        )
    steps = steps if steps is not None else [1] * len(first)
    parts = []
    for d, extent in enumerate(source.shape):
        size = known(extent)
        if size is None:
            raise UserError(
                f"dimension {d} of {source.name!r} has the extent `{extent}`, which is not constant",
                primitive="strided_set",
                fix="give a tensor of constant extents, or declare this with te.compute",
            )
        cut = slice(first[d], last[d], steps[d] if d < len(steps) else 1) if d < len(first) else slice(None)
        if cut.step == 0:
            raise UserError("a stride is 0", primitive="strided_set", fix="give steps above or below 0")
        parts.append(range(size)[cut])
    return parts


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        return _old_name(__name__, name, globals())
