"""Contractions: matrix products, and convolutions as matrix products of views of their operands.

A contraction is D[b, i, j] = Σ_k L[b, i, k] · R[b, k, j]. The views L and R map an element to its place in memory, or
to a zero of a border. They are computed in their readers, never stored. An implicit GEMM is such a view: its rows are
filters and its columns positions of all images, or the other way round.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...expr.convert import cast, const
from ...expr.operators import all_of, floordiv, floormod, if_then_else
from ...tensor.axis import reduce_axis
from ...tensor.reduction import sum as reduce_sum
from ...tensor.tensor import Tensor, compute

Element = Callable[..., Any]


@dataclass(frozen=True)
class Operand:
    """One factor of a contraction: a view of a matrix per batch.

    Attributes
    ----------
    extent : int
        Rows of the left factor, columns of the right one.
    along_depth : bool
        Whether neighbours along the depth are neighbours in memory; else neighbours along the extent are.
    together : int
        Neighbours that one load may fetch: their place in memory is a multiple of this number of elements.
    """

    extent: int
    along_depth: bool
    together: int = 1


@dataclass(frozen=True)
class Contraction:
    """D[b, i, j] = Σ_k L[b, i, k] · R[b, k, j], and the memory layout of its parts.

    Attributes
    ----------
    batch : int
        Independent products: matrices of a batch, or groups of a convolution.
    rows, columns : Operand
        The factors. Neighbouring columns are neighbours in the result's memory.
    depth : int
        Products summed by each result.
    period : int
        Steps along the depth after which the address of the data continues evenly: the window of a convolution.
    run : int
        Neighbouring columns that certainly lie together in the result: a multiple of this number stays within one
        image.
    batch_axes, row_axes, column_axes : tuple of int
        The result's dimensions that count batches, rows and columns, the slowest first.
    grouped : tuple of (int, int), optional
        A dimension of the result, and the extent of its faster part; its slower part counts batches.
    prepared : tuple of int
        Bytes that each kernel writes that lays out a factor before the product.
    """

    batch: int
    rows: Operand
    columns: Operand
    depth: int
    dtype: str
    sum_dtype: str
    batch_axes: tuple[int, ...]
    row_axes: tuple[int, ...]
    column_axes: tuple[int, ...]
    period: int = 1
    run: int = 1
    grouped: tuple[int, int] | None = None
    prepared: tuple[int, ...] = ()


@dataclass(frozen=True)
class Views:
    """Elements of a contraction as expressions.

    `left(b, i, k)` and `right(b, k, j)` are asked only for elements that exist; `place` maps the indices of the result
    to (b, i, j).
    """

    left: Element
    right: Element
    place: Callable[..., tuple[Any, Any, Any]]
    shape: tuple[int, ...]
    names: tuple[str, ...]


@dataclass(frozen=True)
class Padded:
    """The extents of a contraction rounded up to whole tiles.

    With a `slice`, factors have their terms in slices of that many, one behind the other: each slice is a matrix by
    itself. With a `run`, columns of the product are in the order in which a lane of a matrix instruction holds `run`
    neighbours of the result. Of each 4 * run columns, lane m holds `run` columns from m * run on, two in each piece of
    8.
    """

    rows: int
    columns: int
    depth: int
    run: int = 0
    slice: int = 0

    def column(self, place: Any) -> Any:
        """The column of the result at a place among the columns of the product."""
        if not self.run:
            return place
        group, within = floordiv(place, 4 * self.run), floormod(place, 4 * self.run)
        piece, own = floordiv(within, 8), floormod(place, 8)
        return group * (4 * self.run) + floordiv(own, 2) * self.run + piece * 2 + floormod(own, 2)

    def digits(self, column: Any) -> tuple[Any, ...]:
        """The indices of a column of the result among the columns of the product."""
        if not self.run:
            return (column,)
        within = floormod(column, 4 * self.run)
        lane, at = floordiv(within, self.run), floormod(column, self.run)
        return floordiv(column, 4 * self.run), floordiv(at, 2), lane, floormod(column, 2)

    @property
    def column_shape(self) -> tuple[int, ...]:
        """The extents of the dimensions that count columns of the product."""
        return (self.columns // (4 * self.run), self.run // 2, 4, 2) if self.run else (self.columns,)


def splits(of: Contraction) -> list[int]:
    """Ways to divide the depth among blocks."""
    return [n for n in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32) if n == 1 or of.depth // n >= 32]


def rounded(extent: int, unit: int) -> int:
    """Return the least multiple of `unit` that is not below `extent`."""
    return -(-extent // unit) * unit


def row_alignment(word: int) -> tuple[int, int]:
    """Return the factor and the offset by which rows of results in shared memory begin in other banks than the last.

    `word` is the bytes of a result; both are elements, as `storage_align` takes them.
    """
    return 128 // word, 32 // word if word > 2 else 8


def padded_row(columns: Any, word: int) -> Any:
    """Return the elements from one row of results in shared memory to the next, whose rows are aligned so."""
    factor, offset = row_alignment(word)
    return columns + (offset - columns) % factor


def declare(of: Contraction, views: Views, padded: Padded, kind: str) -> Tensor:
    """Declare a contraction over views with whole tiles, and its result in its place.

    Parameters
    ----------
    padded : Padded
        Extents of whole tiles. Elements beyond the contraction's own extents are zero.
    kind : str
        The type of the views' elements.

    Returns
    -------
    Tensor
        The result with the workload's shape, in the type of the sums. It reads the contraction, which reads the views.
    """
    lhs, rhs = _factors(of, views, padded, kind)
    batches = of.batch > 1
    before, b_name = ((of.batch,), ("b",)) if batches else ((), ())
    k = reduce_axis((0, padded.slice or padded.depth), name="k")
    terms = [reduce_axis((0, padded.depth // padded.slice), name="slice"), k] if padded.slice else [k]

    def product(*indices: Any) -> Any:
        b, i, places = indices[:batches], indices[batches], indices[batches + 1 :]
        j = places[0]
        for place, extent in zip(places[1:], padded.column_shape[1:], strict=True):
            j = j * extent + place
        a = lhs(*b, *terms[:-1], i, k) if of.rows.along_depth else lhs(*b, k, i)
        c = rhs(*b, *terms[:-1], j, k) if of.columns.along_depth else rhs(*b, k, j)
        return reduce_sum(cast(of.sum_dtype, a) * cast(of.sum_dtype, c), terms)

    letters = ("j", "piece", "lane", "neighbour")[: len(padded.column_shape)]
    shape = (*before, padded.rows, *padded.column_shape)
    products = compute(shape, product, "products", varargs_names=[*b_name, "i", *letters])

    def placed(*indices: Any) -> Any:
        b, i, j = views.place(*indices)
        return products(*([b] * batches), i, *padded.digits(j))

    made: Tensor = compute(views.shape, placed, "sums", "contraction", varargs_names=list(views.names))
    return made


def _factors(of: Contraction, views: Views, padded: Padded, kind: str) -> tuple[Tensor, Tensor]:
    """Declare the views of both factors as tensors of whole tiles."""

    def within(value: Any, *limits: tuple[Any, int, int]) -> Any:
        inside = [index < extent for index, extent, whole in limits if whole > extent]
        value = cast(kind, value)
        return if_then_else(all_of(*inside), value, const(0, kind)) if inside else value

    def left(*indices: Any) -> Any:
        *b, i, k = indices if of.rows.along_depth else (*indices[:-2], indices[-1], indices[-2])
        return within(views.left(b[0] if b else 0, i, k), (i, of.rows.extent, padded.rows), (k, of.depth, padded.depth))

    def right(*indices: Any) -> Any:
        *b, k, j = (*indices[:-2], indices[-1], indices[-2]) if of.columns.along_depth else indices
        j = padded.column(j)
        return within(
            views.right(b[0] if b else 0, k, j), (j, of.columns.extent, padded.columns), (k, of.depth, padded.depth)
        )

    before, b_name = ((of.batch,), ("b",)) if of.batch > 1 else ((), ())

    def sliced(value: Element) -> Element:
        return lambda *indices: value(*indices[:-3], indices[-2], indices[-3] * padded.slice + indices[-1])

    def view(name: str, value: Element, extent: int, letter: str, along_depth: bool) -> Tensor:
        dims: tuple[int, ...] = (extent, padded.depth) if along_depth else (padded.depth, extent)
        letters: tuple[str, ...] = (letter, "k") if along_depth else ("k", letter)
        if padded.slice:
            dims, letters = (padded.depth // padded.slice, extent, padded.slice), ("slice", letter, "k")
            value = sliced(value)
        made: Tensor = compute((*before, *dims), value, name, varargs_names=[*b_name, *letters])
        return made

    lhs = view("left", left, padded.rows, "i", of.rows.along_depth)
    rhs = view("right", right, padded.columns, "j", of.columns.along_depth)
    return lhs, rhs
