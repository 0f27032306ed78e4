"""Matrix products by the BLAS that NumPy is linked with: `cblas.matmul(A, B)` declares one."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.errors import UserError
from ...loops.calls import call_packed
from ...runtime.packed import register_func
from ...te.extern import extern
from ...tensor.tensor import Tensor

MATMUL, BATCH_MATMUL = "tvm.contrib.cblas.matmul", "tvm.contrib.cblas.batch_matmul"


def matmul(lhs: Any, rhs: Any, transa: Any = False, transb: Any = False, **options: Any) -> Tensor:
    """Declare the product of two matrices, computed by BLAS on the host.

    Parameters
    ----------
    lhs, rhs
        Tensors of two dimensions, of float32 or float64.
    transa, transb
        Whether each is given transposed.
    **options
        Options of `te.extern`, such as `name`.

    Returns
    -------
    Tensor
        The product.

    Raises
    ------
    UserError
        For tensors of another rank or type, and for extents that do not agree.
    """
    return _product(lhs, rhs, _flag(transa), _flag(transb), 2, MATMUL, options)


def batch_matmul(lhs: Any, rhs: Any, transa: Any = False, transb: Any = False, **options: Any) -> Tensor:
    """Declare the products of two batches of matrices, computed by BLAS on the host: `matmul` has the rest."""
    return _product(lhs, rhs, _flag(transa), _flag(transb), 3, BATCH_MATMUL, options)


def _flag(given: Any) -> bool:
    if not isinstance(given, (bool, int)):
        raise UserError(
            f"transposing is {given!r}, which is neither True nor False", primitive="cblas", fix="give True or False"
        )
    return bool(given)


def _product(lhs: Any, rhs: Any, transa: bool, transb: bool, rank: int, name: str, options: dict[str, Any]) -> Tensor:
    for tensor in (lhs, rhs):
        fits = isinstance(tensor, Tensor) and len(tensor.shape) == rank and tensor.dtype in ("float32", "float64")
        if not fits or tensor.dtype != lhs.dtype:
            raise UserError(
                f"{tensor!r} is not an operand of a product by BLAS",
                primitive=name.rpartition(".")[2],
                fix=f"give two tensors of {rank} dimensions, both of float32 or both of float64",
            )
    rows, depth = lhs.shape[-1 if transa else -2], lhs.shape[-2 if transa else -1]
    other, columns = rhs.shape[-1 if transb else -2], rhs.shape[-2 if transb else -1]
    if depth is not other and depth != other:
        raise UserError(
            f"the product sums over {depth} terms of {lhs.name!r}, but over {other} of {rhs.name!r}",
            primitive=name.rpartition(".")[2],
            fix="give operands with equal extents of the sum, or mark a transposed operand: transb=True",
        )
    shape = (*lhs.shape[:-2], rows, columns)
    made: Tensor = extern(
        shape,
        [lhs, rhs],
        lambda ins, outs: call_packed(name, ins[0], ins[1], outs[0], transa, transb),
        **{"name": "C", "dtype": str(lhs.dtype), **options},
    )
    return made


def _multiply(lhs: Any, rhs: Any, out: Any, transa: Any, transb: Any) -> None:
    """The product of arrays on any device; on the host without a copy."""
    if out.device.kind == "cpu":
        a, b, c = (np.from_dlpack(array) for array in (lhs, rhs, out))
    else:
        a, b, c = lhs.numpy(), rhs.numpy(), np.empty(out.shape, out.dtype.numpy)
    np.matmul(a.swapaxes(-1, -2) if transa else a, b.swapaxes(-1, -2) if transb else b, out=c)
    if out.device.kind != "cpu":
        out.copyfrom(c)


for _name in (MATMUL, BATCH_MATMUL):
    register_func(_name, _multiply, override=True)
