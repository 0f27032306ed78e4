"""The intrinsic functions with which legacy programs describe matrix instructions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.dtype import INT32
from .nodes import Call, Expr

MATRIX_CALLS = ("tvm_load_matrix_sync", "tvm_store_matrix_sync", "tvm_mma_sync", "tvm_fill_fragment")


def matrix_call(name: str) -> Expr:
    """Return a call of a matrix intrinsic. Only its name matters."""
    return Call(name, (), INT32)


def _matrix_function(name: str) -> Callable[..., Expr]:
    def called(*args: Any, span: Any = None) -> Expr:
        return matrix_call(name)

    called.__name__ = called.__qualname__ = name
    called.__doc__ = (
        f"The call of the matrix instruction `{name}`, for `te.decl_tensor_intrin`.\n\n    Its arguments are accepted "
        "as in the legacy API: the compiler lays fragments out itself."
    )
    return called


tvm_load_matrix_sync, tvm_store_matrix_sync, tvm_mma_sync, tvm_fill_fragment = map(_matrix_function, MATRIX_CALLS)
