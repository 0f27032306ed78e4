"""Products of matrices under the name and with the arguments of the legacy `topi.matmul`."""

from __future__ import annotations

from ..tensor.tensor import Tensor
from .nn.matmul import matmul as _matmul


def matmul(a: Tensor, b: Tensor, transp_a: bool = False, transp_b: bool = False) -> Tensor:
    """Multiply two matrices.

    Parameters
    ----------
    a, b : Tensor
        Matrices (m, k) and (k, n).
    transp_a, transp_b : bool
        Whether a matrix is given transposed: (k, m), and (n, k).

    Returns
    -------
    Tensor
        A matrix (m, n), of the type of `a`.

    Raises
    ------
    UserError
        For shapes that do not fit each other.
    """
    return _matmul(a, b, None, None, transp_a, transp_b)
