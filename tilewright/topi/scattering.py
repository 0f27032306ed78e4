"""Operators that write at places given by other tensors, in the order of the updates: the last of several to a place
counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..core.errors import UserError
from ..core.refusals import old_name as _old_name
from ..core.text import quantity
from ..expr import operators as o
from ..expr.nodes import Expr
from ..loops.calls import call_intrin
from ..tensor.tensor import Tensor
from .argument_checks import dimension, divisor, flag, index_tensor, one_of, rank_of, same, tensor, wide_index
from .joining import stack
from .math import cast
from .shapes import moved
from .statements import StatementBuilder, computed_by, elements, product
from .tensor import full

_LEAST_LANES = 4096
"""The number of lanes from which a thread on a grid applies all updates of a lane."""
_MOST_FEW_UPDATES = 64
"""The updates per lane up to which a thread on a grid applies all of them."""
_OWNERS = 4096
"""Otherwise, the elements of a lane are distributed over this number of threads."""
Combine = Callable[[Any, Any], Any]
_COMBINE: dict[str, Combine] = {
    "update": lambda old, new: new,
    "add": lambda old, new: old + new,
    "mul": lambda old, new: old * new,
    "min": o.minimum,
    "max": o.maximum,
}


def scatter_elements(
    data: Tensor, indices: Tensor, updates: Tensor, axis: int = 0, reduction: str = "update"
) -> Tensor:
    """Copy a tensor, and write updates to the places that indices name along one dimension.

    Parameters
    ----------
    data
        The tensor.
    indices
        A tensor of integers of the rank of `data` and, but for `axis`, of its shape. Those below 0 count from the end;
        an update with an index outside the dimension is left out.
    updates
        A tensor of the shape of `indices` and the type of `data`.
    axis
        The dimension.
    reduction
        The new value of an element: the "update", or its value with the update, by "add", "mul", "min" or "max".

    Returns
    -------
    A tensor of the shape and type of `data`.

    Raises
    ------
    UserError
        For shapes and types that do not fit each other.

    Notes
    -----
    The updates along the dimension run in order, and lines of updates in parallel. So the result does not depend on the
    target.
    """
    source, where, news = _checked(data, indices, updates, "scatter_elements")
    combine = _COMBINE[one_of(reduction, tuple(_COMBINE), "reduction", "scatter_elements")]
    at = dimension(axis, source.ndim, "scatter_elements")
    rank_of(where, source.ndim, "indices", "scatter_elements")
    rank_of(news, source.ndim, "updates", "scatter_elements")
    for d in range(source.ndim):
        same(where.shape[d], news.shape[d], f"extents of dimension {d} of indices and updates", "scatter_elements")
        if d != at:
            same(source.shape[d], where.shape[d], f"extents of dimension {d} of data and indices", "scatter_elements")
    inner, extent, count = product(source.shape[at + 1 :]), source.shape[at], where.shape[at]

    def places(lane: Any, k: Any, read: Callable[[Any], Expr]) -> tuple[Expr, Any, Any]:
        outer, rest = o.floordiv(lane, divisor(inner)), o.floormod(lane, divisor(inner))
        number = (outer * count + k) * inner + rest
        inside, index = _within(read(number), extent)
        return inside, (outer * extent + index) * inner + rest, number

    lanes = product([n for d, n in enumerate(source.shape) if d != at])
    return _scattered(source, where, news, (lanes, count), places, combine, "scatter_elements")


def scatter_nd(data: Tensor, indices: Tensor, updates: Tensor, mode: str = "update") -> Tensor:
    """Copy a tensor, and write elements or parts at the first indices in the columns of a tensor.

    Parameters
    ----------
    data
        The tensor.
    indices
        A tensor of integers of shape (K, ...): update (...) goes to part `data[indices[0, ...], ...,
        indices[K - 1, ...]]`. Those below 0 count from the end; an update with one outside of `data` is left out.
    updates
        A tensor of shape `indices.shape[1:] + data.shape[K:]` and of the type of `data`.
    mode
        The new value of an element: the "update", or its value with the update, by "add", "mul", "min" or "max".

    Returns
    -------
    A tensor of the shape and type of `data`.

    Raises
    ------
    UserError
        For shapes and types that do not fit each other.
    """
    source, where, news = _checked(data, indices, updates, "scatter_nd")
    combine = _COMBINE[one_of(mode, tuple(_COMBINE), "mode", "scatter_nd")]
    depth = getattr(where.shape[0], "value", None) if where.ndim else None
    if depth is None or not 1 <= depth <= source.ndim:
        raise UserError(
            f"indices {where.name!r} has the shape {list(where.shape)}, so it cannot index dimensions of data "
            f"{source.name!r}",
            primitive="scatter_nd",
            fix=f"give a first extent from 1 to {source.ndim}, the number of dimensions that are indexed",
        )
    wanted = [*where.shape[1:], *source.shape[depth:]]
    rank_of(news, len(wanted), "updates", "scatter_nd", f"{wanted}")
    for d, n in enumerate(wanted):
        same(n, news.shape[d], f"extents of dimension {d} of updates and of the replaced elements", "scatter_nd")
    inner, count = product(source.shape[depth:]), product(where.shape[1:])

    def places(lane: Any, k: Any, read: Callable[[Any], Expr]) -> tuple[Expr, Any, Any]:
        conditions, place = [], o.as_expr(0)
        for d in range(depth):
            inside, index = _within(read(d * count + k), source.shape[d])
            conditions.append(inside)
            place = place * source.shape[d] + index
        return o.all_of(*conditions), place * inner + lane, k * inner + lane

    return _scattered(source, where, news, (inner, count), places, combine, "scatter_nd")


def index_put(data: Tensor, indices: Sequence[Tensor], values: Tensor, accumulate: bool = False) -> Tensor:
    """Copy a tensor, and write values to elements; each index has its own tensor.

    Parameters
    ----------
    data
        The tensor.
    indices
        One tensor of integers per dimension of `data`, all of one dimension and of one length.
    values
        A tensor of that length, of the type of `data`.
    accumulate
        Whether values are added.

    Returns
    -------
    A tensor of the shape and type of `data`.

    Raises
    ------
    UserError
        If there is not one tensor of indices per dimension.
    """
    source = tensor(data, "data", "index_put")
    given = list(indices) if isinstance(indices, (list, tuple)) else []
    if len(given) != source.ndim:
        raise UserError(
            f"argument 'indices' is {indices!r}, but data {source.name!r} has {quantity(source.ndim, 'dimension')}",
            primitive="index_put",
            fix="give a list of one tensor of integers per dimension",
        )
    each = [index_tensor(one, f"indices[{d}]", "index_put") for d, one in enumerate(given)]
    for d, one in enumerate(each):
        rank_of(one, 1, f"indices[{d}]", "index_put")
        same(one.shape[0], each[0].shape[0], f"elements of indices[0] and indices[{d}]", "index_put")
    from_each = _stacked(each)
    return scatter_nd(source, from_each, values, "add" if flag(accumulate, "accumulate", "index_put") else "update")


def _stacked(each: Sequence[Tensor]) -> Tensor:
    wide = max((t.dtype for t in each), key=lambda kind: kind.bits)
    return stack([cast(one, wide) for one in each], 0)


def sparse_to_dense(
    sparse_indices: Tensor, output_shape: Sequence[int], sparse_values: Tensor, default_value: Any = 0
) -> Tensor:
    """Make a tensor of one value but for some elements.

    Parameters
    ----------
    sparse_indices
        The places: a tensor of integers of shape (elements, dimensions), (elements,) for one dimension, or () for one
        element of one dimension.
    output_shape
        The shape of the result.
    sparse_values
        Their values: a tensor of shape (elements,), or () for one value of all.
    default_value
        The value of all other elements: a number, or a tensor of shape ().

    Returns
    -------
    A tensor of shape `output_shape` and the type of `sparse_values`.

    Raises
    ------
    UserError
        For indices that are not of as many dimensions as the result has.
    """
    where = index_tensor(sparse_indices, "sparse_indices", "sparse_to_dense")
    values = tensor(sparse_values, "sparse_values", "sparse_to_dense")
    rank_of(where, (0, 1, 2), "sparse_indices", "sparse_to_dense", "(elements, dimensions)")
    rank_of(values, (0, 1), "sparse_values", "sparse_to_dense", "(elements,)")
    start = _filled(output_shape, values, default_value)
    number = where.shape[0] if where.ndim else o.const(1)
    columns = where.shape[1] if where.ndim == 2 else o.const(1)
    same(columns, start.ndim, "columns of sparse_indices and dimensions of output_shape", "sparse_to_dense")
    if values.ndim:
        same(number, values.shape[0], "rows of sparse_indices and elements of sparse_values", "sparse_to_dense")
    places = moved([columns, number], lambda i: where(*(i[1], i[0])[: where.ndim]), "places")
    news = values if values.ndim else moved([number], lambda i: values(), "values")
    return scatter_nd(start, places, news)


def _filled(shape: Sequence[int], values: Tensor, default: Any) -> Tensor:
    """Return a tensor filled with the default value, of the type of the values."""
    if not isinstance(default, Tensor):
        return full(shape, values.dtype, default)
    held = rank_of(default, 0, "default_value", "sparse_to_dense", "()")
    return moved(shape, lambda i: o.cast(values.dtype, held()), "default")


def _checked(data: Any, indices: Any, updates: Any, primitive: str) -> tuple[Tensor, Tensor, Tensor]:
    source, where = tensor(data, "data", primitive), index_tensor(indices, "indices", primitive)
    news = tensor(updates, "updates", primitive)
    if news.dtype != source.dtype:
        raise UserError(
            f"updates {news.name!r} is {news.dtype}, but data {source.name!r} is {source.dtype}",
            primitive=primitive,
            fix=f'convert them: topi.cast(updates, "{source.dtype}")',
        )
    return source, where, news


def _within(index: Expr, extent: Any) -> tuple[Expr, Expr]:
    """Return whether an index is inside of an extent, and the index counted from the start."""
    index = wide_index(index)
    extent = o.cast(index.dtype, o.as_expr(extent))
    inside = o.all_of(o.greater_equal(index, -extent), o.less(index, extent))
    return inside, o.cast("int32", o.select(o.less(index, 0), index + extent, index))


Places = Callable[[Any, Any, Callable[[Any], Expr]], tuple[Expr, Any, Any]]
"""Whether update k of a lane counts, its place, and its number; from (lane, k) and a function that reads an index."""


def _scattered(
    source: Tensor, where: Tensor, news: Tensor, counts: tuple[Any, Any], places: Places, combine: Combine, name: str
) -> Tensor:
    """The data with updates: each lane has its own elements, and applies its updates in order. Few lanes with many
    updates would leave most threads of a grid idle. If updates replace elements, all threads there first find the last
    update of each element. Other updates are distributed by the element that they change. Each thread reads all updates
    of a lane, and applies the updates of its own elements in order.
    """
    lanes, count = (getattr(n, "value", n) for n in counts)

    def write(statement: StatementBuilder, ins: Sequence[Any], outs: Sequence[Any]) -> None:
        (old, index, new), (out,), ib = ins, outs, statement.ib

        def copy(e: Any) -> None:
            out[e] = old[e]

        def of_lane(number: Any, owner: Any = None) -> None:
            with ib.for_range(0, count, "k") as k:
                inside, place, update = places(number, k, lambda e: index[e])
                mine = [] if owner is None else [o.equal(o.floormod(place, _OWNERS), owner)]
                with ib.if_scope(o.all_of(inside, *mine)):
                    out[place] = combine(out[place], new[update])

        few = (
            isinstance(lanes, int)
            and lanes < _LEAST_LANES
            and not (isinstance(count, int) and count < _MOST_FEW_UPDATES)
        )
        if not (statement.on_grid and few):
            statement.each(elements(source), copy)
            statement.each(lanes, of_lane)
        elif combine is _COMBINE["update"]:
            last = ib.allocate("int32", (elements(source),), "last", scope="global")

            def begin(e: Any) -> None:
                out[e] = old[e]
                last[e] = o.const(-1)

            def numbered(at: Any, store: bool) -> None:
                k = o.floormod(at, divisor(count))
                inside, place, update = places(o.floordiv(at, divisor(count)), k, lambda e: index[e])
                with ib.if_scope(inside):
                    if store:
                        with ib.if_scope(o.equal(last[place], k)):
                            out[place] = new[update]
                    else:
                        ib.emit(call_intrin("int32", "tir.atomic_max", last[place], o.cast("int32", k)))

            statement.each(elements(source), begin)
            statement.each(lanes * count, lambda at: numbered(at, False))
            statement.each(lanes * count, lambda at: numbered(at, True))
        else:
            statement.each(elements(source), copy)
            statement.each(lanes * _OWNERS, lambda at: of_lane(o.floordiv(at, _OWNERS), o.floormod(at, _OWNERS)))

    return computed_by(name, [source, where, news], [(source.shape, source.dtype)], write)[0]


def invert_permutation(data: Tensor) -> Tensor:
    """Find the place of each number of a permutation.

    Parameters
    ----------
    data
        A tensor of one dimension that holds each of 0 ... n - 1 once.

    Returns
    -------
    A tensor of the shape and type of `data`: `out[data[i]] == i`.

    Raises
    ------
    UserError
        For numbers that are not integers, and for tensors of more dimensions.
    """
    name = "invert_permutation"
    source = rank_of(index_tensor(data, "data", name), 1, "data", name)

    def write(statement: StatementBuilder, ins: Sequence[Any], outs: Sequence[Any]) -> None:
        (numbers,), (out,) = ins, outs

        def store(i: Any) -> None:
            inside, place = _within(numbers[i], source.shape[0])
            with statement.ib.if_scope(inside):
                out[place] = o.cast(source.dtype, i)

        statement.each(elements(source), store)

    return computed_by(name, [source], [(source.shape, source.dtype)], write)[0]


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        return _old_name(__name__, name, globals())
