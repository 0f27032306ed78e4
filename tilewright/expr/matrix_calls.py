"""The intrinsic functions by which legacy programs say how a matrix instruction is done."""

from __future__ import annotations

from ..core.dtype import INT32
from .nodes import Call, Expr

MATRIX_CALLS = ("tvm_load_matrix_sync", "tvm_store_matrix_sync", "tvm_mma_sync", "tvm_fill_fragment")


def matrix_call(name: str) -> Expr:
    """The call of one of them: which one it is is all that counts."""
    return Call(name, (), INT32)
