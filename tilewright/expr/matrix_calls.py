"""The intrinsic functions by which legacy programs say how a matrix instruction is done."""

from __future__ import annotations

from typing import Any

from ..core.dtype import INT32
from ..core.errors import UserError
from .nodes import Call, Expr

MATRIX_CALLS = ("tvm_load_matrix_sync", "tvm_store_matrix_sync", "tvm_mma_sync", "tvm_fill_fragment")


def call_intrin(dtype: Any, func_name: Any, *args: Any, span: Any = None) -> Expr:
    """Call an intrinsic of matrix instructions in the body of a `decl_tensor_intrin`.

    Parameters
    ----------
    dtype
        "handle".
    func_name
        "tir.tvm_load_matrix_sync", "tir.tvm_mma_sync", "tir.tvm_store_matrix_sync" or "tir.tvm_fill_fragment".
    *args
        As in the legacy API: fragments, sizes, pointers.

    Raises
    ------
    UserError
        For any other function.
    """
    name = func_name.removeprefix("tir.") if isinstance(func_name, str) else ""
    if name not in MATRIX_CALLS:
        raise UserError(
            f"there is no intrinsic {func_name!r}",
            primitive="call_intrin",
            fix=f"use one of {', '.join(MATRIX_CALLS)}, or the intrinsics of te (te.exp, te.sqrt ...)",
        )
    return Call(name, (), INT32)
