"""Tensors of indices: ranges, grids of coordinates, shapes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..core.errors import UserError
from ..core.refusals import old_name as _old_name
from ..expr import operators as o
from ..expr.nodes import Expr
from ..tensor.tensor import Tensor, compute
from .argument_checks import element_type, index_tensor, integer, one_of, rank_of, sizes, tensor, tensors, wide_index
from .shapes import moved, unravelled
from .tag import INJECTIVE


def arange(start: Any, stop: Any = None, step: Any = 1, dtype: Any = "float32") -> Tensor:
    """Make a tensor of evenly spaced numbers.

    Parameters
    ----------
    start, stop
        The first number and the end, which is not among them; given alone, `start` is the end, and 0 the first.
    step
        The distance of neighbours.
    dtype
        The type of the elements.

    Returns
    -------
    A tensor of one dimension.

    Raises
    ------
    UserError
        If the step is 0, or there would be no element.
    """
    first, end = (0, start) if stop is None else (start, stop)
    numbers = [getattr(x, "value", x) for x in (first, end, step)]
    if any(isinstance(x, bool) or not isinstance(x, (int, float)) for x in numbers) or numbers[2] == 0:
        raise UserError(
            f"from {first!r} to {end!r} by {step!r} is not a range",
            primitive="arange",
            fix="give numbers, and a step other than 0",
        )
    if not all(math.isfinite(x) for x in numbers):
        raise UserError(
            f"from {first!r} to {end!r} by {step!r} is not a finite range",
            primitive="arange",
            fix="give finite numbers",
        )
    kind, count = element_type(dtype, "arange"), math.ceil((numbers[1] - numbers[0]) / numbers[2])
    if count <= 0:
        raise UserError(
            f"no number lies from {first} to {end} by {step}",
            primitive="arange",
            fix="give an end in the direction of the step",
        )
    begin, distance = (o.const(x, kind) for x in (numbers[0], numbers[2]))
    made: Tensor = compute((count,), lambda i: begin + distance * o.cast(kind, i), "T_arange", INJECTIVE)
    return made


def meshgrid(a_tuple: Sequence[Tensor], indexing: str) -> list[Tensor]:
    """Make the tensors of coordinates of a grid.

    Parameters
    ----------
    a_tuple
        For each dimension of the grid, its coordinates: tensors of one dimension, or of none.
    indexing
        "ij", or "xy": then the first two dimensions of the grid change places.

    Returns
    -------
    For each of them a tensor of the shape of the grid.
    """
    given = [
        rank_of(t, (0, 1), f"a_tuple[{i}]", "meshgrid") for i, t in enumerate(tensors(a_tuple, "a_tuple", "meshgrid"))
    ]
    one_of(indexing, ("ij", "xy"), "indexing", "meshgrid")
    order = list(range(len(given)))
    if indexing == "xy" and len(given) > 1:
        order[:2] = 1, 0
    shape = [given[d].shape[0] if given[d].ndim else o.const(1) for d in order]
    places = [order.index(d) for d in range(len(given))]
    return [
        moved(shape, lambda i, t=t, at=at: t(i[at]) if t.ndim else t(), "meshgrid")
        for t, at in zip(given, places, strict=True)
    ]


def unravel_index(indices: Tensor, shape: Any) -> Tensor:
    """Compute the coordinates of places in row-major order.

    Parameters
    ----------
    indices
        A tensor of integers.
    shape
        The extents of the indexed tensor: numbers, or a tensor of one dimension that holds them.

    Returns
    -------
    A tensor of shape (dimensions, ...) and of the type of `indices`.
    """
    where = index_tensor(indices, "indices", "unravel_index")
    extents = _extents_in(shape, wide_index(o.const(0, where.dtype)).dtype)

    def element(i: list[Any]) -> Expr:
        return o.cast(where.dtype, _chosen(i[0], unravelled(wide_index(where(*i[1:])), extents)))

    return moved([o.const(len(extents)), *where.shape], element, "unravel")


def _chosen(at: Expr, values: Sequence[Any]) -> Expr:
    """Return the value of that number."""
    value = values[-1]
    for d in reversed(range(len(values) - 1)):
        value = o.select(o.equal(at, d), values[d], value)
    return o.as_expr(value)


def _extents_in(shape: Any, kind: Any) -> list[Expr]:
    """The extents that callers list, or keep in a tensor."""
    if isinstance(shape, Tensor):
        held = rank_of(index_tensor(shape, "shape", "unravel_index"), 1, "shape", "unravel_index", "(dimensions,)")
        (count,) = sizes(held, [0], "unravel_index")
        return [o.cast(kind, held(d)) for d in range(count)]
    listed = shape if isinstance(shape, (list, tuple)) else [shape]
    return [o.const(integer(n, "shape", "unravel_index", 1), kind) for n in listed]


def shape(array: Tensor, dtype: Any = "int32") -> Tensor:
    """Make a tensor that holds the extents of another tensor.

    Parameters
    ----------
    array
        The tensor.
    dtype
        The type of the result.

    Returns
    -------
    A tensor of one dimension.
    """
    data, kind = tensor(array, "array", "shape"), element_type(dtype, "shape")
    if not data.ndim:
        raise UserError(
            f"{data.name!r} has no dimensions", primitive="shape", fix="give a tensor with at least one dimension"
        )

    sizes = [o.cast(kind, extent) for extent in data.shape]
    return moved([o.const(data.ndim)], lambda i: _chosen(i[0], sizes), "shape")


def ndarray_size(array: Tensor, dtype: Any = "int32") -> Tensor:
    """Make a tensor without dimensions that holds the number of elements of another tensor.

    Parameters
    ----------
    array
        The tensor.
    dtype
        The type of the result.

    Returns
    -------
    A tensor of no dimension.
    """
    data, kind = tensor(array, "array", "ndarray_size"), element_type(dtype, "ndarray_size")
    total: Any = o.const(1)
    for n in data.shape:
        total = total * n
    return moved([], lambda _: o.cast(kind, total), "ndarray_size")


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        return _old_name(__name__, name, globals())
