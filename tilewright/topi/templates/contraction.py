"""Contractions: matrix products, and convolutions as matrix products of views of their operands.

A contraction is D[b, i, j] = Σ_k L[b, i, k] · R[b, k, j]. The views L and R map an element to its place in memory, or
to a zero of a border. They are computed in their readers, never stored. An implicit GEMM is such a view: its rows are
filters and its columns positions of all images, or the other way round.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic

from ...expr.convert import cast
from ...tensor.axis import reduce_axis
from ...tensor.tensor import Tensor, compute
from .declarations import sum_of_products
from .schedule_helpers import GPU
from .workload import W

Element = Callable[..., Any]


@dataclass(frozen=True)
class MatrixOperand:
    """One factor of a contraction: a view of a matrix per batch."""

    extent: int
    """The number of rows of the left factor, or of columns of the right factor."""
    along_depth: bool
    """Whether the depth is the contiguous dimension in memory; otherwise the extent is."""
    together: int = 1
    """The largest number of contiguous elements per load. Their first index is a multiple of this number."""
    word: int = 0
    """Bytes of an element in shared memory; 0 for the type of the sums."""


@dataclass(frozen=True)
class Contraction:
    """D[b, i, j] = Σ_k L[b, i, k] · R[b, k, j], and the memory layout of its parts."""

    batch: int
    """The number of independent products: matrices of a batch, or groups of a convolution."""
    rows: MatrixOperand
    columns: MatrixOperand
    """The factors. Neighbouring columns are neighbours in the result's memory."""
    depth: int
    """The number of products in each sum."""
    dtype: str
    sum_dtype: str
    batch_axes: tuple[int, ...]
    """The result's dimensions that count the batches, the slowest first."""
    row_axes: tuple[int, ...]
    """The result's dimensions that count the rows, the slowest first."""
    column_axes: tuple[int, ...]
    """The result's dimensions that count the columns, the slowest first."""
    period: int = 1
    """Steps along the depth after which addresses of the data repeat their pattern: the window of a convolution."""
    run: int = 1
    """Neighbouring columns that always lie together in the result: no image ends within them."""
    grouped: tuple[int, int] | None = None
    """A dimension of the result, and the extent of its faster part; its slower part counts batches."""
    prepared: tuple[int, ...] = ()
    """Bytes that each kernel before the product writes; such a kernel lays out a factor."""
    term_instructions: int = 1
    """Instructions that compute a term and add it: one for a product, which is fused with the addition."""


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


def splits(of: Contraction) -> list[int]:
    """Return the candidate numbers of blocks that share the depth."""
    return [n for n in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32) if n == 1 or of.depth // n >= 32]


def rounded(extent: int, unit: int) -> int:
    """Return the least multiple of `unit` that is not below `extent`."""
    return -(-extent // unit) * unit


def row_alignment(word: int) -> tuple[int, int]:
    """Return the factor and the offset that place consecutive rows of results in different banks of shared memory.

    `word` is the size of a result in bytes. Factor and offset are in elements, as for `storage_align`.
    """
    return GPU.warp_memory.line // word, GPU.warp_memory.sector // word if word > 2 else 8


def padded_row(columns: Any, word: int) -> Any:
    """Return the stride, in elements, of such rows in shared memory."""
    factor, offset = row_alignment(word)
    return columns + (offset - columns) % factor


def declare(of: Contraction, views: Views, kind: str) -> Tensor:
    """Declare a contraction over views with elements of type `kind`, and its result in the workload's order.

    The result has the workload's shape and the type of the sums. It reads the contraction, which reads the views.
    """
    lhs = _view("left", views.left, of, of.rows, kind)
    rhs = _view("right", lambda b, j, k: views.right(b, k, j), of, of.columns, kind)
    batches = of.batch > 1
    before, b_name = ((of.batch,), ("b",)) if batches else ((), ())
    k = reduce_axis((0, of.depth), name="k")

    def product(*indices: Any) -> Any:
        *b, i, j = indices
        a = lhs(*b, i, k) if of.rows.along_depth else lhs(*b, k, i)
        c = rhs(*b, j, k) if of.columns.along_depth else rhs(*b, k, j)
        return sum_of_products(of.sum_dtype, a, c, [k])

    shape = (*before, of.rows.extent, of.columns.extent)
    products = compute(shape, product, "products", varargs_names=[*b_name, "i", "j"])

    def placed(*indices: Any) -> Any:
        b, i, j = views.place(*indices)
        return products(*([b] * batches), i, j)

    made: Tensor = compute(views.shape, placed, "sums", "contraction", varargs_names=list(views.names))
    return made


def _view(name: str, element: Element, of: Contraction, operand: MatrixOperand, kind: str) -> Tensor:
    """Declare the view of a factor, with its contiguous dimension last."""
    letter, deep = "i" if operand is of.rows else "j", operand.along_depth
    before, b_name = ((of.batch,), ("b",)) if of.batch > 1 else ((), ())

    def value(*indices: Any) -> Any:
        *b, i, k = indices if deep else (*indices[:-2], indices[-1], indices[-2])
        return cast(kind, element(b[0] if b else 0, i, k))

    dims, letters = (operand.extent, of.depth), (letter, "k")
    if not deep:
        dims, letters = dims[::-1], letters[::-1]
    made: Tensor = compute((*before, *dims), value, name, varargs_names=[*b_name, *letters])
    return made


@dataclass(frozen=True, eq=False)
class OfContraction(Generic[W]):
    """The base of strategies for workloads that are contractions. `views_of` declares the views of their factors."""

    contraction_of: Callable[[W], Contraction]
    views_of: Callable[[W, Tensor, Tensor], Views]
