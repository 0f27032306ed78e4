"""Rows of a table that indices name, and the gradient of that."""

from __future__ import annotations

from ...core.errors import UserError
from ...tensor.tensor import Tensor
from ..argument_checks import check_any, index_tensor, rank_of, same, tensor
from ..indexing import take
from ..scattering import scatter_nd
from ..shapes import reshape
from ..tensor import zeros


def embed(table: Tensor, indices: Tensor) -> Tensor:
    """Look up rows of a table.

    Parameters
    ----------
    table
        A matrix (rows, width).
    indices
        A tensor of integers. One outside of the table names its nearest row.

    Returns
    -------
    A tensor of shape `indices.shape + (width,)`.

    Raises
    ------
    UserError
        If the table is not a matrix or has no rows, or if indices are not integers.
    """
    rows = rank_of(tensor(table, "table", "embed"), 2, "table", "embed", "(rows, width)")
    where = index_tensor(indices, "indices", "embed")
    check_any(rows, rows.shape[0], where, [*where.shape, rows.shape[1]], "embed")
    return take(rows, where, 0)


def embed_grad(table: Tensor, indices: Tensor, grad_out: Tensor) -> Tensor:
    """Compute the gradient of `embed` by its table: each row is the sum of the gradients of its lookups.

    Parameters
    ----------
    table
        A matrix (rows, width); only its shape and type are used.
    indices
        A tensor of integers (count,).
    grad_out
        The gradients of the rows that were looked up, (count, width).

    Returns
    -------
    A tensor of the shape and type of `table`.

    Raises
    ------
    UserError
        For shapes and types that do not fit each other.
    """
    name = "embed_grad"
    rows = rank_of(tensor(table, "table", name), 2, "table", name, "(rows, width)")
    where = rank_of(index_tensor(indices, "indices", name), 1, "indices", name)
    grad = rank_of(tensor(grad_out, "grad_out", name), 2, "grad_out", name, "(count, width)")
    same(grad.shape[0], where.shape[0], "the rows of grad_out and the indices", name)
    same(grad.shape[1], rows.shape[1], "the widths of grad_out and table", name)
    if grad.dtype != rows.dtype:
        raise UserError(f"grad_out has type {grad.dtype}, and table {rows.dtype}", primitive=name, fix="give one type")
    return scatter_nd(zeros(rows.shape, rows.dtype), reshape(where, (1, where.shape[0])), grad, "add")
