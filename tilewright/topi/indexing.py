"""Operators that read at positions from other tensors, or that choose by position."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from ..core.errors import UserError
from ..core.refusals import old_name as _old_name
from ..core.text import quantity
from ..expr import operators as o
from ..expr.nodes import Expr
from ..tensor.tensor import Tensor
from .argument_checks import (
    check_any,
    dimension,
    divisor,
    element_type,
    flag,
    index_tensor,
    integer,
    known,
    one_of,
    rank_of,
    same,
    tensor,
    wide_index,
)
from .broadcast import broadcast_shape, compute_broadcast
from .shapes import moved, unravelled

MODES = ("clip", "wrap", "fast", "nan")


def take(a: Tensor, indices: Tensor, axis: int | None = None, batch_dims: int = 0, mode: str = "clip") -> Tensor:
    """Take the elements of a tensor that indices name.

    Parameters
    ----------
    a
        The tensor.
    indices
        A tensor of integers.
    axis
        The dimension that they index; by default the elements in row-major order.
    batch_dims
        The number of leading dimensions that `a` and `indices` share.
    mode
        What an index outside of the dimension means: "clip" the nearest element, "wrap" one counted around, "nan" NaN
        (0 for integers). With "fast", indices are not checked.

    Returns
    -------
    A tensor with the dimensions of `indices` in place of `axis`.

    Raises
    ------
    UserError
        If the dimension has no elements, unless `mode` is "nan".
    """
    data, where = tensor(a, "a", "take"), index_tensor(indices, "indices", "take")
    mode = one_of(mode, MODES, "mode", "take")
    batch = integer(batch_dims, "batch_dims", "take", 0)
    if axis is None:
        total = prod(data.shape, start=o.const(1))
        if mode != "nan":
            check_any(data, total, where, where.shape, "take")
        return moved(
            where.shape,
            lambda i: _guarded(data, lambda k: unravelled(k, data.shape), where(*i), total, mode),
            "take",
        )
    at = dimension(axis, data.ndim, "take")
    if batch > at or batch > where.ndim:
        raise UserError(
            f"batch_dims={batch_dims} exceeds axis={axis} or the {quantity(where.ndim, 'dimension')} of indices",
            primitive="take",
            fix="give at most axis, and at most the number of dimensions of indices",
        )
    for d in range(batch):
        same(data.shape[d], where.shape[d], f"extents of dimension {d} of a and indices", "take")
    inner = where.ndim - batch
    shape = [*data.shape[:at], *where.shape[batch:], *data.shape[at + 1 :]]
    if mode != "nan":
        check_any(data, data.shape[at], where, shape, "take")

    def element(i: list[Any]) -> Expr:
        index = where(*i[:batch], *i[at : at + inner])
        return _guarded(data, lambda k: [*i[:at], k, *i[at + inner :]], index, data.shape[at], mode)

    return moved(shape, element, "take")


def _guarded(data: Tensor, place: Any, index: Expr, extent: Any, mode: str) -> Expr:
    """The element at `place(index)`, with `mode` for an index outside of the extent."""
    if mode == "fast":
        return data(*place(index))
    index = wide_index(index)
    extent = o.cast(index.dtype, extent)
    if mode == "wrap":
        return data(*place(o.floormod(index, o.cast(index.dtype, divisor(extent)))))
    zero = o.const(0, index.dtype)
    if mode == "clip":
        return data(*place(o.minimum(o.maximum(index, zero), extent - 1)))
    outside = o.const(float("nan") if data.dtype.is_float else 0, data.dtype)
    inside = o.all_of(o.greater_equal(index, zero), o.less(index, extent))
    return o.if_then_else(inside, data(*place(index)), outside)


def gather(data: Tensor, axis: int, indices: Tensor) -> Tensor:
    """Take along a dimension the elements that indices of the same rank name, each at its own place.

    Parameters
    ----------
    data
        The tensor.
    axis
        The dimension that is indexed.
    indices
        A tensor of integers from 0 on, of the rank of `data` and, but for `axis`, of its shape.

    Returns
    -------
    A tensor of the shape of `indices`.

    Raises
    ------
    UserError
        For shapes that do not fit each other.
    """
    source, where = tensor(data, "data", "gather"), index_tensor(indices, "indices", "gather")
    at = dimension(axis, source.ndim, "gather")
    rank_of(where, source.ndim, "indices", "gather")
    for d in range(source.ndim):
        if d != at:
            same(source.shape[d], where.shape[d], f"extents of dimension {d} of data and indices", "gather")
    check_any(source, source.shape[at], where, where.shape, "gather")
    return moved(where.shape, lambda i: source(*i[:at], where(*i), *i[at + 1 :]), "gather")


def gather_nd(a: Tensor, indices: Tensor) -> Tensor:
    """Take the elements, or parts, at the first indices in the columns of a tensor.

    Parameters
    ----------
    a
        The tensor.
    indices
        A tensor of whole numbers from 0 on, of shape (K, ...): result (...) is part `a[indices[0, ...], ...,
        indices[K - 1, ...]]`.

    Returns
    -------
    A tensor of shape `indices.shape[1:] + a.shape[K:]`.

    Raises
    ------
    UserError
        If K is not constant, or larger than the rank of `a`.
    """
    data, where = tensor(a, "a", "gather_nd"), tensor(indices, "indices", "gather_nd")
    where = where if where.dtype.is_float else index_tensor(where, "indices", "gather_nd")
    depth = known(where.shape[0]) if where.ndim else None
    if depth is None or not 0 < depth <= data.ndim:
        raise UserError(
            f"indices {where.name!r} has the shape {list(where.shape)}, and {data.name!r} "
            f"{quantity(data.ndim, 'dimension')}",
            primitive="gather_nd",
            fix=f"let its first extent be the number of indexed dimensions: from 1 to {data.ndim}",
        )
    outer, shape = where.ndim - 1, [*where.shape[1:], *data.shape[depth:]]
    check_any(data, prod(data.shape[:depth], start=o.const(1)), where, shape, "gather_nd")
    return moved(
        shape,
        lambda i: data(*(_as_index(where(k, *i[:outer])) for k in range(depth)), *i[outer:]),
        "gather_nd",
    )


def _as_index(number: Expr) -> Expr:
    """Convert an index that is stored as a floating-point number."""
    return o.cast("int32", number) if number.dtype.is_float else number


def where(condition: Tensor, x: Any, y: Any) -> Tensor:
    """Choose elements by a condition.

    Parameters
    ----------
    condition
        A tensor of type bool, or of numbers: all but 0 are true.
    x, y
        The elements if it holds, and otherwise: tensors of one type or numbers. All three broadcast.

    Returns
    -------
    A tensor of the broadcast shape.

    Raises
    ------
    UserError
        If the shapes do not broadcast.
    """
    tensor(condition, "condition", "where")
    shape: tuple[Expr, ...] = ()
    for each in (condition, x, y):
        if isinstance(each, Tensor):
            shape = broadcast_shape(shape, each.shape, "where")

    def value(chosen: Expr, one: Any, other: Any) -> Expr:
        holds = chosen if chosen.dtype.is_bool else o.not_equal(chosen, o.const(0, chosen.dtype))
        return o.select(holds, one, other)

    return compute_broadcast(shape, value, [condition, x, y], "where")


def one_hot(indices: Tensor, on_value: Any, off_value: Any, depth: int, axis: int, dtype: Any) -> Tensor:
    """Mark the place that each index names, along a new dimension.

    Parameters
    ----------
    indices
        A tensor of integers. One outside of the dimension marks no place.
    on_value, off_value
        The value of the named place, and of all others.
    depth
        The extent of the new dimension.
    axis
        Its position in the result; -1 puts it last.
    dtype
        The type of the result.

    Returns
    -------
    A tensor with one more dimension.
    """
    where_, extent = index_tensor(indices, "indices", "one_hot"), integer(depth, "depth", "one_hot", 1)
    at, kind = dimension(axis, where_.ndim + 1, "one_hot"), element_type(dtype, "one_hot")
    on, off = (o.cast(kind, o.as_expr(v)) for v in (on_value, off_value))

    def element(i: list[Any]) -> Expr:
        index = wide_index(where_(*i[:at], *i[at + 1 :]))
        return o.select(o.equal(index, o.cast(index.dtype, i[at])), on, off)

    return moved([*where_.shape[:at], o.const(extent), *where_.shape[at:]], element, "one_hot")


def sequence_mask(data: Tensor, valid_length: Tensor, mask_value: float = 0, axis: int = 0) -> Tensor:
    """Replace the elements behind the end of each sequence of a batch.

    Parameters
    ----------
    data
        A tensor of shape (length, batch, ...), or (batch, length, ...).
    valid_length
        The length of each sequence: a tensor of shape (batch,).
    mask_value
        The value that stands there.
    axis
        The dimension along which sequences lie: 0 or 1.

    Returns
    -------
    A tensor of the shape of `data`.

    Raises
    ------
    UserError
        If there is not one length per sequence.
    """
    source, lengths = tensor(data, "data", "sequence_mask"), tensor(valid_length, "valid_length", "sequence_mask")
    along = one_of(axis, (0, 1), "axis", "sequence_mask")
    if source.ndim < 2 or lengths.ndim != 1:
        raise UserError(
            f"data has the shape {list(source.shape)} and valid_length {list(lengths.shape)}",
            primitive="sequence_mask",
            fix="give a length per sequence, and data (length, batch, ...), or with axis=1 (batch, length, ...)",
        )
    same(lengths.shape[0], source.shape[1 - along], "elements of valid_length and sequences of data", "sequence_mask")
    value = o.const(mask_value, source.dtype)

    def element(i: list[Any]) -> Expr:
        length = lengths(i[1 - along])
        length = wide_index(length) if length.dtype.is_int else length
        return o.if_then_else(o.less(o.cast(length.dtype, i[along]), length), source(*i), value)

    return moved(source.shape, element, "sequence_mask")


ALIGNMENTS = ("RIGHT_LEFT", "LEFT_RIGHT", "LEFT_LEFT", "RIGHT_RIGHT")


def matrix_set_diag(data: Tensor, diagonal: Tensor, k: Any = 0, align: str = "RIGHT_LEFT") -> Tensor:
    """Replace diagonals of matrices.

    Parameters
    ----------
    data
        A tensor of matrices: its last two dimensions, of constant extents.
    diagonal
        The new diagonals: of shape (..., elements), or (..., diagonals, elements) for several, the topmost first.
    k
        Which diagonal is replaced, 0 being the main one and positive ones above it; or the lowest and the highest of
        several.
    align
        Whether diagonals shorter than the longest stand left or right in their row: first diagonals above, then below
        the main one.

    Returns
    -------
    A tensor of the shape of `data`.

    Raises
    ------
    UserError
        For diagonals that the matrices do not have, and for shapes that do not fit each other.
    """
    source, new = tensor(data, "data", "matrix_set_diag"), tensor(diagonal, "diagonal", "matrix_set_diag")
    above, below = one_of(align, ALIGNMENTS, "align", "matrix_set_diag").split("_")
    several = isinstance(k, (list, tuple))
    low, high = (integer(x, "k", "matrix_set_diag") for x in ((k[0], k[-1]) if several and k else (k, k)))
    height, width = _matrix(source)
    if not -height < low <= high < width:
        raise UserError(
            f"argument 'k' is {k!r}, but matrices of {height}×{width} have diagonals from {1 - height} to {width - 1}",
            primitive="matrix_set_diag",
            fix="give one of them, or the lowest and the highest of several",
        )
    rank_of(
        new,
        source.ndim - 1 + (high > low),
        "diagonal",
        "matrix_set_diag",
        "(..., elements), or (..., diagonals, elements)",
    )
    longest = max(_length(height, width, d) for d in range(low, high + 1))
    same(new.shape[-1], o.const(longest), "elements of diagonal and of the longest one replaced", "matrix_set_diag")

    def element(i: list[Any]) -> Expr:
        *batch, m, n = i
        offset = n - m
        row = [high - offset] if high > low else []
        length = o.minimum(height + o.minimum(offset, 0), width - o.maximum(offset, 0))
        shift = o.const(0)
        for side, here in ((above, o.greater_equal(offset, 0)), (below, o.less(offset, 0))):
            shift = o.select(here, longest - length, shift) if side == "RIGHT" else shift
        place = o.minimum(m, n) + shift
        inside = o.all_of(o.greater_equal(offset, low), o.less_equal(offset, high))
        return o.if_then_else(inside, new(*batch, *row, place), source(*i))

    return moved(source.shape, element, "matrix_set_diag")


def _length(height: int, width: int, diagonal: int) -> int:
    return min(height + min(diagonal, 0), width - max(diagonal, 0))


def trilu(data: Tensor, k: Any, upper: bool) -> Tensor:
    """Keep the upper or the lower triangle of matrices, and set the rest to 0.

    Parameters
    ----------
    data
        A tensor of matrices: its last two dimensions.
    k
        The diagonal at which the triangle begins or ends: an int or a scalar expression.
    upper
        Whether the upper triangle is kept.

    Returns
    -------
    A tensor of the shape of `data`.
    """
    source = tensor(data, "data", "trilu")
    _matrix(source, "trilu")
    above = flag(upper, "upper", "trilu")
    zero = o.const(0, source.dtype)

    def element(i: list[Any]) -> Expr:
        offset = i[-1] - i[-2]
        keep = o.greater_equal(offset, k) if above else o.less_equal(offset, k)
        return o.if_then_else(keep, source(*i), zero)

    return moved(source.shape, element, "trilu")


def _matrix(data: Tensor, primitive: str = "matrix_set_diag") -> tuple[int, int]:
    """The extents of the matrices that a tensor holds."""
    found = [known(n) for n in data.shape[-2:]]
    if len(found) < 2 or None in found:
        raise UserError(
            f"data {data.name!r} has the shape {list(data.shape)}, which holds no matrices of constant extents",
            primitive=primitive,
            fix="give a tensor of at least 2 dimensions, the last two of constant extents",
        )
    return found[0] or 0, found[1] or 0


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        return _old_name(__name__, name, globals())
