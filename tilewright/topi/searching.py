"""Finding values: places in a sorted order, and the different values of a tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..core.dtype import DType
from ..core.errors import UserError
from ..core.refusals import old_name as _old_name
from ..expr import operators as o
from ..expr.nodes import Expr
from ..tensor.tensor import Tensor
from .argument_checks import element_type, flag, known, rank_of, same, sizes, tensor
from .scan import cumsum
from .scattering import scatter_elements
from .shapes import moved
from .sort import argsort
from .statements import StatementBuilder, computed_by, elements, stored
from .tensor import zeros


def searchsorted(sorted_sequence: Tensor, values: Tensor, right: bool = False, out_dtype: Any = "int64") -> Tensor:
    """Find the places at which values would keep a sequence sorted, by bisection.

    Parameters
    ----------
    sorted_sequence
        Sequences along the last dimension, in ascending order with NaN last: one for all values, or one for each row
        of them.
    values
        The values to find: a tensor of the same type, and of the same shape except the last dimension if there are
        several sequences.
    right
        Whether a value goes behind equal ones, instead of before them.
    out_dtype
        The type of the result: "int32" or "int64".

    Returns
    -------
    A tensor of the shape of `values`.

    Raises
    ------
    UserError
        For shapes and types that do not fit each other.
    """
    source = tensor(sorted_sequence, "sorted_sequence", "searchsorted")
    wanted = tensor(values, "values", "searchsorted")
    kind, behind = element_type(out_dtype, "searchsorted"), flag(right, "right", "searchsorted")
    _check_search(source, wanted, kind)
    if source.ndim > 1:
        rank_of(wanted, source.ndim, "values", "searchsorted")
        for d in range(source.ndim - 1):
            same(source.shape[d], wanted.shape[d], f"extents of dimension {d} of the two", "searchsorted")
    length = source.shape[-1]
    row = wanted.shape[-1] if source.ndim > 1 else None
    steps = (known(length) or (1 << 31) - 1).bit_length()

    def write(statement: StatementBuilder, ins: Sequence[Any], outs: Sequence[Any]) -> None:
        (sequence, looked), (out,), ib = ins, outs, statement.ib

        def find(e: Any) -> None:
            value = ib.let("value", looked[e])
            start = 0 if row is None else o.floordiv(e, row) * length
            span = ib.allocate("int32", 2, "span", scope="local")
            span[0], span[1] = o.const(0), o.cast("int32", o.as_expr(length))
            with ib.for_range(0, steps, "step"):
                low, high = ib.let("low", span[0]), ib.let("high", span[1])
                with ib.if_scope(o.less(low, high)):
                    middle = ib.let("middle", o.floordiv(low + high, 2))
                    held = sequence[start + middle]
                    ahead = _goes_ahead(held, value, behind)
                    with ib.if_scope(ahead):
                        span[0] = middle + 1
                    with ib.else_scope():
                        span[1] = middle
            out[e] = o.cast(kind, span[0])

        statement.each(elements(wanted), find)

    return computed_by("searchsorted", [source, wanted], [(wanted.shape, kind)], write)[0]


def _check_search(source: Tensor, wanted: Tensor, kind: DType) -> None:
    """Raise UserError unless values can be found in a sequence, and the result's type holds positions."""
    name = "searchsorted"
    if not source.ndim:
        raise UserError(
            f"sorted_sequence {source.name!r} has no dimensions",
            primitive=name,
            fix="give a tensor that is in ascending order along its last dimension",
        )
    if source.dtype != wanted.dtype:
        raise UserError(
            f"values {wanted.name!r} has type {wanted.dtype}, but sorted_sequence {source.name!r} has {source.dtype}",
            primitive=name,
            fix=f'give both one type: topi.cast(values, "{source.dtype}")',
        )
    if not kind.is_int:
        raise UserError(
            f"argument 'out_dtype' is {str(kind)!r}, but positions are integers",
            primitive=name,
            fix='give "int32" or "int64"',
        )


def _goes_ahead(held: Expr, value: Expr, behind: bool) -> Expr:
    """Return whether a value goes behind an element of the sequence; NaN stands at the end, as in `sort`."""
    ahead = o.less_equal(held, value) if behind else o.less(held, value)
    if not held.dtype.is_float:
        return ahead
    last = o.not_equal(value, value)
    return o.logical_or(ahead, last if behind else o.logical_and(last, o.equal(held, held)))


def unique(data: Tensor, is_sorted: bool = True, return_counts: bool = False) -> list[Tensor]:
    """Find the different values of a tensor of one dimension.

    Parameters
    ----------
    data
        A tensor of one dimension, with a constant extent.
    is_sorted
        Whether the values come in ascending order, instead of that in which they are met first.
    return_counts
        Whether it is counted how often each value occurs.

    Returns
    -------
    [values, indices, inverse_indices, count of values] and, if requested, the count of each. The count has shape (1,);
    all others are as long as `data`, and end with zeros after the distinct values. `inverse_indices` has no such zeros:
    it has the index of each element's value. `indices` are the places of each value's first occurrence. All but the
    values are int32.

    Raises
    ------
    UserError
        For a tensor of several dimensions or of bool, and for an extent that is not constant.
    """
    source = rank_of(tensor(data, "data", "unique"), 1, "data", "unique", "(elements,)")
    if source.dtype == "bool":
        raise UserError(
            f"data {source.name!r} has type bool, but only numbers are ordered",
            primitive="unique",
            fix='convert it: topi.cast(data, "int8")',
        )
    (length,) = sizes(source, [0], "unique")
    if not length:
        raise UserError(
            f"data {source.name!r} is empty", primitive="unique", fix="give a tensor with at least one element"
        )
    order = stored(argsort(source, dtype="int32"))
    ordered = stored(moved([length], lambda i: source(order(i[0])), "ordered"))
    fresh = moved([length], lambda i: o.cast("int32", _is_fresh(ordered, i[0])), "fresh")
    so_far = cumsum(fresh)
    ranks = stored(moved([length], lambda i: so_far(i[0]) - 1, "ranks"))
    places = stored(moved([length], lambda i: i[0], "places"))
    first = stored(searchsorted(ranks, places, out_dtype="int32"))
    count = moved([1], lambda i: ranks(length - 1) + 1, "unique_count")
    number = stored(count)
    met = stored(moved([length], lambda i: order(o.minimum(first(i[0]), length - 1)), "met"))
    chosen = places if flag(is_sorted, "is_sorted", "unique") else _by_first_place(met, number, length)

    def present(value: Any, name: str) -> Tensor:
        return moved([length], lambda i: o.if_then_else(i[0] < number(0), value(chosen(i[0])), _zero(value)), name)

    inverse = ranks if chosen is places else _through(stored(argsort(chosen, dtype="int32")), ranks, length)
    blank = zeros((length,), "int32")
    result = [
        present(lambda k: source(met(k)), "unique_values"),
        present(lambda k: met(k), "unique_indices"),
        scatter_elements(blank, order, stored(inverse)),
        count,
    ]
    if flag(return_counts, "return_counts", "unique"):

        def times(k: Any) -> Any:
            return o.select(k + 1 < number(0), first(o.minimum(k + 1, length - 1)), length) - first(k)

        result.append(present(times, "unique_counts"))
    return result


def _zero(value: Any) -> Any:
    return o.const(0, value(o.const(0)).dtype)


def _is_fresh(ordered: Tensor, i: Any) -> Any:
    """Return whether an element differs from the one before. NaN differs from all, as in NumPy with
    `equal_nan=False`."""
    return o.if_then_else(i > 0, o.not_equal(ordered(o.maximum(i - 1, 0)), ordered(i)), True)


def _by_first_place(met: Tensor, number: Tensor, length: int) -> Tensor:
    """Return the values in the order of their first occurrence; absent values are last."""
    keys = moved([length], lambda i: o.if_then_else(i[0] < number(0), met(i[0]), length), "keys")
    return stored(argsort(keys, dtype="int32"))


def _through(table: Tensor, places: Tensor, length: int) -> Tensor:
    return moved([length], lambda i: table(places(i[0])), "through")


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        return _old_name(__name__, name, globals())
