"""Matrix products: of matrices, of batches of them, and over any dimensions."""

from __future__ import annotations

from typing import Any

from ...core.errors import UserError
from ...expr.operators import cast, is_const
from ...tensor.axis import reduce_axis
from ...tensor.reduction import sum as reduce_sum
from ...tensor.tensor import Tensor, compute
from ..argument_checks import flag, rank_of, result_type, same, tensor


def matmul(
    tensor_a: Tensor,
    tensor_b: Tensor,
    bias: Tensor | None = None,
    out_dtype: Any = None,
    transpose_a: bool = False,
    transpose_b: bool = False,
    auto_scheduler_rewritten_layout: str = "",
    meta_schedule_original_shape: Any = None,
) -> Tensor:
    """Multiply two matrices, and add a row to each row of the product.

    Parameters
    ----------
    tensor_a, tensor_b
        Matrices (m, k) and (k, n).
    bias
        A tensor of shape (n,).
    out_dtype
        The type to accumulate in, by default that of `tensor_a`.
    transpose_a, transpose_b
        Whether a matrix is given transposed: (k, m), and (n, k).
    auto_scheduler_rewritten_layout, meta_schedule_original_shape
        Accepted for old scripts, without effect.

    Returns
    -------
    A matrix (m, n).

    Raises
    ------
    UserError
        For shapes that do not fit each other.
    """
    a, b = (
        rank_of(tensor(t, name, "matmul"), 2, name, "matmul", "(rows, columns)")
        for t, name in ((tensor_a, "tensor_a"), (tensor_b, "tensor_b"))
    )
    transpose_a, transpose_b = _turned(transpose_a, transpose_b, "matmul")
    (m, k_a), (n, k_b) = a.shape[:: -1 if transpose_a else 1], b.shape[:: 1 if transpose_b else -1]
    same(k_a, k_b, "the extents of tensor_a and tensor_b that are summed over", "matmul")
    kind, k = result_type(out_dtype, a, "matmul"), reduce_axis((0, k_a), name="k")

    def element(i: Any, j: Any) -> Any:
        left = a(k, i) if transpose_a else a(i, k)
        right = b(j, k) if transpose_b else b(k, j)
        return reduce_sum(cast(kind, left) * cast(kind, right), axis=k)

    product: Tensor = compute((m, n), element, "T_matmul", "matmul")
    if bias is None:
        return product
    row = rank_of(tensor(bias, "bias", "matmul"), 1, "bias", "matmul", "(columns,)")
    same(row.shape[0], n, "the elements of bias and the columns of the product", "matmul")
    made: Tensor = compute((m, n), lambda i, j: product(i, j) + cast(kind, row(j)), "T_add", "broadcast")
    return made


def _turned(transpose_a: Any, transpose_b: Any, primitive: str) -> tuple[bool, bool]:
    return flag(transpose_a, "transpose_a", primitive), flag(transpose_b, "transpose_b", primitive)


def batch_matmul(
    tensor_a: Tensor,
    tensor_b: Tensor,
    oshape: Any = None,
    out_dtype: Any = None,
    transpose_a: bool = False,
    transpose_b: bool = True,
    auto_scheduler_rewritten_layout: str = "",
    meta_schedule_original_shape: Any = None,
) -> Tensor:
    """Multiply matrices of two batches, pair by pair.

    Parameters
    ----------
    tensor_a, tensor_b
        Tensors of shape (batch, m, k), and as usual for weights (batch, n, k). A batch of 1 is used for all.
    oshape
        The shape of the result, which follows from the others: accepted for old scripts, without effect.
    out_dtype
        The type to accumulate in, by default that of `tensor_a`.
    transpose_a, transpose_b
        Whether matrices are given as (k, m), and as (n, k).
    auto_scheduler_rewritten_layout, meta_schedule_original_shape
        Accepted for old scripts, without effect.

    Returns
    -------
    A tensor of shape (batch, m, n).

    Raises
    ------
    UserError
        For shapes that do not fit each other.
    """
    a, b = (
        rank_of(tensor(t, name, "batch_matmul"), 3, name, "batch_matmul", "(batch, rows, columns)")
        for t, name in ((tensor_a, "tensor_a"), (tensor_b, "tensor_b"))
    )
    once = [is_const(t.shape[0], 1) for t in (a, b)]
    if not any(once):
        same(a.shape[0], b.shape[0], "the batches of tensor_a and tensor_b", "batch_matmul")
    transpose_a, transpose_b = _turned(transpose_a, transpose_b, "batch_matmul")
    (m, k_a), (n, k_b) = a.shape[1:][:: -1 if transpose_a else 1], b.shape[1:][:: 1 if transpose_b else -1]
    same(k_a, k_b, "the extents of tensor_a and tensor_b that are summed over", "batch_matmul")
    kind, k = result_type(out_dtype, a, "batch_matmul"), reduce_axis((0, k_a), name="k")

    def element(batch: Any, i: Any, j: Any) -> Any:
        first, second = (0 if only else batch for only in once)
        left = a(first, k, i) if transpose_a else a(first, i, k)
        right = b(second, j, k) if transpose_b else b(second, k, j)
        return reduce_sum(cast(kind, left) * cast(kind, right), axis=k)

    made: Tensor = compute((b.shape[0] if once[0] else a.shape[0], m, n), element, "T_batch_matmul", "batch_matmul")
    return made


def tensordot(a: Tensor, b: Tensor, axes: Any) -> Tensor:
    """Sum products over dimensions of two tensors, as NumPy's `tensordot`.

    Parameters
    ----------
    a, b
        The tensors.
    axes
        How many of the last dimensions of `a` and the first of `b` are summed over; or the dimensions of each.

    Returns
    -------
    A tensor of the other dimensions, beginning with those of `a`.

    Raises
    ------
    UserError
        For dimensions that do not fit each other.
    """
    left, right = tensor(a, "a", "tensordot"), tensor(b, "b", "tensordot")
    if isinstance(axes, int) and not isinstance(axes, bool):
        pairs = [list(range(left.ndim - axes, left.ndim)), list(range(axes))] if 0 <= axes <= left.ndim else []
    else:
        given = list(axes) if isinstance(axes, (list, tuple)) else []
        pairs = [list(x) if isinstance(x, (list, tuple)) else [x] for x in given]
    valid = len(pairs) == 2 and all(
        all(isinstance(d, int) and -t.ndim <= d < t.ndim for d in each) and len({d % t.ndim for d in each}) == len(each)
        for each, t in zip(pairs, (left, right), strict=True)
    )
    if not valid or len(pairs[0]) != len(pairs[1]):
        raise UserError(
            f"argument 'axes' is {axes!r}, for tensors of {left.ndim} and {right.ndim} dimensions",
            primitive="tensordot",
            fix="give a number of dimensions, or two lists of equal length, each dimension once: axes=([1], [0])",
        )
    of_left, of_right = ([d % t.ndim for d in each] for each, t in zip(pairs, (left, right), strict=True))
    for d, e in zip(of_left, of_right, strict=True):
        same(left.shape[d], right.shape[e], f"extents of dimension {d} of a and {e} of b", "tensordot")
    terms = [reduce_axis((0, left.shape[d]), name=f"k{d}") for d in of_left]
    outer = [n for d, n in enumerate(left.shape) if d not in of_left]
    inner = [n for d, n in enumerate(right.shape) if d not in of_right]

    def element(*i: Any) -> Any:
        rest, more = iter(i[: len(outer)]), iter(i[len(outer) :])
        first = left(*(terms[of_left.index(d)] if d in of_left else next(rest) for d in range(left.ndim)))
        second = right(*(terms[of_right.index(d)] if d in of_right else next(more) for d in range(right.ndim)))
        return reduce_sum(first * second, axis=terms) if terms else first * second

    made: Tensor = compute([*outer, *inner], element, "T_tensordot", "matmul")
    return made
